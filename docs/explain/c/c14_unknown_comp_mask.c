/*
 * rows: C14
 * en: comp_mask has bits that the library does not know
 * zh: comp_mask 含有库不认识的位
 * rule: UnknownBits
 * says: ibv_create_qp_ex: comp_mask has bits that mean nothing here: 0x55000000
 * says: if they look random, the structure was not zeroed
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp_init_attr_ex init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD };
	if (broken)
		init.comp_mask |= 0x55000000;
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	must((qp == NULL) == broken);
	if (qp)
		ibv_destroy_qp(qp);
}
