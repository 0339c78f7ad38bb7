/*
 * rows: L12
 * en: A child uses the device that its parent opened
 * zh: 子进程使用父进程打开的设备
 * rule: ForkedChild
 * says: uses a device that process
 * says: opened before fork
 * says: open the device again in the child
 */
#include "case.h"

static void story(int broken)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		struct ibv_qp_init_attr init = an_rc_qp();
		if (broken)
			(void)ibv_create_qp(pd, &init);
		_exit(0);
	}
	must(waitpid(child, &status, 0) == child && status == 0);
}
