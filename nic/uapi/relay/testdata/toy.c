// A program for the tests of the toy devices: it does what its first argument
// names and prints what it sees.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ECHO = 1, FAIL, PARK, UNPARK, PIPE, REGION, FILL, SUM, FLAGS, PROCESS, DIE, END, HERE, MALLOCS, COUNT, TELL, LISTEN, WAITING, RANG };
#define REGION_LEN (3 * 4096 + 17)

static __thread uint64_t answer;

// ask returns 0 or an errno and stores the answer.
static int ask(int fd, uint64_t op, uint64_t arg) {
	uint64_t c[3] = {op, arg, (uint64_t)&answer};
	answer = ~0ULL;
	ssize_t n = write(fd, c, sizeof c);
	return n < 0 ? errno : n == sizeof c ? 0 : -1;
}

static const char *word(int err) { return err ? strerrorname_np(err) : "ok"; }

static int toy(const char *name, int flags) {
	char path[64];
	snprintf(path, sizeof path, "/dev/tapir-%s", name);
	return open(path, O_RDWR | O_CLOEXEC | flags);
}

static void region(int fd) {
	char *mem = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t want = 0, wrong = 0;
	int err = ask(fd, REGION, (uint64_t)mem + 4096), filled = ask(fd, FILL, 0);
	for (int i = 0; i < REGION_LEN; i++) {
		wrong += (unsigned char)mem[4096 + i] != (i & 255);
		want += (unsigned char)mem[4096 + i];
	}
	int sum = ask(fd, SUM, 0);
	printf("region %s %s %d wrong, sum %s %d\n", word(err), word(filled), (int)wrong, word(sum), want && answer == want);
	mprotect(mem + 2 * 4096, 4096, PROT_READ);
	printf("read-only inside: %s\n", word(ask(fd, REGION, (uint64_t)mem + 4096)));
	munmap(mem, 8 * 4096);
	err = ask(fd, REGION, (uint64_t)mem + 4096);
	printf("unmapped: %s %s\n", word(err), word(ask(fd, SUM, 0)));
}

static int commands(void) {
	int fd = toy("gone", 0);
	printf("gone: %d %s\n", fd, word(errno));
	fd = toy("toy0", O_DIRECT);
	printf("open: %d %s\n", fd, word(errno));
	fd = toy("toy0", 0);
	int other = toy("toy1", O_NONBLOCK), err;
	struct stat st;
	fstat(fd, &st);
	printf("device %d:%d, in range %d\n", major(st.st_rdev), minor(st.st_rdev), fd >= 900 && other >= 900);
	err = ask(fd, ECHO, 41);
	printf("echo %d %s\n", (int)answer, word(err));
	err = ask(other, ECHO, 1);
	printf("echo %d %s\n", (int)answer, word(err));
	printf("fail: %s\n", word(ask(fd, FAIL, ENOMSG)));
	err = write(fd, "short", 5) < 0 ? errno : 0;
	printf("short: %s\n", word(err));
	uint64_t bad[3] = {ECHO, 0, 8};
	err = write(fd, bad, sizeof bad) < 0 ? errno : 0;
	printf("bad answer: %s\n", word(err));
	err = write(fd, (void *)8, 24) < 0 ? errno : 0;
	printf("bad command: %s\n", word(err));
	err = ioctl(fd, 0x1b01, 0) < 0 ? errno : 0;
	printf("ioctl: %s\n", word(err));
	for (int i = 0; i < 2; i++) {
		char text[10] = "";
		err = ask(fd, PIPE, i ? O_CLOEXEC : 0);
		int n = read((int)answer, text, sizeof text - 1);
		printf("pipe: %s %d %d %s\n", text, n, fcntl((int)answer, F_GETFD), word(err));
		close((int)answer);
	}
	err = ask(fd, FLAGS, 0);
	printf("nonblocking %d %s\n", (int)answer, word(err));
	err = ask(other, FLAGS, 0);
	printf("nonblocking %d %s\n", (int)answer, word(err));
	err = ask(fd, PROCESS, 0);
	printf("process %d %s\n", (int)answer == getpid(), word(err));
	region(fd);
	return 0;
}

