/*
 * verify - every RDMA operation over rdma_cm, in a Linux guest. Its peer is
 * another verify, or `tapir verify` on a NIC; package tapir/lab/tool/verify documents the
 * protocol.
 *
 *   verify server [-p port] [-a addr] [-n conns] [-i ird] [-o ord] [-g]
 *        -n: end after so many connections have closed; -i, -o: Reads to serve
 *        and to issue instead of what the client asks for; -g: greet, that is,
 *        send as soon as the connection is accepted.
 *   verify client ADDR [-p port] [-i ird] [-o ord] [-P bytes] [-c conns] [-X]
 *        [-R receives] [-S KiB] [-Q] [-T ms] [-W ms] step...
 *        -P: size of the private data; -c: so many connections, each from a
 *        process of its own; -X: ask to be rejected; -R, -S: receives that the
 *        server posts and the size of each; -Q: from a shared receive queue;
 *        -T: patience with one step; -W: pause before the first step.
 *
 * A step is name[:size[:count]]. Each prints "step NAME:SIZE ok" or why not.
 * Exit code 0: all went well; 1: a step failed; 2: usage; 3: no connection
 * came about; 4: the server rejected it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x73697774u
#define HALF (4u << 20)		/* octets that a peer may address, and as many to work with */
#define ANSWER 16
enum { F_REJECT = 1, F_SRQ = 2, F_KIB = 4, F_ANSWER = 8 };
enum { PLAIN, ANSWERED, ECHOED, CHECKED };	/* what success of a step needs beside its completion */
enum { CONNS = 15, RECV_ID = 1000, KEPT = 8 };

/* Private data of request and reply, and the answer to a Send: little-endian. */
struct ask { uint32_t magic; uint8_t flags, receives; uint16_t size; };
struct offer { uint32_t magic, rw, ro, wo, other, len; uint64_t addr; };
struct answer { uint32_t magic, len, sum, flags; };

struct conn {
	struct rdma_cm_id *id;
	struct ibv_pd *pd, *other_pd;
	struct ibv_cq *cq;
	struct ibv_comp_channel *ch;
	struct ibv_srq *srq;
	struct ibv_mr *all, *rw, *ro, *wo, *opd, *rxmr;
	char *buf, *rx;
	unsigned receives;
	uint32_t rxsize;
	int answers;
};

static void say(const char *f, ...)
{
	va_list a;
	va_start(a, f);
	vprintf(f, a);
	va_end(a);
	fflush(stdout);
}

