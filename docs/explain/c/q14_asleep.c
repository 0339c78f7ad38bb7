/*
 * rows: Q14 Q15
 * en: The queue is armed after the completion has come, and not polled again before sleeping
 * zh: 完成到来之后才设置通知，睡眠之前没有再次轮询
 * doctor: armed
 */
#include "case.h"

#include <poll.h>

static void story(int broken)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *told = ibv_create_cq(context, 8, NULL, channel, 0);
	struct ibv_qp_init_attr init = an_rc_qp();
	struct ibv_qp *b = make_qp(IBV_QPT_RC), *a;
	struct ibv_sge sge;
	struct ibv_wc wc;
	init.send_cq = told;
	must(channel && told && (a = ibv_create_qp(pd, &init)));
	connect_qps(a, b);
	must(!post(a, request(&sge, IBV_WR_RDMA_WRITE, 64)));
	pause_ms(20);
	must(!ibv_req_notify_cq(told, 0));
	if (broken) {
		struct pollfd fd = { channel->fd, POLLIN, 0 };
		must(poll(&fd, 1, 300) == 0);
	} else {
		must(ibv_poll_cq(told, 1, &wc) == 1 && !wc.status);
	}
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
	ibv_destroy_cq(told);
	ibv_destroy_comp_channel(channel);
}
