package tunnel

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/nic/tap"
	"tapir/wire/frame"
	"tapir/wire/virtio"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"udp:192.0.2.1:7000,192.0.2.2:7001":       "udp:192.0.2.1:7000,192.0.2.2:7001",
		"udp::7000,192.0.2.2:7001":                "udp:0.0.0.0:7000,192.0.2.2:7001",
		"udp::7000,[2001:db8::2]:7001":            "udp:[::]:7000,[2001:db8::2]:7001",
		"vxlan:100,192.0.2.2":                     "vxlan:100,192.0.2.2:4789,0.0.0.0:4789",
		"vxlan:16777215,192.0.2.2:4790,192.0.2.1": "vxlan:16777215,192.0.2.2:4790,192.0.2.1:4789",
		"vxlan:0,2001:db8::2,[2001:db8::1]:4790":  "vxlan:0,[2001:db8::2]:4789,[2001:db8::1]:4790",
		"udp::7000,192.0.2.2:7001,key=/k":         "udp:0.0.0.0:7000,192.0.2.2:7001,key=/k",
		"vxlan:0,192.0.2.2,key=k":                 "vxlan:0,192.0.2.2:4789,0.0.0.0:4789,key=k",
		"udp::7000,192.0.2.2:7001,key=":           "expected a file",
		"":                                        "expected udp:",
		"tcp:192.0.2.1:1,192.0.2.2:1":             "expected udp:",
		"udp:192.0.2.1:7000":                      "expected udp:",
		"udp:192.0.2.1,192.0.2.2:1":               "expected an address and a port",
		"udp::0,192.0.2.2:1":                      "expected an address and a port",
		"udp::1,192.0.2.2:0":                      "expected an address and a port",
		"udp::1,:2":                               "one station's address",
		"udp::1,0.0.0.0:2":                        "one station's address",
		"udp::1,224.0.0.1:2":                      "one station's address",
		"udp:[::1]:1,192.0.2.2:2":                 "two addresses of one family",
		"vxlan:16777216,192.0.2.2":                "from 0 to 16777215",
		"vxlan:x,192.0.2.2":                       "from 0 to 16777215",
		"vxlan:1":                                 "expected udp:",
	} {
		s, err := Parse(text)
		switch {
		case err == nil && s.String() != want:
			t.Errorf("%s: %v, want %s", text, s, want)
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %s", text, err, want)
		case err == nil:
			if again, err := Parse(s.String()); err != nil || again != s {
				t.Errorf("%s: %v, %v", s, again, err)
			}
		}
	}
}

// free is an address on which nobody listens.
func free(t testing.TB, ip string) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// pair is two ends of a tunnel.
func pair(t testing.TB, kind Kind, key string, a, b netip.AddrPort) (x, y *Wire) {
	t.Helper()
	for w, s := range map[**Wire]Spec{&x: {kind, 42, a, b, key}, &y: {kind, 42, b, a, key}} {
		var err error
		if *w, err = Open(s, true); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*w).Close() })
	}
	return x, y
}

// next waits for a frame.
func next(t *testing.T, w *Wire) ([]byte, error) {
	t.Helper()
	for range 100 {
		f := frame.New(make([]byte, 1<<17), nil)
		if err := w.Read(f); err != tap.ErrAgain {
			return f.Bytes(), err
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(w.Fd()), Events: unix.POLLIN}}, 100)
	}
	t.Fatal("no frame came")
	return nil, nil
}

// superframe is a TCP segment of n octets of data that is to be cut.
func superframe(n, size int) *frame.Frame {
	b := append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}, make([]byte, 40+n)...)
	ip, tcp := b[14:], b[34:]
	ip[0], ip[2], ip[3], ip[8], ip[9] = 0x45, byte((40+n)>>8), byte(40+n), 64, 6
	copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	tcp[12] = 5 << 4
	for i := range n {
		tcp[20+i] = byte(i * 7)
	}
	f := frame.New(make([]byte, 1<<17), nil)
	f.Append(b)
	f.Offload = frame.Offload{NeedsCsum: true, CsumStart: 34, CsumOffset: 16, GSO: frame.GSOTCPv4, GSOSize: uint16(size),
		HdrLen: 54}
	return f
}

