// wrong_use.c: what the library answers to programs that use it wrongly. Each case runs in a process of
// its own, so that a crash is a failure of that case alone. Prints one line a case: "ok NAME", or
// "not ok NAME: WHY"; the exit status is 0 if all are ok.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SQ_DEPTH 4
#define BUFFER 8192

static struct ibv_context *context;
static struct ibv_device_attr limits;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char *buffer;
static int faults;

static void fault(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	printf("  ");
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
	faults++;
}

static const char *error_name(int error)
{
	return error ? strerrorname_np(error) : "0";
}

// Whether `error` is one of the (at most three) that Linux devices answer in this case.
static void check_error(const char *call, int error, int a, int b, int c)
{
	if (!error || (error != a && error != b && error != c))
		fault("%s: %s, expected %s", call, error_name(error), error_name(a));
}

// A call that returns an errno value, or -1 and sets errno.
#define REFUSED(call, ...) REFUSED_(call, __VA_ARGS__, 0, 0, 0)
#define REFUSED_(call, a, b, c, ...)                                       \
	do {                                                               \
		errno = 0;                                                 \
		int result_ = (call);                                      \
		check_error(#call, result_ == -1 ? errno : result_, a, b, c); \
	} while (0)

// A call that returns NULL and sets errno.
#define NO_OBJECT(call, ...) NO_OBJECT_(call, __VA_ARGS__, 0, 0, 0)
#define NO_OBJECT_(call, a, b, c, ...)                                     \
	do {                                                               \
		errno = 0;                                                 \
		if ((call) != NULL)                                        \
			fault("%s: made an object", #call);                \
		else                                                       \
			check_error(#call, errno, a, b, c);                \
	} while (0)

// A call that must work for the case to make sense.
#define WORKS(call)                                                        \
	do {                                                               \
		errno = 0;                                                 \
		int result_ = (call);                                      \
		if (result_) {                                             \
			fault("%s: %s", #call, error_name(result_ == -1 ? errno : result_)); \
			return;                                            \
		}                                                          \
	} while (0)

static struct ibv_qp_init_attr rc_init(void)
{
	return (struct ibv_qp_init_attr){ .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = SQ_DEPTH, .max_recv_wr = SQ_DEPTH, .max_send_sge = 1, .max_recv_sge = 1 } };
}

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = rc_init();
	init.qp_type = type;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	if (!qp) {
		printf("  cannot make a QP: %s\n", strerror(errno));
		_exit(1);
	}
	return qp;
}

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)

static struct ibv_qp_attr init_attr(void)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
}

#define RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

// The peer is the QP itself.
static struct ibv_qp_attr rtr_attr(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 0, .hop_limit = 64 } } };
	ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid);
	return attr;
}

#define RTS_MASK (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
		  IBV_QP_MAX_QP_RD_ATOMIC)

static struct ibv_qp_attr rts_attr(void)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 1 };
}

static struct ibv_qp *connected_qp(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr init = init_attr(), rtr = rtr_attr(qp), rts = rts_attr();
	if (ibv_modify_qp(qp, &init, INIT_MASK) || ibv_modify_qp(qp, &rtr, RTR_MASK) ||
	    ibv_modify_qp(qp, &rts, RTS_MASK)) {
		printf("  cannot connect a QP to itself\n");
		_exit(1);
	}
	return qp;
}

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int result = ibv_post_send(qp, wr, &bad);
	if (result && bad != wr)
		fault("bad_wr is not the request that was refused");
	return result;
}

static struct ibv_sge sge;

static struct ibv_send_wr send_wr(void)
{
	sge = (struct ibv_sge){ (uintptr_t)buffer, 8, mr->lkey };
	return (struct ibv_send_wr){ .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED };
}

/* ---- NULL pointers ---- */

static void null_context(void)
{
	NO_OBJECT(ibv_open_device(NULL), EINVAL, ENODEV);
	NO_OBJECT(ibv_alloc_pd(NULL), EINVAL);
	NO_OBJECT(ibv_create_cq(NULL, 1, NULL, NULL, 0), EINVAL);
	NO_OBJECT(ibv_create_comp_channel(NULL), EINVAL);
	REFUSED(ibv_query_device(NULL, &limits), EINVAL);
	REFUSED(ibv_query_device(context, NULL), EINVAL, EFAULT);
	REFUSED(ibv_close_device(NULL), EINVAL);
}

