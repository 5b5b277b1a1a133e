// A program for the tests of served writes: it opens the test's command device,
// uses it as its argument says and prints what it sees.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1, PIPE, WAIT };
struct command { uint64_t op, answer; };
#define DEVICE "/dev/tapir-test1"

static long command(int fd, int op) {
	int64_t answer = -1;
	struct command c = {op, (uint64_t)&answer};
	ssize_t n = write(fd, &c, sizeof c);
	return n < 0 ? -errno : n != sizeof c ? -1000 : answer;
}

// device opens the device or says why it cannot.
static int device(int flags) {
	int fd = open(DEVICE, flags);
	if (fd < 0) perror("open"), exit(1);
	return fd;
}

static void on(int sig, int flags, void (*handler)(int)) {
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
	sigaction(sig, &a, NULL);
}

static void nothing(int sig) {}

static int pass(int fd) {
	int pair[2], got = -1;
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof fd)]; } control = {.h = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec v = {"", 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	memcpy(CMSG_DATA(&control.h), &fd, sizeof fd);
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) || sendmsg(pair[0], &m, 0) != 1) return -1;
	char b;
	v.iov_base = &b;
	if (recvmsg(pair[1], &m, 0) != 1) return -1;
	memcpy(&got, CMSG_DATA(&control.h), sizeof got);
	return close(pair[0]), close(pair[1]), got;
}

// use prints numbers relative to the first of the range, its argument.
static void use(int first, char *self) {
	struct stat st;
	char text[9] = "", num[16];
	int fd = device(O_RDWR | O_CLOEXEC);
	printf("open %d %d\n", fd - first, fcntl(fd, F_GETFD));
	int r = fstat(fd, &st);
	printf("fstat %d %o\n", r, st.st_mode);
	r = ioctl(fd, 0xc0181b01, &st);
	printf("ioctl %d %s\n", r, strerror(errno));
	printf("count %ld\n", command(fd, COUNT));
	r = write(fd, (void *)8, 16);
	printf("bad pointer %d %s\n", r, strerror(errno));
	r = write(fd, text, 1);
	printf("bad length %d %s\n", r, strerror(errno));
	int p = command(fd, PIPE);
	ssize_t n = read(p, text, sizeof text - 1);
	printf("pipe %d %zd %s\n", p < first, n, text);
	int d = dup(fd), e = fcntl(fd, F_DUPFD_CLOEXEC, 3), f = fcntl(fd, F_DUPFD, 0);
	printf("dup %d %d %d, %d %d %d\n", d - first, e - first, f - first, fcntl(d, F_GETFD), fcntl(e, F_GETFD), fcntl(f, F_GETFD));
	printf("count %ld", command(d, COUNT));
	printf(" %ld", command(e, COUNT));
	printf(" %ld\n", command(f, COUNT));
	printf("dup2 %d", dup2(fd, first + 9) - first);
	printf(" %ld\n", command(first + 9, COUNT));
	printf("dup3 %d", dup3(fd, first + 9, O_CLOEXEC) - first);
	printf(" %ld\n", command(first + 9, COUNT));
	int far = dup2(fd, first - 5), got = pass(fd);
	printf("outside %s, ", strerror(-command(far, COUNT)));
	printf("%s\n", strerror(-command(got, COUNT)));
	printf("inside %ld\n", (dup2(got, first + 11), command(first + 11, COUNT)));
	char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 1 << 20);
	printf("mmap %d\n", m != MAP_FAILED && (m[5] = 1));
	int null = open("/dev/null", O_RDWR);
	dup2(null, first + 12);
	printf("other %zd\n", write(first + 12, text, 7));
	fflush(stdout);
	pid_t child = fork();
	if (!child) printf("child %ld\n", command(fd, COUNT)), fflush(stdout), _exit(0);
	wait(NULL);
	fflush(stdout);
	execl(self, self, "inherited", (sprintf(num, "%d", first), num), NULL);
}

static void inherited(int first) {
	for (int i = 0; i < 4; i++) printf("%d: %ld\n", i, command(first + i, COUNT));
}

// full: the range holds 64, or what the limit leaves; more are EMFILE, and one that is closed is used again.
static void full(int first) {
	struct rlimit before, after;
	getrlimit(RLIMIT_NOFILE, &before);
	int fd = device(O_RDWR), n = 1, last, other;
	while ((last = dup(fd)) >= 0) n++;
	printf("%d descriptors: %s\n", n, strerror(errno));
	other = open(DEVICE, O_RDWR);
	printf("open %d %s\n", other, strerror(errno));
	close(first + 7);
	printf("again %d", dup(fd) - first);
	printf(" %ld\n", command(first + 7, COUNT));
	getrlimit(RLIMIT_NOFILE, &after);
	printf("limit %d\n", before.rlim_cur == after.rlim_cur && before.rlim_max == after.rlim_max);
}

