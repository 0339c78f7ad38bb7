/*
 * rows: C9
 * en: A queue pair without a completion queue for receives
 * zh: QP 没有用于接收的完成队列
 * rule: NullPointer
 * says: ibv_create_qp: recv_cq is NULL
 * says: one CQ can serve as both
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp_init_attr init = an_rc_qp();
	init.recv_cq = broken ? NULL : cq;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	must(broken ? !qp && errno == EINVAL : !!qp);
	if (qp)
		ibv_destroy_qp(qp);
}
