/*
 * rows: C15 C15b L4
 * en: Every reconnect leaves its queue pair behind until there are no more
 * zh: 每次重连都遗留一个 QP，直到用尽
 * profile: small.toml
 * rule: LimitReached
 * says: ibv_create_qp: max_qp=8 QPs is the limit, and it is reached; this process holds 8
 * says: 8 of them were created at 
 * says: a number that only grows is a leak
 */
#include "case.h"

static struct ibv_qp *reconnect(void)
{
	struct ibv_qp_init_attr init = an_rc_qp();
	return ibv_create_qp(pd, &init);
}

static void story(int broken)
{
	struct ibv_qp *left[8] = { 0 };
	for (int i = 0; i < 9; i++) {
		struct ibv_qp *qp = reconnect();
		must((qp == NULL) == (broken && i == 8));
		if (!broken)
			ibv_destroy_qp(qp);
		else if (qp)
			left[i] = qp;
	}
	for (int i = 0; i < 8 && broken; i++)
		ibv_destroy_qp(left[i]);
}
