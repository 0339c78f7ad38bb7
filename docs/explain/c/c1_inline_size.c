/*
 * rows: C1 C2 C3 C4
 * en: More inline data than the device has for this type of queue pair
 * zh: 内联数据超过设备对该类型 QP 的上限
 * profile: mlx5
 * rule: CapAboveLimit
 * says: ibv_create_qp: cap.max_inline_data=800 exceeds max_inline_data=512 of UD queue pairs
 * says: use at most 512
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp_init_attr init = an_rc_qp();
	init.qp_type = IBV_QPT_UD;
	init.cap.max_inline_data = broken ? 800 : 512;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	must(broken ? !qp && errno == EINVAL : !!qp);
	if (qp)
		ibv_destroy_qp(qp);
}
