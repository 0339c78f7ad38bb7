/*
 * rows: R9 R8 L14
 * en: Memory is deregistered while a receive still names it
 * zh: 接收请求仍在引用内存时将其注销
 * check: LkeyUnknown
 * says: lkey names no memory region
 * says: deregister it only after the completion
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_mr *theirs = ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)buffer, 64, theirs->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;
	connect_qps(a, b);
	must(!ibv_post_recv(b, &wr, &bad));
	if (broken)
		ibv_dereg_mr(theirs);
	must(!post_send(a, 64));
	for (int i = 0; i < 2; i++)
		must((completion().status == 0) == !broken);
	if (!broken)
		ibv_dereg_mr(theirs);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
