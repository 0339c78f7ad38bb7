/*
 * rows: M13
 * en: A pkey_index beyond the port's table
 * zh: pkey_index 超出端口的表
 * rule: OutOfRange
 * says: pkey_index=1, but it can only be 0
 * says: the QP stays in RESET
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = init_attr();
	attr.pkey_index = broken;
	must(ibv_modify_qp(qp, &attr, INIT_MASK) == (broken ? EINVAL : 0));
	ibv_destroy_qp(qp);
}
