/*
 * rows: Q8 Q10 R7
 * en: Requests are posted faster than their completions are polled
 * zh: 提交请求比轮询完成更快
 * rule: QueueFull
 * says: the send queue is full: 8 of 8
 * says: poll completions before posting more
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge;
	connect_qps(a, b);
	for (int sent = 0; sent < 9; sent++) {
		int error = post(a, request(&sge, IBV_WR_RDMA_WRITE, 8));
		must(error == (broken && sent == 8 ? ENOMEM : 0));
		if (!broken)
			must(completion().status == IBV_WC_SUCCESS);
	}
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
