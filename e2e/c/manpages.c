// manpages.c: what the man pages of ibv_* say of return values, errno and what is written back, where no other program checks it.
// Prints a line for each case, and ends with 1 if one is not as it should be.
#include "cases.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static struct ibv_cq *cq;
static char buffer[8192];

// A call that returns -1 and sets errno.
#define MINUS(call, error) ((call) == -1 && errno == (error))
// A call that returns null and sets errno.
#define NONE(call, error) (!(call) && errno == (error))

static void devices(void)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);
	CASE("ibv_get_device_list counts and ends with null", list && count == 1 && list[0] && !list[1]);
	CASE("ibv_get_device_guid is not zero", ibv_get_device_guid(list[0]) != 0);
	CASE("ibv_get_device_name", !strcmp(ibv_get_device_name(list[0]), "glass0"));
	CASE("ibv_get_device_index is a number or -1", ibv_get_device_index(list[0]) >= -1);
	struct ibv_context *other = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	CASE("an open device outlives the list", other && !strcmp(ibv_get_device_name(other->device), "glass0"));
	CASE("ibv_close_device", ibv_close_device(other) == 0);
	CASE("ibv_close_device twice", MINUS(ibv_close_device(other), EINVAL));
	CASE("ibv_close_device of nothing", MINUS(ibv_close_device(NULL), EINVAL));
	CASE("ibv_open_device of nothing", NONE(ibv_open_device(NULL), EINVAL));
}

static void queries(void)
{
	struct ibv_device_attr_ex ex, small = { 0 };
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_gid_entry entry, entries[256];
	__be16 pkey = 0;
	CASE("ibv_query_device_ex", ibv_query_device_ex(context, NULL, &ex) == 0 && ex.orig_attr.max_qp > 0 && ex.phys_port_cnt_ex == 1);
	CASE("ibv_query_device_ex with a mask", ibv_query_device_ex(context, &input, &small) == EINVAL && !small.orig_attr.max_qp);
	memset(&port, 0xff, sizeof(port));
	CASE("ibv_query_port says that a GRH is needed", !ibv_query_port(context, 1, &port) && port.flags & IBV_QPF_GRH_REQUIRED);
	CASE("ibv_query_port of another port", ibv_query_port(context, 0, &port) == EINVAL && ibv_query_port(context, 2, &port) == EINVAL);
	// Of newer headers than the system's.
	int (*port_speed)(struct ibv_context *, uint32_t, uint64_t *) = dlsym(RTLD_DEFAULT, "ibv_query_port_speed");
	uint64_t speed = 0;
	CASE("ibv_query_port_speed", port_speed && port_speed(context, 1, &speed) == 0 && speed == 1000);
	CASE("ibv_query_port_speed of another port", port_speed(context, 2, &speed) == EINVAL && port_speed(context, 1, NULL) == EINVAL);
	CASE("ibv_query_gid", ibv_query_gid(context, 1, 0, &gid) == 0);
	CASE("ibv_query_gid beyond the table", MINUS(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), EINVAL));
	CASE("ibv_query_gid before the table", MINUS(ibv_query_gid(context, 1, -1, &gid), EINVAL));
	CASE("ibv_query_gid_ex", ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0 && entry.gid_index == 0 && entry.port_num == 1 &&
		     entry.gid_type == IBV_GID_TYPE_ROCE_V2);
	CASE("ibv_query_gid_ex of an empty index", ibv_query_gid_ex(context, 1, port.gid_tbl_len - 1, &entry, 0) == ENODATA);
	CASE("ibv_query_gid_ex beyond the table", ibv_query_gid_ex(context, 1, port.gid_tbl_len, &entry, 0) == EINVAL);
	CASE("ibv_query_gid_ex of another port", ibv_query_gid_ex(context, 2, 0, &entry, 0) == EINVAL);
	ssize_t found = ibv_query_gid_table(context, entries, 256, 0);
	CASE("ibv_query_gid_table", found > 0 && entries[0].gid_index == 0 && !memcmp(&entries[0].gid, &gid, sizeof(gid)));
	CASE("ibv_query_gid_table without room", ibv_query_gid_table(context, entries, found - 1, 0) == -EINVAL);
	CASE("ibv_query_pkey", ibv_query_pkey(context, 1, 0, &pkey) == 0 && pkey == 0xffff);
	CASE("ibv_query_pkey beyond the table",
	     MINUS(ibv_query_pkey(context, 1, 1, &pkey), EINVAL) && MINUS(ibv_query_pkey(context, 1, -1, &pkey), EINVAL));
	CASE("ibv_get_pkey_index", ibv_get_pkey_index(context, 1, pkey) == 0);
	CASE("ibv_get_pkey_index of what is not there", ibv_get_pkey_index(context, 1, 0x1234) == -1);
	struct ibv_values_ex values = { .comp_mask = 1 << 5 };
	CASE("ibv_query_rt_values_ex of what nobody has", ibv_query_rt_values_ex(context, &values) && values.comp_mask == 0);
	values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK | 1 << 5;
	CASE("ibv_query_rt_values_ex marks what it answers",
	     !ibv_query_rt_values_ex(context, &values) && values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
}

