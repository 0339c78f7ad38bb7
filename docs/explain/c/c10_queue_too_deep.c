/*
 * rows: C10
 * en: A receive queue deeper than max_qp_wr
 * zh: 接收队列深度超过 max_qp_wr
 * rule: CapAboveLimit
 * says: cap.max_recv_wr=50000 exceeds max_qp_wr=32768 of RC queue pairs
 * says: ibv_query_device tells
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_device_attr limits;
	struct ibv_qp_init_attr init = an_rc_qp();
	must(!ibv_query_device(context, &limits));
	init.cap.max_recv_wr = broken ? 50000 : limits.max_qp_wr;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	must((qp == NULL) == broken);
	if (qp)
		ibv_destroy_qp(qp);
}
