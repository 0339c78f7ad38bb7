/*
 * rows: Q1
 * en: One bad request, and all behind it are flushed
 * zh: 一个请求出错，其后的请求全部被冲刷
 * check: RkeyUnknown
 * says: rkey names no memory region
 * says: request wr_id=0x7: the peer answered: remote access error
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge;
	connect_qps(a, b);
	for (int i = 0; i < 5; i++) {
		struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, 64);
		wr.wr_id = 7 + i;
		if (broken && i == 0)
			wr.wr.rdma.rkey ^= 0x5a5a00;
		must(!post(a, wr));
	}
	for (int i = 0; i < 5; i++)
		must(completion().status == (broken ? i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS));
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
