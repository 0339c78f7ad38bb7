// memory.c: memory windows, changed regions, null regions, device memory and paging on demand, between two queue pairs
// of one process. Prints one line a case: "ok NAME", or "not ok NAME: WHY"; the exit status is 0 if all are ok.
// Every case has queue pairs of its own, and ends its process with a crash if the library crashes.
#include <dlfcn.h>
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

enum { PAGE = 4096, SIZE = 16 * PAGE };
enum { REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | REMOTE };

// Names of newer headers than the system's, and what lies behind a struct ibv_qp_ex of theirs.
enum { WITH_FLUSH = 1 << 11, WITH_ATOMIC_WRITE = 1 << 12, ACCESS_FLUSH_GLOBAL = 1 << 8 };
struct newer_qp_ex {
	struct ibv_qp_ex qp_ex;
	void (*wr_flush)(struct ibv_qp_ex *, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level);
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static char *from, *to;
static struct ibv_mr *from_mr;
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

#define EXPECT(condition)                                                             \
	do {                                                                          \
		errno = 0;                                                            \
		if (!(condition))                                                     \
			fault("line %d: %s (errno %d)", __LINE__, #condition, errno); \
	} while (0)

#define NEED(condition)                                                                   \
	do {                                                                              \
		errno = 0;                                                                \
		if (!(condition)) {                                                       \
			printf("  line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
			_exit(1);                                                         \
		}                                                                         \
	} while (0)

static char *map(void)
{
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(memory != MAP_FAILED);
	return memory;
}

static struct ibv_qp *make(void)
{
	struct ibv_qp_init_attr_ex init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .pd = pd,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | WITH_FLUSH | WITH_ATOMIC_WRITE };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	NEED(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = REMOTE | ACCESS_FLUSH_GLOBAL };
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 0, .hop_limit = 64 } } };
	NEED(!ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid));
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 4 };
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	NEED(list && list[0]);
	NEED((context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	NEED((pd = ibv_alloc_pd(context)));
	NEED((cq = ibv_create_cq(context, 256, NULL, NULL, 0)));
	a = make();
	b = make();
	connect_to(a, b);
	connect_to(b, a);
	from = map();
	to = map();
	NEED((from_mr = ibv_reg_mr(pd, from, SIZE, ALL)));
}

// The next completion: its status, or -1 after five seconds.
static int done(enum ibv_wc_opcode *opcode)
{
	struct ibv_wc wc;
	for (int tries = 0; tries < 5000000; tries++) {
		int n = ibv_poll_cq(cq, 1, &wc);
		if (n > 0) {
			if (opcode)
				*opcode = wc.opcode;
			return wc.status;
		}
	}
	return -1;
}

// `a` makes an access; its status.
static int rdma(enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t addr, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode };
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	NEED(!ibv_post_send(a, &wr, &bad));
	return done(NULL);
}

static struct ibv_sge own(uint32_t length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)from, .length = length, .lkey = from_mr->lkey };
}

static int write_to(const void *addr, uint32_t rkey, uint32_t length)
{
	return rdma(IBV_WR_RDMA_WRITE, own(length), (uintptr_t)addr, rkey);
}

static void type_1(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, to, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	NEED(mr && mw);
	uint32_t before = mw->rkey;
	struct ibv_mw_bind bind = { .wr_id = 5, .bind_info = { .mr = mr, .addr = (uintptr_t)to + 64, .length = 64,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE } };
	NEED(!ibv_bind_mw(b, mw, &bind));
	EXPECT(mw->rkey == ibv_inc_rkey(before));
	enum ibv_wc_opcode opcode;
	EXPECT(done(&opcode) == IBV_WC_SUCCESS);
	EXPECT(opcode == IBV_WC_BIND_MW);
	strcpy(from, "window");
	EXPECT(write_to(to + 64, mw->rkey, 7) == IBV_WC_SUCCESS);
	EXPECT(!strcmp(to + 64, "window"));
	EXPECT(ibv_dereg_mr(mr) == EBUSY);
	EXPECT(ibv_dealloc_pd(pd) == EBUSY);
	struct ibv_mw_bind off = { .bind_info = { .mr = mr } };
	NEED(!ibv_bind_mw(b, mw, &off));
	EXPECT(done(NULL) == IBV_WC_SUCCESS);
	EXPECT(write_to(to + 64, mw->rkey, 7) == IBV_WC_REM_ACCESS_ERR);
	EXPECT(!ibv_dereg_mr(mr));
	EXPECT(!ibv_dealloc_mw(mw));
}

