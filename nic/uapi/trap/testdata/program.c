// A program for the tests of the preloaded library: it uses the test's device
// as its argument says and prints what it sees.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 0x7a01, STORE, PUT, WAIT };
static int fd;
static volatile int *caught; // in memory shared with children: SIGUSR2 apart from others

static void catch(int s) { caught[s == SIGUSR2]++; }

static void on(int sig, int flags) {
	struct sigaction a = {.sa_handler = catch, .sa_flags = flags};
	sigaction(sig, &a, NULL);
}

static void *count100(void *unused) {
	for (int i = 0; i < 100; i++)
		if (ioctl(fd, COUNT) < 1) exit(9);
	return NULL;
}

static void use(void) {
	struct stat st;
	unsigned long word = 41;
	char text[9] = "";
	errno = 77;
	int r = ioctl(fd, STORE, &word);
	printf("store %d %lu %d\n", r, word, errno);
	r = ioctl(fd, STORE, 8);
	printf("store nowhere %d %s\n", r, strerror(errno));
	r = ioctl(0, COUNT);
	printf("not the device %d %s\n", r, strerror(errno));
	ioctl(fd, PUT);
	r = read(fd, text, sizeof text - 1);
	printf("read %d %s\n", r, text);
	r = fstat(fd, &st);
	printf("fstat %d %o\n", r, st.st_mode);
	r = syscall(SYS_openat, AT_FDCWD, "/dev/tapir-test0", O_RDWR | O_CLOEXEC);
	printf("syscall %d %d\n", r > fd, fcntl(r, F_GETFD));
	printf("open %d %d\n", fcntl(fd, F_GETFD), fd < 10);
}

static void threads(void) {
	pthread_t t[8];
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 8; i++) pthread_create(t + i, NULL, count100, NULL);
		for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
	}
	printf("count %d\n", ioctl(fd, COUNT));
}

static void forks(char *self) {
	ioctl(fd, COUNT);
	for (int i = 0; i < 3; i++)
		if (!fork()) count100(NULL), exit(0);
	while (wait(NULL) > 0);
	printf("count %d\n", ioctl(fd, COUNT));
	fflush(stdout);
	execl(self, self, "closed", NULL);
}

// closed: daemons close all descriptors that they do not know and use the numbers for others.
static void closed(void) {
	for (int i = 3; i < 2000; i++)
		if (i != fd) close(i);
	int other = open("/dev/null", O_RDWR), n = 0;
	for (int i = 800; i < 1000; i++) dup2(other, i);
	printf("count %d\n", ioctl(fd, COUNT));
	for (int i = 800; i < 1000; i++) n += write(i, "", 1) == 1;
	printf("others %d\n", n);
}

static void timer(void) {
	struct itimerval ms = {{0, 1000}, {0, 1000}};
	on(SIGALRM, SA_RESTART);
	setitimer(ITIMER_REAL, &ms, NULL);
	for (int i = 1; i <= 1000; i++) {
		int n = ioctl(fd, COUNT);
		if (n != i) printf("call %d returned %d: %s\n", i, n, strerror(errno)), exit(1);
	}
	while (!*caught);
	puts("each once");
}

// waits: a handler with SA_RESTART does not end a waiting call, one without does.
static void waits(void) {
	on(SIGUSR1, SA_RESTART);
	on(SIGUSR2, 0);
	pid_t self = getpid(), child = fork();
	if (!child)
		for (prctl(PR_SET_PDEATHSIG, SIGKILL);; usleep(5000))
			if (getppid() == self) kill(self, *caught < 20 ? SIGUSR1 : SIGUSR2);
	int r = ioctl(fd, WAIT);
	printf("wait %d %s %d\n", r, strerror(errno), caught[1] > 0);
	kill(child, SIGKILL);
}

// loop prints how many nanoseconds each of n calls takes.
static void loop(const char *kind, int n) {
	struct timespec t[2];
	clock_gettime(CLOCK_MONOTONIC, t);
	for (int i = 0; i < n; i++) {
		if (!strcmp(kind, "clock")) clock_gettime(CLOCK_REALTIME, t + 1);
		if (!strcmp(kind, "ioctl")) ioctl(-1, TIOCGPGRP, &i);
		if (!strcmp(kind, "open")) open("/nonexistent", O_RDONLY);
		if (!strcmp(kind, "served")) ioctl(fd, COUNT);
	}
	clock_gettime(CLOCK_MONOTONIC, t + 1);
	printf("%f\n", ((t[1].tv_sec - t[0].tv_sec) * 1e9 + t[1].tv_nsec - t[0].tv_nsec) / n);
}

int main(int argc, char **argv) {
	caught = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fd = open("/dev/tapir-test0", O_RDWR);
	if (fd < 0) return perror("open"), 1;
	if (!strcmp(argv[1], "use")) use();
	if (!strcmp(argv[1], "threads")) threads();
	if (!strcmp(argv[1], "forks")) forks(argv[0]);
	if (!strcmp(argv[1], "closed")) closed();
	if (!strcmp(argv[1], "timer")) timer();
	if (!strcmp(argv[1], "waits")) waits();
	if (!strcmp(argv[1], "loop")) loop(argv[2], atoi(argv[3]));
	return 0;
}
