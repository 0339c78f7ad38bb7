/*
 * rows: M5
 * en: A queue pair that is connected is connected again
 * zh: 对已连接的 QP 再次建立连接
 * rule: NotListedTransition
 * says: RTS→RTR
 * says: it is connected already
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr again, reset = { .qp_state = IBV_QPS_RESET };
	connect_qps(a, b);
	again = rtr_attr(b);
	if (!broken) {
		must(!ibv_modify_qp(a, &reset, IBV_QP_STATE));
		to_init(a);
	}
	must(ibv_modify_qp(a, &again, RTR_MASK) == (broken ? EINVAL : 0));
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
