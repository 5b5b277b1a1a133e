// Asks a supervisor what chosen system calls of this program return. It knows
// no ABI: the supervisor says which calls it wants to see (preload.go).
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// glibc 2.34 gave these names new versions when they moved into libc.so.6. The first
// versions are in all, so that a program may bring an older glibc in its container.
#if defined __GLIBC__ && defined __x86_64__
#define FIRST_VERSION(f) __asm__(".symver " #f "," #f "@GLIBC_2.2.5")
#elif defined __GLIBC__ && defined __aarch64__
#define FIRST_VERSION(f) __asm__(".symver " #f "," #f "@GLIBC_2.17")
#endif
#ifdef FIRST_VERSION
FIRST_VERSION(dladdr);
FIRST_VERSION(dlsym);
FIRST_VERSION(pthread_key_create);
FIRST_VERSION(pthread_once);
FIRST_VERSION(pthread_setspecific);
FIRST_VERSION(pthread_sigmask);
FIRST_VERSION(pthread_testcancel);
#endif

enum { PASS, RESULT, DESCRIPTOR, INSTALL, ASK_RULES = -1, RESTART = -512, CALLS = 512 };
struct call { uint64_t nr, arg[6], blocked, thread; };
struct answer { int64_t kind, value, first, last; };

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static char itself[4096]; // this library's file
static uint32_t rules[4096], *rules_end = rules; // in order of number: number, count, count times {argument, mask, first, last}
static const uint32_t *rules_of[CALLS];          // where those of a number begin
static long (*kernel)(long, ...);                // libc's syscall(2)
static ssize_t (*cancelled_recvmsg)(int, struct msghdr *, int); // a cancellation point, which system calls by number are not
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_exit;
static pid_t talks; // the process that has called: not a child of vfork
static __thread struct { int open, fd; pid_t pid; dev_t dev; ino_t ino; } conn __attribute__((tls_model("initial-exec")));

// is_ours: the program has neither closed the connection nor given its number to another file.
static int is_ours(void) {
	struct stat st;
	return conn.open && !kernel(SYS_fstat, conn.fd, &st) && st.st_ino == conn.ino && st.st_dev == conn.dev;
}

static void hang_up(void *unused) {
	if (is_ours()) kernel(SYS_close, conn.fd);
	conn.open = 0;
}

// dial connects this thread, anew in a child of fork.
static int dial(void) {
	struct stat st;
	if (conn.pid == getpid() && is_ours()) return 1;
	hang_up(NULL);
	int fd = kernel(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0) return 0;
	int high = kernel(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 964); // programs count on the low numbers, and 900 to 963 are served files
	if (high >= 0) kernel(SYS_close, fd), fd = high;
	if (kernel(SYS_connect, fd, &address, sizeof address) || kernel(SYS_fstat, fd, &st)) return kernel(SYS_close, fd), 0;
	conn.open = 1, conn.fd = fd, conn.pid = talks = getpid(), conn.dev = st.st_dev, conn.ino = st.st_ino;
	return pthread_setspecific(at_exit, &conn) == 0;
}

static int say(const struct call *c) { return dial() && kernel(SYS_sendto, conn.fd, c, sizeof *c, MSG_NOSIGNAL, NULL, 0) == sizeof *c; }

