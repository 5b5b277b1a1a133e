package shm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func open(t testing.TB, path string, vnet bool) *Wire {
	t.Helper()
	w, err := Open(path, vnet)
	must(t, err)
	t.Cleanup(func() { w.Close() })
	return w
}

// pair is two ends that have met.
func pair(t testing.TB, vnetA, vnetB bool) (a, b *Wire) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wire")
	a, b = open(t, path, vnetA), open(t, path, vnetB)
	testenv.UntilTurned(t, "they meet", func() bool { return a.up && b.up }, a, b)
	return a, b
}

func newFrame(n int) *frame.Frame {
	f := frame.New(make([]byte, 1<<17), nil)
	b := f.Extend(n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return f
}

// superframe is a TCP segment of n octets of data that is to be cut.
func superframe(n, size int) *frame.Frame {
	f := newFrame(54 + n)
	b := f.Bytes()
	copy(b, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, byte((40 + n) >> 8), byte(40 + n), 0, 0, 0, 0, 64, 6})
	copy(b[26:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	b[46] = 5 << 4
	f.Offload = frame.Offload{NeedsCsum: true, CsumStart: 34, CsumOffset: 16, GSO: frame.GSOTCPv4, GSOSize: uint16(size), HdrLen: 54}
	return f
}

// Frames of all lengths come out as they went in, in order, many times around the ring.
func TestFrames(t *testing.T) {
	a, b := pair(t, true, true)
	r := rand.New(rand.NewPCG(1, 2))
	var wait []int
	for i := range 400 {
		for n := range r.IntN(8) {
			size := 1 + r.IntN(1600)
			if n == 0 {
				size = 1 + r.IntN(longest)
			}
			err := a.Write(newFrame(size))
			if err == tap.ErrAgain {
				break
			}
			must(t, err)
			wait = append(wait, size)
		}
		for range r.IntN(12) {
			if len(wait) == 0 {
				break
			}
			f := frame.New(make([]byte, 1<<17), nil)
			must(t, b.Read(f))
			if f.Len() != wait[0] || !bytes.Equal(f.Bytes(), newFrame(wait[0]).Bytes()) {
				t.Fatalf("round %d: %d octets, want %d", i, f.Len(), wait[0])
			}
			wait = wait[1:]
		}
	}
}

// A super-frame passes whole, and in true segments to an end that takes none.
func TestSuperFrames(t *testing.T) {
	for _, whole := range []bool{true, false} {
		a, b := pair(t, true, whole)
		must(t, a.Write(superframe(10*1448, 1448)))
		n, octets := 0, 0
		for {
			f := frame.New(make([]byte, 1<<17), nil)
			if err := b.Read(f); err == tap.ErrAgain {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if n++; whole != (f.GSO == frame.GSOTCPv4) || whole != f.NeedsCsum {
				t.Errorf("offload %+v", f.Offload)
			}
			octets += f.Len() - 54
		}
		if want := map[bool]int{true: 1, false: 10}[whole]; n != want || octets != 10*1448 {
			t.Errorf("%d frames with %d octets, want %d", n, octets, want)
		}
	}
}

// A full ring has the writer wait, and wakes it when there is room; nothing is lost.
func TestBackPressure(t *testing.T) {
	a, b := pair(t, true, true)
	n := 0
	for ; ; n++ {
		if err := a.Write(newFrame(9000)); err == tap.ErrAgain {
			break
		} else if err != nil || n > 1000 {
			t.Fatal(n, err)
		}
	}
	if a.Ready(true, true) || polls(a) {
		t.Fatal("a full ring has room")
	}
	for i := range n {
		must(t, b.Read(frame.New(make([]byte, 1<<17), nil)))
		if woken := polls(a); woken && i < n/4 {
			t.Fatalf("woken after %d of %d", i, n)
		}
	}
	if !polls(a) || !a.Ready(true, true) {
		t.Fatal("not woken")
	}
	must(t, a.Write(newFrame(9000)))
}

func polls(w *Wire) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(w.Fd()), Events: unix.POLLIN}}, 0)
	return n > 0
}

// An end that sleeps is woken by one bell, and one that does not by none.
func TestBell(t *testing.T) {
	a, b := pair(t, true, true)
	b.Ready(true, false)
	b.rx.sleeping.Store(0)
	rings := a.rings
	must(t, a.Write(newFrame(100)))
	if polls(b) || a.rings != rings {
		t.Error("a bell for an end that is awake")
	}
	must(t, b.Read(newFrame(0)))
	if b.Ready(true, false) {
		t.Error("ready")
	}
	must(t, a.Write(newFrame(100)), a.Write(newFrame(100)))
	if !polls(b) || a.rings != rings+1 {
		t.Errorf("%d bells", a.rings-rings)
	}
	must(t, b.Read(newFrame(0)), b.Read(newFrame(0)))
	if b.Ready(true, false) || polls(b) {
		t.Error("the bell rings on")
	}
}

