/*
 * rows: C6
 * en: The structure is not zeroed before it is filled in
 * zh: 填写之前没有将结构体清零
 * rule: UnknownValue
 * says: ibv_create_qp: qp_type=32561 (0x7f31) is no value of its enumeration
 * says: not zeroed
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp_init_attr init = an_rc_qp();
	if (broken)
		init.qp_type = 0x7f31; /* what the stack held */
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	must((qp == NULL) == broken);
	if (qp)
		ibv_destroy_qp(qp);
}
