/*
 * rows: L6
 * en: A queue pair is destroyed twice
 * zh: QP 被销毁两次
 * rule: BadHandle
 * says: ibv_destroy_qp
 * says: not destroyed before
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	must(!ibv_destroy_qp(qp));
	if (broken)
		must(ibv_destroy_qp(qp) == EINVAL);
}