// hear returns how many octets the answer has, and the descriptors that come with it.
static ssize_t hear(void *answer, size_t room, int fd[2], int cancels) {
	union { struct cmsghdr h; char room[CMSG_SPACE(2 * sizeof *fd)]; } control;
	struct iovec v = {answer, room};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t n;
	do n = cancels ? cancelled_recvmsg(conn.fd, &m, MSG_CMSG_CLOEXEC) : kernel(SYS_recvmsg, conn.fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	fd[0] = fd[1] = -1;
	if (n > 0 && CMSG_FIRSTHDR(&m)) memcpy(fd, CMSG_DATA(&control.h), control.h.cmsg_len - CMSG_LEN(0));
	return n;
}

// place gives a received descriptor its number and flags.
static int place(int fd, const struct answer *a) {
	if (fd >= 0 && a->last) {
		int high = kernel(SYS_fcntl, fd, F_DUPFD_CLOEXEC, a->first);
		kernel(SYS_close, fd), fd = high;
		if (fd > a->last) kernel(SYS_close, fd), fd = -1;
	}
	if (fd >= 0 && !(a->value & O_CLOEXEC)) kernel(SYS_fcntl, fd, F_SETFD, 0);
	return fd < 0 ? -EMFILE : fd;
}

// cancels: the call is a cancellation point of pthreads(7).
static int cancels(uint64_t nr) { return nr == SYS_read || nr == SYS_write || nr == SYS_openat || nr == SYS_ppoll || nr == SYS_recvmsg || nr == SYS_recvmmsg || nr == SYS_recvfrom; }

// ask asks what a call returns. The program may be given descriptors meanwhile.
static void ask(const struct call *c, struct answer *a) {
	int fd[2];
	a->kind = PASS;
	if (!say(c)) return;
	while (hear(a, sizeof *a, fd, cancels(c->nr)) == sizeof *a) {
		if (a->kind == DESCRIPTOR) a->value = place(fd[0], a);
		if (a->kind != INSTALL) return;
		int number = place(fd[0], a);
		if (kernel(SYS_write, fd[1], &number, sizeof number) < 0) kernel(SYS_close, number);
		kernel(SYS_close, fd[1]);
	}
	a->kind = PASS;
}

static void start(void) {
	struct call c = {.nr = ASK_RULES};
	const char *path = getenv("TAPIR_PRELOAD");
	int fd[2], saved = errno;
	Dl_info self;
	if (dladdr(rules, &self) && strlen(self.dli_fname) < sizeof itself) strcpy(itself, self.dli_fname);
	kernel = dlsym(RTLD_NEXT, "syscall");
	cancelled_recvmsg = dlsym(RTLD_NEXT, "recvmsg");
	if (path && strlen(path) < sizeof address.sun_path && !pthread_key_create(&at_exit, hang_up)) {
		ssize_t n = (strcpy(address.sun_path, path), say(&c)) ? hear(rules, sizeof rules, fd, 0) : 0;
		if (n > 0) rules_end = rules + n / sizeof *rules;
	}
	for (const uint32_t *r = rules; r < rules_end; r += 2 + 4 * r[1])
		if (r[0] < CALLS && !rules_of[r[0]]) rules_of[r[0]] = r;
	errno = saved;
}

__attribute__((constructor)) static void load(void) { pthread_once(&once, start); }

static int wanted(const uint64_t *call) {
	const uint32_t *r = call[0] < CALLS ? rules_of[call[0]] : NULL;
	for (; r && r < rules_end && r[0] == call[0]; r += 2 + 4 * r[1]) {
		uint32_t met = 0;
		for (const uint32_t *w = r + 2; met < r[1]; w += 4, met++) {
			uint32_t v = (uint32_t)call[1 + w[0]] & w[1];
			if (v < w[2] || v > w[3]) break;
		}
		if (met == r[1]) return 1;
	}
	return 0;
}

// restarts: every handler that runs when the signals are let in again wants the call to go on (SA_RESTART).
static int restarts(const sigset_t *blocked) {
	sigset_t pending;
	struct sigaction a;
	sigpending(&pending);
	for (int s = 1; s < NSIG; s++)
		if (sigismember(&pending, s) == 1 && !sigismember(blocked, s) && !sigaction(s, NULL, &a) &&
		    a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN && !(a.sa_flags & SA_RESTART)) return 0;
	return 1;
}

// served tells whether the supervisor has answered. Signals wait meanwhile, so that no call is made twice.
static int served(const uint64_t *call, long *result) {
	struct answer a;
	int again, saved = errno;
	load();
	if (!wanted(call)) return 0;
	do {
		struct call c = {.thread = kernel(SYS_gettid)};
		sigset_t all, old;
		if (cancels(*call)) pthread_testcancel(); // before it is sent
		memcpy(&c, call, 7 * sizeof *call);
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, &old);
		memcpy(&c.blocked, &old, sizeof c.blocked);
		ask(&c, &a);
		again = a.kind == RESULT && a.value == RESTART && restarts(&old);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	} while (again);
	errno = saved;
	if (a.value == RESTART) a.value = -EINTR;
	if (a.kind != PASS && a.value < 0) errno = -a.value, a.value = -1;
	return *result = a.value, a.kind != PASS;
}

#define U (uint64_t)
#define NEXT(name) ({ static __typeof__(name) *f; if (!f) f = dlsym(RTLD_NEXT, #name); f; })

// through keeps a file reachable whatever the root directory is, and says by which name.
static int through(const char *path, char name[32]) {
	int fd = kernel(SYS_openat, AT_FDCWD, path, O_PATH), high = fd < 0 ? fd : kernel(SYS_fcntl, fd, F_DUPFD, 964);
	if (high >= 0) kernel(SYS_close, fd), fd = high;
	return sprintf(name, "/proc/self/fd/%d", fd), fd;
}

