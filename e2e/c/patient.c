// patient.c: programs that are ill in one way each, for somebody who looks at them from outside.
//
//   patient CASE server PORT | patient CASE client PORT    two ends that exchange their numbers over TCP
//   patient CASE                                            one process alone
//
// An end that cannot go on waits until it is killed.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEPTH 4

struct ends {
	uint32_t qpn, psn, lkey, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static char buffer[4096];
static const char *ill;

static int is(const char *name)
{
	return !strcmp(ill, name);
}

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(3);
	}
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = !is("unsignalled"),
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *made = ibv_create_qp(pd, &init);
	check(!made, "ibv_create_qp");
	return made;
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	check(!list || !list[0], "ibv_get_device_list");
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	check(!context, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(!pd || !cq || !mr, "set-up");
	qp = make_qp();
}

static void to_init(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
}

static void to_rts(const struct ends *peer, uint32_t psn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qpn,
		.rq_psn = peer->psn, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = peer->gid, .hop_limit = 64 } } };
	check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 3, .rnr_retry = 7, .sq_psn = psn,
		.max_rd_atomic = 1 };
	check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static int post(enum ibv_wr_opcode opcode, const struct ends *peer, uint32_t lkey, uint32_t rkey, int flags)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer, .length = 64, .lkey = lkey };
	struct ibv_send_wr wr = { .wr_id = 0x77, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags,
		.wr.rdma = { .remote_addr = peer->addr, .rkey = rkey } }, *bad;
	return ibv_post_send(qp, &wr, &bad);
}

static void post_receive(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer, .length = sizeof buffer, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;
	check(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static int completion(void)
{
	struct ibv_wc wc;
	int n;
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		usleep(100);
	check(n < 0, "ibv_poll_cq");
	return wc.status;
}

static void wait_for_death(void)
{
	for (;;)
		pause();
}

static void clean_up(void)
{
	check(ibv_destroy_qp(qp) || ibv_dereg_mr(mr) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) ||
	      ibv_close_device(context), "clean-up");
}

static struct ends mine(uint32_t psn)
{
	struct ends me = { .qpn = qp->qp_num, .psn = psn, .lkey = mr->lkey, .rkey = mr->rkey, .addr = (uintptr_t)buffer };
	check(ibv_query_gid(context, 1, 0, &me.gid), "ibv_query_gid");
	return me;
}

static int meet(int is_server, int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	if (is_server) {
		setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		check(bind(s, (void *)&at, sizeof at) || listen(s, 1), "listen");
		return accept(s, NULL, NULL);
	}
	for (int tries = 0; connect(s, (void *)&at, sizeof at); tries++) {
		check(tries > 500, "connect");
		close(s);
		usleep(10000);
		s = socket(AF_INET, SOCK_STREAM, 0);
	}
	return s;
}

static void two_ends(int is_server, int port)
{
	int s = meet(is_server, port);
	char go = 0;
	struct ends me = mine(is_server ? 0x100 : 0x200), peer;
	to_init();
	if (is_server && !is("no_receive"))
		post_receive();
	check(write(s, &me, sizeof me) != sizeof me || read(s, &peer, sizeof peer) != sizeof peer, "exchange");
	if (is_server && is("init"))
		wait_for_death();
	if (is_server && is("psn"))
		peer.psn++;
	to_rts(&peer, me.psn);
	if (!is("init"))
		check(write(s, &go, 1) != 1 || read(s, &go, 1) != 1, "barrier");
	if (is_server) {
		if (!is("healthy"))
			wait_for_death();
		check(completion(), "receive");
	} else {
		int writes = is("lkey_as_rkey");
		check(post(writes ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, &peer, mr->lkey, writes ? peer.lkey : peer.rkey, 0), "post");
		int status = completion();
		if (!is("healthy")) {
			printf("status %d\n", status);
			fflush(stdout);
			wait_for_death();
		}
		check(status, "send");
	}
	check(write(s, &go, 1) != 1 || read(s, &go, 1) != 1, "barrier");
	clean_up();
}

static void alone(void)
{
	struct ends me = mine(0x100);
	if (is("small_cq")) {
		make_qp();
		make_qp();
		wait_for_death();
	}
	if (is("grow"))
		for (unsigned n = 0;; n++) {
			check(!ibv_reg_mr(pd, buffer + n % sizeof buffer, 1, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
			usleep(20000);
		}
	to_init();
	to_rts(&me, me.psn);
	if (is("leak")) {
		for (int i = 0; i < 20; i++)
			make_qp();
		exit(0);
	}
	if (is("crash")) {
		check(post(IBV_WR_RDMA_WRITE, &me, mr->lkey ^ 0x5a5a, me.rkey, 0), "post");
		completion();
		abort();
	}
	if (is("unsignalled")) {
		for (int i = 0; i < DEPTH; i++)
			check(post(IBV_WR_RDMA_WRITE, &me, mr->lkey, me.rkey, 0), "post");
		while (post(IBV_WR_RDMA_WRITE, &me, mr->lkey, me.rkey, 0))
			usleep(10000);
	}
	clean_up();
}

int main(int argc, char **argv)
{
	check(argc != 2 && argc != 4, "usage: patient CASE [server|client PORT]");
	ill = argv[1];
	open_device();
	if (argc == 4)
		two_ends(!strcmp(argv[2], "server"), atoi(argv[3]));
	else
		alone();
	return 0;
}
