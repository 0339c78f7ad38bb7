/*
 * rows: M18
 * en: A receive is posted before the queue pair is in INIT
 * zh: QP 尚未进入 INIT 就提交接收请求
 * rule: WrongState
 * says: the queue pair is in RESET, where ibv_post_recv is not allowed
 * says: move it to INIT first
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	if (!broken)
		to_init(qp);
	must(post_recv(qp, 1, 64) == (broken ? EINVAL : 0));
	ibv_destroy_qp(qp);
}