static void die(const char *what)
{
	say("FATAL %s: %s\n", what, strerror(errno));
	exit(3);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint32_t sum(const char *p, size_t n)	/* FNV-1a */
{
	uint32_t h = 2166136261u;
	while (n--)
		h = (h ^ (uint8_t)*p++) * 16777619u;
	return h;
}

static void nonblock(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

static void post_recv(struct conn *c, unsigned i)
{
	struct ibv_sge s = { (uintptr_t)c->rx + (size_t)i * c->rxsize, c->rxsize, c->rxmr->lkey };
	struct ibv_recv_wr w = { .wr_id = RECV_ID + i, .sg_list = &s, .num_sge = 1 }, *bad;
	int e = c->srq ? ibv_post_srq_recv(c->srq, &w, &bad) : ibv_post_recv(c->id->qp, &w, &bad);
	if (e)
		say("post receive: %s\n", strerror(e));
}

/* setup makes the objects of a connection. Spare slots behind the receives
 * hold answers on their way out. */
static void setup(struct conn *c, unsigned receives, uint32_t rxsize, int srq)
{
	struct ibv_context *v = c->id->verbs;
	int local = IBV_ACCESS_LOCAL_WRITE, read = IBV_ACCESS_REMOTE_READ, write = IBV_ACCESS_REMOTE_WRITE;
	size_t rxlen = (size_t)(receives + 1) * rxsize + 256 * ANSWER;

	c->receives = receives;
	c->rxsize = rxsize;
	c->pd = ibv_alloc_pd(v);
	c->other_pd = ibv_alloc_pd(v);
	c->ch = ibv_create_comp_channel(v);
	c->cq = ibv_create_cq(v, 1024, NULL, c->ch, 0);
	if (!c->pd || !c->other_pd || !c->cq)
		die("pd, cq");
	ibv_req_notify_cq(c->cq, 0);
	if (posix_memalign((void **)&c->buf, 4096, 2 * HALF) || posix_memalign((void **)&c->rx, 4096, rxlen))
		die("memory");
	memset(c->buf, 0, 2 * HALF);
	c->all = ibv_reg_mr(c->pd, c->buf, 2 * HALF, local);
	c->rw = ibv_reg_mr(c->pd, c->buf, HALF, local | read | write);
	c->ro = ibv_reg_mr(c->pd, c->buf, HALF, local | read);
	c->wo = ibv_reg_mr(c->pd, c->buf, HALF, local | write);
	c->opd = ibv_reg_mr(c->other_pd, c->buf, HALF, local | read | write);
	c->rxmr = ibv_reg_mr(c->pd, c->rx, rxlen, local);
	if (!c->all || !c->rw || !c->ro || !c->wo || !c->opd || !c->rxmr)
		die("memory registration");
	if (srq) {
		struct ibv_srq_init_attr sa = { .attr = { .max_wr = 256, .max_sge = 1 } };
		if (!(c->srq = ibv_create_srq(c->pd, &sa)))
			die("srq");
	}
	struct ibv_qp_init_attr qa = { .send_cq = c->cq, .recv_cq = c->cq, .srq = c->srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 512, .max_recv_wr = srq ? 0 : 256, .max_send_sge = 4, .max_recv_sge = 1, .max_inline_data = 80 } };
	if (rdma_create_qp(c->id, c->pd, &qa))
		die("qp");
	for (unsigned i = 0; i < receives; i++)
		post_recv(c, i);
	nonblock(c->ch->fd);
	nonblock(v->async_fd);
}

static void teardown(struct conn *c)
{
	struct ibv_mr *m[] = { c->all, c->rw, c->ro, c->wo, c->opd, c->rxmr };
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	if (c->srq)
		ibv_destroy_srq(c->srq);
	for (int i = 0; i < 6; i++)
		if (m[i])
			ibv_dereg_mr(m[i]);
	if (c->cq)
		ibv_destroy_cq(c->cq);
	if (c->ch)
		ibv_destroy_comp_channel(c->ch);
	if (c->pd)
		ibv_dealloc_pd(c->pd);
	if (c->other_pd)
		ibv_dealloc_pd(c->other_pd);
	free(c->buf);
	free(c->rx);
	rdma_destroy_id(c->id);
	memset(c, 0, sizeof *c);
}

static void async(struct ibv_context *v)
{
	struct ibv_async_event e;
	while (!ibv_get_async_event(v, &e)) {
		say("async %s\n", ibv_event_type_str(e.event_type));
		ibv_ack_async_event(&e);
	}
}

static int post(struct conn *c, uint64_t id, const void *p, uint32_t n, uint32_t lkey, int inl)
{
	struct ibv_sge s = { (uintptr_t)p, n, lkey };
	struct ibv_send_wr w = { .wr_id = id, .sg_list = &s, .num_sge = n ? 1 : 0, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | (inl ? IBV_SEND_INLINE : 0) }, *bad;
	return ibv_post_send(c->id->qp, &w, &bad);
}

/* ------------------------------------------------------------------ server */

static void received(struct conn *c, const struct ibv_wc *w)
{
	unsigned i = w->wr_id - RECV_ID;
	char *p = c->rx + (size_t)i * c->rxsize;
	int echo = w->byte_len >= 4 && !memcmp(p, "ECHO", 4);

	if (w->status) {
		if (w->status != IBV_WC_WR_FLUSH_ERR)
			say("receive %s\n", ibv_wc_status_str(w->status));
		return;
	}
	struct answer a = { MAGIC, w->byte_len, sum(p, w->byte_len), !!(w->wc_flags & IBV_WC_WITH_INV) };
	say("received %u bytes sum %08x\n", a.len, a.sum);
	if (echo) {	/* its slot is posted again when the echo is out */
		if (post(c, 1 + i, p, w->byte_len, c->rxmr->lkey, 0))
			say("echo: cannot post\n");
		return;
	}
	post_recv(c, i);
	if (c->answers && post(c, 0, &a, sizeof a, 0, 1))
		say("answer: cannot post\n");
}

static void completions(struct conn *c)
{
	struct ibv_wc w;
	while (c->cq && ibv_poll_cq(c->cq, 1, &w) > 0) {
		if (w.wr_id >= RECV_ID)
			received(c, &w);
		else if (w.status && w.status != IBV_WC_WR_FLUSH_ERR)
			say("send %s\n", ibv_wc_status_str(w.status));
		else if (!w.status && w.wr_id)
			post_recv(c, w.wr_id - 1);
	}
}

struct server {
	struct rdma_event_channel *ec;
	struct conn conns[CONNS];
	int left, ird, ord, greet;
};

static void requested(struct server *s, struct rdma_cm_id *id, const struct rdma_conn_param *p, const char *pd, int len)
{
	static const char why[] = "verify: rejected as requested";
	struct ask q = { 0, 0, 16, 4096 };
	struct conn *c = NULL;

	say("request private %d bytes sum %08x ird %u ord %u\n", len, sum(pd, len), p->responder_resources, p->initiator_depth);
	if (len >= (int)sizeof q && ((const struct ask *)pd)->magic == MAGIC)
		memcpy(&q, pd, sizeof q);
	for (int i = 0; i < CONNS && !c; i++)
		if (!s->conns[i].id)
			c = s->conns + i;
	if (q.flags & F_REJECT || !c) {
		rdma_reject(id, why, sizeof why);
		rdma_destroy_id(id);
		s->left -= s->left > 0;
		return;
	}
	c->id = id;
	c->answers = !!(q.flags & F_ANSWER);
	setup(c, q.receives, q.flags & F_KIB ? q.size * 1024u : q.size, q.flags & F_SRQ);
	for (unsigned i = 0; i < HALF; i++)
		c->buf[i] = i * 7 + (i >> 8);
	struct offer r = { MAGIC, c->rw->rkey, c->ro->rkey, c->wo->rkey, c->opd->rkey, HALF, (uintptr_t)c->buf };
	struct rdma_conn_param a = { .private_data = &r, .private_data_len = sizeof r, .rnr_retry_count = 7,
		.responder_resources = s->ird >= 0 ? s->ird : p->responder_resources,
		.initiator_depth = s->ord >= 0 ? s->ord : p->initiator_depth };
	if (rdma_accept(id, &a)) {
		say("accept: %s\n", strerror(errno));
		teardown(c);
	}
}

static struct conn *find(struct server *s, struct rdma_cm_id *id)
{
	for (int i = 0; i < CONNS; i++)
		if (s->conns[i].id == id)
			return s->conns + i;
	return NULL;
}

static void cm_event(struct server *s)
{
	struct rdma_cm_event *ev;
	char pd[256] = { 0 };

	if (rdma_get_cm_event(s->ec, &ev))
		die("cm event");
	struct rdma_cm_id *id = ev->id;
	struct rdma_conn_param p = ev->param.conn;
	int type = ev->event, len = p.private_data ? p.private_data_len : 0;
	say("event %s status %d\n", rdma_event_str(type), ev->status);
	if (len)
		memcpy(pd, p.private_data, len);
	rdma_ack_cm_event(ev);
	struct conn *c = find(s, id);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		requested(s, id, &p, pd, len);
	} else if (type == RDMA_CM_EVENT_ESTABLISHED && s->greet && c) {
		if (post(c, 0, c->buf, 32, c->rw->lkey, 0))
			say("greet: cannot post\n");
	} else if (c && (type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_CONNECT_ERROR)) {
		rdma_disconnect(id);
		usleep(20000);
		completions(c);
		async(id->verbs);
		teardown(c);
		s->left -= s->left > 0;
	}
}