static void type_2(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, to, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	NEED(mr && mw);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr *bad, inv = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey };
	struct ibv_send_wr bind = { .opcode = IBV_WR_BIND_MW, .next = &inv, .bind_mw = { .mw = mw, .rkey = rkey,
		.bind_info = { .mr = mr, .addr = (uintptr_t)to, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } } };
	NEED(!ibv_post_send(b, &bind, &bad));
	enum ibv_wc_opcode opcode;
	EXPECT(done(&opcode) == IBV_WC_SUCCESS && opcode == IBV_WC_BIND_MW);
	EXPECT(done(&opcode) == IBV_WC_SUCCESS && opcode == IBV_WC_LOCAL_INV);
	// The same by one call a field, zero-based.
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(b);
	struct ibv_mw_bind_info info = { .mr = mr, .addr = (uintptr_t)to + 128, .length = 64,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED };
	ibv_wr_start(qpx);
	ibv_wr_bind_mw(qpx, mw, rkey, &info);
	NEED(!ibv_wr_complete(qpx));
	EXPECT(done(NULL) == IBV_WC_SUCCESS);
	strcpy(from, "zero");
	EXPECT(write_to((void *)8, rkey, 5) == IBV_WC_SUCCESS);
	EXPECT(!strcmp(to + 136, "zero"));
	ibv_wr_start(qpx);
	ibv_wr_local_inv(qpx, rkey);
	NEED(!ibv_wr_complete(qpx));
	EXPECT(done(NULL) == IBV_WC_SUCCESS);
	EXPECT(write_to((void *)8, rkey, 5) == IBV_WC_REM_ACCESS_ERR);
}

static void windows_refused(void)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(other, to, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	NEED(other && mr && one && two);
	EXPECT(!ibv_alloc_mw(pd, 3) && errno == EINVAL);
	struct ibv_mw_bind bind = { .bind_info = { .mr = mr, .addr = (uintptr_t)to, .length = 64,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE } };
	EXPECT(ibv_bind_mw(b, two, &bind) == EINVAL);
	EXPECT(ibv_bind_mw(b, one, &bind) == EPERM);
	bind.bind_info.mr = from_mr;
	bind.bind_info.mw_access_flags = IBV_ACCESS_ZERO_BASED;
	EXPECT(ibv_bind_mw(b, one, &bind) == EINVAL);
	bind.bind_info = (struct ibv_mw_bind_info){ .length = 1 };
	EXPECT(ibv_bind_mw(b, one, &bind) == EINVAL);
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW, .bind_mw = { .mw = one, .rkey = one->rkey } };
	EXPECT(ibv_post_send(b, &wr, &bad) == EINVAL && bad == &wr);
	wr.bind_mw.mw = NULL;
	EXPECT(ibv_post_send(b, &wr, &bad) == EINVAL);
	EXPECT(!ibv_dealloc_mw(one) && ibv_dealloc_mw(one) == EINVAL);
}

static void changed_region(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, to, PAGE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_pd *other = ibv_alloc_pd(context);
	NEED(mr && other);
	uint32_t lkey = mr->lkey, rkey = mr->rkey;
	EXPECT(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
	EXPECT(ibv_rereg_mr(mr, 8, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, PAGE, 0) == IBV_REREG_MR_ERR_INPUT);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, to, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, to, PAGE, 1) == IBV_REREG_MR_ERR_INPUT);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) ==
	       IBV_REREG_MR_ERR_CMD && errno == EINVAL);
	// What was refused has changed nothing.
	EXPECT(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL));
	EXPECT(write_to(to, mr->rkey, 8) == IBV_WC_SUCCESS);
	EXPECT(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, to + PAGE, 2 * PAGE, 0));
	EXPECT(mr->addr == to + PAGE && mr->length == 2 * PAGE && mr->lkey == lkey && mr->rkey == rkey);
	EXPECT(write_to(to + 2 * PAGE, mr->rkey, PAGE) == IBV_WC_SUCCESS);
	EXPECT(!ibv_rereg_mr(mr, 7, other, to, PAGE, ALL));
	EXPECT(mr->pd == other && ibv_dealloc_pd(other) == EBUSY);
	EXPECT(write_to(to, mr->rkey, 8) == IBV_WC_REM_ACCESS_ERR);
	EXPECT(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(other));
}

