/*
 * rows: R17
 * en: A datagram's receive holds the payload, and not the 40 bytes of the GRH before it
 * zh: 数据报的接收缓冲区只容得下数据，没有留出前面 40 字节的 GRH
 * doctor: 40
 */
#include "case.h"

static void to_rts_ud(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void story(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_UD);
	struct ibv_ah_attr to = address();
	struct ibv_ah *ah = ibv_create_ah(pd, &to);
	struct ibv_sge sge;
	must(ah);
	to_rts_ud(qp);
	must(!post_recv(qp, 1, broken ? 64 : 64 + 40));
	struct ibv_send_wr wr = request(&sge, IBV_WR_SEND, 64);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	must(!post(qp, wr));
	/* The receive that is too small is not even completed: the datagram is dropped. */
	for (int i = 0; i < (broken ? 1 : 2); i++) {
		struct ibv_wc wc = completion();
		must(wc.opcode != IBV_WC_RECV || wc.byte_len == 40 + 64);
	}
	ibv_destroy_ah(ah);
	ibv_destroy_qp(qp);
}
