// cases.h: what the programs that check many small things share: a device, queue pairs, and a line for each case.
#ifndef CASES_H
#define CASES_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static int wrong;

#define CASE(what, holds)                                                                    \
	do {                                                                                 \
		errno = 0;                                                                   \
		int fine = (holds);                                                          \
		printf("%s: %s (errno %d)\n", fine ? "ok" : "WRONG", what, errno);           \
		wrong += !fine;                                                              \
	} while (0)

// The first device and a PD of it; ends the program if there is none.
static inline void open_device(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	struct ibv_device **list = ibv_get_device_list(NULL);
	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	if (!pd)
		exit(3);
	ibv_free_device_list(list);
}

static inline struct ibv_qp *make_qp(struct ibv_pd *domain, struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 3, .max_recv_sge = 1, .max_inline_data = 64 } };
	return ibv_create_qp(domain, &init);
}

enum {
	INIT_MASK = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		   IBV_QP_MIN_RNR_TIMER,
	RTS_MASK = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC
};

// Takes an RC queue pair to RTS; ends the program if that is refused.
static inline void connect_to(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	if (!qp || !peer || ibv_modify_qp(qp, &attr, INIT_MASK))
		exit(3);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 1, .ah_attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 } };
	if (ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) || ibv_modify_qp(qp, &attr, RTR_MASK))
		exit(3);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4 };
	if (ibv_modify_qp(qp, &attr, RTS_MASK))
		exit(3);
}

#endif
