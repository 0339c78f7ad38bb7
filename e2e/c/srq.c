// srq.c: shared receive queues as a program in C meets them: sizes and errors, two queue pairs on one queue, the limit's event,
// the end of a queue pair. Prints one line a case: "ok NAME", or "not ok NAME: WHY"; the exit status is 0 if all are ok.
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                               \
	do {                                                                           \
		if (!(condition)) {                                                    \
			printf("not ok %s: line %d: %s (errno %s)\n", __func__, __LINE__, #condition, strerror(errno)); \
			failed = 1;                                                    \
			return;                                                        \
		}                                                                      \
	} while (0)

static struct ibv_context *context;
static struct ibv_device_attr limits;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static union ibv_gid gid;
static char buffer[1 << 16];
static int gid_index, failed;

static struct ibv_srq *new_srq(uint32_t max_wr)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = max_wr, .max_sge = 1, .srq_limit = 3 } };
	return ibv_create_srq(pd, &init);
}

static struct ibv_qp *new_qp(struct ibv_srq *srq, struct ibv_qp_init_attr *init)
{
	// What is said of receives means nothing.
	*init = (struct ibv_qp_init_attr){ .qp_context = &failed, .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 0xffffff, .max_send_sge = 1, .max_recv_sge = 0xffffff } };
	return ibv_create_qp(pd, init);
}

static int connect_to(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (error)
		return error;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } } };
	error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (error)
		return error;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC);
}

static int post(struct ibv_srq *srq, uint64_t id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer + 64 * id, .length = 64, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;
	return ibv_post_srq_recv(srq, &wr, &bad);
}

static int send_from(struct ibv_qp *qp, const char *text)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer + 32768, .length = strlen(text) + 1, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1000, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	strcpy(buffer + 32768, text);
	return ibv_post_send(qp, &wr, &bad);
}

// The next completion of a receive; those of sends are skipped.
static int received(struct ibv_wc *wc)
{
	for (long spins = 0; spins < 200000000; spins++) {
		int n = ibv_poll_cq(cq, 1, wc);
		if (n < 0)
			return n;
		if (n == 1 && wc->wr_id != 1000)
			return 1;
	}
	return 0;
}

// The next event that is not of a connection.
static int event(struct ibv_async_event *event)
{
	for (;;) {
		struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
		if (poll(&fd, 1, 2000) != 1)
			return 0;
		if (ibv_get_async_event(context, event))
			return 0;
		if (event->event_type != IBV_EVENT_COMM_EST)
			return 1;
		ibv_ack_async_event(event);
	}
}

static void sizes_are_as_asked_and_bounded(void)
{
	struct ibv_srq_attr attr;
	CHECK(limits.max_srq > 0 && limits.max_srq_wr > 0 && limits.max_srq_sge > 0);
	CHECK(limits.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
	struct ibv_srq_init_attr init = { .srq_context = &attr, .attr = { .max_wr = limits.max_srq_wr + 1, .max_sge = 1 } };
	CHECK(!ibv_create_srq(pd, &init) && errno == EINVAL);
	init.attr = (struct ibv_srq_attr){ .max_wr = 4, .max_sge = limits.max_srq_sge + 1 };
	CHECK(!ibv_create_srq(pd, &init) && errno == EINVAL);
	init.attr = (struct ibv_srq_attr){ .max_wr = limits.max_srq_wr, .max_sge = limits.max_srq_sge, .srq_limit = 5 };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	CHECK(srq && srq->context == context && srq->pd == pd && srq->srq_context == &attr);
	CHECK(init.attr.max_wr >= (uint32_t)limits.max_srq_wr && init.attr.max_sge >= (uint32_t)limits.max_srq_sge);
	CHECK(!ibv_query_srq(srq, &attr) && attr.max_wr == init.attr.max_wr && attr.srq_limit == 0);
	attr = (struct ibv_srq_attr){ .max_wr = 16, .srq_limit = 2 };
	CHECK(post(srq, 1) == 0 && post(srq, 2) == 0 && post(srq, 3) == 0);
	CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
	CHECK(!ibv_query_srq(srq, &attr) && attr.max_wr == 16 && attr.srq_limit == 2);
	attr = (struct ibv_srq_attr){ .max_wr = 2, .srq_limit = 1 };
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL);
	attr.srq_limit = 17;
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == EINVAL);
	CHECK(ibv_modify_srq(srq, &attr, 1 << 5) == EOPNOTSUPP);
	CHECK(ibv_modify_srq(srq, NULL, IBV_SRQ_LIMIT) == EINVAL);
	CHECK(!ibv_query_srq(srq, &attr) && attr.max_wr == 16 && attr.srq_limit == 2);
	CHECK(!ibv_destroy_srq(srq));
	CHECK(ibv_destroy_srq(srq) == EINVAL && ibv_query_srq(srq, &attr) == EINVAL && post(srq, 1) == EINVAL);
	printf("ok %s\n", __func__);
}

static void the_extended_form_makes_a_basic_one(void)
{
	struct ibv_srq_init_attr_ex init = { .attr = { .max_wr = 4, .max_sge = 1 }, .pd = pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, .srq_type = IBV_SRQT_BASIC };
	struct ibv_srq *srq = ibv_create_srq_ex(context, &init);
	CHECK(srq && post(srq, 1) == 0);
	CHECK(!ibv_destroy_srq(srq));
	init.srq_type = IBV_SRQT_TM;
	init.comp_mask |= IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
	init.cq = cq;
	CHECK(!ibv_create_srq_ex(context, &init) && errno == EOPNOTSUPP);
	printf("ok %s\n", __func__);
}

