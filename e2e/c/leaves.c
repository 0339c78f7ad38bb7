/* Leaves a PD and two queue pairs behind, and ends: `leaves 7` with that status, `leaves TERM` by that signal. */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* One place in the program, however often it is called. */
static __attribute__((noinline)) struct ibv_qp *leave_one(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 1, 1, 1, 1, 0 } };
	return pd && cq ? ibv_create_qp(pd, &init) : NULL;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, 8, NULL, NULL, 0) : NULL;
	for (int i = 0; i < 2; i++)
		if (!leave_one(pd, cq))
			return 99;
	if (argc > 1 && !strcmp(argv[1], "TERM"))
		raise(SIGTERM);
	return argc > 1 ? atoi(argv[1]) : 0;
}
