/*
 * rows: M19
 * en: rnr_retry has three bits, and 7 means without end
 * zh: rnr_retry 只有三位，7 表示无限重试
 * rule: OutOfRange
 * says: rnr_retry=10 is out of 0..7
 * says: 7 to try without end
 * says: the QP stays in RTR
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = rts_attr();
	to_init(qp);
	to_rtr(qp, qp);
	attr.rnr_retry = broken ? 10 : 7;
	must(ibv_modify_qp(qp, &attr, RTS_MASK) == (broken ? EINVAL : 0));
	ibv_destroy_qp(qp);
}
