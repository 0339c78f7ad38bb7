// control.c: what control verbs cost through the C interface. Prints one "name value" a line, times in nanoseconds a queue
// pair, which bench/src/control.rs reads. Every figure is the median over rounds that take turns, so that what disturbs one
// disturbs the others too. Arguments: rounds, and how many idle queue pairs "many" are. With 0 rounds it measures nothing but
// what so many cost in memory.
#include <glassnic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 64
#define FRESH 4096
#define ROUNDS_MAX 1000
#define SAMPLES 4000

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;
static int gid_index;

static void must(int works, const char *what)
{
	if (works)
		return;
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, int n)
{
	qsort(values, n, sizeof *values, rising);
	return values[n / 2];
}

static struct ibv_qp_init_attr rc(void)
{
	return (struct ibv_qp_init_attr){ .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 } };
}

static struct ibv_qp *create(void)
{
	struct ibv_qp_init_attr init = rc();
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	must(qp != NULL, "ibv_create_qp");
	return qp;
}

// The attributes of move 0 (to INIT), 1 (to RTR) or 2 (to RTS); the mask.
static int move(int step, uint32_t peer, struct ibv_qp_attr *attr)
{
	switch (step) {
	case 0:
		*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	case 1:
		*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 7,
			.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
			.ah_attr = { .is_global = 1, .port_num = 1,
				.grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } } };
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	default:
		*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
			.max_rd_atomic = 1 };
		return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	}
}

static void modify(struct ibv_qp *qp, int step)
{
	struct ibv_qp_attr attr;
	int mask = move(step, qp->qp_num, &attr);
	must(!ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp");
}

static void query(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	must(!ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_CAP, &init), "ibv_query_qp");
}

static void destroy(struct ibv_qp *qp)
{
	must(!ibv_destroy_qp(qp), "ibv_destroy_qp");
}

// Entries of the pool that nobody has used yet, whose memory is taken now, and entries that others gave back.
static void pool(void)
{
	static struct ibv_qp *qps[FRESH];
	double times[2][FRESH];
	double total[2] = { 0 };
	for (int reused = 0; reused < 2; reused++) {
		for (int i = 0; i < FRESH; i++) {
			double start = now();
			qps[i] = create();
			times[reused][i] = now() - start;
		}
		for (int i = 0; i < FRESH; i++)
			destroy(qps[i]);
		// The slowest hundredth is other programs' doing, not memory's.
		qsort(times[reused], FRESH, sizeof(double), rising);
		for (int i = 0; i < FRESH * 99 / 100; i++)
			total[reused] += times[reused][i];
	}
	printf("create_on_demand %f\ncreate_from_pool %f\n", total[0] / (FRESH * 99 / 100), total[1] / (FRESH * 99 / 100));
}

static double lives(int with_query)
{
	double start = now();
	for (int i = 0; i < BATCH; i++) {
		struct ibv_qp *qp = create();
		for (int step = 0; step < 3; step++)
			modify(qp, step);
		if (with_query)
			query(qp);
		destroy(qp);
	}
	return (now() - start) / BATCH;
}

// Creates and moves to RTS, `size` queue pairs at once; 1: with plain verbs.
static void batch(int size, double *created, double *modified)
{
	static struct ibv_qp *qps[BATCH];
	static struct ibv_qp_attr attrs[BATCH];
	static struct glassnic_modify list[BATCH];
	struct ibv_qp_init_attr inits[BATCH];
	double start = now();
	for (int at = 0; at < BATCH; at += size) {
		if (size == 1) {
			qps[at] = create();
			continue;
		}
		for (int i = 0; i < size; i++)
			inits[i] = rc();
		must(!glassnic_create_qps(pd, inits, size, qps + at, NULL), "glassnic_create_qps");
	}
	double middle = now();
	for (int step = 0; step < 3; step++)
		for (int at = 0; at < BATCH; at += size) {
			if (size == 1) {
				modify(qps[at], step);
				continue;
			}
			for (int i = 0; i < size; i++) {
				int mask = move(step, qps[at + i]->qp_num, &attrs[i]);
				list[i] = (struct glassnic_modify){ qps[at + i], &attrs[i], mask, 0 };
			}
			must(!glassnic_modify_qps(list, size), "glassnic_modify_qps");
		}
	*created = (middle - start) / BATCH;
	*modified = (now() - middle) / BATCH / 3;
	for (int i = 0; i < BATCH; i++)
		destroy(qps[i]);
}

