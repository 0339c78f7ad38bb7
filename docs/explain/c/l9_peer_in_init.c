/*
 * rows: L9 L10
 * en: The peer never left INIT
 * zh: 对端一直没有离开 INIT
 * check: RetryExhausted
 * says: no acknowledgement within the retries
 * says: the peer is in INIT and takes no packets: it was not moved to RTR
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge;
	to_init(a), to_init(b);
	to_rtr(a, b), to_rts(a);
	if (!broken)
		to_rtr(b, a);
	must(!post(a, request(&sge, IBV_WR_RDMA_WRITE, 64)));
	must(completion().status == (broken ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS));
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
