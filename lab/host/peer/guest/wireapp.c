/*
 * wireapp - the application of a wire script, in a Linux guest or under `tapir run`:
 * it does what it is told over a connection and tells what happens to it. Package
 * tapir/lab/tool/live is at the other end.
 *
 *   wireapp PORT      over TCP
 *   wireapp -         over standard input, which is a socket
 *
 * Each TCP connection is served by a process of its own, which owns all that it
 * makes: nothing is left of a script when its connection ends. A command is a
 * line, answered by a line that begins with "ok" or "err":
 *
 *   mr PD LEN GUARD RIGHTS         ok ADDRESS KEY; GUARD octets more on either side
 *   dereg KEY
 *   put ADDR LEN, and LEN octets   get ADDR LEN: ok HEX|-
 *   srq PD WRS                     limit WRS: an event when fewer receives are left
 *   qp QP PD SENDS RECVS SGES INLINE SHARED [SERVICE]    ok QPN
 *   recv QP|0 ID N [ADDR LEN KEY]...            0: into the shared queue
 *   post QP ID OPCODE FLAGS ADDR KEY INV|IMM HEX|- N [ADDR LEN KEY]... [COMPARE|ADD SWAP]
 *   modify QP STATE                state QP: ok STATE
 *   ready QP ADDR REMOTE RIGHTS QKEY MTU QPN PSN READS RNRTIMER PSN TIMEOUT RETRY RNRRETRY DEPTH
 *                                  the queue pair of a port with GIDs, connected by hand
 *   listen ADDR PORT BACKLOG       unlisten
 *   connect ID QP ADDR PORT REMOTE PORT IRD ORD HEX|-   answered at once
 *   accept ID QP IRD ORD HEX|-     IRD, ORD -1: what the request has
 *   reject ID HEX|-                disconnect ID
 *   sync                           all that has happened is told before the answer
 *
 * What happens is a line, too, with numbers of the verbs library:
 *
 *   ev ID EVENT STATUS PORT IRD ORD HEX|-   wc QP ID STATUS OPCODE LEN FLAGS INV   as EVENT QP
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QPS = 128, PDS = 16, IDS = 256, MRS = 64, SGES = 16, LINE = 8192, PRIVATE = 512 };

static FILE *in, *out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of out and ids */
static struct ibv_context *dev;
static struct ibv_pd *pds[PDS];
static struct ibv_mr *mrs[MRS];
static struct ibv_qp *qps[QPS];
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct rdma_event_channel *events;
static struct rdma_cm_id *ids[IDS], *listener;
static int nids = QPS; /* those below belong to connections that are made from here */
static char *word_at;

static void say(const char *f, ...)
{
	va_list a;
	va_start(a, f);
	pthread_mutex_lock(&lock);
	vfprintf(out, f, a);
	fputc('\n', out);
	fflush(out);
	pthread_mutex_unlock(&lock);
	va_end(a);
}

static void answer(int failed)
{
	if (failed)
		say("err %s", strerror(errno ? errno : EINVAL));
	else
		say("ok");
}

/* failed turns the return value of a verb into errno. */
static int failed(int e)
{
	if (e > 0)
		errno = e;
	return e != 0;
}

static char *word(void)
{
	char *w = strtok_r(NULL, " \n", &word_at);
	return w ? w : "0";
}

static unsigned long long number(void) { return strtoull(word(), NULL, 0); }
static int small(int limit) { return (int)(number() % limit); }

static int unhex(const char *s, unsigned char *to, int room)
{
	int n = 0;
	unsigned v;
	while (*s != '-' && n < room && sscanf(s, "%2x", &v) == 1) {
		to[n++] = v;
		s += 2;
	}
	return n;
}

static void hex(const void *p, int n, char *to)
{
	const unsigned char *b = p;
	for (int i = 0; i < n; i++) {
		*to++ = "0123456789abcdef"[b[i] >> 4];
		*to++ = "0123456789abcdef"[b[i] & 15];
	}
	strcpy(to, n ? "" : "-");
}