static void changed_region_with_window(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, to, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	NEED(mr && mw);
	struct ibv_mw_bind bind = { .bind_info = { .mr = mr, .addr = (uintptr_t)to, .length = 64,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE } };
	NEED(!ibv_bind_mw(b, mw, &bind) && done(NULL) == IBV_WC_SUCCESS);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) == IBV_REREG_MR_ERR_CMD && errno == EBUSY);
	EXPECT(write_to(to, mw->rkey, 8) == IBV_WC_SUCCESS);
}

static void null_region(void)
{
	struct ibv_mr *null = ibv_alloc_null_mr(pd), *mr = ibv_reg_mr(pd, to, SIZE, ALL);
	NEED(null && mr);
	memset(to, 7, SIZE);
	struct ibv_sge sge = { .addr = 0x123, .length = 3 * PAGE, .lkey = null->lkey };
	EXPECT(rdma(IBV_WR_RDMA_WRITE, sge, (uintptr_t)to, mr->rkey) == IBV_WC_SUCCESS);
	EXPECT(!to[0] && !to[3 * PAGE - 1] && to[3 * PAGE] == 7);
	EXPECT(rdma(IBV_WR_RDMA_READ, sge, (uintptr_t)to, mr->rkey) == IBV_WC_SUCCESS);
	sge.addr = ~0ull;
	sge.length = 8;
	EXPECT(rdma(IBV_WR_ATOMIC_FETCH_AND_ADD, sge, (uintptr_t)to + 4 * PAGE, mr->rkey) == IBV_WC_SUCCESS);
	EXPECT(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD);
	EXPECT(write_to(to, null->rkey, 1) == IBV_WC_REM_ACCESS_ERR);
	EXPECT(!ibv_dereg_mr(null));
}

static void device_memory(void)
{
	struct ibv_device_attr_ex caps;
	NEED(!ibv_query_device_ex(context, NULL, &caps) && caps.max_dm_size >= PAGE);
	struct ibv_alloc_dm_attr attr = { .length = caps.max_dm_size + 1 };
	EXPECT(!ibv_alloc_dm(context, &attr) && errno == EINVAL);
	attr.length = 0;
	EXPECT(!ibv_alloc_dm(context, &attr) && errno == EINVAL);
	attr = (struct ibv_alloc_dm_attr){ .length = PAGE, .log_align_req = 40 };
	EXPECT(!ibv_alloc_dm(context, &attr) && errno == EINVAL);
	attr = (struct ibv_alloc_dm_attr){ .length = PAGE, .comp_mask = 1 };
	EXPECT(!ibv_alloc_dm(context, &attr) && errno == EOPNOTSUPP);
	attr = (struct ibv_alloc_dm_attr){ .length = caps.max_dm_size - PAGE, .log_align_req = 6 };
	struct ibv_dm *most = ibv_alloc_dm(context, &attr);
	attr.length = PAGE + 4;
	EXPECT(!ibv_alloc_dm(context, &attr) && errno == ENOMEM);
	attr.length = PAGE;
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	NEED(most && dm);
	char here[8] = "device!";
	EXPECT(!ibv_memcpy_to_dm(dm, 64, here, 8));
	EXPECT(ibv_memcpy_to_dm(dm, 3, here, 4) == EINVAL && ibv_memcpy_from_dm(here, dm, 4, 3) == EINVAL);
	EXPECT(ibv_memcpy_to_dm(dm, PAGE, here, 4) == EFAULT && ibv_memcpy_from_dm(here, dm, ~3ull, 8) == EFAULT);
	EXPECT(!ibv_reg_dm_mr(pd, dm, 0, PAGE, ALL) && errno == EINVAL);
	EXPECT(!ibv_reg_dm_mr(pd, dm, 4, PAGE, ALL | IBV_ACCESS_ZERO_BASED) && errno == EINVAL);
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 64, 128, ALL | IBV_ACCESS_ZERO_BASED);
	NEED(mr);
	EXPECT(ibv_free_dm(dm) == EBUSY);
	EXPECT(rdma(IBV_WR_RDMA_READ, own(8), 0, mr->rkey) == IBV_WC_SUCCESS);
	EXPECT(!strcmp(from, "device!"));
	strcpy(from, "memory");
	EXPECT(rdma(IBV_WR_RDMA_WRITE, own(8), 120, mr->rkey) == IBV_WC_SUCCESS);
	EXPECT(!ibv_memcpy_from_dm(here, dm, 184, 8) && !strcmp(here, "memory"));
	EXPECT(rdma(IBV_WR_RDMA_WRITE, own(8), 121, mr->rkey) == IBV_WC_REM_ACCESS_ERR);
	EXPECT(!ibv_dereg_mr(mr) && !ibv_free_dm(dm) && !ibv_free_dm(most) && ibv_free_dm(dm) == EINVAL);
}