static void names(void)
{
	CASE("ibv_wc_status_str", !strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success"));
	CASE("ibv_wc_status_str beyond its values",
	     !strcmp(ibv_wc_status_str(99), "unknown") && !strcmp(ibv_wc_status_str(-1), "unknown"));
	CASE("ibv_event_type_str beyond its values",
	     !strcmp(ibv_event_type_str(99), "unknown") && !strcmp(ibv_event_type_str(-1), "unknown"));
	CASE("ibv_port_state_str beyond its values", !strcmp(ibv_port_state_str(99), "unknown"));
	CASE("ibv_node_type_str beyond its values", !strcmp(ibv_node_type_str(99), "unknown"));
	CASE("rates", ibv_rate_to_mbps(IBV_RATE_100_GBPS) == 103125 && mbps_to_ibv_rate(103125) == IBV_RATE_100_GBPS);
	CASE("rates that are none", ibv_rate_to_mbps(99) == -1 && ibv_rate_to_mult(99) == -1 && mbps_to_ibv_rate(7) == IBV_RATE_MAX);
}

static void regions(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	CASE("ibv_reg_mr fills its struct", mr && mr->context == context && mr->pd == pd && mr->addr == buffer &&
		     mr->length == sizeof(buffer) && mr->lkey && mr->rkey != mr->lkey);
	// Not constant, so that the header's macro takes no short cut.
	volatile int optional = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING | 1 << 25;
	struct ibv_mr *relaxed = ibv_reg_mr(pd, buffer, 4096, optional);
	CASE("optional access flags may be unknown", relaxed && !ibv_dereg_mr(relaxed));
	struct ibv_mr *moved = ibv_reg_mr_iova(pd, buffer, 4096, 0x1234000, IBV_ACCESS_LOCAL_WRITE);
	CASE("ibv_reg_mr_iova", moved && moved->addr == buffer && moved->length == 4096 && !ibv_dereg_mr(moved));
	uint32_t lkey = mr->lkey;
	CASE("ibv_rereg_mr without flags", ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
	CASE("ibv_rereg_mr with flags that mean nothing", ibv_rereg_mr(mr, 1 << 9, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	CASE("ibv_rereg_mr to no memory",
	     ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	CASE("ibv_rereg_mr without a PD", ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0) != 0);
	CASE("a region that was not changed is as it was", mr->lkey == lkey && mr->length == sizeof(buffer) && mr->pd == pd);
	CASE("ibv_rereg_mr", !ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buffer + 4096, 64, 0) &&
		     mr->addr == buffer + 4096 && mr->length == 64);
	CASE("a PD in use", ibv_dealloc_pd(pd) == EBUSY);
	CASE("ibv_dereg_mr", ibv_dereg_mr(mr) == 0);
	CASE("ibv_fork_init after a registration, as nothing is pinned",
	     ibv_is_fork_initialized() != IBV_FORK_UNNEEDED || ibv_fork_init() == 0);
}

static void addresses(void)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1, .grh.hop_limit = 64 };
	ibv_query_gid(context, 1, 0, &attr.grh.dgid);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	CASE("ibv_create_ah fills its struct", ah && ah->context == context && ah->pd == pd);
	CASE("ibv_destroy_ah", ibv_destroy_ah(ah) == 0);
	CASE("ibv_destroy_ah twice", ibv_destroy_ah(ah) == EINVAL);
	attr.is_global = 0;
	CASE("ibv_create_ah without a GRH", NONE(ibv_create_ah(pd, &attr), EINVAL));
	attr.is_global = 1;
	attr.port_num = 2;
	CASE("ibv_create_ah on another port", NONE(ibv_create_ah(pd, &attr), EINVAL));
	attr.port_num = 1;
	attr.grh.sgid_index = 255;
	CASE("ibv_create_ah from an empty GID", !ibv_create_ah(pd, &attr) && errno);
	struct ibv_wc wc = { 0 };
	struct ibv_grh grh = { 0 };
	CASE("ibv_init_ah_from_wc without a GRH", ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr) == -1);
	CASE("ibv_create_ah_from_wc without a GRH", NONE(ibv_create_ah_from_wc(pd, &wc, &grh, 1), EINVAL));
}

