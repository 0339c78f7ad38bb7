// idle.c: what queue pairs cost that do nothing, and that both forms of their struct work. Plain libibverbs. Prints one line a
// case: "ok NAME", or "not ok NAME: WHY"; the exit status is 0 if all are ok.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 20000

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static int failed;

#define CHECK(condition)                                                               \
	do {                                                                           \
		if (!(condition)) {                                                    \
			printf("not ok %s: line %d: %s (errno %s)\n", __func__, __LINE__, #condition, strerror(errno)); \
			failed = 1;                                                    \
			return;                                                        \
		}                                                                      \
	} while (0)

static const struct ibv_qp_cap cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 };

static struct ibv_qp *plain(void *own)
{
	struct ibv_qp_init_attr init = { .qp_context = own, .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = cap };
	return ibv_create_qp(pd, &init);
}

static struct ibv_qp *extended(void)
{
	struct ibv_qp_init_attr_ex init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = cap, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND };
	return ibv_create_qp_ex(context, &init);
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static long resident(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kib = -1;
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "Rss: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

static void an_idle_queue_pair_costs_less_than_a_kibibyte(void)
{
	static struct ibv_qp *qps[MANY];
	memset(qps, 1, sizeof qps);
	// The flight recorder is as large with one as with many.
	for (int i = 0; i < 15000; i++) {
		struct ibv_qp *qp = plain(NULL);
		CHECK(qp && !to_init(qp) && !ibv_destroy_qp(qp));
	}
	long before = resident();
	for (int i = 0; i < MANY; i++)
		CHECK((qps[i] = plain(NULL)) && !to_init(qps[i]));
	double bytes = (resident() - before) * 1024.0 / MANY;
	fprintf(stderr, "%.0f bytes an idle queue pair\n", bytes);
	CHECK(before > 0 && bytes <= 1024);
	for (int i = 0; i < MANY; i++)
		CHECK(!ibv_destroy_qp(qps[i]));
	printf("ok %s\n", __func__);
}

static void a_query_gives_back_what_it_was_created_with(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp = plain(&failed);
	CHECK(qp && !ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	CHECK(init.qp_context == &failed && init.send_cq == cq && init.recv_cq == cq && !init.srq);
	CHECK(init.qp_type == IBV_QPT_RC && init.sq_sig_all == 1);
	CHECK(init.cap.max_send_wr == 16 && init.cap.max_recv_sge == 1 && attr.cap.max_recv_wr == 16);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init) == EINVAL);
	printf("ok %s\n", __func__);
}

static void plain_and_extended_queue_pairs_live_side_by_side(void)
{
	static struct ibv_qp *qps[600];
	for (int i = 0; i < 600; i++) {
		CHECK((qps[i] = i % 2 ? extended() : plain(NULL)));
		struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qps[i]);
		CHECK(i % 2 ? ex != NULL && ex->qp_base.qp_num == qps[i]->qp_num : ex == NULL);
		if (ex) {
			ibv_wr_start(ex);
			ex->wr_id = i;
			ibv_wr_send(ex);
			CHECK(ibv_wr_complete(ex) == EINVAL); // in RESET
		}
	}
	for (int i = 0; i < 600; i++)
		CHECK(!to_init(qps[i]) && qps[i]->state == IBV_QPS_INIT && !ibv_destroy_qp(qps[i]));
	printf("ok %s\n", __func__);
}

int main(void)
{
	int n;
	struct ibv_device **devices = ibv_get_device_list(&n);
	if (!devices || !n || !(context = ibv_open_device(devices[0])) || !(pd = ibv_alloc_pd(context)) ||
	    !(cq = ibv_create_cq(context, 64, NULL, NULL, 0))) {
		perror("setup");
		return 1;
	}
	ibv_free_device_list(devices);
	an_idle_queue_pair_costs_less_than_a_kibibyte();
	a_query_gives_back_what_it_was_created_with();
	plain_and_extended_queue_pairs_live_side_by_side();
	return failed || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(context);
}
