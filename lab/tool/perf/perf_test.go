package perf

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv/vpair"
	"tapir/lab/conf/perfconf"
	"tapir/lab/host/link"
	"tapir/nic"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// world is two NICs in virtual time.
type world struct {
	*vpair.Pair
	t *testing.T
}

var serverAddr = netip.MustParseAddr("10.0.0.1")

func newWorld(t *testing.T, frames nic.FrameMode, faults link.Impairment) *world {
	t.Helper()
	return newWorldOf(t, verbs.IWARP, frames, faults)
}

func newWorldOf(t *testing.T, p verbs.Personality, frames nic.FrameMode, faults link.Impairment) *world {
	t.Helper()
	var cfg [2]nic.Config
	for i, addr := range []string{"10.0.0.1/24", "10.0.0.2/24"} {
		cfg[i] = nic.Config{Name: "nic" + string('0'+rune(i)), Addrs: []netip.Prefix{netip.MustParsePrefix(addr)}, Frames: frames, Seed: 7,
			RDMA: nic.RDMA{Personality: p}}
	}
	return &world{vpair.New(t, cfg, faults), t}
}

// until runs the world until stop says so.
func (w *world) until(stop func() bool) {
	w.t.Helper()
	w.Until(w.t, stop)
}

type outcome struct {
	rep  Report
	err  error
	done bool
}

// A job that names a transport runs on NICs that have it, and on no other.
func TestTransport(t *testing.T) {
	w := newWorldOf(t, verbs.RoCE, nic.GSO, link.Impairment{})
	for _, op := range perfconf.Ops {
		server, client := w.run(perfconf.Job{Op: op, Iters: 5, Transport: "roce"})
		if server.err != nil || client.err != nil {
			t.Errorf("%s: %v, %v", op, server.err, client.err)
		}
		_, err := Start(w.NICs[0], perfconf.Job{Op: op, Transport: "iwarp"}, w.Now, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "nic0 has personality roce, not iwarp") {
			t.Errorf("%s over iwarp: %v", op, err)
		}
	}
}

