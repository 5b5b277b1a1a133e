package roce

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// faults are what the link of a sim does to packets, each in parts of a thousand.
type faults struct{ loss, again, late, flip int }

// flight is a packet on the way.
type flight struct {
	at   frame.Time
	num  int
	to   *station
	data []byte
	gso  int
}

// station is one end of a link.
type station struct {
	t      testing.TB
	w      *sim
	dev    *verbs.Device
	e      *Engine
	gid    verbs.GID
	v1     bool
	pd     *verbs.PD
	cq     *verbs.CQ
	mr     *verbs.MR
	mem    []byte
	wcs    []verbs.WC
	events []verbs.EventType
	drops  []frame.DropReason
}

// sim is two stations on a link, and the time.
type sim struct {
	t        testing.TB
	now      frame.Time
	rng      *rand.Rand
	faults   faults
	segments int
	mtu      int
	flights  []flight
	sent     int
	pool     *buf.Pool
	end      [2]*station
	lose     func(b []byte) bool // nil: none but by faults
	change   func(b []byte)      // nil: as it is
	peek     func(from *station, b []byte)
}

const simMem = 256 << 10

func newSim(t testing.TB, seed uint64, v1 bool, v6 bool) *sim {
	w := &sim{t: t, now: frame.Time(time.Second), rng: rand.New(rand.NewPCG(seed, 1)), segments: 1, mtu: 1024,
		pool: buf.NewPool(1<<14, 0)}
	for i := range w.end {
		addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
		if v6 {
			addr = netip.MustParseAddr(fmt.Sprintf("fd00::%d", i+1))
		}
		s := &station{t: t, w: w, gid: verbs.GIDFromAddr(addr), v1: v1, mem: make([]byte, simMem)}
		s.dev = verbs.NewDevice(verbs.Limits{}, rand.NewPCG(seed, uint64(i+2)))
		typ := verbs.RoCEv2
		if v1 {
			typ = verbs.RoCEv1
		}
		s.dev.SetGIDs([]verbs.GIDEntry{{}, {GID: s.gid, Type: typ}})
		s.dev.OnAsync(func(ev verbs.AsyncEvent, _ frame.Time) { s.events = append(s.events, ev.Type) })
		s.e = New(s.dev, Env{Pool: w.pool, Out: s, MTU: func() int { return w.mtu },
			Segments: func() int { return w.segments }})
		var err error
		s.pd, err = s.dev.AllocPD()
		s.must(err)
		s.cq, err = s.dev.CreateCQ(4096, nil)
		s.must(err)
		s.mr, err = s.pd.RegMR(s.mem, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic|verbs.MWBind)
		s.must(err)
		w.end[i] = s
	}
	return w
}

func (s *station) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *station) peer() *station {
	if s == s.w.end[0] {
		return s.w.end[1]
	}
	return s.w.end[0]
}

// Room implements Output.
func (s *station) Room() int { return 64 }

// Transmit implements Output.
func (s *station) Transmit(f *frame.Frame, hop *Hop, now frame.Time) {
	w := s.w
	if hop.V1 != s.v1 || hop.Src != s.gid {
		s.t.Fatalf("hop %+v", hop)
	}
	data := bytes.Clone(f.Bytes())
	gso := int(f.GSOSize)
	f.Release()
	if gso == 0 || w.rng.IntN(2) == 0 {
		w.fly(s.peer(), data, gso)
		return
	}
	for _, b := range cut(data, gso) {
		w.fly(s.peer(), b, 0)
	}
}

// cut segments a UDP super-frame as the kernel does.
func cut(b []byte, size int) (list [][]byte) {
	be := binary.BigEndian
	n := 28
	if b[0]>>4 == 6 {
		n = 48
	}
	for i, body := 0, b[n:]; len(body) > 0; i++ {
		m := min(size, len(body))
		p := append(bytes.Clone(b[:n]), body[:m]...)
		body = body[m:]
		be.PutUint16(p[n-4:], uint16(8+m))
		if n == 28 {
			be.PutUint16(p[2:], uint16(n+m))
			be.PutUint16(p[4:], be.Uint16(b[4:])+uint16(i))
		} else {
			be.PutUint16(p[4:], uint16(8+m))
		}
		list = append(list, p)
	}
	return list
}