// Frames of all lengths, and super-frames in their true segments, come out as they went in,
// with and without the kernel's help.
func TestFrames(t *testing.T) {
	for _, c := range []struct {
		kind      Kind
		a, b, key string
	}{{UDP, "127.0.0.1", "127.0.0.1", ""}, {UDP, "::1", "::1", ""}, {VXLAN, "127.0.0.1", "127.0.0.2", ""},
		{UDP, "127.0.0.1", "127.0.0.1", keyFile(t)}, {VXLAN, "127.0.0.1", "127.0.0.2", keyFile(t)}} {
		x, y := pair(t, c.kind, c.key, free(t, c.a), free(t, c.b))
		acquaint(t, x, y)
		for _, alone := range []bool{false, true} {
			x.segments = !alone
			for _, n := range []int{1, 100, 1448, 1449, 20 * 1448, 44*1448 + 3} {
				f := superframe(n, 1448)
				var want [][]byte
				if err := virtio.Split(f.Offload, f.Bytes(), func(b []byte) { want = append(want, bytes.Clone(b)) }); err != nil {
					t.Fatal(err)
				}
				if err := x.Write(f); err != nil {
					t.Fatalf("%s, %d octets: %v", c.kind, n, err)
				}
				for i := range want {
					if b, err := next(t, y); err != nil || !bytes.Equal(b, want[i]) {
						t.Fatalf("%s %s, %d octets, segment %d of %d: %d octets, %v", c.kind, c.a, n, i, len(want), len(b), err)
					}
				}
			}
		}
		if y.Buffered() || x.MTU() < 1500 {
			t.Errorf("%s: buffered %v, MTU %d", c.kind, y.Buffered(), x.MTU())
		}
	}
}

// Only the peer is heard, and with its VNI.
func TestStrangers(t *testing.T) {
	x, y := pair(t, VXLAN, "", free(t, "127.0.0.1"), free(t, "127.0.0.2"))
	say := func(from string, b ...byte) {
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(from)}, net.UDPAddrFromAddrPort(y.spec.Local))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string][]byte{
		"another VNI": {8, 0, 0, 0, 0, 0, 43, 0, 1, 2}, "no VNI": {0, 0, 0, 0, 0, 0, 42, 0, 1, 2}, "short": {8, 0, 0, 0, 0},
		"no frame": {8, 0, 0, 0, 0, 0, 42, 0},
	} {
		say("127.0.0.1", b...)
		if _, err := next(t, y); err != tap.ErrRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
	say("127.0.0.3", 8, 0, 0, 0, 0, 0, 42, 0, 1, 2)
	if _, err := next(t, y); err != tap.ErrRefused {
		t.Errorf("another station: %v", err)
	}
	say("127.0.0.1", 8, 0, 0, 0, 0, 0, 42, 0, 1, 2) // from any port
	if b, err := next(t, y); err != nil || !bytes.Equal(b, []byte{1, 2}) {
		t.Errorf("the peer: %v, %v", b, err)
	}
	small := frame.New(make([]byte, frame.DefaultHeadroom+64), nil)
	f := superframe(100, 1448)
	if err := x.Write(f); err != nil {
		t.Fatal(err)
	}
	for err := tap.ErrAgain; err != tap.ErrOversize; {
		if err = y.Read(small); err != tap.ErrAgain && err != tap.ErrOversize {
			t.Fatal(err)
		}
	}
}

// Nobody who listens, and a frame that is too long, are not the end of a wire.
func TestFailures(t *testing.T) {
	a, b := free(t, "127.0.0.1"), free(t, "127.0.0.1")
	w, err := Open(Spec{Kind: UDP, Local: a, Remote: b}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	f := frame.New(make([]byte, 1<<17), nil)
	f.Append(make([]byte, 100))
	for range 4 { // the kernel tells of a port without a listener at the next one
		if err := w.Write(f); err != nil && err != tap.ErrRefused {
			t.Fatal(err)
		}
		if err := w.Read(frame.New(make([]byte, 4096), nil)); err != tap.ErrAgain {
			t.Fatal(err)
		}
	}
	f.Extend(66000)
	if err := w.Write(f); err != tap.ErrRefused {
		t.Errorf("too long: %v", err)
	}
	if _, err := Open(Spec{Kind: UDP, Local: a, Remote: b}, true); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("the address is taken: %v", err)
	}
	must(w.Close())
	if err := w.Read(f); err != tap.ErrGone {
		t.Errorf("closed: %v", err)
	}
}

