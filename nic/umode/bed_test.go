package umode

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/abi/abitest"
	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/ucma"
	"tapir/nic/uapi/uverbs"
	"tapir/nic/umode/proxy"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// far is a NIC with the servers of the user ABI.
type far struct {
	*nicnode.Node
	verbs *uverbs.Server
	cm    *ucma.Device
	do    func(fn func(now frame.Time))
	wait  sync.WaitGroup
}

// newFar starts a NIC on one end of a wire.
func newFar(t *testing.T, layer *node.Layer, wire *link.WireEnd, ip string, personality verbs.Personality) *far {
	t.Helper()
	cfg := nicconf.Config{Name: wire.Name(), IP: []netip.Prefix{netip.MustParsePrefix(ip)}}
	if err := cfg.Set("personality", personality.String()); err != nil {
		t.Fatal(err)
	}
	n, err := nicnode.Start(t.Context(), cfg, node.Env{Wire: wire, Layer: layer})
	if err != nil {
		t.Fatal(err)
	}
	f := &far{Node: n}
	for _, ca := range layer.Devices() {
		if ca.Name() == n.Device.Verbs.Identity().Name {
			f.verbs, f.do = uverbs.New(ca), ca.Do
		}
	}
	f.run(t, func(frame.Time) {
		f.cm = ucma.NewServer().Attach(ucma.NIC{
			Verbs: n.Device.Verbs, CM: n.Device.CM, Network: n.Device.IP, QP: f.verbs.QP, Now: n.Now,
			Schedule: n.Device.CI(f.do, nil).Schedule, Do: f.do,
		})
	})
	t.Cleanup(func() {
		ended, ran := make(chan struct{}), make(chan struct{})
		go func() { f.wait.Wait(); close(ended) }()
		testenv.Await(t, ended, "the sessions' end")
		f.do(func(frame.Time) { f.cm.Detach(); close(ran) })
		testenv.Await(t, ran, "the NIC's thread")
		if err := n.Close(); err != nil && !errors.Is(err, nicnode.ErrUnplugged) {
			t.Error(err)
		}
		if l := n.Leaks(); len(l) > 0 {
			t.Errorf("%s: left at the end: %v", n.Name(), l)
		}
	})
	return f
}

// run runs fn on the NIC's thread.
func (f *far) run(t *testing.T, fn func(now frame.Time)) {
	t.Helper()
	if err := f.DoWait(fn); err != nil {
		t.Fatal(err)
	}
}

// nics are two NICs on a wire.
func nics(t *testing.T, p verbs.Personality) (a, b *far) {
	t.Helper()
	ends := [2]*link.WireEnd{}
	var err error
	if ends[0], ends[1], err = link.NewWire("a", "b", false); err != nil {
		t.Fatal(err)
	}
	layer := node.NewLayer()
	return newFar(t, layer, ends[0], "10.0.0.1/24", p), newFar(t, layer, ends[1], "10.0.0.2/24", p)
}

// thread is the NIC's as the proxy needs it.
type thread struct{ *far }

func (t thread) Do(fn func(now frame.Time)) { t.do(fn) }

func (t thread) AddSource(fd int, serve func(now frame.Time, hungUp bool), lost func()) (remove func()) {
	s := t.Loop.AddSource(fd, serve, lost)
	return func() { t.Loop.RemoveSource(s) }
}

func (t thread) AddBell(fd int, b proxy.Doorbells) (remove func()) {
	return t.Loop.AddBell(fd, b, func() {})
}

const verbsDevice = "uverbs/a"

// open opens the NIC as a program would, over a socket.
func (f *far) open(t *testing.T, o Options) *Context {
	t.Helper()
	ours, theirs := abitest.SocketPair(t)
	conn := must[*os.File](t)(theirs.File())
	_ = theirs.Close()
	f.wait.Add(1)
	proxy.Serve(thread{f}, conn, os.Getpid(), map[string]abi.Opener{verbsDevice: f.verbs.Open, relay.UCMA: f.cm.Open},
		f.wait.Done)
	c, err := newContext(ours, verbsDevice, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.session.close() })
	return c
}

// soon bounds everything that a test waits for.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