// Creates and moves to RTS: each waited for, or all under way at once.
static double pipeline(int deep)
{
	static struct ibv_qp *qps[BATCH];
	static struct glassnic_op *ops[3 * BATCH];
	struct ibv_qp_init_attr init = rc();
	struct ibv_qp_attr attr;
	double start = now();
	for (int i = 0; i < BATCH; i++) {
		must((ops[i] = glassnic_create_qp_async(pd, &init)) != NULL, "glassnic_create_qp_async");
		if (!deep)
			must(!glassnic_wait_op(ops[i], &qps[i]), "glassnic_wait_op");
	}
	for (int i = 0; deep && i < BATCH; i++)
		must(!glassnic_wait_op(ops[i], &qps[i]), "glassnic_wait_op");
	for (int at = 0; at < 3 * BATCH; at++) {
		struct ibv_qp *qp = qps[at / 3];
		int mask = move(at % 3, qp->qp_num, &attr);
		must((ops[at] = glassnic_modify_qp_async(qp, &attr, mask)) != NULL, "glassnic_modify_qp_async");
		if (!deep)
			must(!glassnic_wait_op(ops[at], NULL), "glassnic_wait_op");
	}
	for (int at = 0; deep && at < 3 * BATCH; at++)
		must(!glassnic_wait_op(ops[at], NULL), "glassnic_wait_op");
	double took = (now() - start) / BATCH;
	for (int i = 0; i < BATCH; i++)
		destroy(qps[i]);
	return took;
}

// Resident memory, and how much of it is the process's own, in KiB.
static void resident(long *all, long *own)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	*all = *own = -1;
	while (file && fgets(line, sizeof line, file)) {
		sscanf(line, "Rss: %ld", all);
		sscanf(line, "Anonymous: %ld", own);
	}
	if (file)
		fclose(file);
	must(*all >= 0 && *own >= 0, "/proc/self/smaps_rollup");
}

static void fill(struct ibv_qp **qps, int have, int n)
{
	for (int i = have; i < n; i++) {
		qps[i] = create();
		for (int step = 0; step < 3; step++)
			modify(qps[i], step);
	}
}

// What an idle queue pair in RTS costs, in a process that had but one at a time before: nothing that was given back is used again.
static void memory(struct ibv_qp **qps, int n)
{
	long all[2], own[2];
	for (int i = 0; i < 5000; i++) { // until the flight recorder is full, which is as large with one as with many
		fill(qps, 0, 1);
		destroy(qps[0]);
	}
	resident(&all[0], &own[0]);
	fill(qps, 0, n);
	resident(&all[1], &own[1]);
	printf("idle_bytes %f\n", (all[1] - all[0]) * 1024.0 / n);
	printf("idle_own_bytes %f\n", (own[1] - own[0]) * 1024.0 / n);
}

enum { LOOKUP, MODIFY, CREATE, RANDOM_LOOKUP, FETCH, FIGURES };

// Figures with few queue pairs, of before and of after there were many, and with many.
static double few[FIGURES][2 * SAMPLES], many[FIGURES][SAMPLES];

static uint32_t seed = 12345;