static void address(struct sockaddr_storage *ss)
{
	struct sockaddr_in *a4 = (void *)ss;
	struct sockaddr_in6 *a6 = (void *)ss;
	char *text = word();
	int port = htons(number());
	memset(ss, 0, sizeof *ss);
	if (inet_pton(AF_INET6, text, &a6->sin6_addr) == 1) {
		a6->sin6_family = AF_INET6;
		a6->sin6_port = port;
		return;
	}
	inet_pton(AF_INET, text, &a4->sin_addr);
	a4->sin_family = AF_INET;
	a4->sin_port = port;
}

static int qp_of(uint32_t num)
{
	for (int i = 0; i < QPS; i++)
		if (qps[i] && qps[i]->qp_num == num)
			return i;
	return 0;
}

/* ------------------------------------------------------- what happens */

static void completions(void)
{
	struct ibv_wc w;
	while (ibv_poll_cq(cq, 1, &w) > 0)
		say("wc %d %llu %d %d %u %d %u", qp_of(w.qp_num), (unsigned long long)w.wr_id, w.status, w.opcode, w.byte_len,
		    w.wc_flags, w.invalidated_rkey);
}

static void asyncs(void)
{
	struct ibv_async_event e;
	while (!ibv_get_async_event(dev, &e)) {
		int t = e.event_type;
		int qp = (t >= IBV_EVENT_QP_FATAL && t <= IBV_EVENT_PATH_MIG_ERR) || t == IBV_EVENT_QP_LAST_WQE_REACHED;
		say("as %d %d", t, qp ? qp_of(e.element.qp->qp_num) : 0);
		ibv_ack_async_event(&e);
	}
}

static int number_of(struct rdma_cm_id *id)
{
	pthread_mutex_lock(&lock);
	int i = 0;
	while (i < nids && ids[i] != id)
		i++;
	if (i == nids && nids < IDS)
		ids[nids++] = id;
	pthread_mutex_unlock(&lock);
	return i;
}

static void connection(void)
{
	struct rdma_cm_event *e;
	char text[2 * PRIVATE + 2];
	while (!rdma_get_cm_event(events, &e)) {
		struct rdma_conn_param *p = &e->param.conn;
		hex(p->private_data, p->private_data ? p->private_data_len : 0, text);
		say("ev %d %d %d %d %d %d %s", number_of(e->id), e->event, e->status, ntohs(rdma_get_dst_port(e->id)),
		    p->responder_resources, p->initiator_depth, text);
		if (e->event == RDMA_CM_EVENT_DISCONNECTED && dev->device->transport_type == IBV_TRANSPORT_IB)
			rdma_disconnect(e->id); /* which the peer's DREQ waits for */
		rdma_ack_cm_event(e);
	}
}

/* ----------------------------------------------------------- commands */

static struct ibv_pd *pd(void)
{
	int i = small(PDS);
	if (!pds[i])
		pds[i] = ibv_alloc_pd(dev);
	return pds[i];
}

static void do_mr(void)
{
	struct ibv_pd *p = pd();
	size_t n = number(), guard = number();
	int rights = number(), i = 0;
	char *m;
	while (i < MRS && mrs[i])
		i++;
	if (i == MRS || posix_memalign((void **)&m, 4096, n + 2 * guard + 1) || !(mrs[i] = ibv_reg_mr(p, m + guard, n, rights))) {
		answer(1);
		return;
	}
	say("ok %llu %u", (unsigned long long)(uintptr_t)(m + guard), mrs[i]->rkey);
}

static void do_dereg(void)
{
	uint32_t key = number();
	for (int i = 0; i < MRS; i++)
		if (mrs[i] && mrs[i]->rkey == key) {
			int e = failed(ibv_dereg_mr(mrs[i]));
			mrs[i] = NULL;
			answer(e);
			return;
		}
	errno = ENOENT;
	answer(1);
}

