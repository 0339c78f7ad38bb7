// migration.c: automatic path migration as ibv_modify_qp(3) and ibv_query_qp(3) have it. Both paths of these queue pairs lead to
// the same GID or, where there is a second one, to two. Prints a line for each case, and ends with 1 if one is wrong.
#include "cases.h"
#include <poll.h>

static struct ibv_cq *cq;
static struct ibv_qp *qps[2];
static char buffer[64];
static struct ibv_mr *mr;

static enum ibv_mig_state state(int i)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	return ibv_query_qp(qps[i], &attr, IBV_QP_PATH_MIG_STATE, &init) ? (enum ibv_mig_state)-1 : attr.path_mig_state;
}

static int write_once(void)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 8, mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)buffer, mr->rkey } };
	struct ibv_wc wc;
	if (ibv_post_send(qps[0], &wr, &bad))
		return 0;
	for (long tries = 0; tries < 500000000; tries++)
		if (ibv_poll_cq(cq, 1, &wc))
			return wc.status == IBV_WC_SUCCESS;
	return 0;
}

static int load(int i, int second, enum ibv_mig_state wanted)
{
	struct ibv_qp_attr attr = { .path_mig_state = wanted, .alt_timeout = 9, .alt_port_num = 1,
		.alt_ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 63, .sgid_index = second } } };
	if (ibv_query_gid(context, 1, second, &attr.alt_ah_attr.grh.dgid))
		exit(3);
	return ibv_modify_qp(qps[i], &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

static int hears(enum ibv_event_type type)
{
	struct ibv_async_event event;
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	while (poll(&fd, 1, 2000) == 1 && !ibv_get_async_event(context, &event)) {
		ibv_ack_async_event(&event);
		if (event.event_type == type)
			return 1;
	}
	return 0;
}

int main(void)
{
	union ibv_gid gid;
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };
	struct ibv_qp_init_attr init;
	open_device();
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	for (int i = 0; i < 2; i++)
		qps[i] = make_qp(pd, cq, IBV_QPT_RC);
	connect_to(qps[0], qps[1]);
	connect_to(qps[1], qps[0]);
	int second = !ibv_query_gid(context, 1, 1, &gid) && gid.global.interface_id ? 1 : 0;
	CASE("a connection has migrated to begin with", write_once() && state(0) == IBV_MIG_MIGRATED && state(1) == IBV_MIG_MIGRATED);
	attr.path_mig_state = IBV_MIG_REARM;
	CASE("nothing is armed without an alternate path", ibv_modify_qp(qps[0], &attr, IBV_QP_PATH_MIG_STATE) == EINVAL);
	CASE("a program does not arm by itself", load(0, second, IBV_MIG_ARMED) == EINVAL && state(0) == IBV_MIG_MIGRATED);
	CASE("one end wants it", load(0, second, IBV_MIG_REARM) == 0 && state(0) == IBV_MIG_REARM);
	CASE("what was loaded is told", !ibv_query_qp(qps[0], &attr, IBV_QP_ALT_PATH, &init) && attr.alt_timeout == 9 &&
		     attr.alt_port_num == 1 && attr.alt_ah_attr.grh.hop_limit == 63 && attr.alt_ah_attr.grh.sgid_index == second);
	CASE("and waits for the other", write_once() && state(0) == IBV_MIG_REARM);
	CASE("which wants it as well", load(1, second, IBV_MIG_REARM) == 0);
	CASE("both are armed", write_once() && state(0) == IBV_MIG_ARMED && state(1) == IBV_MIG_ARMED);
	attr.path_mig_state = IBV_MIG_MIGRATED;
	CASE("a program migrates", ibv_modify_qp(qps[0], &attr, IBV_QP_PATH_MIG_STATE) == 0 && state(0) == IBV_MIG_MIGRATED);
	CASE("and hears of it", hears(IBV_EVENT_PATH_MIG));
	CASE("the alternate path is the path", !ibv_query_qp(qps[0], &attr, IBV_QP_AV, &init) && attr.ah_attr.grh.hop_limit == 63);
	CASE("what is sent by it takes the other end along", write_once() && state(1) == IBV_MIG_MIGRATED);
	CASE("which hears of it too", hears(IBV_EVENT_PATH_MIG));
	return wrong != 0;
}