// fly sends one packet on its way.
func (w *sim) fly(to *station, b []byte, gso int) {
	if w.peek != nil {
		w.peek(to.peer(), b)
	}
	f := &w.faults
	if w.lose != nil && w.lose(b) || w.rng.IntN(1000) < f.loss {
		return
	}
	for range 1 + w.under(f.again) {
		at := w.now.Add(time.Microsecond)
		if w.under(f.late) > 0 {
			at = at.Add(time.Duration(w.rng.IntN(100)) * time.Microsecond)
		}
		data := bytes.Clone(b)
		if w.change != nil {
			w.change(data)
		}
		if w.under(f.flip) > 0 {
			data[28+w.rng.IntN(len(data)-28)] ^= 1 << w.rng.IntN(8)
		}
		w.flights = append(w.flights, flight{at, w.sent, to, data, gso})
		w.sent++
	}
}

func (w *sim) under(parts int) int {
	if parts > 0 && w.rng.IntN(1000) < parts {
		return 1
	}
	return 0
}

// step lets a little happen.
func (w *sim) step() {
	due := func(a flight) bool { return a.at <= w.now }
	var ready []flight
	w.flights = slices.DeleteFunc(w.flights, func(f flight) bool {
		if due(f) {
			ready = append(ready, f)
		}
		return due(f)
	})
	slices.SortFunc(ready, func(a, b flight) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.num - b.num
	})
	for _, f := range ready {
		r := frame.DropNone
		if f.to.v1 {
			r = f.to.e.ReceiveV1(f.data, ether.Tag{}, w.now)
		} else {
			r = f.to.e.Receive(f.data, f.gso, ether.Tag{}, w.now)
		}
		if r != frame.DropNone {
			f.to.drops = append(f.to.drops, r)
		}
	}
	next := frame.Never
	for _, s := range w.end {
		next = min(next, s.e.Poll(w.now))
		s.dev.Dispatch(w.now)
		var wcs [64]verbs.WC
		s.wcs = append(s.wcs, wcs[:s.cq.Poll(wcs[:])]...)
		next = min(next, s.e.Deadline())
	}
	for _, f := range w.flights {
		next = min(next, f.at)
	}
	if next == frame.Never {
		next = w.now.Add(time.Millisecond)
	}
	w.now = max(next, w.now+1)
}

// until steps until done, at most for a virtual minute.
func (w *sim) until(what string, done func() bool) {
	w.t.Helper()
	for end := w.now.Add(60 * time.Second); !done(); w.step() {
		if w.now > end {
			a, b := w.end[0], w.end[1]
			w.t.Fatalf("%s: not within a minute: %s | %s, events %v | %v, stats %+v | %+v", what, last(a.wcs), last(b.wcs),
				a.events, b.events, a.e.stats, b.e.stats)
		}
	}
}

// last describes the last completions.
func last(wcs []verbs.WC) string {
	s := fmt.Sprint(len(wcs), " completions:")
	for i, wc := range wcs {
		if i < len(wcs)-4 && wc.Status == verbs.StatusSuccess || wc.Status == verbs.StatusFlushed {
			continue
		}
		s += fmt.Sprintf(" %d %v %v", wc.ID, wc.Opcode, wc.Status)
	}
	return s
}

const (
	rtrBits = qpattr.AV | qpattr.PathMTU | qpattr.DestQPN | qpattr.RQPSN | qpattr.MaxDestRdAtomic | qpattr.MinRNRTimer
	rtsBits = qpattr.Timeout | qpattr.RetryCount | qpattr.RNRRetry | qpattr.SQPSN | qpattr.MaxRdAtomic
)

// attr are the attributes of a queue pair towards a peer.
func (w *sim) attr(peer *station, qpn uint32) *qpattr.Attr {
	return &qpattr.Attr{
		Path: qpattr.Path{DGID: peer.gid, SGIDIndex: 1}, PathMTU: w.mtu, DestQPN: qpn, RQPSN: 0xfffff0, SQPSN: 0xfffff0,
		MaxDestRdAtomic: 4, MaxRdAtomic: 4, MinRNRTimer: 12, Timeout: 8, RetryCount: 7, RNRRetry: 7, Port: 1,
		Access: uint8(verbs.RemoteRead | verbs.RemoteWrite | verbs.RemoteAtomic), QKey: 0x1234,
	}
}

