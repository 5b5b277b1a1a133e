package packet

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

var must = testenv.Must

// pair are the ends of a veth, and its namespace.
func pair(t *testing.T, mtu int, vnetA, vnetB bool) (s *link.Space, a, b *Wire) {
	t.Helper()
	s = testenv.Space(t, link.Quiet)
	must(t, s.Net.AddVeth("a", s.Net, "b"))
	for _, name := range []string{"a", "b"} {
		must(t, s.NS.Sysctl("ipv6/conf/"+name+"/disable_ipv6", "1"), s.Net.SetMTU(name, mtu), s.Net.Up(name))
	}
	live(t, s)
	must(t, s.NS.Do(func() (err error) {
		if a, err = Open("a", vnetA); err == nil {
			b, err = Open("b", vnetB)
		}
		return err
	}))
	t.Cleanup(func() { must(t, a.Close(), b.Close()) })
	return s, a, b
}

// live waits until frames pass: the kernel drops them without a word before.
func live(t *testing.T, s *link.Space) {
	t.Helper()
	for _, name := range []string{"a", "b"} {
		testenv.Until(t, name+" carries frames", func() bool {
			i, err := s.Net.Get(name)
			return err == nil && i.Live
		})
	}
}

func newFrame(b ...[]byte) *frame.Frame {
	f := frame.New(make([]byte, frame.DefaultHeadroom+1<<17), nil)
	for _, p := range b {
		f.Append(p)
	}
	return f
}

// header is that of a frame from a NIC to another, with these tags.
func header(tags ...ether.Tag) []byte {
	h := ether.Header{Dst: ether.Addr{2, 0, 0, 0, 0, 2}, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: 0x88b5}
	h.NTags = copy(h.Tags[:], tags)
	return h.AppendTo(nil)
}

// read waits for a frame.
func read(t *testing.T, w *Wire, room int) (f *frame.Frame, err error) {
	t.Helper()
	testenv.Until(t, "a frame", func() bool {
		f = frame.New(make([]byte, frame.DefaultHeadroom+room), nil)
		err = w.Read(f)
		return err != tap.ErrAgain
	})
	return f, err
}

// A tag that the kernel took off is put back, with its EtherType; what lies behind it and a
// second tag are as they were.
func TestTags(t *testing.T) {
	for _, vnet := range []bool{true, false} {
		_, a, b := pair(t, 1500, true, vnet)
		for _, tags := range [][]ether.Tag{{}, {{TPID: ether.TypeVLAN, TCI: 0x6007}}, {{TPID: 0x88a8, TCI: 5}},
			{{TPID: 0x88a8, TCI: 5}, {TPID: ether.TypeVLAN, TCI: 7}}} {
			f := newFrame(header(tags...), bytes.Repeat([]byte{7}, 200))
			must(t, a.Write(f))
			g, err := read(t, b, 1<<17)
			if err != nil || !bytes.Equal(g.Bytes(), f.Bytes()) {
				t.Errorf("vnet %v, tags %v: %v\n% x\n% x", vnet, tags, err, g.Bytes(), f.Bytes())
			}
		}
		if n := b.Counters()[0]; n.Name != "vlan_tags_restored" || n.Value != 3 {
			t.Errorf("vnet %v: %+v", vnet, n)
		}
	}
}

