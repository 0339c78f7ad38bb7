/*
 * rows: R5 R6
 * en: min_rnr_timer=0 is the longest, 655 ms: a receive that comes late costs that much
 * zh: min_rnr_timer=0 是最长的 655 ms：接收请求稍晚就要付出这么多时间
 * doctor: min_rnr_timer
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr;
	to_init(a), to_init(b);
	to_rtr(a, b);
	attr = rtr_attr(a);
	attr.min_rnr_timer = broken ? 0 : 1;
	must(!ibv_modify_qp(b, &attr, RTR_MASK));
	attr = rts_attr();
	attr.rnr_retry = 7;
	must(!ibv_modify_qp(a, &attr, RTS_MASK));
	must(!post_send(a, 64));
	pause_ms(1);
	must(!post_recv(b, 1, 64));
	must(completion().status == IBV_WC_SUCCESS);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
