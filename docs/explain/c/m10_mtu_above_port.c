/*
 * rows: M10
 * en: path_mtu is written into the program, and the port carries less
 * zh: path_mtu 写死在程序里，而端口承载不了
 * profile: rxe
 * rule: MtuAbovePort
 * says: path_mtu=4096 exceeds port 1's active_mtu=1024; use at most 1024; the QP stays in INIT
 */
#include "case.h"

static void story(int broken)
{
	struct ibv_port_attr port;
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	to_init(qp);
	must(!ibv_query_port(context, 1, &port));
	struct ibv_qp_attr attr = rtr_attr(qp);
	attr.path_mtu = broken ? IBV_MTU_4096 : port.active_mtu;
	must(ibv_modify_qp(qp, &attr, RTR_MASK) == (broken ? EINVAL : 0));
	ibv_destroy_qp(qp);
}
