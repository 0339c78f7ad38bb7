// handles.c: objects that are not there: freed ones, copies at another address, and structs whose numbers the program has
// scribbled over. Every verb that takes one refuses it, or is not misled. Prints a line for each case, and ends with 1 if one is wrong.
#include "cases.h"

static struct ibv_cq *cq;
static char buffer[4096];

#define REFUSED(what, call) CASE(what, (call) == EINVAL)
#define NONE(what, call) CASE(what, !(call) && errno == EINVAL)

// A copy of an object's struct, somewhere else: what a program has that passes structs by value.
#define COPY(object) memcpy(calloc(1, sizeof(*(object))), (object), sizeof(*(object)))

static void domains(struct ibv_pd *gone, const char *which)
{
	struct ibv_qp_init_attr qp = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_ah_attr ah = { .port_num = 1, .is_global = 1 };
	struct ibv_parent_domain_init_attr parent = { .pd = gone };
	printf("a PD, %s\n", which);
	REFUSED("ibv_dealloc_pd", ibv_dealloc_pd(gone));
	NONE("ibv_reg_mr", ibv_reg_mr(gone, buffer, 64, IBV_ACCESS_LOCAL_WRITE));
	NONE("ibv_create_qp", ibv_create_qp(gone, &qp));
	NONE("ibv_create_srq", ibv_create_srq(gone, &srq));
	NONE("ibv_create_ah", ibv_create_ah(gone, &ah));
	NONE("ibv_alloc_mw", ibv_alloc_mw(gone, IBV_MW_TYPE_1));
	NONE("ibv_alloc_null_mr", ibv_alloc_null_mr(gone));
	NONE("ibv_alloc_parent_domain", ibv_alloc_parent_domain(context, &parent));
}

static void queues(struct ibv_cq *gone, const char *which)
{
	struct ibv_qp_init_attr qp = { .send_cq = gone, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_modify_cq_attr moderation = { .attr_mask = IBV_CQ_ATTR_MODERATE };
	struct ibv_wc wc;
	printf("a CQ, %s\n", which);
	REFUSED("ibv_destroy_cq", ibv_destroy_cq(gone));
	REFUSED("ibv_resize_cq", ibv_resize_cq(gone, 16));
	REFUSED("ibv_modify_cq", ibv_modify_cq(gone, &moderation));
	CASE("ibv_poll_cq", ibv_poll_cq(gone, 1, &wc) < 0);
	CASE("ibv_req_notify_cq", ibv_req_notify_cq(gone, 0) == EINVAL);
	NONE("ibv_create_qp", ibv_create_qp(pd, &qp));
	ibv_ack_cq_events(gone, 1);
}

static void pairs(struct ibv_qp *gone, const char *which)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = { 0 }, *bad_recv;
	printf("a QP, %s\n", which);
	REFUSED("ibv_destroy_qp", ibv_destroy_qp(gone));
	REFUSED("ibv_modify_qp", ibv_modify_qp(gone, &attr, IBV_QP_STATE));
	REFUSED("ibv_query_qp", ibv_query_qp(gone, &attr, IBV_QP_STATE, &init));
	REFUSED("ibv_post_send", ibv_post_send(gone, &send, &bad_send));
	REFUSED("ibv_post_recv", ibv_post_recv(gone, &recv, &bad_recv));
	CASE("ibv_qp_to_qp_ex", !ibv_qp_to_qp_ex(gone));
}

