// batches.c: control verbs in batches and in pipelines, as glassnic.h has them, and safe_modify. Prints one line a case:
// "ok NAME", or "not ok NAME: WHY"; the exit status is 0 if all are ok.
#include <errno.h>
#include <glassnic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N 64

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;
static int gid_index, failed;

#define CHECK(condition)                                                               \
	do {                                                                           \
		if (!(condition)) {                                                    \
			printf("not ok %s: line %d: %s (errno %s)\n", __func__, __LINE__, #condition, strerror(errno)); \
			failed = 1;                                                    \
			return;                                                        \
		}                                                                      \
	} while (0)

static struct ibv_qp_init_attr rc_init(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	return init;
}

static int to_init(struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

static int to_rtr(struct ibv_qp_attr *attr, uint32_t peer)
{
	*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 7,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } } };
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
	       IBV_QP_MIN_RNR_TIMER;
}

static int to_rts(struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 1 };
	return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
}

static enum ibv_qp_state queried(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ? IBV_QPS_UNKNOWN : attr.qp_state;
}

static void batches_have_an_outcome_for_each(void)
{
	struct ibv_qp_init_attr inits[N];
	struct ibv_qp *qps[N];
	int errors[N];
	for (int i = 0; i < N; i++)
		inits[i] = rc_init();
	inits[5].cap.max_send_wr = 1u << 30;
	inits[6].send_cq = NULL;
	CHECK(glassnic_create_qps(pd, inits, N, qps, errors) == EINVAL && errno == EINVAL);
	for (int i = 0; i < N; i++)
		CHECK((i == 5 || i == 6) ? errors[i] == EINVAL && !qps[i] : !errors[i] && qps[i]);

	struct ibv_qp_attr attrs[N];
	struct glassnic_modify list[N];
	for (int step = 0; step < 3; step++) {
		for (int i = 0; i < N; i++) {
			int mask = step == 0 ? to_init(&attrs[i]) : step == 1 ? to_rtr(&attrs[i], 1) : to_rts(&attrs[i]);
			list[i] = (struct glassnic_modify){ qps[i], &attrs[i], mask, -1 };
		}
		list[9].attr_mask &= ~IBV_QP_STATE;
		list[10].attr = NULL;
		CHECK(glassnic_modify_qps(list, N) == EINVAL);
		for (int i = 0; i < N; i++) {
			int wrong = i == 5 || i == 6 || i == 9 || i == 10;
			CHECK(wrong ? list[i].error == EINVAL : list[i].error == 0);
		}
	}
	for (int i = 0; i < N; i++) {
		if (!qps[i])
			continue;
		enum ibv_qp_state state = i == 9 || i == 10 ? IBV_QPS_RESET : IBV_QPS_RTS;
		CHECK(queried(qps[i]) == state && qps[i]->state == state);
		CHECK(!ibv_destroy_qp(qps[i]));
	}
	CHECK(glassnic_modify_qps(list, 1) == EINVAL && list[0].error == EINVAL);
	CHECK(glassnic_create_qps(pd, inits, 0, qps, NULL) == 0 && glassnic_modify_qps(NULL, 0) == 0);
	CHECK(glassnic_create_qps(pd, NULL, 1, qps, NULL) == EINVAL && glassnic_create_qps(pd, inits, -1, qps, NULL) == EINVAL);
	printf("ok %s\n", __func__);
}

// While the first is created and a second is modified, a third posts.
static void a_pipeline_overlaps_with_posting(void)
{
	struct ibv_qp_init_attr init = rc_init();
	struct ibv_qp_attr attr;
	struct ibv_qp *posts = ibv_create_qp(pd, &init), *qp, *again;
	CHECK(posts);
	CHECK(!ibv_modify_qp(posts, &attr, to_init(&attr)));
	CHECK(!ibv_modify_qp(posts, &attr, to_rtr(&attr, posts->qp_num)));
	CHECK(!ibv_modify_qp(posts, &attr, to_rts(&attr)));
	static char buffer[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	for (int round = 0; round < 100; round++) {
		struct glassnic_op *create = glassnic_create_qp_async(pd, &init);
		CHECK(create);
		struct ibv_sge sge = { (uintptr_t)buffer, 8, mr->lkey }, to = { (uintptr_t)buffer + 32, 8, mr->lkey };
		struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &to, .num_sge = 1 }, *bad_recv;
		struct ibv_send_wr send = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED }, *bad_send;
		CHECK(!ibv_post_recv(posts, &recv, &bad_recv) && !ibv_post_send(posts, &send, &bad_send));
		while (!glassnic_poll_op(create))
			;
		CHECK(!glassnic_wait_op(create, &qp) && qp && qp->state == IBV_QPS_RESET);
		struct glassnic_op *steps[3];
		CHECK((steps[0] = glassnic_modify_qp_async(qp, &attr, to_init(&attr))));
		CHECK((steps[1] = glassnic_modify_qp_async(qp, &attr, to_rtr(&attr, qp->qp_num))));
		CHECK((steps[2] = glassnic_modify_qp_async(qp, &attr, to_rts(&attr))));
		CHECK(queried(qp) == IBV_QPS_RTS);
		for (int i = 0; i < 3; i++)
			CHECK(!glassnic_wait_op(steps[i], &again) && again == qp);
		struct ibv_wc wc[2];
		for (int got = 0; got < 2;) {
			int n = ibv_poll_cq(cq, 2 - got, wc);
			CHECK(n >= 0);
			for (int i = 0; i < n; i++)
				CHECK(wc[i].status == IBV_WC_SUCCESS);
			got += n;
		}
		CHECK(!ibv_destroy_qp(qp));
	}
	CHECK(!ibv_destroy_qp(posts) && !ibv_dereg_mr(mr));
	printf("ok %s\n", __func__);
}