// superFrame is a TCP segment of n octets, to be cut into parts of size.
func superFrame(n, size int, tags ...ether.Tag) *frame.Frame {
	h := header(tags...)
	h[len(h)-2], h[len(h)-1] = 8, 0
	total := 20 + tcp.HeaderLen + n
	segment := make([]byte, total)
	copy(segment, []byte{0x45, 0, byte(total >> 8), byte(total), 0, 0, 0, 0, 64, 6})
	copy(segment[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	segment[32] = 5 << 4
	f := newFrame(h, segment)
	f.Offload = frame.Offload{NeedsCsum: true, CsumStart: uint16(len(h) + 20), CsumOffset: tcp.ChecksumOffset,
		GSO: frame.GSOTCPv4, GSOSize: uint16(size), HdrLen: uint16(len(h) + 20 + tcp.HeaderLen)}
	return f
}

// A super-frame passes whole to an end that takes it, with a tag too; for another end it is
// cut into true frames with their checksums.
func TestLargeReceives(t *testing.T) {
	tag := ether.Tag{TPID: ether.TypeVLAN, TCI: 9}
	for _, tags := range [][]ether.Tag{{}, {tag}} {
		_, a, b := pair(t, 1500, true, true)
		f := superFrame(20000, 1400, tags...)
		must(t, a.Write(f))
		g, err := read(t, b, 1<<17)
		if err != nil || !bytes.Equal(g.Bytes(), f.Bytes()) || g.GSO != frame.GSOTCPv4 || g.GSOSize != 1400 ||
			g.CsumStart != f.CsumStart {
			t.Errorf("tags %v: %v, %d octets, %+v", tags, err, g.Len(), g.Offload)
		}
		_, a, b = pair(t, 1500, true, false)
		must(t, a.Write(f))
		n := 0
		for at := 0; at < 20000; n++ {
			g, err := read(t, b, 1<<17)
			must(t, err)
			at += g.Len() - int(f.HdrLen)
			if n := len(header(tags...)); g.NeedsCsum || g.GSO != frame.GSONone || !bytes.Equal(g.Bytes()[:n], f.Bytes()[:n]) {
				t.Errorf("tags %v: segment %d: %+v", tags, n, g.Offload)
			}
		}
		if n != 15 {
			t.Errorf("%d segments", n)
		}
	}
}

// Frames that have no room are counted and leave the next in its place. An MTU that shrinks
// has longer frames refused, and no others.
func TestTooLong(t *testing.T) {
	for _, vnet := range []bool{true, false} {
		s, a, b := pair(t, 9000, vnet, vnet)
		must(t, a.Write(newFrame(header(), make([]byte, 5000))), a.Write(newFrame(header(), make([]byte, 100))))
		if _, err := read(t, b, 2000); err != tap.ErrOversize {
			t.Error(err)
		}
		if f, err := read(t, b, 2000); err != nil || f.Len() != 114 {
			t.Error(f.Len(), err)
		}
		if n := b.Counters()[1]; n.Name != "frames_too_long" || n.Value != 1 {
			t.Errorf("%+v", n)
		}
		must(t, s.Net.SetMTU("a", 1000))
		if err := a.Write(newFrame(header(), make([]byte, 1200))); err != tap.ErrRefused {
			t.Errorf("longer than the new MTU: %v", err)
		}
		must(t, a.Write(newFrame(header(), make([]byte, 900))))
		if f, err := read(t, b, 2000); err != nil || f.Len() != 914 {
			t.Error(f.Len(), err)
		}
	}
}

// An interface that goes down refuses frames and comes back; one that is removed ends the
// wire, whichever call meets it first.
func TestInterfaceGoes(t *testing.T) {
	s, a, b := pair(t, 1500, true, false)
	must(t, s.Net.Down("a"))
	if err := a.Write(newFrame(header(), make([]byte, 100))); err != tap.ErrRefused {
		t.Errorf("down: %v", err)
	}
	must(t, s.Net.Up("a"), s.Net.Up("b"))
	testenv.Until(t, "it carries frames again", func() bool {
		return a.Write(newFrame(header(), make([]byte, 100))) == nil
	})
	must(t, s.Net.Delete("a"))
	if err := a.Write(newFrame(header(), make([]byte, 100))); err != tap.ErrRemoved {
		t.Errorf("write: %v", err)
	}
	testenv.Until(t, "the other end notices", func() bool {
		_, err := read(t, b, 2000) // what was under way, and then that
		return err == tap.ErrRemoved
	})
	if b.Removed() != tap.ErrRemoved {
		t.Error("it was removed")
	}
}

// What cannot be opened is refused with one line.
func TestRefused(t *testing.T) {
	for name, want := range map[string]string{"none": "no such interface", "lo": "no Ethernet frames"} {
		s := testenv.Space(t, link.Quiet)
		err := s.NS.Do(func() error {
			w, err := Open(name, true)
			if err == nil {
				return w.Close()
			}
			return err
		})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A ring that is full loses what comes then, a frame that does not fit into a slot comes in
// its place, and the ring goes round.
func TestRing(t *testing.T) {
	_, a, b := pair(t, 1500, true, false)
	for i := range slots + 50 {
		must(t, a.Write(newFrame(header(), []byte{byte(i >> 8), byte(i)})))
	}
	for i := range slots {
		f, err := read(t, b, 2000)
		if err != nil || !bytes.Equal(f.Bytes()[ether.HeaderLen:], []byte{byte(i >> 8), byte(i)}) {
			t.Fatalf("frame %d: %v, % x", i, err, f.Bytes())
		}
	}
	if b.Buffered() {
		t.Error("more frames than slots")
	}
	for range 2 {
		if n := b.Counters()[3]; n.Name != "missed" || n.Value != 50 {
			t.Errorf("%+v", n)
		}
	}
	must(t, a.Write(newFrame(header(), make([]byte, 100))), a.Write(superFrame(4000, 1000)),
		a.Write(newFrame(header(), make([]byte, 100))))
	for i, want := range []int{114, 1054, 1054, 1054, 1054, 114} {
		if f, err := read(t, b, 2000); err != nil || f.Len() != want {
			t.Errorf("frame %d: %v, %d octets, want %d", i, err, f.Len(), want)
		}
	}
}

// While the socket that only sends is full, frames leave by the one that is polled, in order.
func TestFullSocket(t *testing.T) {
	_, a, b := pair(t, 1500, false, false)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	for err == nil {
		err = unix.Send(pair[0], make([]byte, 100), 0)
	}
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
	out := a.out
	for i := range 6 {
		if a.out = out; i%2 == 1 {
			a.out = pair[0]
		}
		must(t, a.Write(newFrame(header(), make([]byte, 100+i))))
	}
	a.out = out
	must(t, unix.Close(pair[0]), unix.Close(pair[1]))
	for i := range 6 {
		if f, err := read(t, b, 2000); err != nil || f.Len() != 114+i {
			t.Errorf("frame %d: %v, %d octets", i, err, f.Len())
		}
	}
}

// A frame costs no allocation.
func TestAllocatesNothing(t *testing.T) {
	for _, vnet := range []bool{true, false} {
		_, a, b := pair(t, 1500, vnet, vnet)
		f, g := newFrame(header(), make([]byte, 100)), newFrame()
		once := func() {
			if a.Write(f) != nil {
				t.Error("refused")
			}
			for g.Reset(); b.Read(g) == tap.ErrAgain; g.Reset() {
			}
		}
		once()
		if n := testing.AllocsPerRun(100, once); n != 0 {
			t.Errorf("vnet %v: %v allocations", vnet, n)
		}
	}
}