static void *parked(void *fd) { return (void *)(long)ask((int)(long)fd, PARK, 0); }

// wake has one thread wait on each device and wakes both.
static int wake(void) {
	int fd[2] = {toy("toy0", 0), toy("toy1", 0)};
	pthread_t t[2];
	void *err[2];
	for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, parked, (void *)(long)fd[i]);
	for (int i = 0; i < 2; i++) {
		while (ask(fd[i], UNPARK, 0) == 0 && answer == 0) usleep(1000);
		pthread_join(t[i], &err[i]);
		printf("woken %d %s\n", (int)answer, word((long)err[i]));
	}
	return 0;
}

static volatile int alarms, over;
static void alarmed(int sig) { alarms++; }

static void await_parked(int fd) {
	while (ask(fd, WAITING, 0) == 0 && answer == 0) usleep(1000);
}

// interrupt sends its creator signals as soon as that waits, until it does no more.
static void *interrupt(void *arg) {
	void **what = arg;
	await_parked((int)(long)what[0]);
	for (; !over; usleep(10000)) pthread_kill((pthread_t)what[1], SIGALRM);
	return NULL;
}

// signals: a wait ends with a signal, or begins again after it.
static int signals(void) {
	int fd = toy("toy0", 0);
	struct sigaction a = {.sa_handler = alarmed};
	void *what[2] = {(void *)(long)fd, (void *)pthread_self()};
	pthread_t t;
	void *status;
	sigaction(SIGALRM, &a, NULL);
	pthread_create(&t, NULL, interrupt, what);
	int err = ask(fd, PARK, 0);
	over = 1;
	pthread_join(t, NULL);
	printf("interrupted: %s %d\n", word(err), alarms > 0);
	a.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &a, NULL);
	alarms = 0;
	pthread_create(&t, NULL, parked, (void *)(long)fd);
	for (int i = 1; i <= 3; i++) {
		await_parked(fd);
		pthread_kill(t, SIGALRM);
		while (alarms < i) usleep(1000);
	}
	await_parked(fd);
	ask(fd, UNPARK, 0);
	pthread_join(t, &status);
	printf("restarted: %s\n", word((long)status));
	return 0;
}

// family: a child has what its parent opened, and keeps it alone.
static int family(void) {
	int fd = toy("toy0", 0);
	void *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (fork() == 0) {
		munmap(map, 4096);
		int copy = dup(fd);
		close(fd);
		int err = ask(copy, PROCESS, 0);
		printf("child: %s %d\n", word(err), (int)answer == getpid());
		fflush(stdout);
		char *argv[] = {"toy", "exits", NULL};
		fcntl(copy, F_SETFD, 0);
		char num[16];
		snprintf(num, sizeof num, "%d", copy);
		setenv("TOY_FD", num, 1);
		execv("/proc/self/exe", argv);
		_exit(1);
	}
	close(fd);
	int status;
	wait(&status);
	printf("status %d\n", status);
	return 0;
}

// heir uses a descriptor that it inherited through execve.
static int heir(void) {
	int fd = atoi(getenv("TOY_FD"));
	static char mem[REGION_LEN];
	int err = ask(fd, ECHO, 6);
	printf("heir: %s %d\n", word(err), (int)answer);
	err = ask(fd, REGION, (uint64_t)mem);
	int filled = ask(fd, FILL, 0);
	printf("heir: %s %s %d\n", word(err), word(filled), mem[REGION_LEN - 1] == (char)(REGION_LEN - 1));
	return 0;
}

