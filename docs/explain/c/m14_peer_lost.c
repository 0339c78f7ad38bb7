/*
 * rows: M14
 * en: The peer is gone, and the timeout decides when that is noticed
 * zh: 对端已不在，多久发现取决于超时设置
 * check: RetryExhausted
 * says: no acknowledgement within the retries
 * says: timeout=10 (4.19 ms) x (1 + retry_cnt=2) gives up after 12.58 ms
 * says: there is no such queue pair on this host now
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge;
	connect_qps(a, b);
	if (broken)
		ibv_destroy_qp(b);
	must(!post(a, request(&sge, IBV_WR_RDMA_WRITE, 64)));
	must(completion().status == (broken ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS));
	ibv_destroy_qp(a);
	if (!broken)
		ibv_destroy_qp(b);
}
