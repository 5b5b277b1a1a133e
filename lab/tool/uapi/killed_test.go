package uapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"tapir/lab/tool/uapi"
	"tapir/nic/uapi/trap"
	"tapir/nic/umode"
	"tapir/nic/verbs"
)

// peers are a server on one NIC and its client on the other.
type peers struct {
	name   string
	stride int               // from step to step at which one is killed
	many   func(n *nic) *run // a server of one client after the other
	one    func(n *nic) *run // of one client
	client func(n *nic) *run
}

// rping is the distribution's.
func rping(name string, o uapi.Options, stride int) peers {
	start := func(line string) func(n *nic) *run {
		o := o
		o.Argv = strings.Fields(line)
		return func(n *nic) *run { return n.start(o) }
	}
	return peers{"rping " + name, stride, start("rping -s -P"), start("rping -s -C 2"), start("rping -c -C 2 -a 10.0.0.1")}
}

// own are programs of this binary, which reach the NIC by the Go API.
func own(server, client string) peers {
	return peers{"umode", 1, func(n *nic) *run { return n.startOwn(server, "many") }, func(n *nic) *run { return n.startOwn(server, "one") },
		func(n *nic) *run { return n.startOwn(client, "") }}
}

// TestKilledAtEveryStep kills the client, and then the server, at each opening
// of a device and each command that they make: the peer is told, and the NICs
// have what they had before.
func TestKilledAtEveryStep(t *testing.T) {
	for i, p := range []peers{
		rping("seccomp", uapi.Options{}, 1),
		rping("preload", uapi.Options{Via: trap.Preload}, 6),
		rping("proc mem", uapi.Options{ProcMem: true}, 7),
		own("umode server", "umode client"),
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			a, b := newNICs(t, fmt.Sprintf("server%d", i), fmt.Sprintf("client%d", i))
			p.killClients(t, a, b)
			p.killServers(t, a, b)
		})
	}
}

// connected are the counters of what belongs to connections. The others are
// zero when a program is gone; one that lives may keep a domain, as rping does
// with the id of a connection that it cannot accept any more.
var connected = []string{"qp", "cq", "mr", "mw", "srq", "cep_listening", "cep_starting", "cep_connected", "cep_closing"}

// serve starts a server and waits until it listens, or has ended.
func (n *nic) serve(start func(n *nic) *run) *run {
	n.t.Helper()
	r := start(n)
	until(n.t, func() string {
		if n.objects()["cep_listening"] == 0 && !r.over() {
			return "the server does not listen: " + r.said()
		}
		return ""
	})
	return r
}

// killClients kills clients of a server that lives.
func (p *peers) killClients(t *testing.T, a, b *nic) {
	server := a.serve(p.many)
	listening := a.objects()
	n, refused := 1, 0
	for ; ; n += p.stride {
		b.steps.begin(n)
		c := p.client(b)
		code := c.end(t)
		if code == 0 {
			break // it has ended before its step n, or with it
		}
		if code != killed && refused < n && server.leaves() { // it was about to when this client came
			a.has(a.empty)
			server = a.serve(p.many)
			refused, n = n, n-p.stride // once more
			continue
		}
		if code != killed || b.steps.count() < n {
			t.Fatalf("killed at step %d: exit code %d after %d: %s", n, code, b.steps.count(), c.said())
		}
		b.has(b.empty)
		a.forgets(server, listening, fmt.Sprintf("its client was killed at step %d", n))
		if server.over() { // rping did not expect it so early
			a.has(a.empty)
			server = a.serve(p.many)
		}
	}
	t.Logf("a client takes %d steps", b.steps.count())
	a.steps.begin(1) // the server ends with its next
	b.steps.begin(0)
	p.client(b).end(t)
	if code := server.end(t); code != killed {
		t.Errorf("the server: exit code %d: %s", code, server.said())
	}
	a.has(a.empty)
	b.has(b.empty)
}

// forgets waits until a server has nothing of its client any more, or ends.
func (n *nic) forgets(server *run, listening map[string]int, why string) {
	n.t.Helper()
	until(n.t, func() string {
		have := n.objects()
		for _, name := range connected {
			if have[name] != listening[name] && !server.over() {
				return fmt.Sprintf("%s: the server has %d %s, want %d: %s", why, have[name], name, listening[name], server.said())
			}
		}
		return ""
	})
}

// killServers kills servers of a client that lives.
func (p *peers) killServers(t *testing.T, a, b *nic) {
	b.steps.begin(0)
	for n := 1; ; n += p.stride {
		a.steps.begin(n)
		server := a.serve(p.one)
		p.beside(t, server, b)
		code := server.end(t)
		a.has(a.empty)
		b.has(b.empty)
		if code == 0 {
			t.Logf("a server takes %d steps", a.steps.count())
			return
		}
		if code != killed || a.steps.count() < n {
			t.Fatalf("killed at step %d: exit code %d after %d: %s", n, code, a.steps.count(), server.said())
		}
	}
}