static uint32_t any(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

// What a lookup fetches, as bytes of one queue pair in each of the tables that it goes through, one after the other: the C
// interface's block, the part that posting needs, the QPN table, the device's entry, the driver's block.
static const struct { size_t entry, fetched; } tables[] = { { 216, 136 }, { 128, 120 }, { 4, 4 }, { 248, 152 }, { 128, 4 } };
#define TABLES (sizeof tables / sizeof *tables)

// The machine's part of it: fetches from plain memory of that shape what a lookup fetches, each table's place known from the one
// before.
static void fetch(double *times, uint32_t n)
{
	char *memory[TABLES];
	for (size_t t = 0; t < TABLES; t++) {
		must((memory[t] = malloc(n * tables[t].entry)) != NULL, "malloc");
		for (uint32_t i = 0; i < n; i++)
			memcpy(memory[t] + i * tables[t].entry, &i, sizeof i);
	}
	for (int i = 0; i < SAMPLES; i++) {
		uint32_t at = any(n);
		double start = now();
		for (size_t t = 0; t < TABLES; t++) {
			volatile char *entry = memory[t] + at * tables[t].entry;
			for (size_t byte = 64; byte < tables[t].fetched; byte += 64)
				(void)entry[byte];
			at = *(volatile uint32_t *)entry;
		}
		times[i] = now() - start;
	}
	for (size_t t = 0; t < TABLES; t++)
		free(memory[t]);
}

// Create, look up and modify while `n` queue pairs are there, then look up at random. The one after the other is apart from the
// other: a lookup in between would undo what the processor fetches ahead.
static void crowd(struct ibv_qp **qps, uint32_t n, double *times[FIGURES])
{
	for (uint32_t i = 0; i < SAMPLES; i++) {
		struct ibv_qp *qp = qps[i % n];
		struct ibv_qp_attr attr = { .min_rnr_timer = 1 + i % 31 };
		double a = now();
		query(qp);
		double b = now();
		must(!ibv_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER), "ibv_modify_qp");
		double c = now();
		struct ibv_qp *extra = create();
		double d = now();
		destroy(extra);
		times[LOOKUP][i] = b - a;
		times[MODIFY][i] = c - b;
		times[CREATE][i] = d - c;
	}
	for (int i = 0; i < SAMPLES; i++) {
		struct ibv_qp *qp = qps[any(n)];
		double start = now();
		query(qp);
		times[RANDOM_LOOKUP][i] = now() - start;
	}
	fetch(times[FETCH], n);
}

static void crowds(struct ibv_qp **qps, uint32_t n)
{
	static const char *names[FIGURES] = { "lookup", "modify", "create", "random_lookup", "fetch" };
	double *times[3][FIGURES];
	for (int f = 0; f < FIGURES; f++) {
		times[0][f] = few[f];
		times[1][f] = many[f];
		times[2][f] = few[f] + SAMPLES;
	}
	fill(qps, 0, 100);
	crowd(qps, 100, times[0]);
	fill(qps, 100, n);
	crowd(qps, n, times[1]);
	for (uint32_t i = 100; i < n; i++)
		destroy(qps[i]);
	crowd(qps, 100, times[2]);
	for (int i = 0; i < 100; i++)
		destroy(qps[i]);
	for (int f = 0; f < FIGURES; f++)
		printf("few_%s %f\nmany_%s %f\n", names[f], median(few[f], 2 * SAMPLES), names[f], median(many[f], SAMPLES));
	size_t lines = 0;
	for (size_t t = 0; t < TABLES; t++)
		lines += (tables[t].fetched + 63) / 64;
	printf("lookup_lines %zu\nlookup_places %zu\n", lines, TABLES);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, most = argc > 2 ? atoi(argv[2]) : 100000, n;
	if (rounds < 0 || rounds > ROUNDS_MAX || most < 2000)
		return 2;
	struct ibv_device **devices = ibv_get_device_list(&n);
	must(devices && n, "no device");
	double start = now();
	must((context = ibv_open_device(devices[0])) != NULL, "ibv_open_device");
	printf("open %f\n", now() - start);
	while (ibv_query_gid(context, 1, gid_index, &gid) || !(gid.global.subnet_prefix | gid.global.interface_id))
		must(++gid_index < 64, "no GID");
	must((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 1024, NULL, NULL, 0)), "a PD and a CQ");
	destroy(create());
	struct ibv_qp **qps = calloc(most, sizeof *qps);
	must(qps != NULL, "calloc");
	memset(qps, 1, most * sizeof *qps);
	if (!rounds) {
		memory(qps, most);
		return 0;
	}
	pool();

	static const int sizes[3] = { 1, 8, BATCH };
	static double created[3][ROUNDS_MAX], modified[3][ROUNDS_MAX], life[2][ROUNDS_MAX], piped[2][ROUNDS_MAX];
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < 3; i++)
			batch(sizes[i], &created[i][round], &modified[i][round]);
		for (int i = 0; i < 2; i++) {
			life[i][round] = lives(i);
			piped[i][round] = pipeline(i);
		}
	}
	for (int i = 0; i < 3; i++) {
		printf("create_batch_%d %f\n", sizes[i], median(created[i], rounds));
		printf("modify_batch_%d %f\n", sizes[i], median(modified[i], rounds));
	}
	printf("life %f\nlife_with_query %f\n", median(life[0], rounds), median(life[1], rounds));
	printf("sequence %f\npipeline %f\n", median(piped[0], rounds), median(piped[1], rounds));

	crowds(qps, most);
	must(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context), "the end");
	return 0;
}