static void shared(struct ibv_srq *gone, const char *which)
{
	struct ibv_qp_init_attr qp = { .send_cq = cq, .recv_cq = cq, .srq = gone, .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_srq_attr attr = { .srq_limit = 1 };
	struct ibv_recv_wr recv = { 0 }, *bad;
	printf("an SRQ, %s\n", which);
	REFUSED("ibv_destroy_srq", ibv_destroy_srq(gone));
	REFUSED("ibv_modify_srq", ibv_modify_srq(gone, &attr, IBV_SRQ_LIMIT));
	REFUSED("ibv_query_srq", ibv_query_srq(gone, &attr));
	REFUSED("ibv_post_srq_recv", ibv_post_srq_recv(gone, &recv, &bad));
	NONE("ibv_create_qp", ibv_create_qp(pd, &qp));
}

static void others(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE), *mr_copy = COPY(mr);
	REFUSED("ibv_dereg_mr of a copy", ibv_dereg_mr(mr_copy));
	CASE("ibv_rereg_mr of a copy", ibv_rereg_mr(mr_copy, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	CASE("a struct that was scribbled over is the object still", (mr->handle = mr->lkey = 0x5555, ibv_dereg_mr(mr)) == 0);
	REFUSED("ibv_dereg_mr twice", ibv_dereg_mr(mr));
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2), *mw_copy = COPY(mw);
	REFUSED("ibv_dealloc_mw of a copy", ibv_dealloc_mw(mw_copy));
	CASE("ibv_dealloc_mw", !ibv_dealloc_mw(mw));
	REFUSED("ibv_dealloc_mw twice", ibv_dealloc_mw(mw));
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1, .grh.hop_limit = 1 };
	ibv_query_gid(context, 1, 0, &attr.grh.dgid);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr), *ah_copy = COPY(ah);
	REFUSED("ibv_destroy_ah of a copy", ibv_destroy_ah(ah_copy));
	CASE("ibv_destroy_ah", !ibv_destroy_ah(ah));
	REFUSED("ibv_destroy_ah twice", ibv_destroy_ah(ah));
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(context, &td_attr), *td_copy = COPY(td);
	REFUSED("ibv_dealloc_td of a copy", ibv_dealloc_td(td_copy));
	CASE("ibv_dealloc_td", !ibv_dealloc_td(td));
	REFUSED("ibv_dealloc_td twice", ibv_dealloc_td(td));
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &dm_attr), *dm_copy = COPY(dm);
	REFUSED("ibv_free_dm of a copy", ibv_free_dm(dm_copy));
	NONE("ibv_reg_dm_mr of a copy", ibv_reg_dm_mr(pd, dm_copy, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE));
	CASE("ibv_free_dm", !ibv_free_dm(dm));
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context), *channel_copy = COPY(channel);
	REFUSED("ibv_destroy_comp_channel of a copy", ibv_destroy_comp_channel(channel_copy));
	NONE("ibv_create_cq with a copy", ibv_create_cq(context, 1, NULL, channel_copy, 0));
	CASE("ibv_destroy_comp_channel", !ibv_destroy_comp_channel(channel));
	struct ibv_cq *event_cq;
	void *its_context;
	CASE("ibv_get_cq_event of what is no more", ibv_get_cq_event(channel, &event_cq, &its_context) == -1 && errno == EINVAL);
}

// One kind of object instead of another.
static void mistaken(void)
{
	REFUSED("a PD for a CQ", ibv_destroy_cq((struct ibv_cq *)pd));
	REFUSED("a CQ for a QP", ibv_destroy_qp((struct ibv_qp *)cq));
	REFUSED("a CQ for an MR", ibv_dereg_mr((struct ibv_mr *)cq));
	REFUSED("a PD for an SRQ", ibv_destroy_srq((struct ibv_srq *)pd));
	REFUSED("a CQ for a PD", ibv_dealloc_pd((struct ibv_pd *)cq));
	NONE("a PD for a context", ibv_alloc_pd((struct ibv_context *)pd));
	REFUSED("no address at all", ibv_dealloc_pd((struct ibv_pd *)1));
	REFUSED("an address that nobody has", ibv_dealloc_pd((struct ibv_pd *)0x7fff00000000));
}

int main(void)
{
	open_device();
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };

	struct ibv_pd *own_pd = ibv_alloc_pd(context);
	struct ibv_cq *own_cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp *own_qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_srq *own_srq = ibv_create_srq(pd, &init);
	domains(COPY(own_pd), "copied");
	queues(COPY(own_cq), "copied");
	pairs(COPY(own_qp), "copied");
	shared(COPY(own_srq), "copied");
	// Numbers that the program may see are not what the library goes by.
	own_pd->handle = own_cq->handle = own_qp->handle = own_qp->qp_num = own_srq->handle = 0xabcdef;
	CASE("scribbled numbers mislead nobody", !ibv_destroy_qp(own_qp) && !ibv_destroy_cq(own_cq) && !ibv_destroy_srq(own_srq) &&
		     !ibv_dealloc_pd(own_pd));
	domains(own_pd, "freed");
	queues(own_cq, "freed");
	pairs(own_qp, "freed");
	shared(own_srq, "freed");
	others();
	mistaken();
	CASE("what was there is whole", !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return wrong != 0;
}