static void queue_pairs(void)
{
	struct ibv_qp_init_attr init = { .qp_context = &init, .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 5, .max_recv_wr = 6, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 33 } }, told;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr;
	CASE("ibv_create_qp fills its struct", qp && qp->context == context && qp->qp_context == &init && qp->pd == pd &&
		     qp->send_cq == cq && qp->recv_cq == cq && !qp->srq && qp->qp_num && qp->qp_num <= 0xffffff &&
		     qp->state == IBV_QPS_RESET && qp->qp_type == IBV_QPT_RC);
	CASE("and writes back what there is", init.cap.max_send_wr >= 5 && init.cap.max_recv_wr >= 6 && init.cap.max_send_sge >= 2 &&
		     init.cap.max_recv_sge >= 1 && init.cap.max_inline_data >= 33);
	CASE("which ibv_query_qp tells as well", !ibv_query_qp(qp, &attr, IBV_QP_CAP, &told) && !memcmp(&told.cap, &init.cap, sizeof(init.cap)) &&
		     !memcmp(&attr.cap, &init.cap, sizeof(init.cap)) && told.qp_context == &init && told.send_cq == cq &&
		     told.recv_cq == cq && told.qp_type == IBV_QPT_RC && !told.sq_sig_all);
	struct ibv_qp_init_attr_ex ex = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 }, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | 1 << 20 };
	CASE("ibv_create_qp_ex with a mask that means nothing", NONE(ibv_create_qp_ex(context, &ex), EOPNOTSUPP));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	ex.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	CASE("ibv_create_qp_ex with flags that nobody has", NONE(ibv_create_qp_ex(context, &ex), EOPNOTSUPP));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	ex.send_ops_flags = IBV_QP_EX_WITH_TSO;
	CASE("ibv_create_qp_ex with operations that nobody has", NONE(ibv_create_qp_ex(context, &ex), EOPNOTSUPP));
	CASE("ibv_qp_to_qp_ex of a plain one", !ibv_qp_to_qp_ex(qp));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 9 };
	CASE("ibv_modify_qp with one bad value", ibv_modify_qp(qp, &attr, INIT_MASK) == EINVAL);
	CASE("changes nothing", qp->state == IBV_QPS_RESET && !ibv_query_qp(qp, &attr, IBV_QP_STATE, &told) &&
		     attr.qp_state == IBV_QPS_RESET && attr.port_num == 0);
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1 };
	CASE("ibv_modify_qp_rate_limit", ibv_modify_qp_rate_limit(qp, &rate) == EOPNOTSUPP);
	struct ibv_ece ece = { 0 };
	CASE("ibv_set_ece, ibv_query_ece", ibv_set_ece(qp, &ece) == EOPNOTSUPP && ibv_query_ece(qp, &ece) == EOPNOTSUPP);
	CASE("ibv_query_qp_data_in_order", ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) == 0);
	CASE("ibv_destroy_qp", ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(qp) == EINVAL);
}

