// The program of the guided tour (docs/four-operations.md): two queue pairs of one process, from create to destroy.
//
//   tour           the life of both; waits for a line on standard input before each step, and says when it is done
//   tour leak      creates queue pairs and forgets them, until there are no more
//   tour lag       asks for the state at once after a modify, and again later
//   tour race      modifies one queue pair from two threads at once
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 16, MESSAGES = 8, LENGTH = 64, GID_INDEX = 1, FIRST_PSN = 0x10 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char memory[4096];

static void need(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void open_all(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    need(list && list[0], "ibv_get_device_list");
    need((context = ibv_open_device(list[0])) != NULL, "ibv_open_device");
    ibv_free_device_list(list);
    need((pd = ibv_alloc_pd(context)) != NULL, "ibv_alloc_pd");
    need((cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0)) != NULL, "ibv_create_cq");
    need((mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)) != NULL, "ibv_reg_mr");
}

static void close_all(void) {
    need(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context), "close");
}

static struct ibv_qp *create(void) {
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    return ibv_create_qp(pd, &init);
}

static int to_init(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ibv_qp *qp, const struct ibv_qp *peer) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer->qp_num,
        .rq_psn = FIRST_PSN,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = GID_INDEX, .hop_limit = 64}},
    };
    need(!ibv_query_gid(context, 1, GID_INDEX, &attr.ah_attr.grh.dgid), "ibv_query_gid");
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .sq_psn = FIRST_PSN,
        .max_rd_atomic = 1,
    };
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

// The mistake of everyone's first program: straight to RTS.
static int jump(struct ibv_qp *qp) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp) {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    need(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    return attr.qp_state;
}

static const char *name_of(enum ibv_qp_state state) {
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "no state";
}

static struct ibv_sge part(int number) {
    return (struct ibv_sge){.addr = (uintptr_t)memory + number * LENGTH, .length = LENGTH, .lkey = mr->lkey};
}

static void send_one(struct ibv_qp *qp, int number) {
    struct ibv_sge sge = part(number);
    struct ibv_send_wr *bad, wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_SIGNALED};
    need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

static void receive_one(struct ibv_qp *qp, int number) {
    struct ibv_sge sge = part(MESSAGES + number);
    struct ibv_recv_wr *bad, wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1};
    need(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static void collect(int count) {
    while (count > 0) {
        struct ibv_wc wc;
        int got = ibv_poll_cq(cq, 1, &wc);
        need(got >= 0 && (got == 0 || wc.status == IBV_WC_SUCCESS), "ibv_poll_cq");
        count -= got;
    }
}

static void step(const char *done) {
    char line[16];
    puts(done);
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL)
        exit(1);
}

static void life(void) {
    open_all();
    struct ibv_qp *a = create(), *b = create();
    need(a && b, "ibv_create_qp");
    printf("qps %#x %#x\n", a->qp_num, b->qp_num);
    step("created");
    int error = jump(a);
    printf("jump: %s\n", strerror(error));
    step("jumped");
    need(!to_init(a) && !to_init(b), "INIT");
    step("init");
    need(!to_rtr(a, b) && !to_rtr(b, a), "RTR");
    step("rtr");
    need(!to_rts(a) && !to_rts(b), "RTS");
    for (int i = 0; i < MESSAGES; i++)
        send_one(a, i);
    step("posted");
    for (int i = 0; i < MESSAGES; i++)
        receive_one(b, i);
    collect(2 * MESSAGES);
    step("done");
    need(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "ibv_destroy_qp");
    step("destroyed");
    close_all();
}

static void leak(void) {
    open_all();
    int count = 0;
    while (create() != NULL)
        count++;
    printf("%d queue pairs, then: %s\n", count, strerror(errno));
}

static void lag(void) {
    open_all();
    struct ibv_qp *qp = create();
    need(qp && !to_init(qp), "INIT");
    printf("at once: %s\n", name_of(state_of(qp)));
    usleep(50000);
    printf("later: %s\n", name_of(state_of(qp)));
    need(!ibv_destroy_qp(qp), "ibv_destroy_qp");
    close_all();
}

static void *racer(void *argument) {
    struct ibv_qp *qp = argument;
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    for (int i = 0; i < 100000; i++) {
        to_init(qp);
        ibv_modify_qp(qp, &reset, IBV_QP_STATE);
    }
    return NULL;
}

static void race(void) {
    open_all();
    struct ibv_qp *qp = create();
    need(qp != NULL, "ibv_create_qp");
    pthread_t other;
    need(!pthread_create(&other, NULL, racer, qp), "pthread_create");
    racer(qp);
    need(!pthread_join(other, NULL), "pthread_join");
    enum ibv_qp_state state = state_of(qp);
    printf("a whole state: %s\n", state == IBV_QPS_RESET || state == IBV_QPS_INIT ? "yes" : "no");
    need(!ibv_destroy_qp(qp), "ibv_destroy_qp");
    close_all();
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "leak"))
        leak();
    else if (!strcmp(what, "lag"))
        lag();
    else if (!strcmp(what, "race"))
        race();
    else
        life();
    return 0;
}