// at is where executes and image have memory.
static char *at(void) {
	return mmap((void *)0x10000000000, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

static int filled(const char *mem) {
	int n = 0;
	for (int i = 0; i < REGION_LEN; i++) n += mem[i] == (char)i;
	return n == REGION_LEN;
}

static int fill(int fd) { return ask(fd, FILL, 0) == 0 && answer == 1; }

static void tell(int fd) { if (write(fd, "", 1) != 1) exit(9); }
static void hear(int fd) { if (read(fd, &(char){0}, 1) != 1) exit(9); }

// forks: what a process registers is its own memory, at the same addresses as another's, and goes with it.
static int forks(void) {
	int fd = toy("toy0", 0), up[2], down[2];
	char *mem = at(), own[REGION_LEN] = "";
	if (pipe(up) || pipe(down)) return 9;
	printf("region: %s\n", word(ask(fd, REGION, (uint64_t)mem)));
	if (!fork()) {
		tell(up[1]);
		hear(down[0]);
		printf("child: untouched %d", !memcmp(mem, own, sizeof own));
		printf(", region %s", word(ask(fd, REGION, (uint64_t)mem)));
		printf(", %d", fill(fd));
		printf(" %d\n", filled(mem));
		exit(0);
	}
	hear(up[0]);
	int done = fill(fd);
	printf("parent: %d %d\n", done, filled(mem));
	memset(mem, 0, REGION_LEN);
	tell(down[1]);
	wait(NULL);
	done = fill(fd);
	printf("the child's: %d, sum %s, untouched %d\n", done, word(ask(fd, SUM, 0)), !memcmp(mem, own, sizeof own));
	return 0;
}

// executes leaves registered memory behind.
static int executes(void) {
	int fd = toy("toy0", 0);
	char *mem = at(), num[16];
	fcntl(fd, F_SETFD, 0);
	printf("region: %s\n", word(ask(fd, REGION, (uint64_t)mem)));
	if (!vfork()) execl("/bin/true", "true", NULL), _exit(1);
	wait(NULL);
	int err = ask(fd, FILL, 0);
	printf("a child: %s %d %d\n", word(err), (int)answer, filled(mem));
	memset(mem, 0, REGION_LEN);
	execl("/nonexistent", "nothing", NULL);
	err = ask(fd, FILL, 0);
	printf("nothing: %s %d %d\n", word(err), (int)answer, filled(mem));
	sprintf(num, "%d", fd);
	execl("/proc/self/exe", "toy", "image", num, NULL);
	return 1;
}

static int image(int fd) {
	char *mem = at();
	int err = ask(fd, FILL, 0), wrong = 0;
	for (int i = 0; i < REGION_LEN; i++) wrong += mem[i] != 0;
	printf("image: %s %d, %d wrong", word(err), (int)answer, wrong);
	printf(", sum %s\n", word(ask(fd, SUM, 0)));
	printf("region: %s\n", word(ask(fd, REGION, (uint64_t)mem)));
	err = ask(fd, FILL, 0);
	printf("image: %s %d %d\n", word(err), (int)answer, filled(mem));
	return 0;
}

// hold waits until it is killed, with one thread in each device.
static int hold(void) {
	int fd[2] = {toy("toy0", 0), toy("toy1", 0)};
	pthread_t t;
	pthread_create(&t, NULL, parked, (void *)(long)fd[0]);
	usleep(20000);
	return ask(fd[1], PARK, 0);
}

// unpark wakes whoever waits in a device.
static int unpark(void) {
	int err = ask(toy("toy1", 0), UNPARK, 0);
	printf("woken %d %s\n", (int)answer, word(err));
	return 0;
}

// orphan sees its devices die.
static int orphan(void) {
	int fd[2] = {toy("toy0", 0), toy("toy1", 0)};
	pthread_t t[2];
	void *err;
	int pipes[2];
	for (int i = 0; i < 2; i++) ask(fd[i], LISTEN, 1 + i), pipes[i] = answer;
	for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, parked, (void *)(long)fd[i]);
	usleep(50000);
	printf("dying: %s\n", word(ask(fd[0], DIE, 0)));
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &err);
		printf("parked: %s\n", word((long)err));
	}
	printf("afterwards: %s\n", word(ask(fd[1], ECHO, 1)));
	int again = toy("toy0", 0);
	printf("open: %d %s\n", again, word(errno));
	struct stat st;
	int found = stat("/dev/tapir-toy0", &st);
	printf("stat: %d, others: %d\n", found, stat("/dev/null", &st));
	for (int i = 0; i < 2; i++) {
		char words[8] = "";
		int n = read(pipes[i], words, sizeof words - 1);
		printf("last words: %d %s\n", n, words);
	}
	return 0;
}

