// Limits what a queue pair sends, by all that libibverbs has for it: two queue pairs of
// one program are connected over one NIC. rate ADDRESS PORT [RATE], in kb/s; without a
// rate it says why there can be none.
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OCTETS = 250000, TIMES = 4 };
static char from[OCTETS], to[OCTETS];
static struct rdma_cm_id *server;

static void check(int failed, const char *what) {
	if (failed) fprintf(stderr, "%s: %s\n", what, strerror(errno)), exit(1);
}

static void *serve(void *listener) {
	check(rdma_get_request(listener, &server) || rdma_accept(server, NULL), "accept");
	return NULL;
}

// took is how long Writes of 1 MB take, in milliseconds.
static long took(struct rdma_cm_id *id, struct ibv_mr *a, struct ibv_mr *b) {
	struct timespec began, ended;
	struct ibv_wc wc;
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < TIMES; i++)
		check(rdma_post_write(id, NULL, from, OCTETS, a, IBV_SEND_SIGNALED, (uintptr_t)to, b->rkey), "write");
	for (int i = 0; i < TIMES; i++) check(rdma_get_send_comp(id, &wc) != 1 || wc.status, "completion");
	clock_gettime(CLOCK_MONOTONIC, &ended);
	return (ended.tv_sec - began.tv_sec) * 1000 + (ended.tv_nsec - began.tv_nsec) / 1000000;
}

int main(int argc, char **argv) {
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_NUMERICHOST}, *info, *passive;
	struct ibv_qp_init_attr attr = {.cap = {TIMES, 4, 1, 1}, .sq_sig_all = 1}, same = attr;
	struct rdma_cm_id *id, *listener;
	struct ibv_device_attr_ex device;
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = argc > 3 ? atoi(argv[3]) : 1000};
	pthread_t thread;

	check(rdma_getaddrinfo(argv[1], argv[2], &hints, &info), "rdma_getaddrinfo");
	hints.ai_flags |= RAI_PASSIVE;
	check(rdma_getaddrinfo(argv[1], argv[2], &hints, &passive), "rdma_getaddrinfo");
	check(rdma_create_ep(&listener, passive, NULL, &same) || rdma_listen(listener, 1), "listen");
	check(rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	pthread_create(&thread, NULL, serve, listener);
	check(rdma_connect(id, NULL), "rdma_connect");
	pthread_join(thread, NULL);
	struct ibv_mr *a = rdma_reg_msgs(id, from, OCTETS), *b = rdma_reg_write(server, to, OCTETS);
	check(!a || !b, "registration");

	memset(&device, 0, sizeof device);
	check(ibv_query_device_ex(id->verbs, NULL, &device), "ibv_query_device_ex");
	struct ibv_packet_pacing_caps *caps = &device.packet_pacing_caps;
	printf("from %u to %u kb/s, RC %s\n", caps->qp_rate_limit_min, caps->qp_rate_limit_max,
		ibv_is_qpt_supported(caps->supported_qpts, IBV_QPT_RC) ? "true" : "false");
	int failed = ibv_modify_qp_rate_limit(id->qp, &limit);
	if (argc < 4) return printf("limit: %s\n", strerror(failed)), 0;
	check(errno = failed, "ibv_modify_qp_rate_limit");
	long limited = took(id, a, b);
	struct ibv_qp_attr none = {.rate_limit = 0}, much = {.rate_limit = 100000001};
	printf("beyond the NIC: %s\n", strerror(ibv_modify_qp(id->qp, &much, IBV_QP_RATE_LIMIT)));
	limit.max_burst_sz = 9000;
	printf("bursts: %s\n", strerror(ibv_modify_qp_rate_limit(id->qp, &limit)));
	check(errno = ibv_modify_qp(id->qp, &none, IBV_QP_RATE_LIMIT), "ibv_modify_qp");
	printf("limited %ld ms, free %ld ms\n", limited, took(id, a, b));
	fflush(stdout);
	rdma_disconnect(id);
	return 0;
}
