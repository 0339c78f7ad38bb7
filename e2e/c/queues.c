// queues.c: completion queues, domains and events as their man pages say, with the errno of each refusal.
//
//   queues GLASSNIC      the command that lets events happen
//
// Prints a line for each case, and ends with 1 if one is not as it should be.
#include "cases.h"
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

// Posts receives with the ids from `first` on to a QP, which is flushed as it goes to ERR.
static struct ibv_qp *flush(struct ibv_cq *cq, int count)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	if (!qp || ibv_modify_qp(qp, &attr, INIT_MASK))
		exit(3);
	for (int id = 0; id < count; id++) {
		struct ibv_recv_wr wr = { .wr_id = id }, *bad;
		if (ibv_post_recv(qp, &wr, &bad))
			exit(3);
	}
	attr.qp_state = IBV_QPS_ERR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		exit(3);
	return qp;
}

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void resized(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp *qp = flush(cq, 3);
	struct ibv_wc wc[8];
	CASE("resize below what waits", ibv_resize_cq(cq, 2) == EINVAL && cq->cqe == 4);
	CASE("resize to nothing", ibv_resize_cq(cq, 0) == EINVAL && ibv_resize_cq(cq, -1) == EINVAL);
	CASE("resize", ibv_resize_cq(cq, 8) == 0 && cq->cqe >= 8);
	CASE("what waited is there, in order",
	     ibv_poll_cq(cq, 8, wc) == 3 && wc[0].wr_id == 0 && wc[1].wr_id == 1 && wc[2].wr_id == 2);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

static void moderated(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, channel, 0), *told;
	struct ibv_modify_cq_attr attr = { .moderate = { .cq_count = 100, .cq_period = 60000 } };
	void *its_context;
	CASE("modify nothing", ibv_modify_cq(cq, &attr) == EINVAL);
	attr.attr_mask = IBV_CQ_ATTR_RESERVED;
	CASE("modify what is not there", ibv_modify_cq(cq, &attr) == EOPNOTSUPP);
	attr.attr_mask = IBV_CQ_ATTR_MODERATE;
	CASE("modify", ibv_modify_cq(cq, &attr) == 0);
	ibv_req_notify_cq(cq, 0);
	double begun = now(CLOCK_MONOTONIC);
	struct ibv_qp *qp = flush(cq, 3);
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	CASE("the event is held back", poll(&fd, 1, 20) == 0);
	CASE("and comes", poll(&fd, 1, 2000) == 1 && now(CLOCK_MONOTONIC) - begun > 0.055);
	CASE("once", ibv_get_cq_event(channel, &told, &its_context) == 0 && told == cq && poll(&fd, 1, 0) == 0);
	ibv_ack_cq_events(cq, 1);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_destroy_comp_channel(channel);
}

static struct ibv_cq_ex *extended(int cqe, uint64_t wc_flags, uint32_t comp_mask, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = cqe, .wc_flags = wc_flags, .comp_mask = comp_mask, .flags = flags };
	return ibv_create_cq_ex(context, &attr);
}

static void overrun(void)
{
	struct ibv_cq_ex *ex =
		extended(2, 0, IBV_CQ_INIT_ATTR_MASK_FLAGS,
			 IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN | IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
	struct ibv_wc wc[8];
	struct ibv_qp *qp = flush(cq, 4);
	CASE("an overrun that is ignored loses the oldest",
	     ibv_poll_cq(cq, 8, wc) == 2 && wc[0].wr_id == 2 && wc[1].wr_id == 3 && ibv_poll_cq(cq, 8, wc) == 0);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	CASE("a field that nobody has", !extended(2, IBV_WC_EX_WITH_FLOW_TAG, 0, 0) && errno == EOPNOTSUPP);
	CASE("flags that mean nothing", !extended(2, 0, IBV_CQ_INIT_ATTR_MASK_FLAGS, 1 << 7) && errno == EOPNOTSUPP);
	CASE("a mask that means nothing", !extended(2, 0, 1 << 9, 0) && errno == EOPNOTSUPP);
	CASE("no parent domain", !extended(2, 0, IBV_CQ_INIT_ATTR_MASK_PD, 0) && errno == EINVAL);
}

static uint64_t raw_clock(void)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	if (ibv_query_rt_values_ex(context, &values) || values.comp_mask != IBV_VALUES_MASK_RAW_CLOCK)
		exit(3);
	return values.raw_clock.tv_sec * 1000000000ull + values.raw_clock.tv_nsec;
}

static void stamped(void)
{
	uint64_t flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	struct ibv_cq_ex *ex = extended(8, flags, 0, 0);
	struct ibv_poll_cq_attr attr = { 0 };
	CASE("nothing to poll", ibv_start_poll(ex, &attr) == ENOENT);
	uint64_t before = raw_clock();
	struct ibv_qp *qp = flush(ibv_cq_ex_to_cq(ex), 1);
	CASE("something to poll", ibv_start_poll(ex, &attr) == 0 && ex->status == IBV_WC_WR_FLUSH_ERR);
	uint64_t stamp = ibv_wc_read_completion_ts(ex), after = raw_clock();
	CASE("its time stamp", before <= stamp && stamp <= after);
	double age = now(CLOCK_REALTIME) - ibv_wc_read_completion_wallclock_ns(ex) / 1e9;
	CASE("its time of day", age > -0.01 && age < 5);
	CASE("nothing more", ibv_next_poll(ex) == ENOENT);
	ibv_end_poll(ex);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(ibv_cq_ex_to_cq(ex));
}