static void address(struct sockaddr_storage *ss, const char *addr, int port)
{
	struct sockaddr_in *a4 = (void *)ss;
	struct sockaddr_in6 *a6 = (void *)ss;
	memset(ss, 0, sizeof *ss);
	if (addr && strchr(addr, ':')) {
		a6->sin6_family = AF_INET6;
		a6->sin6_port = htons(port);
		inet_pton(AF_INET6, addr, &a6->sin6_addr);
		return;
	}
	a4->sin_family = AF_INET;
	a4->sin_port = htons(port);
	if (addr)
		inet_pton(AF_INET, addr, &a4->sin_addr);
}

static void serve(struct server *s)
{
	struct pollfd f[1 + CONNS] = { { s->ec->fd, POLLIN, 0 } };
	int n = 1;
	for (int i = 0; i < CONNS; i++)
		if (s->conns[i].ch)
			f[n++] = (struct pollfd){ s->conns[i].ch->fd, POLLIN, 0 };
	poll(f, n, 100);
	for (int i = 0; i < CONNS; i++) {
		struct conn *c = s->conns + i;
		struct ibv_cq *q;
		void *x;
		if (!c->ch)
			continue;
		if (!ibv_get_cq_event(c->ch, &q, &x)) {
			ibv_ack_cq_events(q, 1);
			ibv_req_notify_cq(c->cq, 0);
		}
		completions(c);
		async(c->id->verbs);
	}
	if (f[0].revents & POLLIN)
		cm_event(s);
}

