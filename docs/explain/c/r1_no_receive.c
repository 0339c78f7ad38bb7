/*
 * rows: R1 R2
 * en: A send finds no receive, and is not tried again
 * zh: 发送时对端没有接收请求，且不再重试
 * check: RnrExhausted
 * says: receiver not ready within rnr_retry
 * says: rnr_retry=0; the peer has never posted a receive
 * says: post receives at the peer earlier
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = rts_attr();
	attr.rnr_retry = 0;
	to_init(a), to_init(b);
	to_rtr(a, b), to_rtr(b, a);
	must(!ibv_modify_qp(a, &attr, RTS_MASK));
	if (!broken)
		must(!post_recv(b, 1, 64));
	must(!post_send(a, 64));
	must(completion().status == (broken ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS));
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
