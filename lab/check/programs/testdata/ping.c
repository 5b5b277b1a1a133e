// A program over librdmacm and libibverbs: "ping -s ADDRESS" answers what
// "ping ADDRESS" sends, three times.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 3 };

static void check(int failed, const char *what) {
	if (failed) perror(what), exit(1);
}

int main(int argc, char **argv) {
	int serves = argc > 2 && !strcmp(argv[1], "-s");
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_NUMERICHOST | (serves ? RAI_PASSIVE : 0)}, *info;
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1}, .sq_sig_all = 1};
	struct rdma_cm_id *id, *listener = NULL;
	struct ibv_wc wc;
	char in[32] = "", out[32] = "";

	ibv_free_device_list(ibv_get_device_list(NULL)); // names a static program's provider
	check(rdma_getaddrinfo(argv[argc - 1], "7480", &hints, &info), "rdma_getaddrinfo");
	check(rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(info);
	if (serves) {
		listener = id;
		check(rdma_listen(listener, 1), "rdma_listen");
		check(rdma_get_request(listener, &id), "rdma_get_request");
	}
	struct ibv_mr *to = rdma_reg_msgs(id, in, sizeof in), *from = rdma_reg_msgs(id, out, sizeof out);
	check(!to || !from, "rdma_reg_msgs");
	check(rdma_post_recv(id, NULL, in, sizeof in, to), "rdma_post_recv");
	check(serves ? rdma_accept(id, NULL) : rdma_connect(id, NULL), "connect");
	for (int i = 0; i < TIMES; i++) {
		if (serves) check(rdma_get_recv_comp(id, &wc) != 1 || wc.status, "receive");
		if (serves) snprintf(out, sizeof out, "%.8s back", in);
		else snprintf(out, sizeof out, "ping %d", i);
#ifdef FORKS
		pid_t child = fork();
		if (!child) memset(in, 'x', sizeof in), memset(out, 'x', sizeof out), _exit(0);
		check(child < 0 || waitpid(child, NULL, 0) != child, "fork");
#endif
		if (serves && i + 1 < TIMES) check(rdma_post_recv(id, NULL, in, sizeof in, to), "rdma_post_recv");
		check(rdma_post_send(id, NULL, out, sizeof out, from, 0), "rdma_post_send");
		check(rdma_get_send_comp(id, &wc) != 1 || wc.status, "send");
		if (serves) continue;
		check(rdma_get_recv_comp(id, &wc) != 1 || wc.status, "receive");
		puts(in);
		if (i + 1 < TIMES) check(rdma_post_recv(id, NULL, in, sizeof in, to), "rdma_post_recv");
	}
	rdma_disconnect(id);
	check(rdma_dereg_mr(to) || rdma_dereg_mr(from), "rdma_dereg_mr");
	rdma_destroy_ep(id);
	if (serves) rdma_destroy_ep(listener);
	return 0;
}