func (w *world) start(i int, job perfconf.Job) *outcome {
	w.t.Helper()
	o := &outcome{}
	_, err := Start(w.NICs[i], job, w.Now, func(r Report, err error) { o.rep, o.err, o.done = r, err, true }, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// run runs both sides of a job to their end and checks that nothing is left.
func (w *world) run(job perfconf.Job) (server, client *outcome) {
	w.t.Helper()
	server = w.start(0, perfconf.Job{Op: job.Op})
	job.Remote = serverAddr
	client = w.start(1, job)
	w.until(func() bool { return server.done && client.done })
	for i, d := range w.NICs {
		if n := len(d.ShowQP()) + len(d.ShowCQ()) + len(d.ShowMR()); n != 0 {
			w.t.Errorf("NIC %d: %d objects are left", i, n)
		}
	}
	return server, client
}

func TestEveryWorkload(t *testing.T) {
	for _, c := range []struct {
		job      perfconf.Job
		frames   nic.FrameMode
		messages int64
	}{
		{perfconf.Job{Op: perfconf.WriteBW, Size: 10000, Iters: 300}, nic.Wire, 300},
		{perfconf.Job{Op: perfconf.WriteBW, Size: 8, Iters: 1000, QPs: 3}, nic.Wire, 3000},
		{perfconf.Job{Op: perfconf.WriteBW, Size: 1 << 20, Iters: 20, Depth: 4}, nic.GSO, 20},
		{perfconf.Job{Op: perfconf.ReadBW, Size: 5000, Iters: 300, QPs: 2}, nic.Wire, 600},
		{perfconf.Job{Op: perfconf.SendBW, Size: 3000, Iters: 500}, nic.Wire, 500},
		{perfconf.Job{Op: perfconf.SendBW, Size: 1, Iters: 1000, Depth: 1}, nic.Wire, 1000},
		{perfconf.Job{Op: perfconf.SendBW, Size: 64, Iters: 1000, QPs: 2, Depth: 7}, nic.Jumbo, 2000},
		{perfconf.Job{Op: perfconf.WriteLat, Iters: 300}, nic.Wire, 300},
		{perfconf.Job{Op: perfconf.WriteLat, Size: 5000, Iters: 300}, nic.Wire, 300},
		{perfconf.Job{Op: perfconf.SendLat, Iters: 300}, nic.GSO, 300},
	} {
		t.Run(string(c.job.Op)+"/"+c.frames.String(), func(t *testing.T) {
			server, client := newWorld(t, c.frames, link.Impairment{}).run(c.job)
			if server.err != nil || client.err != nil {
				t.Fatalf("server: %v, client: %v", server.err, client.err)
			}
			for _, o := range []*outcome{server, client} {
				if o.rep.Messages != c.messages || o.rep.Bytes != c.messages*int64(o.rep.Size) {
					t.Errorf("%s: %d messages, %d bytes; want %d messages", o.rep.Role, o.rep.Messages, o.rep.Bytes, c.messages)
				}
			}
			if c.job.Op.IsLatency() && (client.rep.Latency == nil || client.rep.Latency.Min < 20*time.Microsecond) {
				t.Errorf("latency %+v on a wire of 20 µs", client.rep.Latency)
			}
			if last := client.rep.Progress[len(client.rep.Progress)-1]; last.Messages != c.messages || last.Elapsed != client.rep.Elapsed {
				t.Errorf("the last point is %+v after %v", last, client.rep.Elapsed)
			}
			if !c.job.Op.IsLatency() && client.rep.Gbps <= 0 {
				t.Errorf("rate %v", client.rep.Gbps)
			}
		})
	}
}

func TestRping(t *testing.T) {
	for _, size := range []int{0, 16, 1, 3000, 65535} {
		var said []string
		w := newWorld(t, nic.Wire, link.Impairment{})
		server := w.start(0, perfconf.Job{Op: perfconf.Rping})
		client := &outcome{}
		_, err := Start(w.NICs[1], perfconf.Job{Op: perfconf.Rping, Remote: serverAddr, Size: size, Iters: 7}, w.Now,
			func(r Report, err error) { client.rep, client.err, client.done = r, err, true },
			func(p Progress) { said = append(said, p.Data) })
		if err != nil {
			t.Fatal(err)
		}
		w.until(func() bool { return server.done && client.done })
		if server.err != nil || client.err != nil || client.rep.Messages != 7 || server.rep.Messages != 7 {
			t.Errorf("size %d: server %v, %d pings; client %v, %d pings", size, server.err, server.rep.Messages, client.err, client.rep.Messages)
		}
		if len(said) != 7 || size == 0 && !strings.HasPrefix(said[6], "ping data: rdma-ping-6: GHI") {
			t.Errorf("size %d: said %q", size, said)
		}
	}
}

func TestTimedRun(t *testing.T) {
	_, client := newWorld(t, nic.Wire, link.Impairment{}).run(perfconf.Job{Op: perfconf.WriteBW, Size: 4096, Duration: 10 * time.Millisecond})
	if client.err != nil {
		t.Fatal(client.err)
	}
	if e := client.rep.Elapsed; e < 10*time.Millisecond || e > 20*time.Millisecond {
		t.Errorf("ran for %v", e)
	}
}

func TestVerifySurvivesFaults(t *testing.T) {
	for name, f := range map[string]link.Impairment{
		"clean":  {},
		"faulty": {Loss: 10_000, Duplicate: 5_000, Corrupt: 5_000, Reorder: 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := newWorld(t, nic.Wire, f).run(perfconf.Job{Op: perfconf.Verify, Sizes: []int{1, 8, 4096, 300_000}})
			if server.err != nil || client.err != nil {
				t.Fatalf("server: %v, client: %v", server.err, client.err)
			}
			if len(client.rep.Checks) != 12 || len(server.rep.Checks) != 12 {
				t.Fatalf("%d and %d checks", len(client.rep.Checks), len(server.rep.Checks))
			}
			for i, c := range client.rep.Checks {
				if s := server.rep.Checks[i]; !c.Verified || !s.Verified || s.SHA256 != c.SHA256 {
					t.Errorf("%s of %d: client %v, server %v", c.Operation, c.Size, c.Verified, s.Verified)
				}
			}
		})
	}
}

// The checker must be able to say no.
func TestVerifyNoticesWrongMemory(t *testing.T) {
	w := newWorld(t, nic.Wire, link.Impairment{})
	var run *Run
	server := &outcome{}
	run, err := Start(w.NICs[0], perfconf.Job{Op: perfconf.Verify}, 0, func(r Report, err error) { server.rep, server.done = r, true }, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Spoil the target between placement and hash, each time.
	w.NICs[0].AddPoller(func(frame.Time) {
		if len(run.buf) > 0 {
			run.target()[0] ^= 0xff
		}
	})
	client := w.start(1, perfconf.Job{Op: perfconf.Verify, Sizes: []int{64}, Remote: serverAddr})
	w.until(func() bool { return server.done && client.done })
	wrong := 0
	for _, c := range client.rep.Checks {
		if !c.Verified {
			wrong++
		}
	}
	if wrong == 0 {
		t.Error("spoiled memory was verified")
	}
}

func TestRefusals(t *testing.T) {
	t.Run("other test", func(t *testing.T) {
		w := newWorld(t, nic.Wire, link.Impairment{})
		server := w.start(0, perfconf.Job{Op: perfconf.ReadBW})
		client := w.start(1, perfconf.Job{Op: perfconf.WriteBW, Remote: serverAddr})
		w.until(func() bool { return client.done })
		if client.err == nil || !strings.Contains(client.err.Error(), "serves read-bw, not write-bw") {
			t.Errorf("client: %v", client.err)
		}
		if server.done {
			t.Errorf("the server gave up: %v", server.err)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		w := newWorld(t, nic.Wire, link.Impairment{})
		client := w.start(1, perfconf.Job{Op: perfconf.WriteBW, Remote: serverAddr})
		w.until(func() bool { return client.done })
		if client.err == nil || !strings.Contains(client.err.Error(), "refused") {
			t.Errorf("client: %v", client.err)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		w := newWorld(t, nic.Wire, link.Impairment{})
		client := w.start(1, perfconf.Job{Op: perfconf.WriteBW, Remote: netip.MustParseAddr("10.0.0.77")})
		w.until(func() bool { return client.done })
		if client.err == nil || !strings.Contains(client.err.Error(), "10.0.0.77:18515") {
			t.Errorf("client: %v", client.err)
		}
	})
}

// underWay starts both sides of a test without end and lets it get going.
func (w *world) underWay(op perfconf.Op) (server, client *outcome, run *Run) {
	w.t.Helper()
	server, client = w.start(0, perfconf.Job{Op: op}), &outcome{}
	run, err := Start(w.NICs[1], perfconf.Job{Op: op, Remote: serverAddr, Duration: time.Hour}, w.Now,
		func(r Report, err error) { client.rep, client.err, client.done = r, err, true }, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.until(func() bool { return run.messages > 100 })
	return server, client, run
}

func TestCancelTellsTheOtherSide(t *testing.T) {
	w := newWorld(t, nic.Wire, link.Impairment{})
	server, client, run := w.underWay(perfconf.WriteBW)
	run.Cancel(w.Now)
	w.until(func() bool { return server.done && client.done })
	if client.err == nil || server.err == nil {
		t.Errorf("client: %v, server: %v", client.err, server.err)
	}
}

// A NIC that is stopped in the middle closes in order: its job says why it
// ended, and the peer sees the server leave, not a reset.
func TestNICIsStopped(t *testing.T) {
	for _, op := range []perfconf.Op{perfconf.WriteBW, perfconf.ReadBW, perfconf.SendBW, perfconf.SendLat} {
		t.Run(string(op), func(t *testing.T) {
			w := newWorld(t, nic.Wire, link.Impairment{})
			server, client, _ := w.underWay(op)
			w.NICs[0].Shutdown(w.Now)
			w.until(func() bool { return server.done && client.done })
			if want := string(op) + ": the NIC was stopped during the test"; server.err == nil || server.err.Error() != want {
				t.Errorf("server: %v", server.err)
			}
			if !errors.Is(client.err, errServerLeft) {
				t.Errorf("client: %v", client.err)
			}
		})
	}
}

// A connection may be gone although its last event is still on its way: a run
// that ends meanwhile has nothing to disconnect, and nothing has failed.
func TestEndMeetsAClosedConnection(t *testing.T) {
	w := newWorld(t, nic.Wire, link.Impairment{})
	server, client, run := w.underWay(perfconf.ReadBW)
	run.conns[0].id.Finish(nil)
	run.finish(nil, w.Now)
	w.NICs[0].Fail(errors.New("unplugged"), w.Now)
	w.until(func() bool { return server.done && client.done })
	if client.err != nil {
		t.Errorf("client: %v", client.err)
	}
}

// A NIC that is unplugged ends its job, which leaves nothing behind.
func TestNICIsRemoved(t *testing.T) {
	w := newWorld(t, nic.Wire, link.Impairment{})
	server, _, _ := w.underWay(perfconf.WriteBW)
	w.NICs[0].Fail(errors.New("unplugged"), w.Now)
	w.until(func() bool { return server.done })
	if server.err == nil || server.err.Error() != "write-bw: the NIC was removed during the test" {
		t.Errorf("server: %v", server.err)
	}
	if left := w.NICs[0].Verbs.Objects(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A NIC that has waited long enough resets what is still open, so that the
// peer is not left without a word.
func TestNICIsAborted(t *testing.T) {
	w := newWorld(t, nic.Wire, link.Impairment{})
	server, client, _ := w.underWay(perfconf.WriteBW)
	w.NICs[0].Shutdown(w.Now)
	w.NICs[0].Abort(w.Now)
	w.until(func() bool { return server.done && client.done && w.NICs[0].Idle() })
	if client.err == nil || !strings.Contains(client.err.Error(), "reset by peer") {
		t.Errorf("client: %v", client.err)
	}
}