// timer makes n commands, each of which must be carried out once, while a timer interrupts them.
static void timer(int n) {
	struct itimerval ms = {{0, 1000}, {0, 1000}};
	on(SIGALRM, SA_RESTART, nothing);
	setitimer(ITIMER_REAL, &ms, NULL);
	int fd = device(O_RDWR), more = 0;
	for (int i = 1; i <= n; i++) {
		long got = command(fd, COUNT);
		if (got < i + more) printf("command %d returned %ld\n", i, got), exit(1);
		more = got - i;
		if (i % 8) continue;
		int p = command(fd, PIPE), d = dup(fd);
		char text[9] = "";
		if (read(p, text, 4) != 4 || close(p) || d < 0 || close(d)) printf("descriptors %d %d\n", p, d), exit(1);
	}
	printf("%d commands, %d twice\n", n, more);
}

static void *open_and_close(void *unused) {
	for (int i = 0; i < 100; i++) {
		int fd = device(O_RDWR), d = dup(fd);
		if (command(fd, COUNT) < 1 || command(d, COUNT) < 1 || fd == d || close(fd) || close(d)) printf("%d %d %s\n", fd, d, strerror(errno)), exit(1);
	}
	return NULL;
}

// threads open the device at once: none takes the number of another.
static void threads(void) {
	pthread_t t[8];
	for (int i = 0; i < 8; i++) pthread_create(t + i, NULL, open_and_close, NULL);
	for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
	puts("apart");
}

// killed uses the device in children that are killed at some moment.
static void killed(int rounds) {
	for (int i = 0; i < rounds; i++) {
		pid_t child = fork();
		if (!child)
			for (pid_t self = getpid();;) {
				int fd = open(DEVICE, O_RDWR | (i % 2 ? O_CLOEXEC : 0)), d = dup(fd);
				mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, d, 0);
				command(d, PIPE);
				if (!fork()) prctl(PR_SET_PDEATHSIG, SIGKILL), command(fd, i % 3 || getppid() != self ? COUNT : WAIT), _exit(0);
				close(fd), close(d);
			}
		usleep(i * 7919 % 3000);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

static void *waiter(void *fd) {
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	command(*(int *)fd, WAIT);
	return NULL;
}

// cancel cancels threads that wait in a command.
static void cancel(void) {
	int fd = device(O_RDWR);
	for (int i = 0; i < 5; i++) {
		pthread_t t;
		void *how;
		pthread_create(&t, NULL, waiter, &fd);
		usleep(3000);
		pthread_cancel(t);
		pthread_join(t, &how);
		if (how != PTHREAD_CANCELED) puts("not cancelled"), exit(1);
	}
	puts("cancelled");
}

static pthread_t main_thread;
static volatile int thread_over, main_over;

// interrupt sends signals until they have ended the waits: one that comes when no thread waits is handled and gone.
static void *interrupt(void *unused) {
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	for (int i = 0; i < 20; i++) usleep(15000), kill(getpid(), SIGALRM);
	for (; !thread_over; usleep(15000)) kill(getpid(), SIGUSR1);
	for (; !main_over; usleep(15000)) pthread_kill(main_thread, SIGUSR2);
	return NULL;
}

static void *wait_interrupted(void *fd) {
	printf("thread: %s\n", strerror(-command(*(int *)fd, WAIT)));
	thread_over = 1;
	return NULL;
}

// elsewhere: two threads wait in commands. Signals of the process are the main one's, but for SIGUSR1, which it blocks.
static void elsewhere(void) {
	int fd = device(O_RDWR);
	pthread_t signals, waits;
	sigset_t usr1;
	main_thread = pthread_self();
	on(SIGALRM, SA_RESTART, nothing);
	on(SIGUSR1, 0, nothing);
	on(SIGUSR2, 0, nothing);
	pthread_create(&waits, NULL, wait_interrupted, &fd);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	pthread_create(&signals, NULL, interrupt, NULL);
	printf("main: %s\n", strerror(-command(fd, WAIT)));
	main_over = 1;
	pthread_join(signals, NULL);
	pthread_join(waits, NULL);
}

// loop prints how many nanoseconds each of n calls takes.
static void loop(const char *kind, int n) {
	struct timespec t[2];
	int fd = open(DEVICE, O_RDWR), null = open("/dev/null", O_WRONLY);
	clock_gettime(CLOCK_MONOTONIC, t);
	for (int i = 0; i < n; i++) {
		if (!strcmp(kind, "write") && write(null, "", 1) != 1) exit(1);
		if (!strcmp(kind, "dup")) close(dup(null));
		if (!strcmp(kind, "command")) command(fd, COUNT);
	}
	clock_gettime(CLOCK_MONOTONIC, t + 1);
	printf("%f\n", ((t[1].tv_sec - t[0].tv_sec) * 1e9 + t[1].tv_nsec - t[0].tv_nsec) / n);
}

int main(int argc, char **argv) {
	int n = atoi(argv[2]);
	if (strcmp(argv[1], "inherited"))
		for (int i = 3; i < 1024; i++) close(i);
	if (!strcmp(argv[1], "use")) use(n, argv[0]);
	if (!strcmp(argv[1], "inherited")) inherited(n);
	if (!strcmp(argv[1], "full")) full(n);
	if (!strcmp(argv[1], "timer")) timer(n);
	if (!strcmp(argv[1], "threads")) threads();
	if (!strcmp(argv[1], "killed")) killed(n);
	if (!strcmp(argv[1], "cancel")) cancel();
	if (!strcmp(argv[1], "elsewhere")) elsewhere();
	if (!strcmp(argv[1], "loop")) loop(argv[3], n);
	return 0;
}