static void a_list_is_posted_up_to_the_first_bad_one(void)
{
	struct ibv_srq *srq = new_srq(4);
	struct ibv_sge sge[2] = { { .addr = (uintptr_t)buffer, .length = 8, .lkey = mr->lkey } };
	struct ibv_recv_wr third = { .wr_id = 3, .sg_list = sge, .num_sge = 1 };
	struct ibv_recv_wr second = { .wr_id = 2, .next = &third, .sg_list = sge, .num_sge = 2 };
	struct ibv_recv_wr first = { .wr_id = 1, .next = &second, .sg_list = sge, .num_sge = 1 }, *bad = NULL;
	CHECK(srq && ibv_post_srq_recv(srq, &first, &bad) == EINVAL && bad == &second);
	CHECK(post(srq, 4) == 0 && post(srq, 5) == 0 && post(srq, 6) == 0);
	CHECK(post(srq, 7) == ENOMEM);
	CHECK(!ibv_destroy_srq(srq));
	printf("ok %s\n", __func__);
}

static void two_queue_pairs_take_from_one(void)
{
	struct ibv_qp_init_attr init, told;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;
	struct ibv_async_event said;
	struct ibv_srq *srq = new_srq(8);
	struct ibv_qp *a = new_qp(srq, &init), *b = new_qp(srq, &init);
	CHECK(srq && a && b && a->srq == srq);
	CHECK(init.cap.max_recv_wr == 0 && init.cap.max_recv_sge == 0);
	CHECK(ibv_destroy_srq(srq) == EBUSY && ibv_dealloc_pd(pd) == EBUSY);
	CHECK(!connect_to(a, b->qp_num) && !connect_to(b, a->qp_num));
	CHECK(!ibv_query_qp(a, &attr, IBV_QP_CAP, &told) && told.srq == srq && told.cap.max_recv_wr == 0);
	struct ibv_recv_wr own = { .wr_id = 1 }, *bad = NULL;
	CHECK(ibv_post_recv(a, &own, &bad) == EINVAL && bad == &own);

	for (uint64_t id = 0; id < 4; id++)
		CHECK(post(srq, id) == 0);
	struct ibv_srq_attr arm = { .srq_limit = 3 };
	CHECK(!ibv_modify_srq(srq, &arm, IBV_SRQ_LIMIT));
	CHECK(send_from(a, "to b") == 0 && received(&wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == b->qp_num && !strcmp(buffer + 64 * wc.wr_id, "to b"));
	CHECK(send_from(b, "to a") == 0 && received(&wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == a->qp_num && !strcmp(buffer + 64 * wc.wr_id, "to a"));
	CHECK(event(&said) && said.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && said.element.srq == srq);
	ibv_ack_async_event(&said);
	CHECK(!ibv_query_srq(srq, &arm) && arm.srq_limit == 0);

	// The end of one: it has nothing in hand, and what is posted stays for the other.
	attr.qp_state = IBV_QPS_ERR;
	CHECK(!ibv_modify_qp(a, &attr, IBV_QP_STATE));
	CHECK(event(&said) && said.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && said.element.qp == a);
	ibv_ack_async_event(&said);
	CHECK(ibv_poll_cq(cq, 1, &wc) == 0 || wc.wr_id == 1000);
	struct ibv_qp *c = new_qp(srq, &init), *d = new_qp(srq, &init);
	CHECK(c && d && !connect_to(c, d->qp_num) && !connect_to(d, c->qp_num));
	CHECK(send_from(c, "to d") == 0 && received(&wc) == 1 && wc.qp_num == d->qp_num);
	CHECK(send_from(d, "to c") == 0 && received(&wc) == 1 && wc.qp_num == c->qp_num);
	// Empty: the sender waits until there is a receive.
	CHECK(send_from(c, "late") == 0);
	for (int i = 0; i < 1000; i++)
		CHECK(ibv_poll_cq(cq, 1, &wc) == 0 || wc.wr_id == 1000);
	CHECK(post(srq, 9) == 0 && received(&wc) == 1 && wc.wr_id == 9 && !strcmp(buffer + 64 * 9, "late"));

	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_qp(c));
	CHECK(ibv_destroy_srq(srq) == EBUSY);
	CHECK(!ibv_destroy_qp(d) && !ibv_destroy_srq(srq));
	printf("ok %s\n", __func__);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = context ? ibv_create_cq(context, 64, NULL, NULL, 0) : NULL;
	mr = pd ? ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!mr || !cq || ibv_query_device(context, &limits)) {
		printf("not ok main: no device\n");
		return 1;
	}
	struct ibv_port_attr port;
	ibv_query_port(context, 1, &port);
	for (gid_index = 0; gid_index < port.gid_tbl_len; gid_index++)
		if (!ibv_query_gid(context, 1, gid_index, &gid) && gid.global.interface_id)
			break;
	sizes_are_as_asked_and_bounded();
	the_extended_form_makes_a_basic_one();
	a_list_is_posted_up_to_the_first_bad_one();
	two_queue_pairs_take_from_one();
	return failed || ibv_dereg_mr(mr) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(context);
}