// outlive sees the loop that receives end, with a command that waits on each.
static int outlive(void) {
	int fd[2] = {toy("toy0", 0), toy("toy1", 0)};
	pthread_t t[2];
	void *err;
	for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, parked, (void *)(long)fd[i]);
	usleep(50000);
	printf("end: %s\n", word(ask(fd[0], END, 0)));
	for (int i = 0; i < 2; i++) {
		int again = ask(fd[i], ECHO, i);
		printf("echo: %s %d\n", word(again), (int)answer);
		while (ask(fd[i], UNPARK, 0) == 0 && answer == 0) usleep(1000);
		pthread_join(t[i], &err);
		printf("parked: %s\n", word((long)err));
	}
	int third = toy("toy1", 0);
	printf("third: %s", word(ask(third, ECHO, 5)));
	printf(" %d\n", (int)answer);
	return 0;
}

// move uses the device that does not receive for long.
static int move(void) {
	int fd[2] = {toy("toy0", 0), toy("toy1", 0)}, failed = 0;
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 200; i++)
			failed += ask(fd[round % 2], ECHO, i) != 0 || answer != (uint64_t)i + 1;
		failed += ask(fd[round % 2], HERE, 0) != 0 || answer != 1;
	}
	printf("failed %d\n", failed);
	return 0;
}

// timer makes commands under a timer of 1 kHz, on one device and then the other: each is carried out once.
static int timer(void) {
	int fd[2] = {toy("toy0", 0), toy("toy1", 0)};
	struct sigaction a = {.sa_handler = alarmed, .sa_flags = SA_RESTART};
	struct itimerval ms = {{0, 1000}, {0, 1000}};
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &ms, NULL);
	int more[2] = {0};
	for (int round = 0; round < 10; round++)
		for (int i = 0; i < 2; i++)
			for (int n = 100 * round + 1; n <= 100 * round + 100; n++) {
				int err = ask(fd[i], COUNT, 0), got = answer;
				if (err || got < n + more[i]) return printf("command %d: %s %d\n", n, word(err), got), 1;
				more[i] = got - n;
			}
	printf("%d twice\n", more[0] + more[1]);
	return 0;
}

static int bench(int rounds) {
	int fd = toy("toy0", 0);
	struct timespec from, to;
	uint64_t c[3] = {ECHO, 1, 0};
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < rounds; i++)
		if (write(fd, c, sizeof c) != sizeof c) return 1;
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%ld\n", (to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec);
	return 0;
}

// mallocs prints how often the node allocates memory for a thousand commands: the least
// of five times, as what else the process does comes in between.
static int mallocs(void) {
	int fd = toy("toy0", 0), least = 1 << 30;
	uint64_t c[3] = {ECHO, 1, 0}, before;
	for (int turn = 0; turn < 5; turn++) {
		for (int i = 0; i < 10; i++) ask(fd, MALLOCS, 0);
		before = answer;
		for (int i = 0; i < 1000; i++)
			if (write(fd, c, sizeof c) != sizeof c) return 1;
		ask(fd, MALLOCS, 0);
		if ((int)(answer - before) < least) least = answer - before;
	}
	printf("%d\n", least);
	return 0;
}

// unfilled makes memory whose pages nobody brings.
static void unfilled(char *mem, size_t len) {
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register all = {.range = {(uint64_t)mem, len}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	madvise(mem, len, MADV_DONTNEED);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &all)) exit(2);
}

