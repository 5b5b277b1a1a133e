package link

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"tapir/nic/buf"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func readable(e *WireEnd) bool {
	fds := []unix.PollFd{{Fd: int32(e.Fd()), Events: unix.POLLIN}}
	n, _ := unix.Poll(fds, 0)
	return n == 1
}

func text(pool frame.Pool, s string) *frame.Frame {
	f := pool.Get(len(s))
	f.Append([]byte(s))
	return f
}

func TestWireInMemory(t *testing.T) {
	a, b, err := NewWire("a", "b", true)
	must(t, err)
	defer a.Close()
	defer b.Close()
	pool := buf.NewPool(200, 0)
	got := pool.Get(100)
	if err := b.Read(got); err != tap.ErrAgain || readable(b) {
		t.Fatalf("an empty wire gives %v", err)
	}
	for i := range 100 {
		f := text(pool, string(rune('a'+i%26)))
		f.GSO, f.GSOSize = frame.GSOTCPv4, uint16(i)
		must(t, a.Write(f))
		f.Release()
	}
	if !readable(b) || readable(a) {
		t.Error("the wrong end is readable")
	}
	for i := range 100 {
		f := pool.Get(100)
		must(t, b.Read(f))
		if string(f.Bytes()) != string(rune('a'+i%26)) || f.GSOSize != uint16(i) {
			t.Fatalf("frame %d: %q, %+v", i, f.Bytes(), f.Offload)
		}
		f.Release()
	}
	if readable(b) {
		t.Error("readable, but empty")
	}
}

func TestWireInMemoryBounds(t *testing.T) {
	a, b, err := NewWire("a", "b", false)
	must(t, err)
	defer a.Close()
	pool := buf.NewPool(4, 0)
	f := text(pool, "x")
	for range wireFrames + 5 {
		must(t, a.Write(f))
	}
	if b.Dropped() != 5 {
		t.Errorf("%d dropped", b.Dropped())
	}
	f.NeedsCsum = true
	if err := a.Write(f); err != tap.ErrRefused {
		t.Errorf("a plain wire takes offloads: %v", err)
	}
	f.NeedsCsum = false
	long := pool.Get(3000)
	long.Extend(3000)
	must(t, b.Write(long))
	if err := a.Read(pool.Get(100)); err != tap.ErrOversize {
		t.Errorf("3000 octets into 2048: %v", err)
	}
	must(t, b.Close(), b.Close(), a.Write(f))
	if err := b.Read(f); err != tap.ErrGone {
		t.Errorf("a closed end gives %v", err)
	}
}

func TestReservePort(t *testing.T) {
	n := newNet(t)
	must(t, n.ns.Sysctl("ipv6/conf/all/disable_ipv6", "0"), n.Up("lo"))
	tests := []struct{ hold, clash, free string }{
		{"127.0.0.1:4791", "127.0.0.1:4791", "127.0.0.1:4792"},
		{"0.0.0.0:4791", "127.0.0.1:4791", "0.0.0.0:4792"},
		{"[::]:4791", "0.0.0.0:4791", "[::]:4792"},
	}
	for _, tt := range tests {
		release, err := ReservePort(n.ns, netip.MustParseAddrPort(tt.hold))
		must(t, err)
		if r, err := ReservePort(n.ns, netip.MustParseAddrPort(tt.clash)); err == nil {
			r()
			t.Errorf("%s was reserved beside %s", tt.clash, tt.hold)
		}
		r, err := ReservePort(n.ns, netip.MustParseAddrPort(tt.free))
		must(t, err)
		r()
		release()
		release()
		r, err = ReservePort(n.ns, netip.MustParseAddrPort(tt.clash))
		must(t, err)
		r()
	}
	low, high, err := n.EphemeralPorts()
	if err != nil || low == 0 || high <= low {
		t.Errorf("ephemeral ports %d-%d, %v", low, high, err)
	}
}

func TestWatch(t *testing.T) {
	n := newNet(t)
	must(t, n.AddTAP("tap0", false), n.Up("tap0"))
	changes := make(chan bool, 16)
	stop, err := n.Watch("tap0", func(live bool) { changes <- live }, nil)
	must(t, err)
	defer stop()
	next := func(want bool) {
		t.Helper()
		select {
		case live := <-changes:
			if live != want {
				t.Fatalf("alive %v, want %v", live, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no news, want alive %v", want)
		}
	}
	next(false) // a TAP without a queue
	for range 2 {
		q, err := n.OpenTAP(tap.Config{Name: "tap0"})
		must(t, err)
		next(true)
		i, err := n.Get("tap0")
		if err != nil || !i.Live || !i.Up || i.Kind != "tuntap" {
			t.Errorf("%+v, %v", i, err)
		}
		must(t, q.Close(), n.Down("tap0"))
		next(false)
		must(t, n.Up("tap0"))
	}
}

func TestRoutes(t *testing.T) {
	n := newNet(t)
	must(t, n.AddBridge("br0"), n.AddAddr("br0", netip.MustParsePrefix("10.0.0.1/24")))
	must(t, n.AddRoute("br0", netip.MustParsePrefix("10.1.0.0/16"), netip.MustParseAddr("10.0.0.9")))
	must(t, n.AddRoute("br0", netip.MustParsePrefix("10.2.0.0/16"), netip.Addr{}))
	if err := n.AddRoute("br0", netip.MustParsePrefix("10.3.0.0/16"), netip.MustParseAddr("192.0.2.1")); err == nil {
		t.Error("a gateway off the link was accepted")
	}
	all, err := n.All()
	must(t, err)
	if len(all) != 2 || all[1].Name != "br0" || !slices.Contains(all[1].Addrs, netip.MustParsePrefix("10.0.0.1/24")) {
		t.Errorf("%+v", all)
	}
}

func BenchmarkWireInMemory(b *testing.B) {
	near, far, err := NewWire("a", "b", false)
	if err != nil {
		b.Fatal(err)
	}
	defer near.Close()
	defer far.Close()
	pool := buf.NewPool(4, 0)
	f := pool.Get(1514)
	f.Append(bytes.Repeat([]byte{1}, 1514))
	b.ReportAllocs()
	for b.Loop() {
		near.Write(f)
		g := pool.Get(1522)
		far.Read(g)
		g.Release()
	}
}