static int server(int argc, char **argv)
{
	static struct server s = { .left = -1, .ird = -1, .ord = -1 };
	struct sockaddr_storage ss;
	struct rdma_cm_id *lid;
	const char *addr = NULL;
	int port = 7174, o;

	while ((o = getopt(argc, argv, "p:a:n:i:o:g")) != -1)
		switch (o) {
		case 'p': port = atoi(optarg); break;
		case 'a': addr = optarg; break;
		case 'n': s.left = atoi(optarg); break;
		case 'i': s.ird = atoi(optarg); break;
		case 'o': s.ord = atoi(optarg); break;
		case 'g': s.greet = 1; break;
		default: return 2;
		}
	address(&ss, addr, port);
	s.ec = rdma_create_event_channel();
	if (!s.ec || rdma_create_id(s.ec, &lid, NULL, RDMA_PS_TCP) || rdma_bind_addr(lid, (void *)&ss) || rdma_listen(lid, 16))
		die("listen");
	say("listening on port %d\n", port);
	while (s.left)
		serve(&s);
	rdma_destroy_id(lid);
	return 0;
}

/* ------------------------------------------------------------------ client */

struct client {
	struct conn c;
	struct rdma_event_channel *ec;
	struct offer peer;
	struct ask ask;
	char *model;		/* what the server's memory must hold */
	uint64_t id;
	int patience, port, ird, ord, private, settle, gone, early;
	int lent;		/* the source may not be on the wire yet */
	struct ibv_wc kept[KEPT];
};

/* event waits for the next event and returns its type, or -1. */
static int event(struct client *k, int ms, struct rdma_conn_param *p, char *pd)
{
	struct pollfd f = { k->ec->fd, POLLIN, 0 };
	struct rdma_cm_event *ev;
	if (poll(&f, 1, ms) != 1 || rdma_get_cm_event(k->ec, &ev))
		return -1;
	int t = ev->event;
	if (t != RDMA_CM_EVENT_ADDR_RESOLVED && t != RDMA_CM_EVENT_ROUTE_RESOLVED)
		say("event %s status %d\n", rdma_event_str(t), ev->status);
	if (p) {
		*p = ev->param.conn;
		if (p->private_data && p->private_data_len)
			memcpy(pd, p->private_data, p->private_data_len);
	}
	rdma_ack_cm_event(ev);
	if (t == RDMA_CM_EVENT_DISCONNECTED)
		k->gone = 1;
	return t;
}

