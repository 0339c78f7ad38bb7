/*
 * rows: C5
 * en: Completion queues are created until the device has none left
 * zh: 不断创建完成队列，直到设备用尽
 * profile: small.toml
 * rule: LimitReached
 * says: ibv_create_cq: max_cq=4 CQs is the limit, and it is reached; this process holds 4
 * says: 3 of them were created at 
 * says: a number that only grows is a leak
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_cq *cqs[4] = { cq };
	for (int i = 1; i < 4; i++)
		must((cqs[i] = ibv_create_cq(context, 4, NULL, NULL, 0)));
	if (broken)
		must(!ibv_create_cq(context, 4, NULL, NULL, 0) && errno == ENOMEM);
	for (int i = 1; i < 4; i++)
		must(!ibv_destroy_cq(cqs[i]));
}