// Either end may go and come again, whoever made the memory.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wire")
	ends := [2]*Wire{open(t, path, true), open(t, path, true)}
	for i := range 10 {
		testenv.UntilTurned(t, "they meet", func() bool { return ends[0].up && ends[1].up }, ends[0], ends[1])
		must(t, ends[0].Write(newFrame(60+i)))
		f := newFrame(0)
		must(t, ends[1].Read(f))
		if f.Len() != 60+i {
			t.Fatalf("%d octets", f.Len())
		}
		must(t, ends[i%2].Close())
		other := ends[1-i%2]
		testenv.UntilTurned(t, "the other notices", func() bool { return !other.up }, other)
		if err := other.Write(newFrame(60)); err != tap.ErrRefused {
			t.Errorf("without a peer: %v", err)
		}
		ends[i%2] = open(t, path, true)
	}
	ends[0].Close()
	ends[1].Close()
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A third end is refused and waits for its turn.
func TestThird(t *testing.T) {
	a, b := pair(t, true, true)
	c := open(t, a.path, true)
	testenv.UntilTurned(t, "refused", func() bool { return a.point.Stats().Refused+b.point.Stats().Refused > 0 }, a, b, c)
	if c.up {
		t.Error("a third end has joined")
	}
	b.Close()
	testenv.UntilTurned(t, "its turn", func() bool { return a.up && c.up }, a, c)
}

// Whatever the other end writes into the memory, an end neither panics nor reads beyond it;
// it counts the fault and looks for another peer.
func TestHostile(t *testing.T) {
	store := func(p *ring, tail uint64) { p.tail.Store(tail) }
	put := func(b *Wire, at int, v uint32) { binary.NativeEndian.PutUint32(b.tx.data[at:], v) }
	for name, spoil := range map[string]func(b *Wire){
		"tail beyond the ring":  func(b *Wire) { store(&b.tx, ringSize+align) },
		"tail far beyond":       func(b *Wire) { store(&b.tx, ^uint64(0)) },
		"tail not aligned":      func(b *Wire) { store(&b.tx, 17) },
		"length beyond the end": func(b *Wire) { put(b, 0, 1000); store(&b.tx, 64) },
		"length of 4 GiB":       func(b *Wire) { put(b, 0, 1<<32-2); store(&b.tx, ringSize) },
		"longer than a frame":   func(b *Wire) { put(b, 0, longest+1); store(&b.tx, ringSize) },
		"skip without an end":   func(b *Wire) { put(b, 0, skip); store(&b.tx, 64) },
		"head beyond the tail":  func(b *Wire) { b.rx.head.Store(1 << 40) },
		"words for a bell":      func(b *Wire) { _ = unix.Close(b.point.Conn()) },
	} {
		a, b := pair(t, true, true)
		spoil(b)
		for range 400 { // around the ring, so that the head is asked for
			_ = a.Write(newFrame(9000))
		}
		_ = a.Read(newFrame(0))
		a.Ready(true, false)
		if a.up || a.broken != 1 && a.point.Stats().Left != 1 {
			t.Errorf("%s: up %v, %d broken", name, a.up, a.broken)
		}
	}
}

// Frames that only a strange end writes are refused one by one.
func TestRefused(t *testing.T) {
	a, b := pair(t, true, true)
	f := newFrame(60)
	f.Offload = frame.Offload{NeedsCsum: true, CsumStart: 50, CsumOffset: 16}
	must(t, b.tx.put(f.Offload, f.Bytes()), b.tx.put(frame.Offload{GSO: 9}, f.Bytes()), b.tx.put(frame.Offload{}, nil),
		b.tx.put(frame.Offload{}, f.Bytes()))
	for range 3 {
		if err := a.Read(newFrame(0)); err != tap.ErrRefused {
			t.Error(err)
		}
	}
	if err := a.Read(newFrame(0)); err != nil || a.refused != 3 {
		t.Error(err, a.refused)
	}
	must(t, b.tx.put(frame.Offload{}, f.Bytes()))
	if err := a.Read(frame.New(make([]byte, frame.DefaultHeadroom+20), nil)); err != tap.ErrOversize {
		t.Error(err)
	}
}

// Random memory and random greetings do no harm.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		a, b := pair(t, true, true)
		for i := range 64 {
			b.tx.data[r.IntN(256)] = byte(r.Uint32())
			if i%8 == 0 {
				b.tx.tail.Store(uint64(r.IntN(64)) * align)
			}
			_ = a.Read(newFrame(0))
			_ = a.Write(newFrame(60))
			a.Ready(true, false)
		}
		a.Close()
		b.Close()
	}
	path := filepath.Join(t.TempDir(), "wire")
	a := open(t, path, true)
	for i := range 50 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err, unix.Connect(fd, &unix.SockaddrUnix{Name: path}))
		hi := hello(true)
		hi[r.IntN(len(hi))] ^= 1 << r.IntN(8)
		must(t, unix.Sendto(fd, hi[:1+r.IntN(len(hi))], 0, nil))
		testenv.UntilTurned(t, fmt.Sprint("the end of greeting ", i), func() bool { return a.point.Conn() < 0 && a.broken > uint64(i) }, a)
		must(t, unix.Close(fd))
	}
}

// A frame costs no allocation.
func TestAllocatesNothing(t *testing.T) {
	a, b := pair(t, true, false)
	f, g := superframe(20*1448, 1448), frame.New(make([]byte, 4096), nil)
	once := func() {
		must(t, a.Write(f))
		for g.Truncate(0); b.Read(g) == nil; g.Truncate(0) {
		}
		a.Ready(true, false)
		b.Ready(true, false)
	}
	once()
	if n := testing.AllocsPerRun(50, once); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