static void null_objects(void)
{
	struct ibv_qp_attr attr = init_attr();
	struct ibv_qp_init_attr init = rc_init();
	REFUSED(ibv_dealloc_pd(NULL), EINVAL);
	REFUSED(ibv_dereg_mr(NULL), EINVAL);
	REFUSED(ibv_destroy_cq(NULL), EINVAL);
	REFUSED(ibv_destroy_qp(NULL), EINVAL);
	REFUSED(ibv_destroy_ah(NULL), EINVAL);
	REFUSED(ibv_destroy_srq(NULL), EINVAL, EOPNOTSUPP);
	REFUSED(ibv_destroy_comp_channel(NULL), EINVAL);
	REFUSED(ibv_modify_qp(NULL, &attr, INIT_MASK), EINVAL);
	REFUSED(ibv_query_qp(NULL, &attr, IBV_QP_STATE, &init), EINVAL);
	NO_OBJECT(ibv_create_qp(NULL, &init), EINVAL);
}

static void null_attributes(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	NO_OBJECT(ibv_create_qp(pd, NULL), EINVAL, EFAULT);
	NO_OBJECT(ibv_create_ah(pd, NULL), EINVAL, EFAULT);
	NO_OBJECT(ibv_create_srq(pd, NULL), EINVAL, EFAULT, EOPNOTSUPP);
	REFUSED(ibv_modify_qp(qp, NULL, INIT_MASK), EINVAL, EFAULT);
	REFUSED(ibv_query_qp(qp, NULL, IBV_QP_STATE, &init), EINVAL, EFAULT);
	REFUSED(ibv_query_qp(qp, &attr, IBV_QP_STATE, NULL), EINVAL, EFAULT);
}

static void qp_without_cq(void)
{
	struct ibv_qp_init_attr init = rc_init();
	init.recv_cq = NULL;
	NO_OBJECT(ibv_create_qp(pd, &init), EINVAL);
	init = rc_init();
	init.send_cq = NULL;
	NO_OBJECT(ibv_create_qp(pd, &init), EINVAL);
}

/* ---- counts and values beyond the limits ---- */

static void qp_beyond_limits(void)
{
	struct ibv_qp_init_attr init = rc_init();
	init.cap.max_send_wr = limits.max_qp_wr + 1;
	NO_OBJECT(ibv_create_qp(pd, &init), EINVAL, ENOMEM);
	init = rc_init();
	init.cap.max_recv_wr = limits.max_qp_wr + 1;
	NO_OBJECT(ibv_create_qp(pd, &init), EINVAL, ENOMEM);
	init = rc_init();
	init.cap.max_send_sge = limits.max_sge + 1;
	NO_OBJECT(ibv_create_qp(pd, &init), EINVAL);
	init = rc_init();
	init.cap.max_recv_sge = limits.max_sge + 1;
	NO_OBJECT(ibv_create_qp(pd, &init), EINVAL);
	init = rc_init();
	init.cap.max_inline_data = 1 << 20;
	NO_OBJECT(ibv_create_qp(pd, &init), EINVAL, ENOMEM);
	init = rc_init();
	init.cap.max_send_wr = UINT32_MAX;
	NO_OBJECT(ibv_create_qp(pd, &init), EINVAL, ENOMEM);
	init = rc_init();
	init.qp_type = 0x7f31;
	NO_OBJECT(ibv_create_qp(pd, &init), EINVAL, EOPNOTSUPP);
}

static void qp_at_the_limits_works(void)
{
	struct ibv_qp_init_attr init = rc_init();
	init.cap.max_send_wr = init.cap.max_recv_wr = limits.max_qp_wr;
	init.cap.max_send_sge = init.cap.max_recv_sge = limits.max_sge;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	if (!qp)
		fault("a QP of the advertised size: %s", error_name(errno));
	else
		WORKS(ibv_destroy_qp(qp));
}

static void cq_beyond_limits(void)
{
	NO_OBJECT(ibv_create_cq(context, limits.max_cqe + 1, NULL, NULL, 0), EINVAL, ENOMEM);
	NO_OBJECT(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL);
	NO_OBJECT(ibv_create_cq(context, -1, NULL, NULL, 0), EINVAL);
	NO_OBJECT(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors), EINVAL);
	NO_OBJECT(ibv_create_cq(context, 1, NULL, NULL, -1), EINVAL);
}