// connect moves two queue pairs to RTS.
func (w *sim) connect(a, b *verbs.QP) {
	for i, q := range []*verbs.QP{a, b} {
		peer := []*verbs.QP{b, a}[i]
		attr := w.attr(w.end[1-i], peer.QPN())
		rtr, rts := rtrBits, rtsBits
		switch q.Type() {
		case qpattr.UC:
			rtr, rts = qpattr.AV|qpattr.PathMTU|qpattr.DestQPN|qpattr.RQPSN, qpattr.SQPSN
		case qpattr.XRCInitiator:
			rtr = qpattr.AV | qpattr.PathMTU | qpattr.DestQPN | qpattr.RQPSN
		case qpattr.XRCTarget:
			rts = qpattr.Timeout | qpattr.SQPSN
		}
		w.end[i].must(q.Modify(verbs.Init))
		w.end[i].must(q.ModifyAttr(verbs.RTR, attr, rtr))
		w.end[i].must(q.ModifyAttr(verbs.RTS, attr, rts))
	}
}

// pair makes and connects two queue pairs.
func (w *sim) pair(typ qpattr.Type) (a, b *verbs.QP) {
	var list [2]*verbs.QP
	for i, s := range w.end {
		q, err := s.pd.CreateQP(verbs.QPConfig{Type: typ, SendCQ: s.cq, RecvCQ: s.cq, MaxSend: 256, MaxRecv: 256,
			MaxSGE: 2, MaxInline: 64})
		s.must(err)
		list[i] = q
	}
	w.connect(list[0], list[1])
	return list[0], list[1]
}

func (s *station) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: s.mr.Addr() + uint64(off), Length: uint32(n), LKey: s.mr.LKey()}}
}

// seeds is how many seeds a test takes: few in make test, SOAK_SEEDS in make soak.
func seeds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("SOAK_SEEDS")); err == nil && n > 0 {
		return n
	}
	return few
}