static void do_put(void)
{
	char *to = (char *)(uintptr_t)number();
	size_t n = number();
	if (fread(to, 1, n, in) != n)
		exit(0);
	answer(0);
}

static void do_get(void)
{
	char *from = (char *)(uintptr_t)number();
	size_t n = number();
	char *text = malloc(2 * n + 2);
	hex(from, n, text);
	say("ok %s", text);
	free(text);
}

static void do_srq(void)
{
	struct ibv_pd *p = pd();
	struct ibv_srq_init_attr a = { .attr = { .max_wr = number(), .max_sge = 4 } };
	srq = ibv_create_srq(p, &a);
	answer(!srq);
}

static void do_limit(void)
{
	struct ibv_srq_attr a = { .srq_limit = number() };
	answer(failed(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT)));
}

static void do_qp(void)
{
	int i = small(QPS);
	struct ibv_pd *p = pd();
	struct ibv_qp_init_attr a = { .send_cq = cq, .recv_cq = cq };
	a.cap.max_send_wr = number();
	a.cap.max_recv_wr = number();
	a.cap.max_send_sge = a.cap.max_recv_sge = number();
	a.cap.max_inline_data = number();
	if (number())
		a.srq = srq;
	int service = number();
	a.qp_type = service ? service : IBV_QPT_RC;
	qps[i] = ibv_create_qp(p, &a);
	if (qps[i])
		say("ok %u", qps[i]->qp_num);
	else
		answer(1);
}

static union ibv_gid gid(const char *text)
{
	union ibv_gid g = { .raw = { [10] = 0xff, 0xff } };
	if (inet_pton(AF_INET6, text, &g) != 1)
		inet_pton(AF_INET, text, g.raw + 12);
	return g;
}

static int index_of(union ibv_gid want)
{
	struct ibv_gid_entry e;
	for (int i = 0; i < 256; i++)
		if (!ibv_query_gid_ex(dev, 1, i, &e, 0) && e.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(&e.gid, &want, sizeof want))
			return i;
	return -1;
}

static void do_ready(void)
{
	struct ibv_qp *q = qps[small(QPS)];
	union ibv_gid local = gid(word()), remote = gid(word());
	struct ibv_qp_attr a = { .port_num = 1, .path_mtu = IBV_MTU_256 };
	int index = index_of(local), type = q->qp_type, rc = type == IBV_QPT_RC, ud = type == IBV_QPT_UD;
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	int rtr = IBV_QP_STATE, rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
	a.qp_access_flags = number();
	a.qkey = number();
	for (int n = number(); n > 256; n /= 2)
		a.path_mtu++;
	if (!ud)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (rc) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	a.dest_qp_num = number();
	a.rq_psn = number();
	a.max_dest_rd_atomic = number();
	a.min_rnr_timer = number();
	a.sq_psn = number();
	a.timeout = number();
	a.retry_cnt = number();
	a.rnr_retry = number();
	a.max_rd_atomic = number();
	a.ah_attr = (struct ibv_ah_attr){ .is_global = 1, .port_num = 1, .grh = { .dgid = remote, .sgid_index = index, .hop_limit = 64 } };
	errno = EADDRNOTAVAIL;
	int e = index < 0;
	a.qp_state = IBV_QPS_INIT;
	e = e || failed(ibv_modify_qp(q, &a, init));
	a.qp_state = IBV_QPS_RTR;
	e = e || failed(ibv_modify_qp(q, &a, rtr));
	a.qp_state = IBV_QPS_RTS;
	answer(e || failed(ibv_modify_qp(q, &a, rts)));
}

static void do_state(void)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;
	if (failed(ibv_query_qp(qps[small(QPS)], &a, IBV_QP_STATE, &i)))
		answer(1);
	else
		say("ok %d", a.qp_state);
}

