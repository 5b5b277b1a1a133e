/*
 * agent - the command server inside the guest.
 *
 * One process serves one virtio-serial port; the host talks to it over the
 * Unix socket that QEMU puts behind that port.
 *
 *   host -> guest   S <id>\n                          resynchronize
 *                   R <id> <seconds> <len>\n<cmd>     run `sh -c cmd`
 *                   P <id> <mode> <plen> <len>\n<path><data>   store a file
 *   guest -> host   Y <id>\n                          answer to S
 *                   O <id> <len>\n<data>              output, both streams
 *                   X <id> <rc>\n                     the end; 124: out of time
 *
 * When the host goes away, or says anything, the command's process group is
 * killed.
 *
 *   agent -life PORT   powers the guest off when the host lets go of PORT, or
 *                      has not taken it within a minute
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int port;
static char ibuf[65536];
static size_t ilen;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void put(const void *p, size_t n)
{
	const char *c = p;
	while (n) {
		ssize_t r = write(port, c, n);
		if (r < 0) {
			if (errno == EINTR)
				continue;
			return;
		}
		c += r;
		n -= r;
	}
}

static void putf(const char *fmt, ...)
{
	char b[256];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(b, sizeof b, fmt, ap);
	va_end(ap);
	put(b, n);
}

/*
 * gone tells whether no host is attached. When one connection of the host follows
 * another at once, the kernel may report the end of the first only after data of
 * the second: for a moment the port looks abandoned.
 */
static int gone(void)
{
	for (int i = 0; i < 10; i++) {
		struct pollfd f = { port, 0, 0 };
		if (poll(&f, 1, 0) >= 0 && !(f.revents & POLLHUP))
			return 0;
		usleep(20000);
	}
	return 1;
}

/* blocking fill; sleeps while no host is attached (read returns 0 then) */
static void fill(void)
{
	for (;;) {
		ssize_t r = read(port, ibuf + ilen, sizeof ibuf - ilen);
		if (r > 0) {
			ilen += r;
			return;
		}
		if (gone())
			ilen = 0;
	}
}

static void drop(size_t n)
{
	memmove(ibuf, ibuf + n, ilen - n);
	ilen -= n;
}

static int line(char *out, size_t max)
{
	for (;;) {
		char *nl = memchr(ibuf, '\n', ilen);
		if (nl) {
			size_t n = nl - ibuf;
			if (n >= max)
				n = max - 1;
			memcpy(out, ibuf, n);
			out[n] = 0;
			drop(nl - ibuf + 1);
			return n;
		}
		if (ilen == sizeof ibuf)
			ilen = 0;
		fill();
	}
}

static void body(char *dst, size_t n)
{
	while (n) {
		if (!ilen)
			fill();
		size_t k = ilen < n ? ilen : n;
		memcpy(dst, ibuf, k);
		drop(k);
		dst += k;
		n -= k;
	}
}

static void flush_out(const char *id, int fd, int *eof)
{
	char b[8192];
	ssize_t r;
	while ((r = read(fd, b, sizeof b)) > 0) {
		putf("O %s %zd\n", id, r);
		put(b, r);
	}
	if (r == 0)
		*eof = 1;
}

static void run(const char *id, int tmo, char *cmd)
{
	int p[2], st = 0, rc = -1, eof = 0, done = 0;
	double end = now() + tmo;

	if (pipe2(p, O_CLOEXEC)) {
		putf("X %s 126\n", id);
		return;
	}
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		int nul = open("/dev/null", O_RDONLY);
		dup2(nul, 0);
		dup2(p[1], 1);
		dup2(p[1], 2);
		signal(SIGPIPE, SIG_DFL);
		execl("/bin/sh", "sh", "-c", cmd, (char *)0);
		_exit(127);
	}
	close(p[1]);
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	while (!done) {
		struct pollfd f[2] = { { p[0], POLLIN, 0 }, { port, POLLIN, 0 } };
		poll(eof ? f + 1 : f, eof ? 1 : 2, 50);
		if (!eof)
			flush_out(id, p[0], &eof);
		if (waitpid(pid, &st, WNOHANG) == pid) {
			rc = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
			done = 1;
		} else if (now() > end || (f[1].revents & POLLHUP ? gone() : f[1].revents & POLLIN)) {
			kill(-pid, SIGKILL);
			waitpid(pid, &st, 0);
			rc = 124;
			done = 1;
		}
	}
	if (!eof)
		flush_out(id, p[0], &eof);
	close(p[0]);
	putf("X %s %d\n", id, rc);
}

/* life ends the guest with its holder. */
static int life(const char *name)
{
	double end = now() + 60;
	int held = 0;

	port = open(name, O_RDONLY | O_NONBLOCK);
	while (port >= 0) {
		struct pollfd f = { port, 0, 0 };
		poll(&f, 1, held ? -1 : 0);
		int there = !(f.revents & POLLHUP);
		if ((held && !there) || (!there && now() > end))
			break;
		held = there;
		if (!held)
			usleep(100000);
	}
	reboot(RB_POWER_OFF);
	return 1;
}

int main(int argc, char **argv)
{
	char l[512], id[64], path[512];
	struct rlimit inf = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &inf);
	setrlimit(RLIMIT_CORE, &inf);
	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && !strcmp(argv[1], "-life"))
		return life(argv[2]);
	if (argc < 2 || (port = open(argv[1], O_RDWR | O_CLOEXEC)) < 0) {
		perror("agent");
		return 1;
	}
	for (;;) {
		int a, b, c;
		line(l, sizeof l);
		if (sscanf(l, "S %63s", id) == 1) {
			putf("Y %s\n", id);
		} else if (sscanf(l, "R %63s %d %d", id, &a, &b) == 3 && b >= 0 && b < (1 << 20)) {
			char *cmd = malloc(b + 1);
			body(cmd, b);
			cmd[b] = 0;
			run(id, a, cmd);
			free(cmd);
		} else if (sscanf(l, "P %63s %o %d %d", id, (unsigned *)&a, &b, &c) == 4 &&
			   b > 0 && b < (int)sizeof path && c >= 0 && c < (1 << 28)) {
			char *d = malloc(c + 1);
			int rc = 1, fd;
			body(path, b);
			path[b] = 0;
			body(d, c);
			unlink(path);
			fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, a);
			if (fd >= 0) {
				rc = write(fd, d, c) == c ? 0 : 1;
				fchmod(fd, a);
				close(fd);
			}
			free(d);
			putf("X %s %d\n", id, rc);
		}
	}
}