// Memory that the program has unmapped, in the four places that it can be.
static struct ibv_mr *paged(int hole_at)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, to, SIZE, ALL | IBV_ACCESS_ON_DEMAND);
	NEED(mr && !munmap(to + hole_at, PAGE));
	return mr;
}

static void paging_write_into_a_hole(void)
{
	struct ibv_mr *mr = paged(PAGE);
	strcpy(from, "paged");
	EXPECT(write_to(to, mr->rkey, 6) == IBV_WC_SUCCESS && !strcmp(to, "paged"));
	EXPECT(write_to(to + PAGE, mr->rkey, 6) == IBV_WC_REM_ACCESS_ERR);
}

static void paging_read_out_of_a_hole(void)
{
	struct ibv_mr *mr = paged(PAGE);
	EXPECT(rdma(IBV_WR_RDMA_READ, own(8), (uintptr_t)to, mr->rkey) == IBV_WC_SUCCESS);
	EXPECT(rdma(IBV_WR_RDMA_READ, own(3 * PAGE), (uintptr_t)to, mr->rkey) == IBV_WC_REM_ACCESS_ERR);
}

static void paging_atomic_on_a_hole(void)
{
	struct ibv_mr *mr = paged(PAGE);
	*(uint64_t *)to = 41;
	EXPECT(rdma(IBV_WR_ATOMIC_FETCH_AND_ADD, own(8), (uintptr_t)to, mr->rkey) == IBV_WC_SUCCESS);
	EXPECT(*(uint64_t *)to == 42);
	EXPECT(rdma(IBV_WR_ATOMIC_FETCH_AND_ADD, own(8), (uintptr_t)to + PAGE, mr->rkey) == IBV_WC_REM_ACCESS_ERR);
}

static void paging_send_from_a_hole(void)
{
	struct ibv_mr *hole = paged(PAGE);
	struct ibv_sge sge = { .addr = (uintptr_t)to, .length = 2 * PAGE, .lkey = hole->lkey };
	EXPECT(rdma(IBV_WR_RDMA_WRITE, sge, (uintptr_t)from, from_mr->rkey) == IBV_WC_LOC_PROT_ERR);
}

static void paging_read_into_a_hole(void)
{
	struct ibv_mr *hole = paged(PAGE);
	struct ibv_sge sge = { .addr = (uintptr_t)to, .length = 2 * PAGE, .lkey = hole->lkey };
	EXPECT(rdma(IBV_WR_RDMA_READ, sge, (uintptr_t)from, from_mr->rkey) == IBV_WC_LOC_PROT_ERR);
}

static void paging_receive_into_a_hole(void)
{
	struct ibv_mr *hole = paged(PAGE);
	struct ibv_sge sge = { .addr = (uintptr_t)to + PAGE, .length = PAGE, .lkey = hole->lkey }, out = own(64);
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad, wr = { .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND };
	NEED(!ibv_post_recv(b, &recv, &bad_recv) && !ibv_post_send(a, &wr, &bad));
	int one = done(NULL), two = done(NULL);
	EXPECT((one == IBV_WC_LOC_PROT_ERR && two == IBV_WC_REM_OP_ERR) ||
	       (two == IBV_WC_LOC_PROT_ERR && one == IBV_WC_REM_OP_ERR));
}