static void posting(void)
{
	struct ibv_qp_init_attr_ex ex = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 2, 4, 1, 1, 0 }, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &ex);
	connect_to(qp, qp);
	struct ibv_sge sge = { (uintptr_t)buffer, 8, 0 }, two[2] = { sge, sge };
	struct ibv_recv_wr third = { .wr_id = 3 }, second = { .wr_id = 2, .next = &third, .sg_list = two, .num_sge = 2 },
			   first = { .wr_id = 1, .next = &second }, *bad_recv = NULL;
	CASE("ibv_post_recv names the one that was refused", ibv_post_recv(qp, &first, &bad_recv) == EINVAL && bad_recv == &second);
	struct ibv_send_wr wrong_wr = { .wr_id = 2, .opcode = 77 }, good_wr = { .wr_id = 1, .next = &wrong_wr, .opcode = IBV_WR_SEND },
			   *bad = NULL;
	CASE("ibv_post_send names the one that was refused", ibv_post_send(qp, &good_wr, &bad) == EINVAL && bad == &wrong_wr);
	struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(extended);
	for (int i = 0; i < 3 + (int)ex.cap.max_send_wr; i++) {
		extended->wr_id = i;
		ibv_wr_send(extended);
		ibv_wr_set_sge(extended, 0, (uintptr_t)buffer, 0);
	}
	CASE("ibv_wr_complete tells that there were too many", ibv_wr_complete(extended) == ENOMEM);
	ibv_wr_start(extended);
	ibv_wr_abort(extended);
	CASE("ibv_destroy_qp with work in flight", ibv_destroy_qp(qp) == 0);
}

static void *destroy(void *object)
{
	return (void *)(intptr_t)ibv_destroy_cq(object);
}

static void completion_queues(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *own = ibv_create_cq(context, 5, &channel, channel, 0), *told = NULL;
	void *its_context = NULL, *result = (void *)1;
	CASE("ibv_create_cq fills its struct", own && own->context == context && own->channel == channel && own->cq_context == &channel &&
		     own->cqe >= 5);
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	CASE("ibv_get_cq_event without an event", MINUS(ibv_get_cq_event(channel, &told, &its_context), EAGAIN) && !told);
	CASE("ibv_req_notify_cq", ibv_req_notify_cq(own, 0) == 0);
	struct ibv_qp *qp = make_qp(pd, own, IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_recv_wr wr = { 0 }, *bad;
	if (ibv_modify_qp(qp, &attr, INIT_MASK) || ibv_post_recv(qp, &wr, &bad) || ibv_post_recv(qp, &wr, &bad))
		exit(3);
	attr.qp_state = IBV_QPS_ERR;
	CASE("ibv_destroy_cq of one in use", ibv_destroy_cq(own) == EBUSY);
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	CASE("one event", !ibv_modify_qp(qp, &attr, IBV_QP_STATE) && poll(&fd, 1, 2000) == 1 &&
		     !ibv_get_cq_event(channel, &told, &its_context) && told == own && its_context == &channel);
	CASE("and no other until it is asked for", MINUS(ibv_get_cq_event(channel, &told, &its_context), EAGAIN));
	CASE("ibv_poll_cq of a negative number", ibv_poll_cq(own, -1, NULL) < 0);
	CASE("ibv_poll_cq of none", ibv_poll_cq(own, 0, NULL) == 0);
	if (ibv_destroy_qp(qp))
		exit(3);
	pthread_t thread;
	pthread_create(&thread, NULL, destroy, own);
	usleep(50000);
	CASE("ibv_destroy_cq waits for the acknowledgement", pthread_tryjoin_np(thread, &result) == EBUSY);
	ibv_ack_cq_events(own, 1);
	CASE("and no longer", pthread_join(thread, &result) == 0 && !result);
	CASE("ibv_destroy_comp_channel", ibv_destroy_comp_channel(channel) == 0 && ibv_destroy_comp_channel(channel) == EINVAL);
	struct ibv_cq *plain = ibv_create_cq(context, 1, NULL, NULL, 0);
	CASE("ibv_req_notify_cq without a channel", ibv_req_notify_cq(plain, 1) == 0 && !ibv_destroy_cq(plain));
	fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
	struct ibv_async_event event;
	CASE("ibv_get_async_event without an event", MINUS(ibv_get_async_event(context, &event), EAGAIN));
}

static void *destroy_qp(void *object)
{
	return (void *)(intptr_t)ibv_destroy_qp(object);
}

// LAST_WQE_REACHED of a QP on a shared queue: the QP stays until its event is acknowledged, and an event that nobody took goes with it.
static void events_of_queue_pairs(void)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC, .cap = { 1, 0, 1, 0, 0 } };
	struct ibv_qp_attr attr = { .port_num = 1 };
	struct ibv_async_event event;
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_qp *qps[2];
	for (int i = 0; i < 2; i++) {
		qps[i] = ibv_create_qp(pd, &init);
		attr.qp_state = IBV_QPS_INIT;
		if (!qps[i] || ibv_modify_qp(qps[i], &attr, INIT_MASK))
			exit(3);
		attr.qp_state = IBV_QPS_ERR;
		if (ibv_modify_qp(qps[i], &attr, IBV_QP_STATE))
			exit(3);
	}
	CASE("ibv_get_async_event", poll(&fd, 1, 2000) == 1 && !ibv_get_async_event(context, &event) &&
		     event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == qps[0]);
	pthread_t thread;
	void *result = (void *)1;
	pthread_create(&thread, NULL, destroy_qp, qps[0]);
	usleep(50000);
	CASE("ibv_destroy_qp waits for the acknowledgement", pthread_tryjoin_np(thread, &result) == EBUSY);
	ibv_ack_async_event(&event);
	CASE("and no longer", pthread_join(thread, &result) == 0 && !result);
	CASE("an event that nobody took goes with its QP", poll(&fd, 1, 2000) == 1 && !ibv_destroy_qp(qps[1]) &&
		     MINUS(ibv_get_async_event(context, &event), EAGAIN));
	CASE("ibv_destroy_srq of one in use no more", ibv_destroy_srq(srq) == 0);
}

