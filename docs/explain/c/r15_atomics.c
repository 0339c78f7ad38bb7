/*
 * rows: R15
 * en: An atomic on an odd address, and one that the peer's queue pair does not permit
 * zh: 地址未对齐的原子操作，以及对端 QP 不允许的原子操作
 * check: AtomicUnaligned
 * check: QpAccess
 * says: atomic on an address that is not a multiple of 8
 * says: the responder's qp_access_flags do not permit this access
 */
#include "case.h"

static void add_one(int rights, uint64_t remote_addr)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = init_attr();
	struct ibv_sge sge;
	attr.qp_access_flags = rights;
	to_init(a);
	must(!ibv_modify_qp(b, &attr, INIT_MASK));
	to_rtr(a, b), to_rtr(b, a), to_rts(a), to_rts(b);
	struct ibv_send_wr wr = request(&sge, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	wr.wr.atomic.compare_add = 1;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.remote_addr = remote_addr;
	must(!post(a, wr));
	(void)completion();
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}

static void story(int broken)
{
	uint64_t counter = (uintptr_t)buffer + 8;
	add_one(IBV_ACCESS_REMOTE_ATOMIC, broken ? counter + 4 : counter);
	add_one(broken ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_ATOMIC, counter);
}
