/*
 * rows: L15
 * en: A memory window is used before it is bound, and bound again before it is invalidated
 * zh: 内存窗口未绑定就被使用，未失效又再次绑定
 * check: MwUnbound
 * check: MwBound
 * says: the memory window is not bound
 * says: a type 2 window is set free by an invalidation alone
 */
#include "case.h"

static struct ibv_mr *region;
static struct ibv_mw *window;

static enum ibv_wc_status bind_window(struct ibv_qp *qp, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
	wr.bind_mw.mw = window;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ .mr = region, .addr = (uintptr_t)region->addr,
		.length = 4096, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	must(!post(qp, wr));
	return completion().status;
}

static enum ibv_wc_status invalidate(struct ibv_qp *qp, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 2, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED };
	wr.invalidate_rkey = rkey;
	must(!post(qp, wr));
	return completion().status;
}

/* What the peer does with the key that it was sent. */
static void write_through(struct ibv_qp *peer, uint32_t rkey)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, 64);
	wr.wr.rdma.remote_addr = (uintptr_t)region->addr;
	wr.wr.rdma.rkey = rkey;
	must(!post(peer, wr));
	(void)completion();
}

static void used(int too_early)
{
	struct ibv_qp *ours = make_qp(IBV_QPT_RC), *theirs = make_qp(IBV_QPT_RC);
	uint32_t rkey = window->rkey;
	connect_qps(ours, theirs);
	if (!too_early) {
		rkey = ibv_inc_rkey(rkey);
		must(bind_window(ours, rkey) == IBV_WC_SUCCESS);
	}
	write_through(theirs, rkey);
	if (!too_early)
		must(invalidate(ours, rkey) == IBV_WC_SUCCESS);
	window->rkey = rkey;
	ibv_destroy_qp(ours);
	ibv_destroy_qp(theirs);
}

static void bound_again(int too_early)
{
	struct ibv_qp *ours = make_qp(IBV_QPT_RC), *theirs = make_qp(IBV_QPT_RC);
	uint32_t first = ibv_inc_rkey(window->rkey);
	connect_qps(ours, theirs);
	must(bind_window(ours, first) == IBV_WC_SUCCESS);
	if (!too_early)
		must(invalidate(ours, first) == IBV_WC_SUCCESS);
	(void)bind_window(ours, ibv_inc_rkey(first));
	ibv_destroy_qp(ours);
	ibv_destroy_qp(theirs);
}

static void story(int broken)
{
	must((region = ibv_reg_mr(pd, buffer, 4096, ALL_RIGHTS | IBV_ACCESS_MW_BIND)));
	must((window = ibv_alloc_mw(pd, IBV_MW_TYPE_2)));
	used(broken);
	bound_again(broken);
	must(!ibv_dealloc_mw(window));
	must(!ibv_dereg_mr(region));
}
