// Rings the doorbells of a NIC (nic/uapi/doorbell) in place of the commands by
// which librxe tells a device of posts, arms completion queues in memory in place of
// those by which it asks for notifications, and has rate limits of queue pairs, which
// librxe has not. It belongs to no C library and needs none: it is
// one file for all of them.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

enum {
	FIRST = 900, FILES = 64, // descriptors of device files
	HANDLES = 4096,
	DOORBELLS = 0x7a0000d0, POST_SEND = 28, // commands
	QUERY_DEVICE = 1, MODIFY_QP = 26, EXTENDED = 1 << 31,
	RATE_LIMIT = 1 << 25, // of ibv_qp_attr_mask
	NO_ENTRY = 2, NO_DEVICE = 19, INVALID = 22, // error numbers
	NOT, SOLICITED, NEXT,   // what a completion queue is armed for
	EMPTY_POLLS = 32,       // in a row, until the processor is yielded
	O_CLOEXEC = 02000000, O_PATH = 010000000,
};

// What is shared with the NIC: doorbell.go.
struct page {
	u64 rung[HANDLES / 64], words;
	u32 gone, looks;
	u64 posts[HANDLES / 64], notifies[HANDLES / 64];
	u32 armed[HANDLES];
};

struct file {
	u32 state; // FRESH...
	int signal;
	struct page *page, *old;
	u32 gone; // the NIC has ended
};
enum { FRESH, ASKING, READY, NONE };
static struct file files[FILES];

struct header { u32 command; u16 in, out; };
struct ask { struct header h; int *answer; };
struct post { struct header h; u64 response; u32 qp, requests, elements, size; };

#ifdef __x86_64__
enum { SYS_WRITE = 1, SYS_CLOSE = 3, SYS_MMAP = 9, SYS_MUNMAP = 11, SYS_YIELD = 24, SYS_FCNTL = 72, O_DIRECTORY = 0200000 };
static long call(long nr, long a, long b, long c, long d, long e, long f) {
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return r;
}
#else
enum { SYS_WRITE = 64, SYS_CLOSE = 57, SYS_MMAP = 222, SYS_MUNMAP = 215, SYS_YIELD = 124, SYS_FCNTL = 25, O_DIRECTORY = 040000 };
static long call(long nr, long a, long b, long c, long d, long e, long f) {
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d,
		x4 __asm__("x4") = e, x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}
#endif
#define CALL(nr, a, b, c) call(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)

// Of the C library, as far as there is one. A name that is found nowhere is 0.
#define WEAK __attribute__((weak))
extern WEAK void *dlsym(void *, const char *);
extern WEAK void *dlopen(const char *, int);
extern WEAK long __write(int, const void *, u64);
extern WEAK int __close(int);
extern WEAK int *__errno_location(void);
extern WEAK int open(const char *, int, ...);
extern WEAK int fchdir(int);

// next is the function of that name that this library stands before.
static void *next(const char *name, void *otherwise) {
	void *f = dlsym ? dlsym((void *)-1, name) : 0;
	return f ? f : otherwise;
}
static long (*next_write)(int, const void *, u64);
static int (*next_close)(int);
static int (*next_chdir)(const char *);
static void find(void) {
	next_chdir = next("chdir", 0);
	next_close = next("close", __close);
	next_write = next("write", __write);
}
__attribute__((constructor)) static void load(void) { find(); }

static long plain_write(int fd, const void *b, u64 n) {
	if (!next_write) find();
	return next_write(fd, b, n);
}

static void let_go(struct file *f) {
	if (f->old) CALL(SYS_MUNMAP, f->old, sizeof *f->old, 0);
	f->old = f->page; // a thread may still look
	CALL(SYS_CLOSE, f->signal, 0, 0);
	__atomic_store_n(&f->state, FRESH, __ATOMIC_SEQ_CST);
}

