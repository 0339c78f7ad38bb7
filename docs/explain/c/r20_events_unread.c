/*
 * rows: R20
 * en: The responder is told of its failure by an event, and nobody reads it
 * zh: 响应端的故障由事件通知，而没有人读取
 * check: RkeyUnknown
 * says: 1 asynchronous error event never read; the oldest: IBV_EVENT_QP_ACCESS_ERR
 * says: read them with ibv_get_async_event
 * says: 1 completion with an error left in CQ
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge;
	connect_qps(a, b);
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, 64);
	if (broken)
		wr.wr.rdma.rkey ^= 0x5a5a00;
	must(!post(a, wr));
	pause_ms(50);
	if (broken)
		exit(0);
	must(completion().status == IBV_WC_SUCCESS);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
