/*
 * rows: Q16
 * en: An event is taken and not acknowledged: destroying its queue waits
 * zh: 取走事件而没有确认：销毁其完成队列时一直等待
 * doctor: acknowledge
 */
#include "case.h"

#include <signal.h>

/* Ends what would never end. */
static void enough(int signal)
{
	(void)signal;
	_exit(0);
}

static void story(int broken)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *told = ibv_create_cq(context, 8, NULL, channel, 0), *which;
	struct ibv_qp_init_attr init = an_rc_qp();
	struct ibv_qp *b = make_qp(IBV_QPT_RC), *a;
	struct ibv_sge sge;
	void *context_of;
	init.send_cq = told;
	must(channel && told && (a = ibv_create_qp(pd, &init)));
	connect_qps(a, b);
	must(!ibv_req_notify_cq(told, 0));
	must(!post(a, request(&sge, IBV_WR_RDMA_WRITE, 64)));
	must(!ibv_get_cq_event(channel, &which, &context_of) && which == told);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
	if (!broken)
		ibv_ack_cq_events(told, 1);
	signal(SIGALRM, enough);
	alarm(1);
	ibv_destroy_cq(told);
	alarm(0);
	ibv_destroy_comp_channel(channel);
}
