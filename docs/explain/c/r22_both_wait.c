/*
 * rows: R22
 * en: Each side waits for a word of the other before it leaves INIT
 * zh: 双方都等对方先发消息才离开 INIT
 * doctor: INIT
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	if (broken) {
		to_init(a), to_init(b);
		pause_ms(300);
	} else {
		connect_qps(a, b);
	}
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
}
