/*
 * rows: R12 R14 R19
 * en: A write that reaches past the end of the peer's region
 * zh: 写操作越过了对端内存区域的末尾
 * check: RkeyBounds
 * says: 100 bytes too far
 * says: check remote_addr and length against the peer's region
 * says: the peer answered: remote access error
 * says: vendor_err=51
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge;
	connect_qps(a, b);
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, 4096);
	uint64_t last = (uintptr_t)buffer + BUFFER - 4096;
	wr.wr.rdma.remote_addr = broken ? last + 100 : last;
	must(!post(a, wr));
	must(completion().status == (broken ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS));
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
