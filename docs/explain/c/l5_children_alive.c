/*
 * rows: L5
 * en: A protection domain goes before what belongs to it
 * zh: 保护域先于其中的对象被释放
 * rule: InUse
 * says: ibv_dealloc_pd: 1 QP still uses PD
 * says: destroy that QP first
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_qp_init_attr init = an_rc_qp();
	struct ibv_qp *qp = ibv_create_qp(other, &init);
	must(other && qp);
	if (broken)
		must(ibv_dealloc_pd(other) == EBUSY);
	ibv_destroy_qp(qp);
	must(!ibv_dealloc_pd(other));
}
