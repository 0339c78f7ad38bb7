/*
 * rows: C17 M2
 * en: attr_mask lacks a bit that the move needs, or has one too many
 * zh: attr_mask 缺少转换所需的位，或多了不允许的位
 * rule: MissingAttrs
 * rule: ForbiddenAttrs
 * says: attr_mask lacks IBV_QP_MIN_RNR_TIMER, which INIT→RTR of RC queue pairs requires
 * says: IBV_QP_TIMEOUT
 * says: RTR→RTS
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = rtr_attr(qp);
	to_init(qp);
	if (broken) {
		must(ibv_modify_qp(qp, &attr, RTR_MASK & ~IBV_QP_MIN_RNR_TIMER) == EINVAL);
		must(ibv_modify_qp(qp, &attr, RTR_MASK | IBV_QP_TIMEOUT) == EINVAL);
	}
	must(!ibv_modify_qp(qp, &attr, RTR_MASK));
	ibv_destroy_qp(qp);
}
