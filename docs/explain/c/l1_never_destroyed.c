/*
 * rows: L1 L2
 * en: Failed connections leave their queue pairs behind, and the program ends
 * zh: 连接失败后遗留 QP，程序就此结束
 * says: at exit: 3 QPs were not destroyed (the oldest is QP 0x
 * says: created at 
 * says: call ibv_destroy_qp
 */
#include "case.h"

static void connect_and_fail(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	to_init(qp);
	/* the peer has turned us down */
	if (!broken)
		ibv_destroy_qp(qp);
}

static void story(int broken)
{
	for (int i = 0; i < 3; i++)
		connect_and_fail(broken);
	if (broken)
		exit(0);
}
