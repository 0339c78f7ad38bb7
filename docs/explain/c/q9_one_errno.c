/*
 * rows: Q9
 * en: Too much inline data, too many elements: one errno for several mistakes
 * zh: 内联数据过大、元素过多：多种错误同一个 errno
 * rule: InlineTooLarge
 * rule: TooManySges
 * says: num_sge=3, but the send queue was created for 2
 * says: 64 bytes inline, but the queue pair was created for 0
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge[3];
	connect_qps(a, b);
	struct ibv_send_wr wr = request(&sge[0], IBV_WR_RDMA_WRITE, 64);
	sge[1] = sge[2] = sge[0];
	wr.num_sge = broken ? 3 : 2;
	must(post(a, wr) == (broken ? EINVAL : 0));
	if (!broken)
		must(!completion().status);
	wr.num_sge = 1;
	wr.send_flags |= broken ? IBV_SEND_INLINE : 0;
	must(post(a, wr) == (broken ? EINVAL : 0));
	if (!broken)
		must(!completion().status);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
