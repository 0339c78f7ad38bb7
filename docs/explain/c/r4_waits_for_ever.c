/*
 * rows: R4
 * en: rnr_retry=7 tries without end, and no receive is ever posted
 * zh: rnr_retry=7 无限重试，而接收请求从未提交
 * doctor: no receive
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = rts_attr();
	attr.rnr_retry = 7;
	to_init(a), to_init(b);
	to_rtr(a, b), to_rtr(b, a);
	must(!ibv_modify_qp(a, &attr, RTS_MASK));
	if (!broken)
		must(!post_recv(b, 1, 64));
	must(!post_send(a, 64));
	pause_ms(broken ? 300 : 0);
	if (!broken)
		must(completion().status == IBV_WC_SUCCESS);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
