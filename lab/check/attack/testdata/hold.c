// A program whose memory faults and is never there: hold uffd|FILE ADDRESS
// [race [PID FD]]. It
// connects to the verify server at ADDRESS, registers memory, puts memory in its
// place whose pages userfaultfd or the file system FILE is on withholds, and has
// the NIC read commands, read the source of an RDMA Write, and place the data of
// an RDMA Read there, until it is killed. In a race it meanwhile changes the
// memory of commands back and forth as fast as it can. It takes over the
// descriptor FD of process PID, by which FILE is served.
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LENGTH = 65536 };

static int file = -1, uffd = -1;

static void check(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "hold: %s: %s\n", what, strerror(errno));
		exit(errno == EPERM ? 77 : 1);
	}
}

static void *ordinary(void)
{
	void *p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(p != MAP_FAILED, "mmap");
	memset(p, 1, LENGTH);
	return p;
}

// withhold replaces memory by some that is never there.
static void withhold(void *at)
{
	int flags = file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	check(mmap(at, LENGTH, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) == at, "mmap again");
	if (file >= 0)
		return;
	struct uffdio_register r = {.range = {(uintptr_t)at, LENGTH}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	check(ioctl(uffd, UFFDIO_REGISTER, &r) == 0, "UFFDIO_REGISTER");
}

static void *command(void *at)
{
	int fd = open("/dev/infiniband/uverbs0", O_RDWR);
	check(fd >= 0, "open the verbs device");
	for (;;)
		if (write(fd, at, 64) < 0 && errno == ENODEV)
			return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (strcmp(argv[1], "uffd") == 0) {
		struct uffdio_api api = {.api = UFFD_API};
		uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
		check(uffd >= 0, "userfaultfd");
		check(ioctl(uffd, UFFDIO_API, &api) == 0, "UFFDIO_API");
	} else {
		file = open(argv[1], O_RDWR);
		check(file >= 0, argv[1]);
	}

	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *to;
	check(rdma_getaddrinfo(argv[2], "7174", &hints, &to) == 0, "rdma_getaddrinfo");
	struct ibv_qp_init_attr attr = {.cap = {16, 16, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
	struct rdma_cm_id *id;
	check(rdma_create_ep(&id, to, NULL, &attr) == 0, "rdma_create_ep");
	unsigned char ask[8] = {0x74, 0x77, 0x69, 0x73, 0, 16, 0, 16};
	struct rdma_conn_param p = {.private_data = ask, .private_data_len = sizeof ask, .responder_resources = 4, .initiator_depth = 4};
	check(rdma_connect(id, &p) == 0, "rdma_connect");
	const unsigned char *offer = id->event->param.conn.private_data;
	check(offer != NULL && id->event->param.conn.private_data_len >= 32, "the server's offer");
	uint32_t rkey;
	uint64_t addr;
	memcpy(&rkey, offer + 4, 4);
	memcpy(&addr, offer + 24, 8);

	void *source = ordinary(), *sink = ordinary(), *request = ordinary();
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *from = ibv_reg_mr(id->pd, source, LENGTH, all), *into = ibv_reg_mr(id->pd, sink, LENGTH, all);
	check(from != NULL && into != NULL, "ibv_reg_mr");
	withhold(source);
	withhold(sink);
	withhold(request);

	check(rdma_post_read(id, NULL, sink, LENGTH, into, IBV_SEND_SIGNALED, addr, rkey) == 0, "post a Read");
	puts("read");
	fflush(stdout);
	usleep(20000);
	check(rdma_post_write(id, NULL, source, LENGTH, from, IBV_SEND_SIGNALED, addr, rkey) == 0, "post a Write");
	puts("write");
	fflush(stdout);
	usleep(20000);
	pthread_t other;
	check(pthread_create(&other, NULL, command, request) == 0, "pthread_create");
	usleep(20000);
	if (argc > 5) {
		int process = syscall(SYS_pidfd_open, atoi(argv[4]), 0);
		check(process >= 0, "pidfd_open");
		check(syscall(SYS_pidfd_getfd, process, atoi(argv[5]), 0) >= 0, "pidfd_getfd");
	}
	puts("held");
	fflush(stdout);
	while (argc < 4)
		pause();
	for (;;) {
		check(mmap(request, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == request, "mmap");
		memset(request, 1, LENGTH);
		usleep(rand() % 200);
		withhold(request);
		usleep(rand() % 200);
	}
}
