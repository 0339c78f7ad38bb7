/*
 * rows: R11
 * en: The peer is sent the lkey, which on some devices equals the rkey
 * zh: 发给对端的是 lkey，在某些设备上它与 rkey 相同
 * check: RkeyUnknown
 * says: that is the other key of a region: lkey and rkey differ
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge;
	connect_qps(a, b);
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, 64);
	wr.wr.rdma.rkey = broken ? mr->lkey : mr->rkey;
	must(!post(a, wr));
	must(completion().status == (broken ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS));
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
