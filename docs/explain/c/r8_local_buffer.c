/*
 * rows: R8
 * en: A request names more of the buffer than is registered
 * zh: 请求引用的缓冲区超出已注册的部分
 * check: LkeyBounds
 * says: buffer reaches outside the lkey's region
 * says: 64 bytes too far
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_mr *half = ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge;
	connect_qps(a, b);
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, broken ? 4160 : 4096);
	sge.lkey = half->lkey;
	must(!post(a, wr));
	must(completion().status == (broken ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS));
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
	ibv_dereg_mr(half);
}
