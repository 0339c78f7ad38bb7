/*
 * rows: M21
 * en: cur_qp_state is not the state that the queue pair is in
 * zh: cur_qp_state 与 QP 的实际状态不符
 * rule: StateMismatch
 * says: cur_qp_state=RTS, but the queue pair is in RTR
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = rts_attr();
	to_init(qp);
	to_rtr(qp, qp);
	attr.cur_qp_state = broken ? IBV_QPS_RTS : IBV_QPS_RTR;
	must(ibv_modify_qp(qp, &attr, RTS_MASK | IBV_QP_CUR_STATE) == (broken ? EINVAL : 0));
	ibv_destroy_qp(qp);
}
