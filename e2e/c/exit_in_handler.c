// exit_in_handler.c: a program that ends from the handler of a signal, which comes while the library writes to standard error:
// that is a pipe which is full. Exit status 7. Plain libibverbs.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int ends[2];

static void empty(void)
{
	char bytes[4096];
	while (read(ends[0], bytes, sizeof bytes) > 0)
		;
}

static void end(int signal)
{
	(void)signal;
	empty();
	exit(7);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	if (!pd || pipe2(ends, O_NONBLOCK) || dup2(ends[1], 2) < 0)
		return 1;
	while (write(2, "0123456789abcdef", 16) > 0)
		;
	fcntl(2, F_SETFL, fcntl(2, F_GETFL) & ~O_NONBLOCK);
	signal(SIGALRM, end);
	alarm(1);
	ibv_create_cq(context, -1, NULL, NULL, 0); // refused, and told: it waits for the pipe
	return 2;
}