static int sges(struct ibv_sge *s)
{
	int n = small(SGES);
	for (int i = 0; i < n; i++) {
		s[i].addr = number();
		s[i].length = number();
		s[i].lkey = number();
	}
	return n;
}

static void do_recv(void)
{
	int i = small(QPS);
	struct ibv_sge s[SGES];
	struct ibv_recv_wr w = { .wr_id = number(), .sg_list = s, .num_sge = sges(s) }, *bad;
	answer(failed(i ? ibv_post_recv(qps[i], &w, &bad) : ibv_post_srq_recv(srq, &w, &bad)));
}

static void do_post(void)
{
	static unsigned char data[LINE];
	struct ibv_sge s[SGES];
	struct ibv_send_wr w = { .sg_list = s }, *bad;
	int i = small(QPS);
	w.wr_id = number();
	w.opcode = number();
	w.send_flags = number();
	w.wr.rdma.remote_addr = number();
	w.wr.rdma.rkey = number();
	uint32_t inv = number();
	if (w.opcode == IBV_WR_SEND_WITH_INV) {
		w.invalidate_rkey = inv;
		w.wr.rdma.rkey = inv; /* where libsiw looks for it */
	} else {
		w.imm_data = htonl(inv);
	}
	int n = unhex(word(), data, sizeof data);
	w.num_sge = sges(s);
	if (w.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w.wr.atomic.rkey = w.wr.rdma.rkey; /* the address is in the same place */
		w.wr.atomic.compare_add = number();
		w.wr.atomic.swap = number();
	}
	if (w.send_flags & IBV_SEND_INLINE) {
		s[0] = (struct ibv_sge){ (uintptr_t)data, n, 0 };
		w.num_sge = 1;
	}
	answer(failed(ibv_post_send(qps[i], &w, &bad)));
}

static void do_modify(void)
{
	int i = small(QPS);
	struct ibv_qp_attr a = { .qp_state = number() };
	answer(failed(ibv_modify_qp(qps[i], &a, IBV_QP_STATE)));
}

static void do_listen(void)
{
	struct sockaddr_storage at;
	address(&at);
	int backlog = number();
	answer(rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) || rdma_bind_addr(listener, (void *)&at) || rdma_listen(listener, backlog));
}

static struct rdma_conn_param parameters(struct ibv_qp *qp, unsigned char *data)
{
	struct rdma_conn_param p = { .retry_count = 7, .rnr_retry_count = 7, .qp_num = qp->qp_num, .srq = !!qp->srq };
	int ird = atoi(word()), ord = atoi(word());
	p.responder_resources = ird < 0 ? RDMA_MAX_RESP_RES : ird;
	p.initiator_depth = ord < 0 ? RDMA_MAX_INIT_DEPTH : ord;
	p.private_data = data;
	p.private_data_len = unhex(word(), data, PRIVATE);
	return p;
}

/* A dial blocks until the TCP connection is there, which may never be. */
struct dial {
	int id, qp;
	struct sockaddr_storage local, remote;
	struct rdma_conn_param p;
	unsigned char data[PRIVATE];
};

static void *dial(void *arg)
{
	struct dial *d = arg;
	struct rdma_cm_id *id;
	int e = rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) ||
		rdma_resolve_addr(id, (void *)&d->local, (void *)&d->remote, 5000) || rdma_resolve_route(id, 5000) || rdma_migrate_id(id, events);
	if (!e) {
		pthread_mutex_lock(&lock);
		ids[d->id] = id;
		pthread_mutex_unlock(&lock);
		id->qp = qps[d->qp];
		d->p.private_data = d->data;
		e = rdma_connect(id, &d->p);
	}
	if (e)
		say("ev %d %d %d 0 0 0 -", d->id, RDMA_CM_EVENT_UNREACHABLE, -errno);
	free(d);
	return NULL;
}