static int dial(struct client *k, struct sockaddr *to)
{
	struct conn *c = &k->c;
	struct rdma_conn_param p = { 0 }, got;
	char pd[256], back[256] = { 0 };

	k->ec = rdma_create_event_channel();
	if (!k->ec || rdma_create_id(k->ec, &c->id, NULL, RDMA_PS_TCP))
		die("id");
	if (rdma_resolve_addr(c->id, NULL, to, 20000) || event(k, 30000, NULL, NULL) != RDMA_CM_EVENT_ADDR_RESOLVED ||
	    rdma_resolve_route(c->id, 20000) || event(k, 30000, NULL, NULL) != RDMA_CM_EVENT_ROUTE_RESOLVED)
		die("resolve");
	setup(c, KEPT, 64 << 10, 0);
	for (int i = 0; i < 256; i++)
		pd[i] = i;
	memcpy(pd, &k->ask, sizeof k->ask);
	p.private_data = pd;
	p.private_data_len = k->private;
	p.responder_resources = k->ird;
	p.initiator_depth = k->ord;
	p.retry_count = p.rnr_retry_count = 7;
	if (rdma_connect(c->id, &p)) {
		say("connect: %s\n", strerror(errno));
		return 3;
	}
	int t = event(k, 60000, &got, back);
	if (t == RDMA_CM_EVENT_REJECTED) {
		if (got.private_data_len)
			say("rejected \"%.*s\"\n", got.private_data_len, back);
		return got.private_data_len ? 4 : 3;
	}
	if (t != RDMA_CM_EVENT_ESTABLISHED)
		return 3;
	memcpy(&k->peer, back, sizeof k->peer);
	say("established ird %u ord %u private %d\n", got.responder_resources, got.initiator_depth, got.private_data_len);
	return k->peer.magic == MAGIC ? 0 : 3;
}

/* await polls for the completion of id, or of any receive. A receive that comes
 * before its turn is kept. */
static int await(struct client *k, uint64_t id, struct ibv_wc *w)
{
	double end = now() + k->patience / 1000.0;
	if (id == RECV_ID && k->early) {
		*w = k->kept[0];
		memmove(k->kept, k->kept + 1, --k->early * sizeof *w);
		return w->status;
	}
	while (now() < end) {
		if (ibv_poll_cq(k->c.cq, 1, w) <= 0) {
			usleep(50);	/* the other connections want the processor, too */
			continue;
		}
		if (w->wr_id == id || (id == RECV_ID && w->wr_id >= RECV_ID))
			return w->status;
		if (w->wr_id >= RECV_ID && !w->status && k->early < KEPT)
			k->kept[k->early++] = *w;
		else if (w->status != IBV_WC_WR_FLUSH_ERR)
			say("completion %lu: %s\n", (unsigned long)w->wr_id, ibv_wc_status_str(w->status));
	}
	return -1;
}

/* back waits for the answer to a Send, or its echo. */
static const char *back(struct client *k, const char *p, uint32_t n, int echo)
{
	struct ibv_wc w;
	if (await(k, RECV_ID, &w))
		return "no answer";
	char *r = k->c.rx + (w.wr_id - RECV_ID) * k->c.rxsize;
	struct answer *a = (void *)r;
	int good = echo ? w.byte_len == n && !memcmp(r, p, n)
			: w.byte_len == sizeof *a && a->magic == MAGIC && a->len == n && a->sum == sum(p, n);
	post_recv(&k->c, w.wr_id - RECV_ID);
	return good ? NULL : "answer differs";
}

struct step { char name[16]; long size, count; };

/* The target of an operation that is to go wrong, by name. */
static int mistake(struct client *k, const char *n, uint32_t size, struct ibv_send_wr *w)
{
	struct offer *o = &k->peer;
	if (!strcmp(n, "bad")) w->wr.rdma.rkey = o->rw ^ 0x00555500;
	else if (!strcmp(n, "key")) w->wr.rdma.rkey = o->rw ^ 1;
	else if (!strcmp(n, "bounds")) w->wr.rdma.remote_addr = o->addr + o->len - size / 2;
	else if (!strcmp(n, "low")) w->wr.rdma.remote_addr = o->addr - 8;
	else if (!strcmp(n, "ro")) w->wr.rdma.rkey = o->ro;
	else if (!strcmp(n, "wo")) w->wr.rdma.rkey = o->wo;
	else if (!strcmp(n, "pd")) w->wr.rdma.rkey = o->other;
	else if (!strcmp(n, "wrap")) w->wr.rdma.remote_addr = ~0ull - 7;
	else return -1;
	return 0;
}

