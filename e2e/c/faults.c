// faults.c: faults that other software devices had, in one process (docs/faults.md). Prints a line for each case, and ends with 1
// if one is not as it should be.
#include "cases.h"
#include <pthread.h>
#include <sys/mman.h>

enum { SIZE = 1 << 20 };
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static char *from, *to;
static struct ibv_mr *from_mr, *to_mr;

static void identity(void)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	CASE("a vendor and a part of its own",
	     !ibv_query_device(context, &attr) && attr.vendor_id && attr.vendor_id != 0xffffff && attr.vendor_part_id);
	CASE("messages of two gigabytes", !ibv_query_port(context, 1, &port) && port.max_msg_sz == 1u << 31);
}

static int wait_for(struct ibv_wc *wc)
{
	for (long tries = 0; tries < 500000000; tries++) {
		int n = ibv_poll_cq(cq, 1, wc);
		if (n)
			return n;
	}
	return 0;
}

static volatile int writing;

static void *rewrite(void *nothing)
{
	while (writing)
		for (size_t i = 0; i < SIZE; i += 64)
			from[i]++;
	return nothing;
}

// What is checked on arrival is what was sent, whatever the program does with its memory meanwhile.
static void a_buffer_is_rewritten_while_it_is_sent(void)
{
	pthread_t thread;
	struct ibv_wc wc;
	int good = 0;
	writing = 1;
	if (pthread_create(&thread, NULL, rewrite, NULL))
		exit(3);
	for (int i = 0; i < 8; i++) {
		struct ibv_sge sge = { (uintptr_t)from, SIZE, from_mr->lkey };
		struct ibv_send_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)to, to_mr->rkey } };
		good += !ibv_post_send(a, &wr, &bad) && wait_for(&wc) == 1 && wc.status == IBV_WC_SUCCESS;
	}
	writing = 0;
	pthread_join(thread, NULL);
	CASE("a buffer that is rewritten while it is sent arrives", good == 8);
}

static void inline_data(void)
{
	struct ibv_wc wc;
	// In 32 bits, these lengths are eight bytes together.
	struct ibv_sge big[2] = { { (uintptr_t)from, UINT32_MAX - 7, 0 }, { (uintptr_t)from, 16, 0 } };
	struct ibv_send_wr *bad = NULL, wr = { .sg_list = big, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE, .wr.rdma = { (uintptr_t)to, to_mr->rkey } };
	int error = ibv_post_send(a, &wr, &bad);
	CASE("inline lengths do not come round", (error == EINVAL || error == ENOMEM) && bad == &wr);
	char pieces[3][8] = { "one,", "two,", "three" };
	struct ibv_sge sges[3] = { { (uintptr_t)pieces[0], 4, 0 }, { (uintptr_t)pieces[1], 4, 0 }, { (uintptr_t)pieces[2], 6, 0 } };
	wr.sg_list = sges;
	wr.num_sge = 3;
	CASE("inline data of several pieces", !ibv_post_send(a, &wr, &bad));
	memset(pieces, 0, sizeof(pieces));
	CASE("is that of the post", wait_for(&wc) == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(to, "one,two,three"));
}

static void posted_in_err(void)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;
	if (ibv_modify_qp(a, &attr, IBV_QP_STATE))
		exit(3);
	int good = 0, count = sizeof(opcodes) / sizeof(*opcodes);
	struct ibv_sge sge = { (uintptr_t)from, 8, from_mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	for (int i = 0; i < count; i++) {
		wr.wr_id = 50 + i;
		wr.opcode = opcodes[i];
		good += !ibv_post_send(a, &wr, &bad) && wait_for(&wc) == 1 && wc.wr_id == wr.wr_id &&
			wc.status == IBV_WC_WR_FLUSH_ERR;
	}
	CASE("each opcode is flushed", good == count);
	wr.opcode = 99;
	CASE("an opcode that is none is refused", ibv_post_send(a, &wr, &bad) == EINVAL && ibv_poll_cq(cq, 1, &wc) == 0);
}

int main(void)
{
	open_device();
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	a = make_qp(pd, cq, IBV_QPT_RC);
	b = make_qp(pd, cq, IBV_QPT_RC);
	connect_to(a, b);
	connect_to(b, a);
	from = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	to = from + SIZE;
	from_mr = ibv_reg_mr(pd, from, SIZE, IBV_ACCESS_LOCAL_WRITE);
	to_mr = ibv_reg_mr(pd, to, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!from_mr || !to_mr)
		return 3;
	identity();
	a_buffer_is_rewritten_while_it_is_sent();
	inline_data();
	posted_in_err();
	return wrong != 0;
}
