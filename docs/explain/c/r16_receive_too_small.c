/*
 * rows: R16
 * en: The message is longer than the receive: no fault of the link
 * zh: 消息比接收缓冲区长：并非链路故障
 * check: ReceiveTooSmall
 * says: the posted receive is smaller than the message
 * says: post receives as long as the longest message
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	connect_qps(a, b);
	must(!post_recv(b, 1, broken ? 32 : 64));
	must(!post_send(a, 64));
	for (int i = 0; i < 2; i++)
		must((completion().status == 0) == !broken);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