static void paging_of_everything(void)
{
	struct ibv_mr *all = ibv_reg_mr(pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
	NEED(all);
	strcpy(from, "implicit");
	EXPECT(write_to(to + 100, all->rkey, 9) == IBV_WC_SUCCESS && !strcmp(to + 100, "implicit"));
	EXPECT(write_to((void *)(1ull << 46), all->rkey, 9) == IBV_WC_REM_ACCESS_ERR);
}

static void paging_of_no_address(void)
{
	struct ibv_mr *all = ibv_reg_mr(pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
	NEED(all);
	EXPECT(write_to((void *)(1ull << 63), all->rkey, 9) == IBV_WC_REM_ACCESS_ERR);
}

static void memory_that_comes_later(void)
{
	struct ibv_mr *mr = paged(PAGE);
	NEED(mmap(to + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == to + PAGE);
	strcpy(from, "later");
	EXPECT(write_to(to + PAGE, mr->rkey, 6) == IBV_WC_SUCCESS && !strcmp(to + PAGE, "later"));
}

static void advice(void)
{
	struct ibv_mr *mr = paged(PAGE), *readable, *other;
	NEED((readable = ibv_reg_mr(pd, from, SIZE, IBV_ACCESS_ON_DEMAND)));
	NEED((other = ibv_reg_mr(ibv_alloc_pd(context), from, SIZE, IBV_ACCESS_ON_DEMAND)));
	struct ibv_sge there = { .addr = (uintptr_t)to, .length = PAGE, .lkey = mr->lkey };
	struct ibv_sge hole = { .addr = (uintptr_t)to + PAGE, .length = PAGE, .lkey = mr->lkey };
	struct ibv_sge beyond = { .addr = (uintptr_t)to + SIZE, .length = PAGE, .lkey = mr->lkey };
	struct ibv_sge pinned = own(8), none = { .lkey = 5 };
	struct ibv_sge read_only = { .addr = (uintptr_t)from, .length = 8, .lkey = readable->lkey };
	struct ibv_sge foreign = { .addr = (uintptr_t)from, .length = 8, .lkey = other->lkey };
	int read = IBV_ADVISE_MR_ADVICE_PREFETCH, write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	int flush = IBV_ADVISE_MR_FLAG_FLUSH;
	EXPECT(!ibv_advise_mr(pd, read, flush, &there, 1));
	EXPECT(!ibv_advise_mr(pd, write, flush, &there, 1));
	EXPECT(!ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, flush, &hole, 1));
	EXPECT(ibv_advise_mr(pd, read, flush, &hole, 1) == EFAULT);
	EXPECT(!ibv_advise_mr(pd, read, 0, &hole, 1));
	EXPECT(ibv_advise_mr(pd, read, flush, &beyond, 1) == EFAULT);
	EXPECT(ibv_advise_mr(pd, read, flush, &pinned, 1) == EINVAL);
	EXPECT(ibv_advise_mr(pd, read, flush, &none, 1) == ENOENT);
	EXPECT(ibv_advise_mr(pd, write, flush, &read_only, 1) == EPERM);
	EXPECT(ibv_advise_mr(pd, read, flush, &foreign, 1) == EPERM);
	EXPECT(ibv_advise_mr(pd, read, 2, &there, 1) == EINVAL);
	EXPECT(ibv_advise_mr(pd, read, flush, &there, 0) == EINVAL);
	EXPECT(ibv_advise_mr(pd, read, flush, NULL, 1) == EINVAL);
	EXPECT(ibv_advise_mr(pd, 9, flush, &there, 1) == EOPNOTSUPP);
}

static void flush_and_atomic_write(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, to, SIZE, ALL | ACCESS_FLUSH_GLOBAL), *plain = ibv_reg_mr(pd, to, SIZE, ALL);
	NEED(mr && plain);
	struct newer_qp_ex *newer = (struct newer_qp_ex *)ibv_qp_to_qp_ex(a);
	struct ibv_qp_ex *qpx = &newer->qp_ex;
	uint64_t word = 0x1122334455667788;
	ibv_wr_start(qpx);
	ibv_wr_atomic_write(qpx, mr->rkey, (uintptr_t)to + 8, &word);
	word = 0;
	newer->wr_flush(qpx, mr->rkey, (uintptr_t)to, 16, 1, 0);
	newer->wr_flush(qpx, mr->rkey, 0, SIZE_MAX, 1, 1);
	NEED(!ibv_wr_complete(qpx));
	enum ibv_wc_opcode opcode;
	EXPECT(done(&opcode) == IBV_WC_SUCCESS && (int)opcode == 9);
	EXPECT(*(uint64_t *)(to + 8) == 0x1122334455667788);
	EXPECT(done(&opcode) == IBV_WC_SUCCESS && (int)opcode == 8);
	EXPECT(done(&opcode) == IBV_WC_SUCCESS && (int)opcode == 8);
	ibv_wr_start(qpx);
	newer->wr_flush(qpx, mr->rkey, (uintptr_t)to, 16, 0, 0);
	EXPECT(ibv_wr_complete(qpx) == EINVAL);
	struct ibv_send_wr *bad, wr = { .opcode = 14 };
	EXPECT(ibv_post_send(a, &wr, &bad) == EOPNOTSUPP);
	EXPECT(!ibv_reg_mr(pd, to, SIZE, ALL | 1 << 9) && errno == EOPNOTSUPP);
	ibv_wr_start(qpx);
	newer->wr_flush(qpx, plain->rkey, (uintptr_t)to, 16, 1, 0);
	NEED(!ibv_wr_complete(qpx));
	EXPECT(done(NULL) == IBV_WC_REM_ACCESS_ERR);
}

static void buffers_of_the_library(void)
{
	void *(*alloc)(struct ibv_pd *, size_t, void **) = dlsym(RTLD_DEFAULT, "ibv_alloc_buf");
	void (*release)(void *) = dlsym(RTLD_DEFAULT, "ibv_free_buf");
	struct ibv_mr *(*reg)(struct ibv_pd *, void *, void *, size_t, int) = dlsym(RTLD_DEFAULT, "ibv_reg_buf_mr");
	NEED(alloc && release && reg);
	void *handle = NULL;
	EXPECT(!alloc(pd, 0, &handle) && errno == EINVAL);
	EXPECT(!alloc(pd, PAGE, NULL) && errno == EINVAL);
	EXPECT(!alloc(pd, SIZE_MAX, &handle) && errno == ENOMEM);
	char *buffer = alloc(pd, PAGE, &handle);
	NEED(buffer && handle);
	struct ibv_pd *other = ibv_alloc_pd(context);
	EXPECT(!reg(other, handle, buffer, PAGE, ALL) && errno == EINVAL);
	EXPECT(!reg(pd, handle, buffer + 1, PAGE, ALL) && errno == EINVAL);
	EXPECT(!reg(pd, from, buffer, PAGE, ALL) && errno == EINVAL);
	struct ibv_mr *mr = reg(pd, handle, buffer + 64, PAGE - 64, ALL);
	NEED(mr);
	strcpy(from, "buffer");
	EXPECT(write_to(buffer + 64, mr->rkey, 7) == IBV_WC_SUCCESS && !strcmp(buffer + 64, "buffer"));
	release(handle);
	EXPECT(write_to(buffer + 100, mr->rkey, 7) == IBV_WC_SUCCESS);
	EXPECT(!reg(pd, handle, buffer, PAGE, ALL) && errno == EINVAL);
	EXPECT(!ibv_dereg_mr(mr));
}

static void a_hundred_thousand_regions(void)
{
	for (int n = 0; n < 100000; n++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, to, PAGE, ALL);
		NEED(mr);
		if (n % 1000 == 0 || n > 99990)
			EXPECT(write_to(to, mr->rkey, 8) == IBV_WC_SUCCESS);
		NEED(!ibv_dereg_mr(mr));
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
#define CASE(name) { #name, name }
	CASE(type_1), CASE(type_2), CASE(windows_refused), CASE(changed_region), CASE(changed_region_with_window),
	CASE(null_region), CASE(device_memory), CASE(paging_write_into_a_hole), CASE(paging_read_out_of_a_hole),
	CASE(paging_atomic_on_a_hole), CASE(paging_send_from_a_hole), CASE(paging_read_into_a_hole),
	CASE(paging_receive_into_a_hole), CASE(paging_of_everything), CASE(paging_of_no_address),
	CASE(memory_that_comes_later), CASE(advice), CASE(flush_and_atomic_write), CASE(buffers_of_the_library), CASE(a_hundred_thousand_regions),
};

int main(void)
{
	int bad = 0;
	for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
		fflush(stdout);
		pid_t child = fork();
		if (!child) {
			open_all();
			cases[n].run();
			fflush(stdout);
			_exit(faults != 0);
		}
		int status;
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			printf("not ok %s: %s\n", cases[n].name, strsignal(WTERMSIG(status)));
		else
			printf("%s %s\n", WEXITSTATUS(status) ? "not ok" : "ok", cases[n].name);
		bad += status != 0;
	}
	return bad != 0;
}