static int found(const char *path) { return !kernel(SYS_faccessat, AT_FDCWD, path, F_OK); }

// follow has this process and what it executes find library and supervisor from within another root directory.
static void follow(const char *library, const char *socket) {
	const char *list = getenv("LD_PRELOAD"), *at = list ? strstr(list, itself) : NULL;
	if (at) {
		char changed[strlen(list) + strlen(library) + 1];
		sprintf(changed, "%.*s%s%s", (int)(at - list), list, library, at + strlen(itself));
		setenv("LD_PRELOAD", changed, 1);
	}
	setenv("TAPIR_PRELOAD", socket, 1);
	strcpy(itself, library), strcpy(address.sun_path, socket);
}

int chroot(const char *root) {
	char library[32], socket[32];
	if (load(), rules_end == rules) return NEXT(chroot)(root); // nothing is served
	int l = through(itself, library), s = through(address.sun_path, socket), result = NEXT(chroot)(root), saved = errno;
	if (!result && (!found(itself) || !found(address.sun_path))) follow(library, socket); // which its /proc shows, perhaps later
	else kernel(SYS_close, l), kernel(SYS_close, s);
	return errno = saved, result;
}

#define SERVE(...) do { long r; if (served((uint64_t[7]){__VA_ARGS__}, &r)) return r; } while (0)
#define LAST(last, type, name) va_list l; va_start(l, last); type name = va_arg(l, type); va_end(l)
// DEFINE(type, name, (parameters), (arguments), system call...) of a function that is one system call
#define DEFINE(type, name, params, args, ...) type name params { SERVE(__VA_ARGS__); return NEXT(name) args; }

#ifdef __GLIBC__
typedef unsigned long request;
typedef int flags_of_many;
#define OF64(define) define(64)
#else // musl, where the names that end in 64 are macros
struct statx;
typedef int request;
typedef unsigned flags_of_many;
#define OF64(define)
#endif

