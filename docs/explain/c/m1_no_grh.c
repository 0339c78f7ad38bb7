/*
 * rows: M1 M2
 * en: No global route header on Ethernet
 * zh: 在以太网上没有全局路由头（GRH）
 * rule: NoGrh
 * says: ah_attr.is_global
 * says: port 1 is Ethernet
 * says: the QP stays in INIT
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	to_init(qp);
	struct ibv_qp_attr attr = rtr_attr(qp);
	attr.ah_attr.is_global = !broken;
	must(ibv_modify_qp(qp, &attr, RTR_MASK) == (broken ? EINVAL : 0));
	ibv_destroy_qp(qp);
}
