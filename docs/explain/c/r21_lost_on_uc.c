/*
 * rows: R21
 * en: A receiver on UC waits for a message that was lost: nobody tells it
 * zh: UC 接收方等待一条已丢失的消息：没有人会告知
 * doctor: UC
 */
#include "case.h"

static void connect_uc(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = rtr_attr(peer);
	to_init(qp);
	must(!ibv_modify_qp(qp, &attr, RTR_MASK & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)));
	attr = rts_attr();
	must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_UC), *b = make_qp(IBV_QPT_UC);
	connect_uc(a, b), connect_uc(b, a);
	if (!broken)
		must(!post_recv(b, 1, 64));
	must(!post_send(a, 64));
	must(completion().status == IBV_WC_SUCCESS);
	if (broken) { /* too late: the message found no receive, and is gone */
		must(!post_recv(b, 1, 64));
		pause_ms(300);
	} else {
		must(completion().status == IBV_WC_SUCCESS);
	}
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
