/*
 * rows: R13
 * en: Peers may write, and the owner may not
 * zh: 允许对端写入，却不允许本地写入
 * rule: RemoteNeedsLocalWrite
 * says: IBV_ACCESS_LOCAL_WRITE
 */
#include "case.h"

static void story(int broken)
{
	int rights = IBV_ACCESS_REMOTE_WRITE | (broken ? 0 : IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *theirs = ibv_reg_mr(pd, buffer, 4096, rights);
	must((theirs == NULL) == broken);
	if (theirs)
		ibv_dereg_mr(theirs);
}
