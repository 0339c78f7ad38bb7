/*
 * rows: M3
 * en: A new queue pair is moved to RESET, in which it is
 * zh: 把新建的 QP 转到 RESET，而它本来就处于该状态
 * profile: irdma
 * rule: NotListedTransition
 * says: RC queue pairs cannot go RESET→RESET; from RESET go to INIT
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	if (broken)
		must(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	to_init(qp);
	ibv_destroy_qp(qp);
}