static void windows(void)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	connect_to(qp, qp);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CASE("ibv_alloc_mw fills its struct", one && one->context == context && one->pd == pd && one->type == IBV_MW_TYPE_1 && one->rkey &&
		     two && two->type == IBV_MW_TYPE_2);
	CASE("ibv_alloc_mw of no type", NONE(ibv_alloc_mw(pd, 7), EINVAL));
	struct ibv_mw_bind bind = { .wr_id = 4, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = mr, .addr = (uintptr_t)buffer, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_READ } };
	CASE("ibv_bind_mw of type 2", ibv_bind_mw(qp, two, &bind) == EINVAL);
	uint32_t rkey = one->rkey;
	CASE("ibv_bind_mw gives another rkey at once", ibv_bind_mw(qp, one, &bind) == 0 && one->rkey != rkey);
	struct ibv_wc wc = { 0 };
	for (long tries = 0; tries < 500000000 && !ibv_poll_cq(cq, 1, &wc); tries++)
		;
	CASE("and completes", wc.wr_id == 4 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_BIND_MW);
	CASE("ibv_dereg_mr under a window", ibv_dereg_mr(mr) == EBUSY);
	CASE("ibv_dealloc_mw unbinds", !ibv_dealloc_mw(one) && !ibv_dereg_mr(mr) && !ibv_dealloc_mw(two) && !ibv_destroy_qp(qp));
}

static void shared_queues(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 5, .max_sge = 2, .srq_limit = 9 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_srq_attr attr;
	CASE("ibv_create_srq writes back", srq && init.attr.max_wr >= 5 && init.attr.max_sge >= 2);
	CASE("ibv_query_srq says the same", !ibv_query_srq(srq, &attr) && attr.max_wr == init.attr.max_wr && attr.max_sge == init.attr.max_sge &&
		     attr.srq_limit == 0);
	uint32_t number = 77;
	CASE("ibv_get_srq_num of a basic one", ibv_get_srq_num(srq, &number) != 0 && number == 77);
	struct ibv_ops_wr ops = { 0 }, *bad;
	CASE("ibv_post_srq_ops", ibv_post_srq_ops(srq, &ops, &bad) == EOPNOTSUPP);
	CASE("ibv_destroy_srq", ibv_destroy_srq(srq) == 0);
}

// Where there is no device the list is empty, and there is one.
static int no_device(void)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);
	CASE("ibv_get_device_list without a device", list && !list[0] && count == 0);
	ibv_free_device_list(list);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return no_device();
	open_device();
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	devices();
	queries();
	names();
	regions();
	addresses();
	queue_pairs();
	posting();
	completion_queues();
	shared_queues();
	events_of_queue_pairs();
	windows();
	char command[4096];
	snprintf(command, sizeof(command), "GLASSNIC_DEVICES=none exec %s none", argv[0]);
	CASE("a host without a device", system(command) == 0);
	CASE("all ends", !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return wrong != 0;
}
