/*
 * rows: Q11
 * en: A list of requests is posted again from its beginning, although part of it was taken
 * zh: 请求链表已有一部分被接受，却仍从头重新提交
 * rule: QueueFull
 * says: the send queue is full: 8 of 8
 * says: bad_wr is request 9 of the list; the 8 before it were taken: go on from bad_wr
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge;
	struct ibv_send_wr list[10], *next = list;
	int length = broken ? 10 : 8;
	connect_qps(a, b);
	for (int i = 0; i < length; i++) {
		list[i] = request(&sge, IBV_WR_RDMA_WRITE, 8);
		list[i].next = i + 1 < length ? &list[i + 1] : NULL;
	}
	int error = ibv_post_send(a, list, &next);
	must(error == (broken ? ENOMEM : 0));
	must(!broken || next == &list[8]);
	for (int i = 0; i < 8; i++)
		must(!completion().status);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
