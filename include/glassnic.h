/*
 * glassnic.h - what GlassNIC has beyond infiniband/verbs.h: control verbs in batches and in pipelines.
 *
 * The functions live in GlassNIC's libibverbs.so.1. Link with -libverbs from GlassNIC's folder, or look them up with
 * dlsym(3): a program that finds none runs on another device.
 */
#ifndef GLASSNIC_H
#define GLASSNIC_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Creates n queue pairs under one doorbell, attrs[i] as for ibv_create_qp. qps[i] is the queue pair, or NULL with its
 * error number in errors[i] (errors may be NULL). What is refused undoes nothing.
 * Returns 0, or the first error number, with errno set.
 */
int glassnic_create_qps(struct ibv_pd *pd, struct ibv_qp_init_attr *attrs, int n, struct ibv_qp **qps, int *errors);

/* One modify of a batch. */
struct glassnic_modify {
	struct ibv_qp *qp;
	struct ibv_qp_attr *attr;
	int attr_mask;
	int error; /* out: 0 or an error number */
};

/*
 * Modifies queue pairs of one device in order, under one doorbell, each as ibv_modify_qp. What is refused undoes nothing.
 * Returns 0, or the first error number, with errno set.
 */
int glassnic_modify_qps(struct glassnic_modify *list, int n);

/*
 * Locks, queries, checks and modifies: changes nothing unless the queue pair is in the state `expected`. No other thread's
 * call comes between. Returns 0 or an error number, with errno set: EINVAL in another state.
 */
int glassnic_safe_modify(struct ibv_qp *qp, enum ibv_qp_state expected, struct ibv_qp_attr *attr, int attr_mask);

/* A command on its way. */
struct glassnic_op;

/*
 * Gives a command without waiting for it. Commands are executed in the order in which they are given, and before any
 * control verb that is called later. `attr` is read at once; the sizes granted are those that ibv_query_qp gives.
 * NULL with errno set if nothing was given. Every handle must be waited for.
 */
struct glassnic_op *glassnic_create_qp_async(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct glassnic_op *glassnic_modify_qp_async(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/* 1 once the command is executed, 0 before; -1 with errno set for what is no command. Does not wait. */
int glassnic_poll_op(struct glassnic_op *op);

/*
 * Waits for a command and ends its handle. Gives the queue pair, or NULL, in *qp (qp may be NULL, but a queue pair that is
 * not taken here is lost to the program). Returns 0 or the command's error number, with errno set.
 */
int glassnic_wait_op(struct glassnic_op *op, struct ibv_qp **qp);

#ifdef __cplusplus
}
#endif

#endif