// TestFaults has two stations work on each other over a link that loses, repeats, delays and
// changes packets. Each request must complete once and in order, and memory must be as if
// nothing had happened.
func TestFaults(t *testing.T) {
	for seed := range seeds(150) {
		runFaults(t, uint64(seed))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// work is what one station does to the other in a run.
type work struct {
	qp       *verbs.QP
	from, to *station
	want     []byte // the memory of to, as it should be: only its upper half changes
	own      []byte // the memory of from: its lower half
	wrs      []verbs.SendWR
	recvs    []verbs.RecvWR
	recvLen  []uint32
	counter  uint64
}

const half = simMem / 2

func runFaults(t *testing.T, seed uint64) {
	w := newSim(t, seed, seed%7 == 6, seed%3 == 2)
	w.mtu = []int{256, 512, 1024, 2048, 4096}[seed%5]
	w.segments = []int{1, 8, 64}[seed/2%3]
	if seed%4 != 0 {
		w.faults = faults{loss: w.rng.IntN(40), again: w.rng.IntN(40), late: w.rng.IntN(60), flip: w.rng.IntN(20)}
	}
	a, b := w.pair(qpattr.RC)
	for _, s := range w.end {
		for i := range s.mem {
			s.mem[i] = byte(w.rng.Uint32())
		}
		clear(s.mem[simMem-8:])
	}
	works := []*work{{qp: a, from: w.end[0], to: w.end[1]}, {qp: b, from: w.end[1], to: w.end[0]}}
	for _, k := range works {
		k.want, k.own = bytes.Clone(k.to.mem), bytes.Clone(k.from.mem)
	}
	for i, k := range works {
		k.plan(w.rng, works[1-i])
	}
	for i, k := range works {
		peer := works[1-i].qp
		late := int(seed % 3)
		for j := late; j < len(k.recvs); j++ {
			_, err := peer.PostRecv(k.recvs[j-late])
			k.to.must(err)
		}
		_, err := k.qp.PostSend(k.wrs...)
		k.from.must(err)
		if late > 0 { // the last receives come when the sender waits
			for range 50 {
				w.step()
			}
			for j := max(0, len(k.recvs)-late); j < len(k.recvs); j++ {
				_, err := peer.PostRecv(k.recvs[j])
				k.to.must(err)
			}
		}
	}
	total := func(s *station) int {
		n := 0
		for _, k := range works {
			if k.from == s {
				n += len(k.wrs)
			} else {
				n += len(k.recvs)
			}
		}
		return n
	}
	w.until("completions", func() bool {
		return len(w.end[0].wcs) >= total(w.end[0]) && len(w.end[1].wcs) >= total(w.end[1])
	})
	for i, k := range works {
		k.check(t, works[1-i])
	}
}

// plan makes requests and what memory has to be after them.
func (k *work) plan(rng *rand.Rand, other *work) {
	recvAt := half
	for i := range 40 {
		n := rng.IntN([]int{1, 64, 3000, 12000}[rng.IntN(4)] + 1)
		at := half + 64<<10 + rng.IntN(50<<10)
		own := rng.IntN(50 << 10) // sources: never changed
		sink := 64<<10 + rng.IntN(48<<10)
		wr := verbs.SendWR{ID: uint64(i), Flags: verbs.Signaled, SGEs: k.from.sge(own, n), RKey: k.to.mr.RKey(),
			RemoteAddr: k.to.mr.Addr() + uint64(at)}
		switch wr.Opcode = []verbs.Opcode{verbs.OpSend, verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead, verbs.OpFetchAdd,
			verbs.OpSendImm}[rng.IntN(6)]; wr.Opcode {
		case verbs.OpSend, verbs.OpSendImm:
			k.recvs = append(k.recvs, verbs.RecvWR{ID: uint64(i), SGEs: k.to.sge(recvAt, n)})
			k.recvLen = append(k.recvLen, uint32(n))
			copy(k.want[recvAt:], k.from.mem[own:own+n])
			recvAt = half + (recvAt-half+n)%(40<<10)
		case verbs.OpWrite, verbs.OpWriteImm:
			if wr.Opcode == verbs.OpWriteImm {
				k.recvs = append(k.recvs, verbs.RecvWR{ID: uint64(i)})
				k.recvLen = append(k.recvLen, uint32(n))
			}
			copy(k.want[at:], k.from.mem[own:own+n])
		case verbs.OpRead: // of what never changes
			from := rng.IntN(50 << 10)
			wr.SGEs, wr.RemoteAddr = k.from.sge(sink, n), k.to.mr.Addr()+uint64(from)
			copy(other.want[sink:], k.to.mem[from:from+n])
		case verbs.OpFetchAdd:
			slot := 120<<10 + 8*i
			wr.SGEs, wr.RemoteAddr = k.from.sge(slot, 8), k.to.mr.Addr()+simMem-8
			wr.Atomic.CompareAdd = uint64(i + 1)
			binary.NativeEndian.PutUint64(other.want[slot:], k.counter)
			k.counter += uint64(i + 1)
		}
		wr.Imm = uint64(i)
		k.wrs = append(k.wrs, wr)
	}
	binary.NativeEndian.PutUint64(k.want[simMem-8:], k.counter)
}

// check compares completions and memory.
func (k *work) check(t *testing.T, other *work) {
	i := 0
	for _, wc := range k.from.wcs {
		if wc.Opcode >= verbs.WCRecv {
			continue
		}
		if wc.Status != verbs.StatusSuccess || wc.ID != uint64(i) {
			t.Errorf("completion %d: %d %v", i, wc.ID, wc.Status)
		}
		i++
	}
	i = 0
	for _, wc := range k.to.wcs {
		if wc.Opcode < verbs.WCRecv {
			continue
		}
		if i >= len(k.recvs) || wc.Status != verbs.StatusSuccess || wc.ID != k.recvs[i].ID || wc.ByteLen != k.recvLen[i] {
			t.Errorf("receive %d: %+v", i, wc)
			return
		}
		if want := uint64(k.recvs[i].ID); wc.WithImm && wc.Imm != want {
			t.Errorf("immediate %d, want %d", wc.Imm, want)
		}
		i++
	}
	if sha256.Sum256(k.to.mem) != sha256.Sum256(k.want) {
		for j := range k.want {
			if k.to.mem[j] != k.want[j] {
				t.Errorf("memory differs from octet %#x on", j)
				break
			}
		}
	}
}