// serve_fuse answers what opening a file takes, and no read.
static void serve_fuse(int fd) {
	static char in[1 << 17];
	while (read(fd, in, sizeof in) > 0) {
		struct fuse_in_header *ask = (void *)in;
		struct {
			struct fuse_out_header head;
			union {
				struct fuse_init_out init;
				struct fuse_entry_out entry;
				struct fuse_attr_out attr;
				struct fuse_open_out open;
			};
		} out = {.head = {.unique = ask->unique}};
		size_t n = 0;
		struct fuse_attr file = {.ino = 2, .size = 8 * 4096, .mode = S_IFREG | 0600, .nlink = 1};
		struct fuse_attr root = {.ino = 1, .mode = S_IFDIR | 0700, .nlink = 2};
		switch (ask->opcode) {
		case FUSE_INIT:
			out.init = (struct fuse_init_out){.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
			n = sizeof out.init;
			break;
		case FUSE_LOOKUP: out.entry = (struct fuse_entry_out){.nodeid = 2, .attr = file}, n = sizeof out.entry; break;
		case FUSE_GETATTR: out.attr.attr = ask->nodeid == 1 ? root : file, n = sizeof out.attr; break;
		case FUSE_OPEN: n = sizeof out.open; break;
		case FUSE_READ: continue;
		case FUSE_FLUSH: case FUSE_RELEASE: break;
		default: out.head.error = -ENOSYS;
		}
		out.head.len = sizeof out.head + n;
		if (write(fd, &out, out.head.len) < 0) break;
	}
}

// unread puts a file in the place of mem that a child serves and never reads.
static void unread(char *mem, size_t len) {
	char dir[] = "/tmp/tapir-toy-XXXXXX", name[64], how[64];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(how, sizeof how, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd < 0 || unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || !mkdtemp(dir)) exit(2);
	if (mount("toy", dir, "fuse", 0, how)) exit(2);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(1);
		close(2);
		serve_fuse(fd);
		_exit(0);
	}
	close(fd); // with the child, the file ends
	snprintf(name, sizeof name, "%s/file", dir);
	int file = open(name, O_RDWR);
	if (mmap(mem, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) exit(2);
	umount2(dir, MNT_DETACH);
	rmdir(dir);
}

static char *jammed;

static void *look(void *arg) {
	char octet;
	int fd = open("/proc/self/mem", O_RDONLY);
	pread(fd, &octet, 1, (off_t)jammed);
	return NULL;
}

static void *change(void *arg) {
	for (;;) {
		void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p != MAP_FAILED) munmap(p, 4096);
	}
}

// jams has the kernel hold the lock of its mappings, by a thread that waits for a
// page and others that want to change them. The NIC ends that by ending the program. With
// bulk, a child asks for the memory of its parent, which the NIC copies as a whole.
static int jams(int bulk) {
	int fd = toy("toy0", 0), err;
	char *mem = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t;
	jammed = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	alarm(30);
	unread(jammed, 8 * 4096);
	err = ask(fd, REGION, (uint64_t)mem);
	ask(fd, FILL, 0); // all of its pages are there
	printf("region %s\n", word(err));
	fflush(stdout);
	if (bulk && fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) ask(fd, SUM, 0);
	}
	pthread_create(&t, NULL, change, NULL); // first: a thread's stack is a mapping
	pthread_create(&t, NULL, look, NULL);
	for (;;) bulk ? pause() : ask(fd, FILL, 0);
}

static void *take(void *fd) {
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unfilled(page, 4096);
	read((int)(long)fd, page, 1);
	return NULL;
}

// clogs reads a pipe of the NIC's to a page that does not come: the kernel locks
// the pipe meanwhile.
static int clogs(void) {
	int fd = toy("toy0", 0), err = ask(fd, LISTEN, 0);
	pthread_t t;
	alarm(30);
	printf("pipe %s\n", word(err));
	fflush(stdout);
	pthread_create(&t, NULL, take, (void *)(long)answer);
	for (;;) ask(fd, TELL, 0);
}

// stalls registers memory whose pages then do not come. The NIC does not wait for
// them, nor another program for the NIC.
static int stalls(void (*spoil)(char *, size_t)) {
	int fd = toy("toy0", 0), other = toy("toy0", 0), commands;
	char *mem = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	alarm(30);
	int err = ask(fd, REGION, (uint64_t)mem), filled = ask(fd, FILL, 0);
	printf("region %s, filled %s %d\n", word(err), word(filled), (int)answer);
	spoil(mem, 8 * 4096);
	for (commands = 0; commands < 100; commands++) {
		if (ask(fd, FILL, 0) || answer != 0 || ask(fd, SUM, 0) != EFAULT || ask(other, ECHO, 1) || answer != 2) break;
	}
	printf("%d commands of another file between accesses that fail\n", commands);
	uint64_t *command = (uint64_t *)mem;
	printf("answer: ");
	uint64_t to[3] = {ECHO, 1, (uint64_t)mem};
	printf("%s\n", word(write(fd, to, sizeof to) < 0 ? errno : 0));
	printf("command: %s\n", word(write(fd, command, 24) < 0 ? errno : 0));
	printf("region: %s\n", word(ask(fd, REGION, (uint64_t)mem)));
	return 0;
}