static int given, taken_back, mode;

static void *allocate(struct ibv_pd *domain, void *mine, size_t size, size_t alignment, uint64_t type)
{
	(void)domain, (void)type;
	void *memory = NULL;
	if (mine != &mode || mode == 1 || posix_memalign(&memory, alignment, size))
		return NULL;
	if (mode == 2) {
		free(memory);
		return IBV_ALLOCATOR_USE_DEFAULT;
	}
	given++;
	return memset(memory, 0, size);
}

static void release(struct ibv_pd *domain, void *mine, void *memory, uint64_t type)
{
	(void)domain, (void)mine, (void)type;
	taken_back++;
	free(memory);
}

static void domains(void)
{
	struct ibv_td_init_attr td_attr = { 0 }, bad = { .comp_mask = 1 };
	CASE("a thread domain with a mask", !ibv_alloc_td(context, &bad) && errno == EOPNOTSUPP);
	struct ibv_td *td = ibv_alloc_td(context, &td_attr);
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td, .alloc = allocate, .free = release, .pd_context = &mode,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT };
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	CASE("a parent domain", td && parent && parent != pd && parent->handle == pd->handle);
	attr.pd = NULL;
	CASE("without a PD", !ibv_alloc_parent_domain(context, &attr) && errno == EINVAL);
	CASE("its thread domain is in use", ibv_dealloc_td(td) == EBUSY);
	CASE("its PD is in use", ibv_dealloc_pd(pd) == EBUSY);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent };
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &cq_attr));
	struct ibv_qp *qp = make_qp(parent, cq, IBV_QPT_RC);
	CASE("its allocator is asked", cq && qp && qp->pd == parent && given == 2 && taken_back == 0);
	CASE("again for another size", ibv_resize_cq(cq, 64) == 0 && given == 3 && taken_back == 1);
	CASE("it is in use itself", ibv_dealloc_pd(parent) == EBUSY);
	mode = 1;
	CASE("an allocator without memory", !make_qp(parent, cq, IBV_QPT_RC) && errno == ENOMEM);
	mode = 2;
	struct ibv_qp *other = make_qp(parent, cq, IBV_QPT_UD);
	CASE("an allocator that leaves it to us", other && ibv_destroy_qp(other) == 0 && given == 3 && taken_back == 1);
	cq_attr.parent_domain = pd;
	CASE("a plain PD is no parent", !ibv_create_cq_ex(context, &cq_attr) && errno == EINVAL);
	CASE("what was given comes back", !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && taken_back == 3);
	CASE("and all ends", !ibv_dealloc_pd(parent) && !ibv_dealloc_td(td));
}

static void absent(void)
{
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_flow_attr flow = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(flow), .port = 1 };
	struct ibv_ece ece = { 0 };
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	CASE("no counters", !ibv_create_counters(context, &counters) && errno == EOPNOTSUPP);
	CASE("no work queues", !ibv_create_wq(context, &wq) && errno == EOPNOTSUPP);
	CASE("no indirection tables", !ibv_create_rwq_ind_table(context, &table) && errno == EOPNOTSUPP);
	CASE("no flow steering", !ibv_create_flow(qp, &flow) && errno == EOPNOTSUPP);
	CASE("no raw packets", !make_qp(pd, cq, IBV_QPT_RAW_PACKET) && errno == EOPNOTSUPP);
	CASE("no ECE", ibv_query_ece(qp, &ece) == EOPNOTSUPP && ibv_set_ece(qp, &ece) == EOPNOTSUPP);
	CASE("no order of bytes", ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) == 0);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

static int happens(const char *glassnic, const char *event, enum ibv_event_type type)
{
	char command[512];
	struct ibv_async_event told;
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	snprintf(command, sizeof(command), "exec %s event %s --pid %d >/dev/null", glassnic, event, getpid());
	if (system(command) || poll(&fd, 1, 2000) != 1 || ibv_get_async_event(context, &told))
		return 0;
	ibv_ack_async_event(&told);
	return told.event_type == type;
}

static enum ibv_port_state state(void)
{
	struct ibv_port_attr attr;
	return ibv_query_port(context, 1, &attr) ? 0 : attr.state;
}

static void events(const char *glassnic)
{
	char word[64];
	CASE("the port goes down", happens(glassnic, "port-err", IBV_EVENT_PORT_ERR) && state() == IBV_PORT_DOWN);
	CASE("and comes up", happens(glassnic, "port-active", IBV_EVENT_PORT_ACTIVE) && state() == IBV_PORT_ACTIVE);
	CASE("the GIDs change", happens(glassnic, "gid-change", IBV_EVENT_GID_CHANGE));
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp *qp = flush(cq, 1);
	snprintf(word, sizeof(word), "path-mig %#x", qp->qp_num);
	CASE("a path migrates", happens(glassnic, word, IBV_EVENT_PATH_MIG));
	snprintf(word, sizeof(word), "cq-err %#x", cq->handle);
	CASE("a CQ overruns", happens(glassnic, word, IBV_EVENT_CQ_ERR));
	CASE("the device stops", happens(glassnic, "device-fatal", IBV_EVENT_DEVICE_FATAL));
	CASE("it makes nothing any more", !ibv_alloc_pd(context) && errno == EIO);
	CASE("but ends what there is", !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 3;
	open_device();
	resized();
	moderated();
	overrun();
	stamped();
	domains();
	absent();
	events(argv[1]);
	ibv_close_device(context);
	return wrong != 0;
}
