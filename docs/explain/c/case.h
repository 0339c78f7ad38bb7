/*
 * What the cases share: an open device with a PD, a CQ, a buffer and its MR, and queue pairs of this one process that can
 * be connected to each other. A case is a function `story(broken)`: with `broken` it makes a mistake that people make,
 * without it does the same right.
 */
#ifndef GLASSNIC_CASE_H
#define GLASSNIC_CASE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
#define BUFFER 65536
#define ALL_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define QKEY 0x11111111
#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
		  IBV_QP_MAX_QP_RD_ATOMIC)

static struct ibv_context *context UNUSED;
static struct ibv_pd *pd UNUSED;
static struct ibv_cq *cq UNUSED;
static struct ibv_mr *mr UNUSED;
static char *buffer UNUSED;

static void story(int broken);

/* Ends a program that cannot even begin, or that fails where it should not. */
#define must(what) \
	do { \
		if (!(what)) { \
			printf("%s:%d: %s failed: %s\n", __FILE__, __LINE__, #what, strerror(errno)); \
			exit(1); \
		} \
	} while (0)

/* ---- what a queue pair is made of ---- */

static UNUSED struct ibv_qp_init_attr an_rc_qp(void)
{
	return (struct ibv_qp_init_attr){ .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2 } };
}

static UNUSED struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = an_rc_qp();
	init.qp_type = type;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	must(qp);
	return qp;
}

/* The first entry of the GID table that stands for an IPv4 address, or else the first that is not empty. */
static UNUSED int gid_index(void)
{
	struct ibv_gid_entry entry;
	int first = -1;
	for (int i = 0; i < 64; i++) {
		if (ibv_query_gid_ex(context, 1, i, &entry, 0))
			continue;
		if (entry.gid.global.subnet_prefix == 0)
			return i;
		if (first < 0)
			first = i;
	}
	must(first >= 0);
	return first;
}

static UNUSED union ibv_gid our_gid(void)
{
	union ibv_gid gid;
	must(!ibv_query_gid(context, 1, gid_index(), &gid));
	return gid;
}

static UNUSED struct ibv_ah_attr address(void)
{
	return (struct ibv_ah_attr){ .is_global = 1, .port_num = 1,
		.grh = { .dgid = our_gid(), .sgid_index = gid_index(), .hop_limit = 64 } };
}

static UNUSED struct ibv_qp_attr init_attr(void)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };
}

static UNUSED struct ibv_qp_attr rtr_attr(struct ibv_qp *peer)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = peer->qp_num,
		.rq_psn = 0x100, .max_dest_rd_atomic = 4, .min_rnr_timer = 1, .ah_attr = address() };
}

static UNUSED struct ibv_qp_attr rts_attr(void)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 2, .rnr_retry = 1,
		.sq_psn = 0x100, .max_rd_atomic = 4 };
}

static UNUSED void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = init_attr();
	must(!ibv_modify_qp(qp, &attr, INIT_MASK));
}

static UNUSED void to_rtr(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = rtr_attr(peer);
	must(!ibv_modify_qp(qp, &attr, RTR_MASK));
}

static UNUSED void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = rts_attr();
	must(!ibv_modify_qp(qp, &attr, RTS_MASK));
}

static UNUSED void connect_qps(struct ibv_qp *a, struct ibv_qp *b)
{
	to_init(a), to_init(b);
	to_rtr(a, b), to_rtr(b, a);
	to_rts(a), to_rts(b);
}

/* ---- work ---- */

static UNUSED int post_recv(struct ibv_qp *qp, uint64_t id, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)buffer + BUFFER / 2, length, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;
	return ibv_post_recv(qp, &wr, &bad);
}

/* A signaled request of `length` bytes at the start of the buffer. */
static UNUSED struct ibv_send_wr request(struct ibv_sge *sge, enum ibv_wr_opcode opcode, uint32_t length)
{
	*sge = (struct ibv_sge){ (uintptr_t)buffer, length, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = sge, .num_sge = 1, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED };
	wr.wr.rdma.remote_addr = (uintptr_t)buffer + BUFFER / 2;
	wr.wr.rdma.rkey = mr->rkey;
	return wr;
}

static UNUSED int post(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;
	return ibv_post_send(qp, &wr, &bad);
}

static UNUSED int post_send(struct ibv_qp *qp, uint32_t length)
{
	struct ibv_sge sge;
	return post(qp, request(&sge, IBV_WR_SEND, length));
}

/* Waits for a completion, ten seconds at most. */
static UNUSED struct ibv_wc completion(void)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	time_t end = time(NULL) + 10;
	int got = 0;
	while (!(got = ibv_poll_cq(cq, 1, &wc)) && time(NULL) < end)
		;
	must(got == 1);
	return wc;
}

static UNUSED void pause_ms(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
	nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
	int broken = argc > 1 && !strcmp(argv[1], "broken");
	struct ibv_device **list = ibv_get_device_list(NULL);
	must(list && list[0]);
	must((context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	must((pd = ibv_alloc_pd(context)));
	must((cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(buffer != MAP_FAILED);
	must((mr = ibv_reg_mr(pd, buffer, BUFFER, ALL_RIGHTS)));
	story(broken);
	/* What a story has destroyed itself it sets to NULL. */
	if (cq)
		ibv_destroy_cq(cq);
	if (mr)
		ibv_dereg_mr(mr);
	if (pd)
		ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return 0;
}

#endif
