/*
 * rows: M4
 * en: Remote atomics are permitted on a device that has none
 * zh: 在没有原子操作的设备上允许远端原子操作
 * profile: irdma
 * rule: AtomicsUnsupported
 * says: qp_access_flags
 * says: atomic_cap
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = init_attr();
	struct ibv_device_attr device;
	must(!ibv_query_device(context, &device));
	if (broken || device.atomic_cap != IBV_ATOMIC_NONE)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
	must(ibv_modify_qp(qp, &attr, INIT_MASK) == (broken ? EINVAL : 0));
	ibv_destroy_qp(qp);
}