/* prepare turns a step into a work request. It returns what else success needs,
 * or -1 for an unknown name. */
static int prepare(struct client *k, struct step *t, struct ibv_send_wr *w)
{
	const char *n = t->name;
	w->opcode = IBV_WR_RDMA_WRITE;
	if (!strcmp(n, "write") || !strcmp(n, "burst"))
		return PLAIN;
	if (!strcmp(n, "writei")) {
		w->send_flags |= IBV_SEND_INLINE;
		return PLAIN;
	}
	if (!strcmp(n, "read") || !strcmp(n, "readn")) {
		w->opcode = IBV_WR_RDMA_READ;
		return CHECKED;
	}
	if (!strcmp(n, "echo")) {
		w->opcode = IBV_WR_SEND;
		return ECHOED;
	}
	if (!strncmp(n, "send", 4)) {
		w->opcode = strstr(n, "inv") ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
		w->invalidate_rkey = k->peer.wo;
		w->wr.rdma.rkey = k->peer.wo;	/* where libsiw looks for the STag to invalidate */
		w->send_flags |= n[4] == 's' ? IBV_SEND_SOLICITED : !strcmp(n, "sendi") ? IBV_SEND_INLINE : 0;
		return ANSWERED;
	}
	if (n[0] == 'r')
		w->opcode = IBV_WR_RDMA_READ;
	return (n[0] == 'w' || n[0] == 'r') && !mistake(k, n + 1, t->size, w) ? PLAIN : -1;
}

static const char *status(int s) { return s < 0 ? "timeout" : ibv_wc_status_str(s); }

/* drain makes sure that the source may change. siw sends long Writes that are not
 * signalled straight from their pages, and the last one completes before all are
 * out; a Read that has come back was behind them. */