// Frames that are held back leave together, in their order: at Flush, before a shorter frame, and
// when there are as many as one system call takes.
func TestBatch(t *testing.T) {
	for _, alone := range []bool{false, true} {
		x, y := pair(t, VXLAN, "", free(t, "127.0.0.1"), free(t, "127.0.0.2"))
		x.Batch()
		x.segments = !alone
		quiet := func() {
			t.Helper()
			if alone { // each frame is sent by itself
				return
			}
			if err := y.Read(frame.New(make([]byte, 1<<17), nil)); err != tap.ErrAgain {
				t.Errorf("a frame came: %v", err)
			}
		}
		comes := func(lengths ...int) {
			t.Helper()
			for i, n := range lengths {
				if b, err := next(t, y); err != nil || len(b) != n {
					t.Errorf("frame %d: %d octets, want %d: %v", i, len(b), n, err)
				}
			}
		}
		write := func(n int) { t.Helper(); must(x.Write(superframe(n-54, 1448))) }
		write(1000)
		write(1000)
		write(600)
		quiet()
		must(x.Flush())
		comes(1000, 1000, 600)
		write(1000)
		write(100)
		comes(1000, 100)
		write(600)
		write(1000)
		comes(600)
		must(x.Flush())
		comes(1000)
		for range mostSegments + 1 {
			write(900)
		}
		for range mostSegments {
			comes(900)
		}
		must(x.Flush(), x.Flush())
		comes(900)
		quiet()
	}
}

// A way that becomes narrower refuses and counts the frames that do not fit any more, and no
// others; so is a super-frame, which then goes in segments one by one.
func TestMTUShrinks(t *testing.T) {
	for _, key := range []string{"", keyFile(t)} {
		s := testenv.Space(t, link.Quiet)
		testenv.Must(t, s.Net.AddVeth("a", s.Net, "b"), s.Net.AddAddr("a", netip.MustParsePrefix("192.0.2.1/24")),
			s.Net.Up("a"), s.Net.Up("b"))
		var w *Wire
		testenv.Must(t, s.NS.Do(func() (err error) {
			w, err = Open(Spec{VXLAN, 1, netip.MustParseAddrPort("192.0.2.1:4789"), netip.MustParseAddrPort("192.0.2.2:4789"),
				key}, true)
			return err
		}))
		defer w.Close()
		if w.MTU() != 1500-w.spec.Overhead() {
			t.Errorf("MTU %d", w.MTU())
		}
		must(w.Write(superframe(1300, 1300)))
		must(s.Net.SetMTU("a", 1000))
		refused := uint64(0)
		for _, n := range []int{1300, 800, 3 * 1300, 3 * 800} {
			err := w.Write(superframe(n, n/max(1, n/800)))
			for err == tap.ErrAgain {
				err = w.Write(superframe(n, n/max(1, n/800)))
			}
			if n%1300 == 0 {
				refused += uint64(max(1, n/800))
			}
			if (err == tap.ErrRefused) != (n%1300 == 0) || w.tooLong != refused {
				t.Errorf("key %v, %d octets: %v, %d counted", key != "", n, err, w.tooLong)
			}
		}
	}
}

func must(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(err)
	}
}

// A frame costs no allocation.
func TestAllocatesNothing(t *testing.T) {
	for _, key := range []string{"", keyFile(t)} {
		x, y := pair(t, VXLAN, key, free(t, "127.0.0.1"), free(t, "127.0.0.2"))
		acquaint(t, x, y)
		f, g := superframe(20*1448, 1448), frame.New(make([]byte, 4096), nil)
		once := func() {
			must(x.Write(f))
			for n := 0; n < 20; {
				if g.Truncate(0); y.Read(g) == nil {
					n++
				}
			}
		}
		once()
		if n := testing.AllocsPerRun(50, once); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