#define OPENS(size) \
	int open##size(const char *p, int fl, ...) { LAST(fl, mode_t, m); SERVE(SYS_openat, AT_FDCWD, U p, fl, m); return NEXT(open##size)(p, fl, m); } \
	int openat##size(int d, const char *p, int fl, ...) { LAST(fl, mode_t, m); SERVE(SYS_openat, d, U p, fl, m); return NEXT(openat##size)(d, p, fl, m); } \
	int __open##size##_2(const char *p, int fl) { return open##size(p, fl); } \
	int __openat##size##_2(int d, const char *p, int fl) { return openat##size(d, p, fl); } \
	DEFINE(int, stat##size, (const char *p, struct stat##size *s), (p, s), SYS_newfstatat, AT_FDCWD, U p, U s) \
	DEFINE(int, lstat##size, (const char *p, struct stat##size *s), (p, s), SYS_newfstatat, AT_FDCWD, U p, U s, AT_SYMLINK_NOFOLLOW) \
	DEFINE(int, fstatat##size, (int d, const char *p, struct stat##size *s, int fl), (d, p, s, fl), SYS_newfstatat, d, U p, U s, fl) \
	DEFINE(int, fstat##size, (int d, struct stat##size *s), (d, s), SYS_fstat, d, U s)
OPENS()
OF64(OPENS)
#ifdef __GLIBC__ // of programs that were linked with one before 2.33, whose stat(2) these are
#define KERNEL(type, name, params, ...) type name params { SERVE(__VA_ARGS__); return kernel(__VA_ARGS__); }
#define OLD_STATS(size) \
	KERNEL(int, __xstat##size, (int v, const char *p, struct stat##size *s), SYS_newfstatat, AT_FDCWD, U p, U s) \
	KERNEL(int, __lxstat##size, (int v, const char *p, struct stat##size *s), SYS_newfstatat, AT_FDCWD, U p, U s, AT_SYMLINK_NOFOLLOW) \
	KERNEL(int, __fxstatat##size, (int v, int d, const char *p, struct stat##size *s, int fl), SYS_newfstatat, d, U p, U s, fl) \
	KERNEL(int, __fxstat##size, (int v, int d, struct stat##size *s), SYS_fstat, d, U s)
OLD_STATS()
OLD_STATS(64)
#endif
DIR *opendir(const char *p) {
	int d = open(p, O_RDONLY | O_NONBLOCK | O_DIRECTORY | O_CLOEXEC), saved;
	DIR *dir = d < 0 ? NULL : fdopendir(d);
	if (d >= 0 && !dir) saved = errno, kernel(SYS_close, d), errno = saved;
	return dir;
}
#define SCANDIR(size) int scandir##size(const char *p, struct dirent##size ***list, \
	int (*keep)(const struct dirent##size *), \
	int (*order)(const struct dirent##size **, const struct dirent##size **)) { \
	struct dirent##size **all = NULL, **more, *e, *copy; \
	DIR *dir = opendir(p); \
	int n = 0, error = 0; \
	if (!dir) return -1; \
	while (!error && (e = readdir##size(dir))) { \
		if (keep && !keep(e)) continue; \
		more = realloc(all, (n + 1) * sizeof *all), copy = malloc(e->d_reclen); \
		if (more) all = more; \
		if (more && copy) all[n++] = memcpy(copy, e, e->d_reclen); \
		else error = ENOMEM, free(copy); \
	} \
	closedir(dir); \
	if (error) { \
		while (n) free(all[--n]); \
		return free(all), errno = error, -1; \
	} \
	if (order) qsort(all, n, sizeof *all, (int (*)(const void *, const void *))order); \
	return *list = all, n; \
}
SCANDIR()
OF64(SCANDIR)
static long flags(const char *mode) {
	long f = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
	f |= *mode == 'w' ? O_CREAT | O_TRUNC : *mode == 'a' ? O_CREAT | O_APPEND : 0;
	return f | (strchr(mode, 'x') ? O_EXCL : 0) | (strchr(mode, 'e') ? O_CLOEXEC : 0);
}
#define FOPEN(size) FILE *fopen##size(const char *p, const char *mode) { \
	long d; \
	if (!served((uint64_t[7]){SYS_openat, AT_FDCWD, U p, flags(mode), 0666}, &d)) return NEXT(fopen##size)(p, mode); \
	return d < 0 ? NULL : fdopen(d, mode); \
}
FOPEN()
OF64(FOPEN)
DEFINE(int, socket, (int f, int t, int p), (f, t, p), SYS_socket, f, t, p)
DEFINE(int, statx, (int d, const char *p, int fl, unsigned mask, struct statx *s), (d, p, fl, mask, s), SYS_statx, d, U p, fl, mask, U s)
DEFINE(int, access, (const char *p, int m), (p, m), SYS_faccessat, AT_FDCWD, U p, m)
DEFINE(int, faccessat, (int d, const char *p, int m, int fl), (d, p, m, fl), SYS_faccessat, d, U p, m)
DEFINE(ssize_t, readlink, (const char *p, char *b, size_t n), (p, b, n), SYS_readlinkat, AT_FDCWD, U p, U b, n)
DEFINE(ssize_t, readlinkat, (int d, const char *p, char *b, size_t n), (d, p, b, n), SYS_readlinkat, d, U p, U b, n)
char *getcwd(char *b, size_t room) {
	char path[PATH_MAX];
	long n;
	if (!served((uint64_t[7]){SYS_getcwd, U path, sizeof path}, &n)) return NEXT(getcwd)(b, room);
	if (n < 0) return NULL;
	if (b && (size_t)n > room) return errno = ERANGE, NULL;
	if (!b) b = malloc((size_t)n > room ? (size_t)n : room);
	return b ? strcpy(b, path) : NULL;
}
DEFINE(int, clock_gettime, (clockid_t c, struct timespec *t), (c, t), SYS_clock_gettime, c, U t)
DEFINE(int, clock_settime, (clockid_t c, const struct timespec *t), (c, t), SYS_clock_settime, c, U t)
DEFINE(int, clock_getres, (clockid_t c, struct timespec *t), (c, t), SYS_clock_getres, c, U t)
DEFINE(int, clock_adjtime, (clockid_t c, struct timex *t), (c, t), SYS_clock_adjtime, c, U t)
DEFINE(int, adjtimex, (struct timex *t), (t), SYS_adjtimex, U t)
DEFINE(int, ntp_adjtime, (struct timex *t), (t), SYS_adjtimex, U t)
DEFINE(int, setsockopt, (int d, int level, int o, const void *v, socklen_t n), (d, level, o, v, n), SYS_setsockopt, d, level, o, U v, n)
DEFINE(int, bind, (int d, const struct sockaddr *a, socklen_t n), (d, a, n), SYS_bind, d, U a, n)
DEFINE(int, connect, (int d, const struct sockaddr *a, socklen_t n), (d, a, n), SYS_connect, d, U a, n)
DEFINE(int, getsockname, (int d, struct sockaddr *a, socklen_t *n), (d, a, n), SYS_getsockname, d, U a, U n)
DEFINE(int, getpeername, (int d, struct sockaddr *a, socklen_t *n), (d, a, n), SYS_getpeername, d, U a, U n)
DEFINE(int, getsockopt, (int d, int level, int o, void *v, socklen_t *n), (d, level, o, v, n), SYS_getsockopt, d, level, o, U v, U n)
DEFINE(ssize_t, send, (int d, const void *b, size_t n, int fl), (d, b, n, fl), SYS_sendto, d, U b, n, fl)
DEFINE(ssize_t, sendto, (int d, const void *b, size_t n, int fl, const struct sockaddr *a, socklen_t l), (d, b, n, fl, a, l), SYS_sendto, d, U b, n, fl, U a, l)
DEFINE(ssize_t, sendmsg, (int d, const struct msghdr *m, int fl), (d, m, fl), SYS_sendmsg, d, U m, fl)
DEFINE(ssize_t, recv, (int d, void *b, size_t n, int fl), (d, b, n, fl), SYS_recvfrom, d, U b, n, fl)
DEFINE(ssize_t, recvfrom, (int d, void *b, size_t n, int fl, struct sockaddr *a, socklen_t *l), (d, b, n, fl, a, l), SYS_recvfrom, d, U b, n, fl, U a, U l)
DEFINE(ssize_t, recvmsg, (int d, struct msghdr *m, int fl), (d, m, fl), SYS_recvmsg, d, U m, fl)
DEFINE(int, recvmmsg, (int d, struct mmsghdr *m, unsigned n, flags_of_many fl, struct timespec *t), (d, m, n, fl, t), SYS_recvmmsg, d, U m, n, fl, U t)
DEFINE(int, ppoll, (struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *s), (p, n, t, s), SYS_ppoll, U p, n, U t, U s, NSIG / 8)
int poll(struct pollfd *p, nfds_t n, int ms) {
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
	SERVE(SYS_ppoll, U p, n, ms < 0 ? 0 : U &t);
	return NEXT(poll)(p, n, ms);
}
int __poll_chk(struct pollfd *p, nfds_t n, int ms, size_t room) { return n * sizeof *p > room ? abort(), 0 : poll(p, n, ms); }
DEFINE(ssize_t, read, (int d, void *b, size_t n), (d, b, n), SYS_read, d, U b, n)
DEFINE(ssize_t, write, (int d, const void *b, size_t n), (d, b, n), SYS_write, d, U b, n)
DEFINE(int, dup, (int d), (d), SYS_dup, d)
#define FCNTL(size) int fcntl##size(int d, int cmd, ...) { LAST(cmd, void *, p); SERVE(SYS_fcntl, d, cmd, U p); return NEXT(fcntl##size)(d, cmd, p); }
FCNTL()
OF64(FCNTL)
// A process says that it leaves its memory. One that has none of its own, or has asked nothing, need not.
#define EXEC(name, params, args) int name params { if (talks == getpid()) SERVE(SYS_execve); return NEXT(name) args; }
EXEC(execve, (const char *p, char *const *a, char *const *e), (p, a, e))
EXEC(execv, (const char *p, char *const *a), (p, a))
EXEC(execvp, (const char *p, char *const *a), (p, a))
EXEC(execvpe, (const char *p, char *const *a, char *const *e), (p, a, e))
EXEC(fexecve, (int d, char *const *a, char *const *e), (d, a, e))
#define EXECL(name, next, after, ...) int name(const char *p, const char *first, ...) { \
	va_list l; \
	int n = 1; \
	va_start(l, first); \
	while (va_arg(l, char *)) n++; \
	va_end(l); \
	char *a[n + 1]; \
	*a = (char *)first; \
	va_start(l, first); \
	for (int i = 1; i <= n; i++) a[i] = va_arg(l, char *); \
	after; \
	va_end(l); \
	return next(p, a, ##__VA_ARGS__); \
}
EXECL(execl, execv, )
EXECL(execlp, execvp, )
EXECL(execle, execve, char **e = va_arg(l, char **), e)
int ioctl(int d, request req, ...) {
	LAST(req, void *, p);
	SERVE(SYS_ioctl, d, (uint32_t)req, U p);
	return NEXT(ioctl)(d, req, p);
}
long syscall(long nr, ...) {
	long a[6];
	va_list l;
	va_start(l, nr);
	for (int i = 0; i < 6; i++) a[i] = va_arg(l, long);
	va_end(l);
	SERVE(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	return kernel(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
