/*
 * rows: M9 M5
 * en: A GID index is written into the program, and the table has no GID there
 * zh: GID 索引写死在程序里，而该表项为空
 * rule: GidIndexEmpty
 * rule: GidIndexBeyond
 * says: of port 1's GID table is empty; use an sgid_index that holds a GID: 0
 * says: sgid_index=64, but port 1's GID table has 64 entries
 * says: the QP stays in INIT
 */
#include "case.h"

static int first_empty(int length)
{
	struct ibv_gid_entry entry;
	int index = 0;
	while (index < length && !ibv_query_gid_ex(context, 1, index, &entry, 0))
		index++;
	return index;
}

static void story(int broken)
{
	struct ibv_port_attr port;
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	to_init(qp);
	must(!ibv_query_port(context, 1, &port));
	struct ibv_qp_attr attr = rtr_attr(qp);
	if (broken) {
		attr.ah_attr.grh.sgid_index = first_empty(port.gid_tbl_len);
		must(ibv_modify_qp(qp, &attr, RTR_MASK) == ENODATA);
		attr.ah_attr.grh.sgid_index = port.gid_tbl_len;
		must(ibv_modify_qp(qp, &attr, RTR_MASK) == EINVAL);
		attr.ah_attr.grh.sgid_index = gid_index();
	}
	must(!ibv_modify_qp(qp, &attr, RTR_MASK));
	ibv_destroy_qp(qp);
}