static void queries_beyond_the_tables(void)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;
	REFUSED(ibv_query_port(context, 0, &port), EINVAL);
	REFUSED(ibv_query_port(context, 2, &port), EINVAL);
	WORKS(ibv_query_port(context, 1, &port));
	REFUSED(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), EINVAL, ENODATA, ENOENT);
	REFUSED(ibv_query_gid(context, 1, -1, &gid), EINVAL, ENODATA, ENOENT);
	REFUSED(ibv_query_gid(context, 2, 0, &gid), EINVAL, ENODATA, ENOENT);
	REFUSED(ibv_query_pkey(context, 1, port.pkey_tbl_len, &pkey), EINVAL, ENOENT);
}

static void mr_access_flags(void)
{
	NO_OBJECT(ibv_reg_mr(pd, buffer, BUFFER, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	NO_OBJECT(ibv_reg_mr(pd, buffer, BUFFER, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	// Not constant, so that the header's macro takes no short cut.
	volatile int unknown = 1 << 19;
	NO_OBJECT(ibv_reg_mr(pd, buffer, BUFFER, unknown), EINVAL, EOPNOTSUPP);
}

static void mr_of_no_memory(void)
{
	char *hole = mmap(NULL, 2 * BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(hole, 2 * BUFFER);
	NO_OBJECT(ibv_reg_mr(pd, hole, BUFFER, IBV_ACCESS_LOCAL_WRITE), EFAULT, ENOMEM, EINVAL);
	NO_OBJECT(ibv_reg_mr(pd, NULL, BUFFER, IBV_ACCESS_LOCAL_WRITE), EFAULT, ENOMEM, EINVAL);
	NO_OBJECT(ibv_reg_mr(pd, buffer, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL, ENOMEM, EFAULT);
	char *read_only = mmap(NULL, BUFFER, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NO_OBJECT(ibv_reg_mr(pd, read_only, BUFFER, IBV_ACCESS_LOCAL_WRITE), EFAULT);
}

/* ---- states ---- */

static void transitions_that_do_not_exist(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr rtr = rtr_attr(qp), rts = rts_attr(), init = init_attr();
	REFUSED(ibv_modify_qp(qp, &rts, RTS_MASK), EINVAL);
	REFUSED(ibv_modify_qp(qp, &rtr, RTR_MASK), EINVAL);
	WORKS(ibv_modify_qp(qp, &init, INIT_MASK));
	REFUSED(ibv_modify_qp(qp, &rts, RTS_MASK), EINVAL);
	init.qp_state = 77;
	REFUSED(ibv_modify_qp(qp, &init, INIT_MASK), EINVAL);
}

static void attributes_missing_or_too_many(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr init = init_attr(), rtr = rtr_attr(qp);
	REFUSED(ibv_modify_qp(qp, &init, INIT_MASK & ~IBV_QP_PORT), EINVAL);
	REFUSED(ibv_modify_qp(qp, &init, INIT_MASK | IBV_QP_SQ_PSN), EINVAL);
	WORKS(ibv_modify_qp(qp, &init, INIT_MASK));
	REFUSED(ibv_modify_qp(qp, &rtr, RTR_MASK & ~IBV_QP_MIN_RNR_TIMER), EINVAL);
	rtr.ah_attr.is_global = 0;
	REFUSED(ibv_modify_qp(qp, &rtr, RTR_MASK), EINVAL);
}

static void attribute_values_out_of_range(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr init = init_attr(), rtr = rtr_attr(qp), rts = rts_attr();
	init.port_num = 2;
	REFUSED(ibv_modify_qp(qp, &init, INIT_MASK), EINVAL);
	init = init_attr();
	init.pkey_index = 0xfff0;
	REFUSED(ibv_modify_qp(qp, &init, INIT_MASK), EINVAL);
	init = init_attr();
	WORKS(ibv_modify_qp(qp, &init, INIT_MASK));
	rtr.path_mtu = 9;
	REFUSED(ibv_modify_qp(qp, &rtr, RTR_MASK), EINVAL);
	rtr = rtr_attr(qp);
	rtr.ah_attr.grh.sgid_index = 255;
	REFUSED(ibv_modify_qp(qp, &rtr, RTR_MASK), EINVAL, ENODEV, ENOENT);
	rtr = rtr_attr(qp);
	rtr.max_dest_rd_atomic = 255;
	REFUSED(ibv_modify_qp(qp, &rtr, RTR_MASK), EINVAL);
	rtr = rtr_attr(qp);
	rtr.min_rnr_timer = 32;
	REFUSED(ibv_modify_qp(qp, &rtr, RTR_MASK), EINVAL);
	rtr = rtr_attr(qp);
	WORKS(ibv_modify_qp(qp, &rtr, RTR_MASK));
	rts.retry_cnt = 8;
	REFUSED(ibv_modify_qp(qp, &rts, RTS_MASK), EINVAL);
	rts = rts_attr();
	rts.rnr_retry = 8;
	REFUSED(ibv_modify_qp(qp, &rts, RTS_MASK), EINVAL);
	rts = rts_attr();
	rts.timeout = 32;
	REFUSED(ibv_modify_qp(qp, &rts, RTS_MASK), EINVAL);
	rts = rts_attr();
	rts.max_rd_atomic = 255;
	REFUSED(ibv_modify_qp(qp, &rts, RTS_MASK), EINVAL);
}

static void posting_in_the_wrong_state(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr init = init_attr();
	struct ibv_send_wr wr = send_wr();
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	REFUSED(post(qp, &wr), EINVAL);
	REFUSED(ibv_post_recv(qp, &recv, &bad), EINVAL);
	WORKS(ibv_modify_qp(qp, &init, INIT_MASK));
	REFUSED(post(qp, &wr), EINVAL);
	WORKS(ibv_post_recv(qp, &recv, &bad));
}

/* ---- posting ---- */

static void too_many_requests(void)
{
	struct ibv_qp *qp = connected_qp();
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	struct ibv_send_wr wr = send_wr();
	int result = 0, sent = 0;
	WORKS(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	// The device may give more than was asked for, and says so in the capabilities.
	for (uint32_t i = 0; i < attr.cap.max_recv_wr; i++)
		WORKS(ibv_post_recv(qp, &recv, &bad));
	REFUSED(ibv_post_recv(qp, &recv, &bad), ENOMEM);
	if (bad != &recv)
		fault("bad_wr is not the receive that was refused");
	// Slots of unsignalled requests come free only by a later completion that is polled.
	wr.send_flags = 0;
	while (!result && sent <= (int)attr.cap.max_send_wr)
		if (!(result = post(qp, &wr)))
			sent++;
	check_error("ibv_post_send with a full queue", result, ENOMEM, 0, 0);
	if (sent != (int)attr.cap.max_send_wr)
		fault("%d requests fit into a send queue of %u", sent, attr.cap.max_send_wr);
}

static void requests_that_no_queue_takes(void)
{
	struct ibv_qp *qp = connected_qp();
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	WORKS(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	struct ibv_sge *many = calloc(attr.cap.max_send_sge + 1, sizeof *many);
	struct ibv_send_wr wr = send_wr();
	wr.sg_list = many;
	wr.num_sge = attr.cap.max_send_sge + 1;
	REFUSED(post(qp, &wr), EINVAL, ENOMEM);
	wr = send_wr();
	wr.num_sge = -1;
	REFUSED(post(qp, &wr), EINVAL, ENOMEM);
	wr = send_wr();
	wr.opcode = 99;
	REFUSED(post(qp, &wr), EINVAL);
	wr = send_wr();
	wr.send_flags |= IBV_SEND_INLINE;
	sge.length = attr.cap.max_inline_data + 1;
	REFUSED(post(qp, &wr), EINVAL, ENOMEM);
	free(many);
}

static void read_on_a_ud_qp(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_UD);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7 };
	struct ibv_send_wr wr = send_wr();
	WORKS(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	WORKS(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	WORKS(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	wr.opcode = IBV_WR_RDMA_READ;
	REFUSED(post(qp, &wr), EINVAL);
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.ah = NULL;
	REFUSED(post(qp, &wr), EINVAL);
}

/* ---- objects in use, and objects that are no more ---- */

static void objects_in_use(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *busy = ibv_create_cq(context, 1, NULL, channel, 0);
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);
	struct ibv_qp_init_attr init = rc_init();
	init.send_cq = init.recv_cq = busy;
	init.srq = srq;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	if (!channel || !busy || !qp) {
		fault("cannot make the objects: %s", error_name(errno));
		return;
	}
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	REFUSED(ibv_destroy_cq(busy), EBUSY);
	REFUSED(ibv_destroy_comp_channel(channel), EBUSY);
	if (srq)
		REFUSED(ibv_destroy_srq(srq), EBUSY);
	WORKS(ibv_destroy_qp(qp));
	if (srq)
		WORKS(ibv_destroy_srq(srq));
	WORKS(ibv_destroy_cq(busy));
	WORKS(ibv_destroy_comp_channel(channel));
	// The MR still holds the PD.
	REFUSED(ibv_dealloc_pd(pd), EBUSY);
	WORKS(ibv_destroy_cq(cq));
	WORKS(ibv_dereg_mr(mr));
	WORKS(ibv_dealloc_pd(pd));
}

static void destroyed_qp(void)
{
	struct ibv_qp *qp = connected_qp();
	struct ibv_qp_attr attr = init_attr();
	struct ibv_qp_init_attr init;
	struct ibv_send_wr wr = send_wr();
	WORKS(ibv_destroy_qp(qp));
	REFUSED(ibv_modify_qp(qp, &attr, INIT_MASK), EINVAL, ENOENT);
	REFUSED(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), EINVAL, ENOENT);
	REFUSED(post(qp, &wr), EINVAL, ENOENT);
	REFUSED(ibv_destroy_qp(qp), EINVAL, ENOENT);
}

static void destroyed_others(void)
{
	struct ibv_cq *gone = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_wc wc;
	struct ibv_qp_init_attr init = rc_init();
	init.send_cq = init.recv_cq = gone;
	WORKS(ibv_destroy_cq(gone));
	REFUSED(ibv_destroy_cq(gone), EINVAL, ENOENT);
	NO_OBJECT(ibv_create_qp(pd, &init), EINVAL, ENOENT);
	if (ibv_poll_cq(gone, 1, &wc) > 0)
		fault("a completion from a CQ that is no more");
	WORKS(ibv_dereg_mr(mr));
	REFUSED(ibv_dereg_mr(mr), EINVAL, ENOENT);
	WORKS(ibv_dealloc_pd(pd));
	REFUSED(ibv_dealloc_pd(pd), EINVAL, ENOENT);
	NO_OBJECT(ibv_reg_mr(pd, buffer, BUFFER, 0), EINVAL, ENOENT);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
#define CASE(name) { #name, name }
	CASE(null_context),
	CASE(null_objects),
	CASE(null_attributes),
	CASE(qp_without_cq),
	CASE(qp_beyond_limits),
	CASE(qp_at_the_limits_works),
	CASE(cq_beyond_limits),
	CASE(queries_beyond_the_tables),
	CASE(mr_access_flags),
	CASE(mr_of_no_memory),
	CASE(transitions_that_do_not_exist),
	CASE(attributes_missing_or_too_many),
	CASE(attribute_values_out_of_range),
	CASE(posting_in_the_wrong_state),
	CASE(too_many_requests),
	CASE(requests_that_no_queue_takes),
	CASE(read_on_a_ud_qp),
	CASE(objects_in_use),
	CASE(destroyed_qp),
	CASE(destroyed_others),
};

static void set_up(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!list || !list[0] || !(context = ibv_open_device(list[0])) || ibv_query_device(context, &limits) ||
	    !(pd = ibv_alloc_pd(context)) || !(cq = ibv_create_cq(context, 64, NULL, NULL, 0)) ||
	    !(mr = ibv_reg_mr(pd, buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE))) {
		printf("  cannot set up: %s\n", strerror(errno));
		_exit(1);
	}
}

int main(void)
{
	int failed = 0, total = sizeof cases / sizeof *cases;
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int i = 0; i < total; i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			alarm(20);
			set_up();
			cases[i].run();
			_exit(faults != 0);
		}
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			printf("not ok %s: signal %d (%s)\n", cases[i].name, WTERMSIG(status), strsignal(WTERMSIG(status)));
		else
			printf("%s %s\n", status ? "not ok" : "ok", cases[i].name);
		failed += status != 0;
	}
	printf("%d of %d ok\n", total - failed, total);
	return failed != 0;
}
