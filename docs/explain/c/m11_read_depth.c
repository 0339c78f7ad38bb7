/*
 * rows: M11 M12
 * en: More reads at once than the peer's max_dest_rd_atomic
 * zh: 同时进行的读操作多于对端的 max_dest_rd_atomic
 * check: TooManyReads
 * says: more outstanding reads or atomics than max_dest_rd_atomic
 * says: set the requester's max_rd_atomic to at most the responder's max_dest_rd_atomic
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_sge sge;
	struct ibv_send_wr list[4];
	to_init(a), to_init(b);
	to_rtr(a, b);
	struct ibv_qp_attr attr = rtr_attr(a);
	attr.max_dest_rd_atomic = broken ? 1 : 4;
	must(!ibv_modify_qp(b, &attr, RTR_MASK));
	to_rts(a), to_rts(b);
	for (int i = 0; i < 4; i++) {
		list[i] = request(&sge, IBV_WR_RDMA_READ, 4096);
		list[i].next = i < 3 ? &list[i + 1] : NULL;
	}
	must(!post(a, list[0]));
	int failed = 0;
	for (int i = 0; i < 4; i++)
		failed += completion().status != IBV_WC_SUCCESS;
	must((failed == 0) == !broken);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
