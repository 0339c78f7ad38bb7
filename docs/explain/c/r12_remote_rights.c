/*
 * rows: R12
 * en: The peer's region or queue pair does not permit what is done
 * zh: 对端的内存区域或 QP 不允许该操作
 * check: RkeyAccess
 * check: QpAccess
 * says: the rkey's region does not permit this access
 * says: the responder's qp_access_flags do not permit this access
 */
#include "case.h"

static void write_to(struct ibv_mr *theirs, int rights)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = init_attr();
	struct ibv_sge sge;
	to_init(a);
	attr.qp_access_flags = rights;
	must(!ibv_modify_qp(b, &attr, INIT_MASK));
	to_rtr(a, b), to_rtr(b, a), to_rts(a), to_rts(b);
	struct ibv_send_wr wr = request(&sge, IBV_WR_RDMA_WRITE, 64);
	wr.wr.rdma.remote_addr = (uintptr_t)theirs->addr;
	wr.wr.rdma.rkey = theirs->rkey;
	must(!post(a, wr));
	(void)completion();
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}

static void story(int broken)
{
	int rights = broken ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *theirs = ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_LOCAL_WRITE | rights);
	write_to(theirs, IBV_ACCESS_REMOTE_WRITE);
	write_to(mr, rights);
	ibv_dereg_mr(theirs);
}