static int drain(struct client *k, char *dst)
{
	struct ibv_sge sg = { (uintptr_t)dst, 1, k->c.all->lkey };
	struct ibv_send_wr w = { .wr_id = k->id++, .sg_list = &sg, .num_sge = 1,
		.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc = { 0 };

	w.wr.rdma.remote_addr = k->peer.addr;
	w.wr.rdma.rkey = k->peer.rw;
	k->lent = 0;
	return ibv_post_send(k->c.id->qp, &w, &bad) ? -1 : await(k, w.wr_id, &wc);
}

/* work posts and awaits one step; NULL is success. */
static const char *work(struct client *k, struct step *t, int number)
{
	char *src = k->c.buf, *dst = k->c.buf + HALF;
	struct ibv_sge sg = { (uintptr_t)src, t->size, k->c.all->lkey };
	struct ibv_send_wr w = { .sg_list = &sg, .num_sge = t->size ? 1 : 0, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc = { 0 };

	w.wr.rdma.remote_addr = k->peer.addr;
	w.wr.rdma.rkey = k->peer.rw;
	int kind = prepare(k, t, &w);
	if (kind < 0)
		return "unknown step";
	if (k->lent) {
		int s = drain(k, dst);
		if (s)
			return status(s);
	}
	for (uint32_t i = 0; i < t->size; i++)
		src[i] = i * 3 + number + (i >> 9);
	if (kind == ECHOED)
		memcpy(src, "ECHO", 4);
	if (w.opcode == IBV_WR_RDMA_READ) {
		sg.addr = (uintptr_t)dst;
		memset(dst, 0, t->size);
	}
	uint64_t first = k->id;
	for (long i = 0; i < t->count; i++) {
		int quiet = !strcmp(t->name, "burst") && i < t->count - 1;
		w.wr_id = k->id++;
		w.send_flags = quiet ? w.send_flags & ~IBV_SEND_SIGNALED : w.send_flags | IBV_SEND_SIGNALED;
		int e = ibv_post_send(k->c.id->qp, &w, &bad);
		if (e)
			return strerror(e);
	}
	for (uint64_t id = strcmp(t->name, "burst") ? first : k->id - 1; id < k->id; id++) {
		int s = await(k, id, &wc);
		if (s)
			return status(s);
	}
	k->lent = !strcmp(t->name, "burst");
	if (w.opcode == IBV_WR_RDMA_WRITE && w.wr.rdma.rkey == k->peer.rw && w.wr.rdma.remote_addr == k->peer.addr)
		memcpy(k->model, src, t->size);
	if (kind == CHECKED && memcmp(dst, k->model, t->size))
		return "data differs";
	const char *e = NULL;
	for (long i = 0; i < t->count && !e && (kind == ANSWERED || kind == ECHOED); i++)
		e = back(k, src, t->size, kind == ECHOED);
	return e;
}

static int run(struct client *k, char **steps)
{
	int failed = 0;
	usleep(k->settle * 1000);
	for (int n = 1; *steps && !failed; steps++, n++) {
		struct step t = { "", 64, 1 };
		if (sscanf(*steps, "%15[a-z]:%ld:%ld", t.name, &t.size, &t.count) < 1 || t.size < 0 || t.size > HALF)
			return 2;
		const char *e = NULL;
		if (!strcmp(t.name, "sleep"))
			usleep(t.size * 1000);
		else if (!strcmp(t.name, "gone"))
			e = k->gone || event(k, t.size, NULL, NULL) == RDMA_CM_EVENT_DISCONNECTED ? NULL : "still connected";
		else
			e = work(k, &t, n);
		say("step %s:%ld %s\n", t.name, t.size, e ? e : "ok");
		failed = !!e;
		while (event(k, 0, NULL, NULL) >= 0)
			;
	}
	event(k, failed ? 1000 : 0, NULL, NULL);
	async(k->c.id->verbs);
	return failed;
}

static int client(const char *addr, struct client *k, char **steps)
{
	struct sockaddr_storage to;
	address(&to, addr, k->port);
	k->model = malloc(HALF);
	k->id = 1;
	if (!k->model)
		die("memory");
	for (unsigned i = 0; i < HALF; i++)
		k->model[i] = i * 7 + (i >> 8);
	int rc = dial(k, (void *)&to);
	if (rc)
		return rc;
	rc = run(k, steps);
	rdma_disconnect(k->c.id);
	if (!k->gone)
		event(k, 5000, NULL, NULL);
	teardown(&k->c);
	return rc;
}

static int clients(int argc, char **argv)
{
	struct client k = { .patience = 20000, .port = 7174, .ird = 16, .ord = 16, .private = sizeof(struct ask) };
	int conns = 1, worst = 0, o, st;

	k.ask = (struct ask){ MAGIC, F_KIB | F_ANSWER, 16, 64 };
	optind = 2;	/* options follow the address */
	while ((o = getopt(argc, argv, "+p:i:o:P:c:XR:S:QT:W:")) != -1)
		switch (o) {
		case 'p': k.port = atoi(optarg); break;
		case 'i': k.ird = atoi(optarg); break;
		case 'o': k.ord = atoi(optarg); break;
		case 'P': k.private = atoi(optarg); break;
		case 'c': conns = atoi(optarg); break;
		case 'X': k.ask.flags |= F_REJECT; break;
		case 'R': k.ask.receives = atoi(optarg); break;
		case 'S': k.ask.size = atoi(optarg); break;
		case 'Q': k.ask.flags |= F_SRQ; break;
		case 'T': k.patience = atoi(optarg); break;
		case 'W': k.settle = atoi(optarg); break;
		default: return 2;
		}
	if (conns == 1)
		return client(argv[1], &k, argv + optind);
	for (int i = 0; i < conns; i++) {
		pid_t p = fork();
		if (p == 0)
			exit(client(argv[1], &k, argv + optind));
		if (p < 0)
			die("fork");
	}
	while (wait(&st) > 0) {
		int rc = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
		worst = rc > worst ? rc : worst;
	}
	return worst;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "server"))
		return server(argc - 1, argv + 1);
	if (argc > 3 && !strcmp(argv[1], "client"))
		return clients(argc - 1, argv + 1);
	fprintf(stderr, "usage: verify server [option...] | verify client ADDRESS [option...] step...\n");
	return 2;
}