// What a program and the NIC share of a file's doorbells (nic/uapi/doorbell).
struct doorbells { uint64_t rung[64], words; uint32_t gone, looks; uint64_t posts[64], notifies[64]; uint32_t armed[4096]; };

static struct doorbells *doorbells(int fd, int *signal) {
	int32_t got[2] = {-1, -1};
	struct { uint32_t command; uint16_t in, out; void *answer; } c = {0x7a0000d0, 4, 2, got};
	if (write(fd, &c, sizeof c) != sizeof c) return NULL;
	struct doorbells *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED, got[0], 0);
	close(got[0]);
	*signal = got[1];
	return d == MAP_FAILED ? NULL : d;
}

static void ring(struct doorbells *d, int signal, unsigned n) {
	uint64_t one = 1;
	if (__atomic_fetch_or(d->rung + n / 64, 1ull << n % 64, __ATOMIC_SEQ_CST) >> n % 64 & 1) return;
	__atomic_fetch_or(&d->words, 1ull << n / 64, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&d->looks, __ATOMIC_SEQ_CST)) write(signal, &one, sizeof one);
}

// rings rings doorbells in place of commands, and so does its child, until the NIC dies.
static int rings(void) {
	int fd = toy("toy0", 0), signal, missed = 0;
	struct doorbells *d = doorbells(fd, &signal);
	if (!d) return printf("no doorbells: %s\n", word(errno)), 1;
	alarm(60);
	for (int i = 0; i < 1000; i++) {
		ring(d, signal, i % 4096);
		if (ask(fd, RANG, 0) || answer != i + 1) missed++; // what was rung for comes before a command
	}
	printf("%d missed\n", missed);
	if (!fork()) {
		int other;
		struct doorbells *again = doorbells(fd, &other);
		for (int i = 0; i < 10; i++) ring(d, signal, i), ring(again, other, 100 + i);
		exit(0);
	}
	while (!ask(fd, RANG, 0) && answer != 1020) usleep(1000);
	printf("a child rings too\n");
	ring(d, signal, 7); // nobody asks
	ask(fd, DIE, 0);
	while (!__atomic_load_n(&d->gone, __ATOMIC_SEQ_CST)) usleep(1000);
	printf("told of the end\n");
	return 0;
}

int main(int argc, char **argv) {
	setvbuf(stdout, NULL, _IOLBF, 0);
	char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "commands")) return commands();
	if (!strcmp(what, "wake")) return wake();
	if (!strcmp(what, "signals")) return signals();
	if (!strcmp(what, "family")) return family();
	if (!strcmp(what, "exits")) return heir();
	if (!strcmp(what, "forks")) return forks();
	if (!strcmp(what, "executes")) return executes();
	if (!strcmp(what, "unfilled")) return stalls(unfilled);
	if (!strcmp(what, "unread")) return stalls(unread);
	if (!strcmp(what, "jams")) return jams(0);
	if (!strcmp(what, "jams-bulk")) return jams(1);
	if (!strcmp(what, "clogs")) return clogs();
	if (!strcmp(what, "image")) return image(atoi(argv[2]));
	if (!strcmp(what, "hold")) return hold();
	if (!strcmp(what, "unpark")) return unpark();
	if (!strcmp(what, "orphan")) return orphan();
	if (!strcmp(what, "outlive")) return outlive();
	if (!strcmp(what, "move")) return move();
	if (!strcmp(what, "timer")) return timer();
	if (!strcmp(what, "rings")) return rings();
	if (!strcmp(what, "mallocs")) return mallocs();
	if (!strcmp(what, "bench")) return bench(atoi(argv[2]));
	return 2;
}