static void do_connect(void)
{
	struct dial *d = calloc(1, sizeof *d);
	pthread_t t;
	d->id = small(QPS);
	d->qp = small(QPS);
	address(&d->local);
	address(&d->remote);
	d->p = parameters(qps[d->qp], d->data);
	answer(failed(pthread_create(&t, NULL, dial, d)));
}

static void do_accept(void)
{
	struct rdma_cm_id *id = ids[small(IDS)];
	unsigned char data[PRIVATE];
	int i = small(QPS);
	struct rdma_conn_param p = parameters(qps[i], data);
	id->qp = qps[i];
	answer(rdma_accept(id, &p));
}

static void do_reject(void)
{
	struct rdma_cm_id *id = ids[small(IDS)];
	unsigned char data[PRIVATE];
	int n = unhex(word(), data, PRIVATE);
	answer(rdma_reject(id, data, n));
}

static void do_disconnect(void) { answer(rdma_disconnect(ids[small(IDS)])); }

static void do_unlisten(void)
{
	answer(rdma_destroy_id(listener));
	listener = NULL;
}

static void look(void)
{
	connection();
	completions();
	asyncs();
}

static void do_sync(void)
{
	look();
	answer(0);
}

static const struct { const char *name; void (*run)(void); } commands[] = {
	{ "mr", do_mr }, { "dereg", do_dereg }, { "put", do_put }, { "get", do_get }, { "srq", do_srq }, { "limit", do_limit },
	{ "qp", do_qp },
	{ "recv", do_recv }, { "post", do_post }, { "modify", do_modify }, { "state", do_state }, { "ready", do_ready },
	{ "listen", do_listen }, { "unlisten", do_unlisten },
	{ "connect", do_connect }, { "accept", do_accept }, { "reject", do_reject }, { "disconnect", do_disconnect }, { "sync", do_sync },
};

static void command(char *line)
{
	char *name = strtok_r(line, " \n", &word_at);
	errno = 0;
	for (size_t i = 0; name && i < sizeof commands / sizeof *commands; i++)
		if (!strcmp(name, commands[i].name)) {
			commands[i].run();
			return;
		}
	say("err no such command");
}

static void nonblock(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

static void serve(int fd)
{
	static char line[LINE];
	int n, on = 1;
	struct ibv_context **list = rdma_get_devices(&n);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	in = fdopen(fd, "r");
	out = fdopen(dup(fd), "w");
	setvbuf(in, NULL, _IONBF, 0); /* so that poll sees what is not read yet */
	if (!list || n < 1 || !(events = rdma_create_event_channel()) || !(cq = ibv_create_cq(dev = list[0], 4096, NULL, NULL, 0))) {
		say("err no device: %s", strerror(errno));
		return;
	}
	nonblock(events->fd);
	nonblock(dev->async_fd);
	say("ok %s", ibv_get_device_name(dev->device));
	for (;;) {
		struct pollfd f[] = { { fd, POLLIN, 0 }, { events->fd, POLLIN, 0 }, { dev->async_fd, POLLIN, 0 } };
		poll(f, 3, 5); /* the completion queue is asked each time */
		if (f[0].revents) {
			if (!fgets(line, sizeof line, in))
				return;
			command(line);
		}
		look();
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = htons(argc > 1 ? atoi(argv[1]) : 0) };
	int on = 1, s;
	if (argc != 2)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	if (!strcmp(argv[1], "-")) {
		serve(0);
		return 0;
	}
	signal(SIGCHLD, SIG_IGN);
	s = socket(AF_INET6, SOCK_STREAM, 0);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(s, (void *)&at, sizeof at) || listen(s, 8)) {
		perror("wireapp");
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		int c = accept(s, NULL, NULL);
		if (c >= 0 && fork() == 0) {
			close(s);
			serve(c);
			_exit(0);
		}
		close(c);
	}
}
