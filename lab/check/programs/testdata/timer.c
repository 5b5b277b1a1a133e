/* Preloaded into a program, it interrupts whatever the program does 1,000 times
 * a second, in any thread, by a signal whose handler has SA_RESTART. The signal
 * is one that no program of the cells uses: setitimer's and alarm's is theirs.
 *
 * Some calls Linux restarts for no flag: see signal(7). With TIMER_RESTARTS in
 * the environment they are restarted here, for programs that take an interrupted
 * one for an error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LIBC(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int restarts;

static int again(long got) { return got < 0 && errno == EINTR && restarts; }

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* What is left of a limit in milliseconds that ends at a time; below 0: none. */
static int rest(int ms, long long end)
{
	long long left = end - now();

	return ms < 0 ? ms : left > 0 ? left : 0;
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	long long end = now() + ms;
	int got;

	do
		got = LIBC(poll)(fds, n, rest(ms, end));
	while (again(got));
	return got;
}

int epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
	long long end = now() + ms;
	int got;

	do
		got = LIBC(epoll_wait)(fd, events, n, rest(ms, end));
	while (again(got));
	return got;
}

/* This one says itself what is left of the limit. */
int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *limit)
{
	int got;

	do
		got = LIBC(select)(n, r, w, e, limit);
	while (again(got));
	return got;
}

/* These are restarted, but for sockets with a time limit. */
ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	ssize_t got;

	do
		got = LIBC(recv)(fd, buf, len, flags);
	while (again(got));
	return got;
}

ssize_t read(int fd, void *buf, size_t len)
{
	ssize_t got;

	do
		got = LIBC(read)(fd, buf, len);
	while (again(got));
	return got;
}

static void nothing(int signo) { (void)signo; }

__attribute__((constructor)) static void start(void)
{
	struct sigaction act = {.sa_handler = nothing, .sa_flags = SA_RESTART};
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 7};
	struct itimerspec ms = {{0, 1000000}, {0, 1000000}};
	timer_t timer;

	restarts = getenv("TIMER_RESTARTS") != NULL;
	if (sigaction(SIGRTMIN + 7, &act, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &ev, &timer) == 0)
		timer_settime(timer, 0, &ms, NULL);
}