static void a_refusal_comes_with_the_handle(void)
{
	struct ibv_qp_init_attr init = rc_init(), large = rc_init();
	large.cap.max_recv_sge = 1000;
	struct ibv_qp *qp = (void *)1;
	struct glassnic_op *op = glassnic_create_qp_async(pd, &large);
	CHECK(op && glassnic_wait_op(op, &qp) == EINVAL && !qp);
	CHECK(glassnic_wait_op(op, &qp) == EINVAL && glassnic_poll_op(op) == -1);
	CHECK(glassnic_poll_op(NULL) == -1 && glassnic_wait_op(NULL, NULL) == EINVAL);
	CHECK(!glassnic_create_qp_async(NULL, &init) && !glassnic_create_qp_async(pd, NULL));
	qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr;
	CHECK((op = glassnic_modify_qp_async(qp, &attr, to_rts(&attr))));
	CHECK(glassnic_wait_op(op, NULL) == EINVAL && qp->state == IBV_QPS_RESET);
	CHECK(!glassnic_modify_qp_async(qp, NULL, 0) && !glassnic_modify_qp_async(qp, &attr, 1 << 30));
	CHECK(!ibv_destroy_qp(qp));
	printf("ok %s\n", __func__);
}

static struct ibv_qp *shared;
static int won[4];

static void *race(void *which)
{
	struct ibv_qp_attr attr;
	won[(intptr_t)which] = !glassnic_safe_modify(shared, IBV_QPS_RESET, &attr, to_init(&attr));
	return NULL;
}

static void safe_modify_lets_one_thread_through(void)
{
	struct ibv_qp_init_attr init = rc_init();
	struct ibv_qp_attr attr, reset = { .qp_state = IBV_QPS_RESET };
	CHECK((shared = ibv_create_qp(pd, &init)));
	CHECK(glassnic_safe_modify(shared, IBV_QPS_INIT, &attr, to_init(&attr)) == EINVAL);
	CHECK(shared->state == IBV_QPS_RESET && glassnic_safe_modify(shared, 99, &attr, to_init(&attr)) == EINVAL);
	for (int round = 0; round < 200; round++) {
		pthread_t threads[4];
		for (intptr_t i = 0; i < 4; i++)
			CHECK(!pthread_create(&threads[i], NULL, race, (void *)i));
		int winners = 0;
		for (int i = 0; i < 4; i++) {
			pthread_join(threads[i], NULL);
			winners += won[i];
		}
		CHECK(winners == 1 && shared->state == IBV_QPS_INIT);
		CHECK(!glassnic_safe_modify(shared, IBV_QPS_INIT, &reset, IBV_QP_STATE));
	}
	CHECK(!ibv_destroy_qp(shared));
	printf("ok %s\n", __func__);
}

int main(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	if (!list || !n || !(context = ibv_open_device(list[0])))
		return 2;
	ibv_free_device_list(list);
	while (ibv_query_gid(context, 1, gid_index, &gid) || !(gid.global.subnet_prefix | gid.global.interface_id))
		if (++gid_index == 64)
			return 2;
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 256, NULL, NULL, 0);
	if (!pd || !cq)
		return 2;
	batches_have_an_outcome_for_each();
	a_pipeline_overlaps_with_posting();
	a_refusal_comes_with_the_handle();
	safe_modify_lets_one_thread_through();
	if (!failed && (ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(context))) {
		printf("not ok: something is left\n");
		failed = 1;
	}
	return failed;
}