// page is that of a device file; 0: it has none.
static struct page *page(struct file *f, int fd) {
	u32 state = __atomic_load_n(&f->state, __ATOMIC_ACQUIRE);
	if (state == READY && f->page->gone) let_go(f), f->gone = 1, state = FRESH;
	if (state == READY) return f->page;
	if (state != FRESH || !__atomic_compare_exchange_n(&f->state, &state, ASKING, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return 0;
	int answer[2] = {-1, -1}; // valgrind does not see who writes them
	struct ask a = {{DOORBELLS, sizeof a / 4, sizeof answer / 4}, answer};
	state = NONE;
	if (plain_write(fd, &a, sizeof a) == sizeof a) {
		long at = call(SYS_MMAP, 0, sizeof(struct page), 3, 1, answer[0], 0);
		CALL(SYS_CLOSE, answer[0], 0, 0);
		f->signal = CALL(SYS_FCNTL, answer[1], 1030, FIRST + FILES); // F_DUPFD_CLOEXEC: programs count on the low numbers
		CALL(SYS_CLOSE, answer[1], 0, 0);
		if (f->signal >= 0 && (u64)at < -4096ul) f->page = (void *)at, state = READY;
	}
	__atomic_store_n(&f->state, state, __ATOMIC_RELEASE);
	return state == READY ? f->page : 0;
}

static int has(const u64 *bits, u32 n) { return __atomic_load_n(bits + n / 64, __ATOMIC_ACQUIRE) >> n % 64 & 1; }

// ring tells whether the NIC has been told, or need not be.
static int ring(struct page *p, int signal, u32 n) {
	u64 bit = 1ul << n % 64, one = 1;
	if (__atomic_fetch_or(p->rung + n / 64, bit, __ATOMIC_SEQ_CST) & bit) return 1;
	__atomic_fetch_or(&p->words, 1ul << n / 64, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&p->looks, __ATOMIC_SEQ_CST) || CALL(SYS_WRITE, signal, &one, sizeof one) == sizeof one;
}

// served tells whether a command is done.
static int served(int fd, const void *b, u64 n) {
	struct file *f = files + fd - FIRST;
	const struct post *post = b;
	struct page *p;
	return n == sizeof *post && post->h.command == POST_SEND && !post->requests && post->qp < HANDLES &&
		(p = page(f, fd)) && has(p->posts, post->qp) && ring(p, f->signal, post->qp);
}

#define PUBLIC __attribute__((visibility("default")))

PUBLIC long write(int fd, const void *b, u64 n) {
	if ((u32)fd - FIRST < FILES && n <= sizeof(struct post) && served(fd, b, n)) return n;
	return plain_write(fd, b, n);
}

PUBLIC int close(int fd) {
	struct file *f = files + fd - FIRST;
	if ((u32)fd - FIRST < FILES) {
		f->gone = 0;
		if (f->state == READY) let_go(f);
		else __atomic_store_n(&f->state, FRESH, __ATOMIC_SEQ_CST);
	}
	if (!next_close) find();
	return next_close(fd);
}

// chdir goes by a descriptor: the kernel knows the directory that a supervisor shows, but
// not its path.
PUBLIC int chdir(const char *path) {
	int fd = open && fchdir ? open(path, O_DIRECTORY | O_PATH | O_CLOEXEC) : -1;
	if (!next_chdir) find();
	if (fd < 0) return next_chdir(path); // the kernel says what is wrong
	int failed = fchdir(fd);
	CALL(SYS_CLOSE, fd, 0, 0);
	return failed;
}

// A context of libibverbs (infiniband/verbs.h), as far as it matters, with what stands
// before it if it is one of the extended ABI; a queue pair, a completion queue of
// either form, and attributes.
struct cq;
struct context {
	void *device, *before[11];
	int (*poll)(struct cq *, int n, void *wc);
	int (*notify)(struct cq *, int solicited);
	void *after[19];
	int fd, events, vectors;
	u64 mutex[5];
	void *compat;
};
struct cq {
	struct context *context;
	void *before[2];
	u32 handle, entries;
	u64 locks[11], completed, status, wr_id;
	int (*start)(struct cq *, void *attr);
};
struct qp { struct context *context; void *before[5]; u32 handle; };
struct limit { u32 kbps, burst; u16 packet; u32 more; };
struct verbs_context {
	int (*limit)(struct qp *, const struct limit *);
	void *before[11];
	struct cq *(*create)(struct context *, void *attr);
	void *private;
	int (*query)(struct context *, const void *, u8 *, u64);
	void *after[11];
	u64 size;
	struct context context;
};
enum { ATTR_RATE = 136, PACING_CAPS = 332 }; // ibv_qp_attr.rate_limit, ibv_device_attr_ex.packet_pacing_caps
static int (*next_poll)(struct cq *, int n, void *wc);
static int (*next_notify)(struct cq *, int solicited);
static int (*next_start)(struct cq *, void *attr);
static struct cq *(*next_create)(struct context *, void *attr);
static int (*next_query)(struct context *, const void *, u8 *, u64);
static u32 empty;

static int ours(const struct context *c) { return (u32)c->fd - FIRST < FILES; }

// of_verbs is a function of libibverbs, in its newest version: glibc 2.31 gives the oldest
// one to who asks for the next of a name.
static void *of_verbs(const char *name) {
	void *library = dlopen && dlsym ? dlopen("libibverbs.so.1", 5) : 0, *f; // RTLD_LAZY | RTLD_NOLOAD
	return library && (f = dlsym(library, name)) ? f : next(name, 0);
}

// Commands of the extended form.
struct extended { u32 command; u16 in, out; void *answer; u16 driver_in, driver_out; u32 reserved; };
struct modify { struct extended h; u32 before[16], qp, mask, after[10], kbps, reserved; };
struct query { struct extended h; u32 mask, reserved; };

// set_limit has a queue pair send no more than that; it returns an error number.
static int set_limit(struct qp *q, u32 kbps) {
	struct modify m;
	u32 answer[2];
	for (u32 i = 0; i < sizeof m / 4; i++) ((volatile u32 *)&m)[i] = 0;
	m.h.command = EXTENDED | MODIFY_QP, m.h.in = 15, m.h.out = 1, m.h.answer = answer;
	m.qp = q->handle, m.mask = RATE_LIMIT, m.kbps = kbps;
	if (plain_write(q->context->fd, &m, sizeof m) == sizeof m) return 0;
	return __errno_location ? *__errno_location() : INVALID;
}

static int limit(struct qp *q, const struct limit *l) {
	return l->burst || l->packet || l->more ? INVALID : set_limit(q, l->kbps);
}

// query adds what the NIC says of rate limits.
static int query(struct context *c, const void *in, u8 *attr, u64 size) {
	int failed = next_query(c, in, attr, size);
	u32 answer[50]; // attributes of 184 octets, then those of the driver
	struct query q = {{EXTENDED | QUERY_DEVICE, 1, 23, answer, 0, 2, 0}, 0, 0};
	if (!failed && ours(c) && size >= PACING_CAPS + 12 && plain_write(c->fd, &q, sizeof q) == sizeof q)
		for (int i = 0; i < 3; i++) ((u32 *)(attr + PACING_CAPS))[i] = answer[46 + i];
	return failed;
}

PUBLIC int ibv_modify_qp(struct qp *q, u8 *attr, int mask) {
	static int (*modify)(struct qp *, u8 *, int);
	if (!modify) modify = of_verbs("ibv_modify_qp");
	if (!(mask & RATE_LIMIT) || !ours(q->context)) return modify(q, attr, mask);
	int failed = mask ^ RATE_LIMIT ? modify(q, attr, mask ^ RATE_LIMIT) : 0;
	return failed ? failed : set_limit(q, *(u32 *)(attr + ATTR_RATE));
}

// waited lets others have the processor, the NIC among them, when polling has found
// nothing for a while. It tells whether nothing will ever come: the NIC has ended.
static int waited(struct cq *q, int found) {
	if (found) empty = 0;
	if (found || ++empty % EMPTY_POLLS) return 0;
	int fd = q->context->fd;
	if (ours(q->context) && !page(files + fd - FIRST, fd) && files[fd - FIRST].gone) return 1;
	CALL(SYS_YIELD, 0, 0, 0);
	return 0;
}

static int poll(struct cq *q, int n, void *wc) {
	int got = next_poll(q, n, wc);
	return waited(q, got) ? -NO_DEVICE : got;
}

// start is poll of the other form of queues.
static int start(struct cq *q, void *attr) {
	int failed = next_start(q, attr);
	return waited(q, failed != NO_ENTRY) ? NO_DEVICE : failed;
}

static struct cq *create(struct context *c, void *attr) {
	struct cq *q = next_create(c, attr);
	if (q && ours(c) && (!next_start || next_start == q->start)) next_start = q->start, q->start = start;
	return q;
}

// notify arms a queue in memory, if the NIC looks there.
static int notify(struct cq *q, int solicited) {
	int fd = q->context->fd;
	struct page *p = ours(q->context) && q->handle < HANDLES ? page(files + fd - FIRST, fd) : 0;
	if (!p || !has(p->notifies, q->handle)) return next_notify(q, solicited);
	u32 not = NOT, *armed = p->armed + q->handle;
	if (solicited) __atomic_compare_exchange_n(armed, &not, SOLICITED, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	else __atomic_exchange_n(armed, NEXT, __ATOMIC_SEQ_CST);
	return 0;
}

PUBLIC struct context *ibv_open_device(void *device) {
	struct context *(*open)(void *) = of_verbs("ibv_open_device"), *c = open ? open(device) : 0;
	if (!c || !ours(c)) return c;
	if (!next_poll || next_poll == c->poll) next_poll = c->poll, c->poll = poll;
	if (!next_notify || next_notify == c->notify) next_notify = c->notify, c->notify = notify;
	struct verbs_context *v = (void *)((u8 *)c - __builtin_offsetof(struct verbs_context, context));
	if (c->compat != (void *)-1ul || v->size < sizeof *v) return c;
	v->limit = limit;
	if (v->query && (!next_query || next_query == v->query)) next_query = v->query, v->query = query;
	if (v->create && (!next_create || next_create == v->create)) next_create = v->create, v->create = create;
	return c;
}