// beside runs clients until a server of one client ends. One is told of that, and
// ends; but rping gives up, and tells the server nothing, if it has no answer of
// the network within two seconds.
func (p *peers) beside(t *testing.T, server *run, b *nic) {
	for tries := 0; tries < 5 && !server.over(); tries++ {
		c := p.client(b)
		code := c.end(t)
		if server.leaves() {
			return
		}
		t.Logf("the server is still there after a client with exit code %d: %s", code, c.said())
	}
}

// soon bounds what the programs of this binary wait for.
func soon() (context.Context, func()) { return context.WithTimeout(context.Background(), time.Minute) }

var at = netip.MustParseAddrPort("10.0.0.1:7471")

// end is one side of a connection.
type end struct {
	nic *umode.Context
	pd  *umode.PD
	mr  *umode.MR
	mw  *umode.MW
	cq  *umode.CQ
	qp  *umode.QP
}

func open(nic *umode.Context) (e *end, err error) {
	e = &end{nic: nic}
	e.pd, err = nic.AllocPD()
	if err != nil {
		return nil, err
	}
	mem, err := nic.Alloc(4096)
	if err != nil {
		return nil, err
	}
	ch, err := nic.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	if e.cq, err = nic.CreateCQ(16, ch); err != nil {
		return nil, err
	}
	if e.mr, err = e.pd.RegMR(mem, verbs.LocalWrite|verbs.MWBind); err != nil {
		return nil, err
	}
	if e.qp, err = e.pd.CreateQP(umode.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, MaxInline: 16}); err != nil {
		return nil, err
	}
	if e.mw, err = e.pd.AllocMW(verbs.MWType2B); err != nil {
		return nil, err
	}
	_, err = e.qp.PostRecv(verbs.RecvWR{SGEs: []verbs.SGE{e.mr.SGE(0, 100)}})
	return e, err
}

func (e *end) send(text string) error {
	_, err := e.qp.PostSend(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.Inline, Inline: []byte(text)})
	return err
}

// message waits for one.
func (e *end) message() error {
	ctx, stop := soon()
	defer stop()
	wc, err := e.cq.Next(ctx)
	if err == nil && wc.Status != verbs.StatusSuccess {
		err = fmt.Errorf("completed with %v", wc.Status)
	}
	return err
}

// close gives everything back.
func (e *end) close() error {
	return errors.Join(e.qp.Destroy(), e.cq.Destroy(), e.mw.Dealloc(), e.mr.Dereg())
}

// umodeServer answers a message of each client, or of one.
func umodeServer() int {
	nic, err := umode.Open(os.Args[1], umode.Options{})
	if err != nil {
		return says(err)
	}
	l, err := nic.Listen(at, 4)
	if err != nil {
		return says(err)
	}
	for many := os.Args[2] == "many"; ; {
		err := answer(nic, l)
		if !many {
			return says(err)
		}
	}
}

func answer(nic *umode.Context, l *umode.Listener) error {
	id, err := l.Request(context.Background())
	if err != nil {
		return err
	}
	e, err := open(nic)
	if err != nil {
		return err
	}
	ctx, stop := soon()
	defer stop()
	if err = id.Accept(ctx, umode.Params{QP: e.qp}); err == nil {
		if err = e.message(); err == nil {
			err = e.send("hello")
		}
		err = errors.Join(err, id.Wait(ctx)) // for the client to go
	}
	return errors.Join(err, id.Destroy(), e.close())
}

// umodeClient says something and waits for the answer.
func umodeClient() int {
	nic, err := umode.Open(os.Args[1], umode.Options{})
	if err != nil {
		return says(err)
	}
	e, err := open(nic)
	if err != nil {
		return says(err)
	}
	id, err := nic.NewID()
	if err != nil {
		return says(err)
	}
	ctx, stop := soon()
	defer stop()
	if err = id.Connect(ctx, at, umode.Params{QP: e.qp}); err == nil {
		err = e.send("hello")
	}
	if err == nil {
		err = e.message()
	}
	if err == nil {
		err = id.Disconnect()
	}
	return says(errors.Join(err, id.Destroy(), e.close(), nic.Close()))
}

// says prints an error and returns the exit code.
func says(err error) int {
	if err == nil {
		return 0
	}
	fmt.Println(err)
	if errors.Is(err, context.DeadlineExceeded) {
		return 3
	}
	return 1
}
