/*
 * rows: R3
 * en: A write with immediate takes a receive, and none is posted
 * zh: 带立即数的写操作需要一个接收请求，而没有提交
 * check: RnrExhausted
 * says: receiver not ready within rnr_retry
 * says: the peer has never posted a receive
 * says: post receives at the peer earlier
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge;
	connect_qps(a, b);
	if (!broken)
		must(!post_recv(b, 1, 0));
	must(!post(a, request(&sge, IBV_WR_RDMA_WRITE_WITH_IMM, 64)));
	must(completion().status == (broken ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS));
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
