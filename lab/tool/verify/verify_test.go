package verify

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv/vpair"
	"tapir/lab/host/link"
	"tapir/nic"
	"tapir/nic/verbs"
)

// world is two NICs in virtual time.
type world struct {
	*vpair.Pair
	t *testing.T
}

var serverAddr = netip.MustParseAddr("10.0.0.1")

func newWorld(t *testing.T, cfg nic.Config) *world {
	t.Helper()
	return newWorldOf(t, [2]nic.Config{cfg, cfg})
}

func newWorldOf(t *testing.T, both [2]nic.Config) *world {
	t.Helper()
	for i, addr := range []string{"10.0.0.1/24", "10.0.0.2/24"} {
		both[i].Name, both[i].Addrs = "nic"+string('0'+rune(i)), []netip.Prefix{netip.MustParsePrefix(addr)}
	}
	return &world{vpair.New(t, both, link.Impairment{}), t}
}

func (w *world) until(stop func() bool) {
	w.t.Helper()
	w.Until(w.t, stop)
}

type outcome struct {
	run  *Run
	rep  Report
	err  error
	done bool
}

func (w *world) start(i int, job Job) *outcome {
	w.t.Helper()
	o := &outcome{}
	var err error
	o.run, err = Start(w.NICs[i], job, w.Now, func(r Report, err error) { o.rep, o.err, o.done = r, err, true })
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// run runs a client against a server and checks that nothing is left.
func (w *world) run(server, job Job) (s, c *outcome) {
	w.t.Helper()
	if server.Conns = job.Conns; job.Conns == 0 {
		server.Conns = 1
	}
	s = w.start(0, server)
	job.Remote = serverAddr
	c = w.start(1, job)
	w.until(func() bool { return s.done && c.done })
	for i, d := range w.NICs {
		if n := len(d.ShowQP()) + len(d.ShowCQ()) + len(d.ShowMR()); n != 0 {
			w.t.Errorf("NIC %d: %d objects are left", i, n)
		}
	}
	return s, c
}

// The same steps over RoCE, whose requests have 56 octets of private data.
func TestEveryGoodStepOverRoCE(t *testing.T) {
	steps := strings.Fields("write:0 write:100000 read:100000 writei:80 burst:5000:20 readn:3000:8 send:0 send:65536 sendse:7 " +
		"sendi:80 send:30:8 echo:9999 write:1000000 read:1000000 wwo:100 read:100 sendinv:5 sleep:10")
	w := newWorld(t, nic.Config{RDMA: nic.RDMA{Personality: verbs.RoCE}})
	_, c := w.run(Job{Transport: "roce"}, Job{Steps: steps, Conns: 2, Transport: "roce"})
	for i, conn := range c.rep.Conns {
		if c.err != nil || len(conn.Steps) != len(steps) || conn.End != "" {
			t.Errorf("connection %d: %v, %+v", i, c.err, conn)
		}
	}
	for _, name := range strings.Fields("wkey wbounds wro wpd rkey rbounds rwo rpd") {
		_, c := newWorld(t, nic.Config{RDMA: nic.RDMA{Personality: verbs.RoCE}}).run(Job{}, Job{Steps: []string{name + ":64", "gone:1000"}})
		if c.err == nil || c.rep.Conns[0].Steps[0].Error == "" {
			t.Errorf("%s: %v, %+v", name, c.err, c.rep)
		}
	}
	_, err := Start(w.NICs[0], Job{Transport: "iwarp"}, w.Now, nil)
	if err == nil || !strings.Contains(err.Error(), "nic0 has personality roce, not iwarp") {
		t.Errorf("a job of another transport: %v", err)
	}
}

func TestEveryGoodStep(t *testing.T) {
	steps := strings.Fields("write:0 write:1 write:100000 read:100000 writei:80 read:100 burst:5000:20 read:5000 readn:3000:40 " +
		"send:0 send:1 send:65536 sendse:7 sendi:80 send:30:8 echo:4 echo:9999 write:4194304 read:4194304 wwo:100 read:100 sendinv:5 sleep:10")
	for _, job := range []Job{
		{Steps: steps}, {Steps: steps, Conns: 8}, {Steps: steps, SRQ: true}, {Steps: steps, IRD: None, ORD: 1, Private: 300, Settle: time.Second},
		{Steps: []string{"send:4194304", "sendseinv:4194304"}, Receives: 1, RecvKiB: 4096},
	} {
		s, c := newWorld(t, nic.Config{}).run(Job{}, job)
		if s.err != nil || c.err != nil {
			t.Fatalf("%+v: server: %v, %+v, client: %v, %+v", job, s.err, s.rep, c.err, c.rep)
		}
		job.Remote = serverAddr
		job = job.WithDefaults()
		if len(s.rep.Conns) != max(1, job.Conns) || len(c.rep.Conns) != len(s.rep.Conns) {
			t.Fatalf("%d connections", len(s.rep.Conns))
		}
		for i, conn := range c.rep.Conns {
			if len(conn.Steps) != len(job.Steps) || conn.End != "" || conn.Private != offerLen {
				t.Errorf("client's connection %d: %+v", i, conn)
			}
			at := s.rep.Conns[i]
			if at.Private != job.Private || at.End != "" || len(at.Received) == 0 {
				t.Errorf("server's connection %d: %+v", i, at)
			}
		}
	}
}

// Each wrong step fails, and the report says how.
func TestEveryWrongStep(t *testing.T) {
	for _, name := range strings.Fields("wbad wkey wbounds wlow wro wpd wwrap rbad rkey rbounds rlow rwo rpd") {
		steps := []string{"write:64", name + ":64", "gone:1000"}
		s, c := newWorld(t, nic.Config{}).run(Job{}, Job{Steps: steps})
		if s.err != nil || len(s.rep.Conns) != 1 || s.rep.Conns[0].End == "" {
			t.Errorf("%s: server: %v, %+v", name, s.err, s.rep)
		}
		got := c.rep.Conns[0]
		// A Write is done before the peer finds fault with it; a Read is not.
		done := got.Steps[1].Error == ""
		if c.err == nil || got.End == "" || done != (name[0] == 'w') {
			t.Errorf("%s: client: %v, %+v", name, c.err, got)
		}
	}
	_, c := newWorld(t, nic.Config{}).run(Job{}, Job{Steps: strings.Fields("sendinv:1 wwo:10 gone:1000")})
	if got := c.rep.Conns[0]; got.Steps[0].Error != "" || got.End == "" {
		t.Errorf("the STag was not invalidated: %+v", got)
	}
}

func TestRejectAndRefuse(t *testing.T) {
	s, c := newWorld(t, nic.Config{}).run(Job{}, Job{Reject: true, Private: 100})
	if s.err != nil || c.err != nil {
		t.Fatal(s.err, c.err)
	}
	if got := c.rep.Conns[0]; got.Rejected != "verify: rejected as requested" {
		t.Errorf("client: %+v", got)
	}
	if got := s.rep.Conns[0]; got.Rejected == "" || got.Private != 100 {
		t.Errorf("server: %+v", got)
	}
	w := newWorld(t, nic.Config{})
	c = w.start(1, Job{Remote: serverAddr, Steps: []string{"write"}})
	w.until(func() bool { return c.done })
	if c.err == nil || !strings.Contains(c.err.Error(), "refused") {
		t.Errorf("with no server: %v", c.err)
	}
}

// A client cannot have a server allocate without bound.
func TestGreedyClient(t *testing.T) {
	w := newWorld(t, nic.Config{})
	s, c := w.start(0, Job{}), w.start(1, Job{Remote: serverAddr, Steps: []string{"write"}, Receives: 255, RecvKiB: 4096})
	w.until(func() bool { return c.done })
	if len(s.run.conns) != 0 || len(c.rep.Conns) == 0 || !strings.Contains(c.rep.Conns[0].Rejected, "at most 268435456") {
		t.Errorf("server: %d connections, client: %v, %+v", len(s.run.conns), c.err, c.rep)
	}
	s.run.Cancel(w.Now)
	w.until(func() bool { return s.done })
}

func TestCancel(t *testing.T) {
	w := newWorld(t, nic.Config{})
	s := w.start(0, Job{})
	c := w.start(1, Job{Remote: serverAddr, Steps: []string{"write:10", "sleep:100000"}})
	w.until(func() bool { return len(c.run.conns[0].report.Steps) == 1 })
	s.run.Cancel(w.Now)
	w.until(func() bool { return s.done && c.done })
	if s.err == nil || c.err == nil || !strings.Contains(c.err.Error(), "sleep:100000: disconnected") {
		t.Errorf("server: %v, client: %v", s.err, c.err)
	}
}

func TestBadJobs(t *testing.T) {
	w := newWorld(t, nic.Config{})
	for want, job := range map[string]Job{
		"no step":         {Remote: serverAddr},
		"unknown step":    {Remote: serverAddr, Steps: []string{"fly:3"}},
		"want NAME":       {Remote: serverAddr, Steps: []string{"write:-1"}},
		"private data 3":  {Remote: serverAddr, Steps: []string{"write"}, Private: 3},
		"connections 999": {Conns: 999},
		"the server has":  {Steps: []string{"write"}},
		"ORD 5000":        {ORD: 5000},
	} {
		if _, err := Start(w.NICs[0], job, w.Now, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
