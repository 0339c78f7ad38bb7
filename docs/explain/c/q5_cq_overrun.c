/*
 * rows: Q5 Q4 Q6
 * en: More completions than the completion queue holds
 * zh: 完成的数量超过完成队列的容量
 * check: CqOverrun
 * says: the completion queue overran
 * says: create the CQ for all requests that can complete at once
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp_init_attr init = an_rc_qp();
	struct ibv_cq *tight = ibv_create_cq(context, broken ? 1 : 8, NULL, NULL, 0);
	struct ibv_qp *b = make_qp(IBV_QPT_RC), *a;
	struct ibv_sge sge;
	struct ibv_wc wc;
	init.send_cq = tight;
	must(tight && (a = ibv_create_qp(pd, &init)));
	connect_qps(a, b);
	for (int i = 0; i < 4; i++)
		(void)post(a, request(&sge, IBV_WR_RDMA_WRITE, 64));
	pause_ms(50);
	for (int i = 0; i < 4; i++)
		(void)ibv_poll_cq(tight, 1, &wc);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
	ibv_destroy_cq(tight);
}
