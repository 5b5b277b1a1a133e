package verbs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
)

// fabric is what two devices are connected by.
type fabric interface {
	// Connect connects two queue pairs; run lets things happen until done.
	Connect(t testing.TB, a, b *verbs.QP, run func(done func() bool))
	// Stream tells whether a connection is a stream, as with TCP: its end, and why, is
	// known to both sides. Else queue pairs fail each for itself, the peer by time-outs.
	Stream() bool
	// Step lets a little happen and reports whether anything did.
	Step() (now frame.Time, busy bool)
}

// wires are the two transports of a pair without a wire.
type wires [2]*memory

func newWires(devs [2]*verbs.Device) fabric { return wires{newMemory(devs[0]), newMemory(devs[1])} }

func (w wires) Connect(_ testing.TB, a, b *verbs.QP, _ func(func() bool)) { link(a, b) }

// Stream implements fabric.
func (w wires) Stream() bool { return true }

func (w wires) Step() (frame.Time, bool) {
	busy := w[0].Poll()
	return 1, w[1].Poll() || busy
}

// TestTransports runs the rules of verbs over every transport.
func TestTransports(t *testing.T) {
	for _, tr := range []struct {
		name string
		open func(devs [2]*verbs.Device) fabric
	}{{"memory", newWires}, {"iwarp", newCable}, {"roce", newEthernet}} {
		for _, c := range []struct {
			name string
			run  func(*testing.T, *world)
		}{
			{"moves octets", testMoves}, {"kinds of sends", testSends}, {"inline and elements", testElements},
			{"atomics", testAtomics}, {"order", testOrder}, {"fences", testFences}, {"SRQ", testSRQ},
			{"bad Read", testBadRead}, {"bad Write", testBadWrite}, {"bad local key", testBadLocalKey},
			{"receive too short", testShortReceive}, {"no receive", testNoReceive}, {"flush", testFlush},
			{"drain", testDrain}, {"CQ overflow", testOverflow}, {"notification", testNotification},
			{"windows and fast registration", testLocalWork}, {"peer gone", testPeerGone}, {"states", testStates},
		} {
			t.Run(tr.name+"/"+c.name, func(t *testing.T) {
				w := &world{t: t, srq: c.name == "SRQ"}
				w.open(tr.open)
				c.run(t, w)
			})
		}
	}
}

// side is one device with its objects.
type side struct {
	dev    *verbs.Device
	pd     *verbs.PD
	cq     *verbs.CQ
	qp     *verbs.QP
	srq    *verbs.SRQ
	mr     *verbs.MR
	mem    []byte
	wcs    []verbs.WC
	events []verbs.EventType
	woken  int // calls of the CQ's handler
}

// world is two connected sides.
type world struct {
	t    *testing.T
	srq  bool // b receives from one
	fab  fabric
	a, b *side
}

const (
	memSize  = 256 << 10
	cqSize   = 256
	allRight = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) open(open func([2]*verbs.Device) fabric) {
	w.a, w.b = &side{}, &side{}
	var devs [2]*verbs.Device
	for i, s := range []*side{w.a, w.b} {
		s.dev = verbs.NewDevice(verbs.Limits{}, rand.NewPCG(0, uint64(i+1)))
		s.dev.OnAsync(func(ev verbs.AsyncEvent, _ frame.Time) { s.events = append(s.events, ev.Type) })
		devs[i] = s.dev
	}
	w.fab = open(devs)
	w.a.make(w.t, false)
	w.b.make(w.t, w.srq)
	w.fab.Connect(w.t, w.a.qp, w.b.qp, func(done func() bool) { w.until("connection", done) })
	w.a.events, w.b.events = nil, nil
}

func (s *side) make(t testing.TB, srq bool) {
	var err error
	s.mem = make([]byte, memSize)
	s.pd, err = s.dev.AllocPD()
	check(t, err)
	s.cq, err = s.dev.CreateCQ(cqSize, func(*verbs.CQ, frame.Time) { s.woken++ })
	check(t, err)
	s.mr, err = s.pd.RegMR(s.mem, allRight)
	check(t, err)
	cfg := verbs.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, MaxSend: 128, MaxRecv: 128, MaxSGE: 4, MaxInline: 64}
	if srq {
		s.srq, err = s.pd.CreateSRQ(16, 2)
		check(t, err)
		cfg.SRQ = s.srq
	}
	s.qp, err = s.pd.CreateQP(cfg)
	check(t, err)
	check(t, s.qp.Modify(verbs.Init))
}

// until lets time pass until done.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for idle := 0; !done(); {
		now, busy := w.fab.Step()
		busy = w.a.turn(now) || busy
		busy = w.b.turn(now) || busy
		if idle++; busy {
			idle = 0
		}
		if idle > 2 {
			w.t.Fatalf("%s: nothing happens any more: %s | %s, %v %v", what, names(w.a.wcs), names(w.b.wcs), w.a.events,
				w.b.events)
		}
	}
}

func (s *side) turn(now frame.Time) bool {
	busy := s.dev.Dispatch(now)
	var wcs [cqSize]verbs.WC
	n := s.cq.Poll(wcs[:])
	s.wcs = append(s.wcs, wcs[:n]...)
	return busy || n > 0
}

// got waits for n completions at s since the last call and returns them.
func (w *world) got(s *side, n int) []verbs.WC {
	w.t.Helper()
	w.until(fmt.Sprint(n, " completions"), func() bool { return len(s.wcs) >= n })
	wcs := s.wcs
	s.wcs = nil
	return wcs
}

// want waits for completions and compares their ids and statuses.
func (w *world) want(s *side, ids []uint64, statuses ...verbs.Status) {
	w.t.Helper()
	for i, wc := range w.got(s, len(ids)) {
		if wc.ID != ids[i] || wc.Status != statuses[min(i, len(statuses)-1)] {
			w.t.Errorf("completion %d: %d %v, want %d %v", i, wc.ID, wc.Status, ids[i],
				statuses[min(i, len(statuses)-1)])
		}
	}
}

// failed waits until both queue pairs are in error.
func (w *world) failed() {
	w.t.Helper()
	w.until("error", func() bool { return w.a.qp.State() == verbs.Err && w.b.qp.State() == verbs.Err })
}

func names(wcs []verbs.WC) (s string) {
	for _, wc := range wcs {
		s += fmt.Sprintf("%d %v %v; ", wc.ID, wc.Opcode, wc.Status)
	}
	return s
}

func (s *side) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: s.mr.Addr() + uint64(off), Length: uint32(n), LKey: s.mr.LKey()}
}

func (w *world) post(s *side, wrs ...verbs.SendWR) {
	w.t.Helper()
	_, err := s.qp.PostSend(wrs...)
	check(w.t, err)
}

func (w *world) recv(s *side, id uint64, off, n int) {
	w.t.Helper()
	wr := verbs.RecvWR{ID: id, SGEs: []verbs.SGE{s.sge(off, n)}}
	var err error
	if s.srq != nil {
		_, err = s.srq.PostRecv(wr)
	} else {
		_, err = s.qp.PostRecv(wr)
	}
	check(w.t, err)
}

// wr is a signalled request of n octets of w.a from off on, about w.b at off.
func (w *world) wr(id uint64, op verbs.Opcode, off, n int) verbs.SendWR {
	return verbs.SendWR{ID: id, Opcode: op, Flags: verbs.Signaled, SGEs: []verbs.SGE{w.a.sge(off, n)},
		RemoteAddr: w.b.mr.Addr() + uint64(off), RKey: w.b.mr.RKey()}
}

func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte((i + seed) * 2654435761 >> 13)
	}
}

func testMoves(t *testing.T, w *world) {
	for i, n := range []int{0, 1, 1408, 4096, 4097, 100_000} {
		fill(w.a.mem, i)
		fill(w.b.mem, i+100)
		sent := bytes.Clone(w.a.mem)
		w.recv(w.b, 7, 0, n)
		w.post(w.a, w.wr(1, verbs.OpSend, 0, n))
		w.post(w.a, w.wr(2, verbs.OpWrite, 110_000, n))
		w.want(w.a, []uint64{1, 2}, verbs.StatusSuccess)
		if wc := w.got(w.b, 1)[0]; wc.ID != 7 || wc.ByteLen != uint32(n) || wc.Opcode != verbs.WCRecv {
			t.Errorf("receive of %d: %+v", n, wc)
		}
		w.post(w.a, w.wr(3, verbs.OpRead, 110_000, n)) // behind the Write
		w.want(w.a, []uint64{3}, verbs.StatusSuccess)
		if !bytes.Equal(w.b.mem[:n], sent[:n]) || !bytes.Equal(w.b.mem[110_000:][:n], sent[110_000:][:n]) ||
			!bytes.Equal(w.a.mem, sent) {
			t.Errorf("%d octets: memory differs", n)
		}
	}
}

func testSends(t *testing.T, w *world) {
	extra, err := w.b.pd.RegMR(make([]byte, 16), verbs.LocalWrite|verbs.RemoteWrite)
	check(t, err)
	for i := range uint64(5) {
		w.recv(w.b, i, 0, 64)
	}
	solicited := w.wr(2, verbs.OpSend, 0, 8)
	solicited.Flags |= verbs.Solicited
	inv := w.wr(3, verbs.OpSendInv, 0, 8)
	inv.Invalidate = extra.RKey()
	imm := verbs.SendWR{ID: 4, Opcode: verbs.OpSendImm, Flags: verbs.Signaled, Imm: 0x1122334455667788}
	write := w.wr(5, verbs.OpWriteImm, 64, 8)
	write.Imm = 9
	w.post(w.a, w.wr(1, verbs.OpSend, 0, 8), solicited, inv, imm, write)
	w.want(w.a, []uint64{1, 2, 3, 4, 5}, verbs.StatusSuccess)
	r := w.got(w.b, 5)
	switch {
	case r[0].Solicited || !r[1].Solicited || r[1].WithInv:
		t.Errorf("solicited: %+v", r[:2])
	case !r[2].WithInv || r[2].Invalidated != extra.RKey() || extra.Valid():
		t.Errorf("invalidated: %+v", r[2])
	case !r[3].WithImm || uint32(r[3].Imm) != uint32(imm.Imm) || r[3].Opcode != verbs.WCRecv:
		t.Errorf("immediate data: %+v", r[3])
	case !r[4].WithImm || r[4].Imm != 9 || r[4].Opcode != verbs.WCRecvWrite:
		t.Errorf("Write with immediate data: %+v", r[4])
	}
}

func testElements(t *testing.T, w *world) {
	fill(w.a.mem, 1)
	wr := w.wr(1, verbs.OpWrite, 1000, 10)
	wr.SGEs = append(wr.SGEs, w.a.sge(5000, 1), w.a.sge(20, 30))
	inline := verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.Signaled | verbs.Inline, Inline: []byte("inline")}
	_, err := w.b.qp.PostRecv(verbs.RecvWR{ID: 3, SGEs: []verbs.SGE{w.b.sge(0, 4), w.b.sge(100, 10)}})
	check(t, err)
	w.post(w.a, wr, inline)
	inline.Inline[0] = 'X' // posted is posted
	w.want(w.a, []uint64{1, 2}, verbs.StatusSuccess)
	w.want(w.b, []uint64{3}, verbs.StatusSuccess)
	if string(w.b.mem[:4]) != "inli" || string(w.b.mem[100:102]) != "ne" {
		t.Errorf("inline: %q %q", w.b.mem[:4], w.b.mem[100:102])
	}
	want := slices.Concat(w.a.mem[1000:1010], w.a.mem[5000:5001], w.a.mem[20:50])
	if !bytes.Equal(w.b.mem[1000:][:len(want)], want) {
		t.Error("several elements: memory differs")
	}
	wr = w.wr(4, verbs.OpRead, 1000, 10)
	wr.SGEs = []verbs.SGE{w.a.sge(60_000, 11), w.a.sge(70_000, 30)}
	w.post(w.a, wr)
	w.want(w.a, []uint64{4}, verbs.StatusSuccess)
	if !bytes.Equal(w.a.mem[60_000:][:11], want[:11]) || !bytes.Equal(w.a.mem[70_000:][:30], want[11:]) {
		t.Error("Read to several elements: memory differs")
	}
}

func testAtomics(t *testing.T, w *world) {
	word := func(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
	binary.NativeEndian.PutUint64(w.b.mem[8:], 100)
	for i, c := range []struct {
		op          verbs.Opcode
		v           verbs.Operands
		found, left uint64
	}{
		{verbs.OpFetchAdd, verbs.Operands{CompareAdd: 11}, 100, 111},
		{verbs.OpCompSwap, verbs.Operands{CompareAdd: 111, Swap: 5}, 111, 5},
		{verbs.OpCompSwap, verbs.Operands{CompareAdd: 111, Swap: 6}, 5, 5},
		{verbs.OpSwap, verbs.Operands{Swap: 0xff00ff}, 5, 0xff00ff},
		{verbs.OpMaskedCompSwap, verbs.Operands{CompareAdd: 0xff, CompareAddMask: 0xff, Swap: 0x1200, SwapMask: 0xff00},
			0xff00ff, 0xff12ff},
		{verbs.OpMaskedFetchAdd, verbs.Operands{CompareAdd: 0x0101, CompareAddMask: 0x8080}, 0xff12ff, 0xff1300},
	} {
		if !w.a.dev.Opcodes().Has(c.op) {
			continue
		}
		wr := w.wr(uint64(i), c.op, 8, 8)
		wr.Atomic = c.v
		w.post(w.a, wr)
		w.want(w.a, []uint64{uint64(i)}, verbs.StatusSuccess)
		if got := word(w.a.mem[8:]); got != c.found || word(w.b.mem[8:]) != c.left {
			t.Errorf("%v: found %#x, left %#x", c.op, got, word(w.b.mem[8:]))
		}
	}
	w.post(w.a, w.wr(9, verbs.OpFetchAdd, 12, 8)) // not aligned
	w.failed()
}

func testOrder(t *testing.T, w *world) {
	const n = 60
	var ids []uint64
	for i := range uint64(n) {
		wr := w.wr(i, []verbs.Opcode{verbs.OpRead, verbs.OpWrite, verbs.OpSend}[i%3], int(i)*1000, 900)
		if i%4 == 1 {
			wr.Flags = 0 // unsignalled
		} else {
			ids = append(ids, i)
		}
		if i%3 == 2 {
			w.recv(w.b, i, 0, 1000)
		}
		w.post(w.a, wr)
	}
	w.want(w.a, ids, verbs.StatusSuccess)
	for i, wc := range w.got(w.b, n/3) {
		if wc.ID != uint64(3*i+2) || wc.Status != verbs.StatusSuccess {
			t.Errorf("receive %d: %+v", i, wc)
		}
	}
}

func testFences(t *testing.T, w *world) {
	fill(w.b.mem, 3)
	want := bytes.Clone(w.b.mem[:50_000])
	back := w.wr(2, verbs.OpWrite, 0, 50_000)
	back.Flags |= verbs.Fence
	back.RemoteAddr += 100_000
	w.post(w.a, w.wr(1, verbs.OpRead, 0, 50_000), back, w.wr(3, verbs.OpRead, 100_000, 50_000))
	w.want(w.a, []uint64{1, 2, 3}, verbs.StatusSuccess)
	if !bytes.Equal(w.b.mem[100_000:][:50_000], want) || !bytes.Equal(w.a.mem[100_000:][:50_000], want) {
		t.Error("a fenced Write went before its Read was done")
	}
}

func testSRQ(t *testing.T, w *world) {
	for i := range uint64(4) {
		w.recv(w.b, i, 0, 64)
	}
	check(t, w.b.srq.SetLimit(3))
	w.post(w.a, w.wr(1, verbs.OpSend, 0, 8), w.wr(2, verbs.OpSend, 0, 8))
	w.want(w.b, []uint64{0, 1}, verbs.StatusSuccess)
	w.until("limit", func() bool { return slices.Contains(w.b.events, verbs.EventSRQLimit) })
	if w.b.srq.Len() != 2 {
		t.Errorf("%d receives left", w.b.srq.Len())
	}
	check(t, w.a.qp.Modify(verbs.Err))
	if !w.fab.Stream() {
		check(t, w.b.qp.Modify(verbs.Err))
	}
	w.failed()
	w.until("last WQE", func() bool { return slices.Contains(w.b.events, verbs.EventLastWQE) })
	if w.b.srq.Len() != 2 {
		t.Errorf("%d receives left: an error takes none", w.b.srq.Len())
	}
}

func testBadRead(t *testing.T, w *world) {
	closed, err := w.b.pd.RegMR(make([]byte, 64), verbs.LocalWrite)
	check(t, err)
	wr := w.wr(1, verbs.OpRead, 0, 8)
	wr.RKey, wr.RemoteAddr = closed.RKey(), closed.Addr()
	w.post(w.a, wr, w.wr(2, verbs.OpRead, 0, 8))
	w.want(w.a, []uint64{1, 2}, verbs.StatusRemoteAccess, verbs.StatusFlushed)
	w.failed()
	w.until("event", func() bool { return slices.Contains(w.b.events, verbs.EventQPAccessError) })
	if w.fab.Stream() {
		w.until("event", func() bool { return slices.Contains(w.a.events, verbs.EventTerminated) })
	}
}

func testBadWrite(t *testing.T, w *world) {
	before := bytes.Clone(w.b.mem)
	fill(w.a.mem, 4)
	wr := w.wr(1, verbs.OpWrite, memSize-100, 100)
	wr.RemoteAddr++
	w.post(w.a, wr)
	w.failed()
	w.until("event", func() bool { return slices.Contains(w.b.events, verbs.EventQPAccessError) })
	if !bytes.Equal(before, w.b.mem) {
		t.Error("octets of a refused Write were placed")
	}
}

func testBadLocalKey(t *testing.T, w *world) {
	wr := w.wr(1, verbs.OpWrite, 0, 8)
	wr.SGEs[0].LKey++
	w.post(w.a, wr, w.wr(2, verbs.OpSend, 0, 8))
	w.want(w.a, []uint64{1, 2}, verbs.StatusLocalProtection, verbs.StatusFlushed)
	if !w.fab.Stream() {
		return
	}
	w.failed()
	w.until("event", func() bool { return slices.Contains(w.a.events, verbs.EventQPFatal) })
}

func testShortReceive(t *testing.T, w *world) {
	w.recv(w.b, 1, 0, 10)
	w.recv(w.b, 2, 0, 10)
	w.post(w.a, w.wr(1, verbs.OpSend, 0, 11))
	w.want(w.b, []uint64{1, 2}, verbs.StatusLocalLength, verbs.StatusFlushed)
	w.failed()
}

func testNoReceive(t *testing.T, w *world) {
	w.post(w.a, w.wr(1, verbs.OpSend, 0, 8))
	if !w.fab.Stream() {
		w.want(w.a, []uint64{1}, verbs.StatusRNRExceeded)
		return
	}
	w.failed()
	w.until("event", func() bool { return slices.Contains(w.b.events, verbs.EventQPRequestError) })
}

func testFlush(t *testing.T, w *world) {
	w.recv(w.a, 10, 0, 8)
	w.recv(w.a, 11, 0, 8)
	w.recv(w.b, 20, 0, 8)
	w.post(w.a, w.wr(1, verbs.OpRead, 0, 8), w.wr(2, verbs.OpRead, 0, 8))
	check(t, w.a.qp.Modify(verbs.Err))
	w.want(w.a, []uint64{1, 2, 10, 11}, verbs.StatusFlushed)
	if !w.fab.Stream() {
		check(t, w.b.qp.Modify(verbs.Err))
	}
	w.failed()
	w.want(w.b, []uint64{20}, verbs.StatusFlushed)
	w.post(w.a, w.wr(3, verbs.OpSend, 0, 8))
	w.recv(w.a, 12, 0, 8)
	w.want(w.a, []uint64{3, 12}, verbs.StatusFlushed)
}

func testDrain(t *testing.T, w *world) {
	fill(w.a.mem, 5)
	w.post(w.a, w.wr(1, verbs.OpWrite, 0, 100_000), w.wr(2, verbs.OpWrite, 100_000, 100_000))
	if w.fab.Stream() {
		check(t, w.a.qp.Modify(verbs.SQD))
	} else {
		check(t, w.a.qp.ModifyAttr(verbs.SQD, &qpattr.Attr{SQDNotify: true}, qpattr.SQDNotify))
		w.until("event", func() bool { return slices.Contains(w.a.events, verbs.EventSQDrained) })
		if len(w.a.wcs) != 0 {
			t.Error("a request began in state SQD")
		}
		check(t, w.a.qp.Modify(verbs.RTS))
	}
	w.want(w.a, []uint64{1, 2}, verbs.StatusSuccess)
	w.until("event", func() bool { return slices.Contains(w.a.events, verbs.EventSQDrained) })
	if w.fab.Stream() {
		w.failed()
	}
	if !bytes.Equal(w.a.mem[:200_000], w.b.mem[:200_000]) {
		t.Error("a graceful close lost octets")
	}
	check(t, w.a.qp.Modify(verbs.Reset))
	check(t, w.a.qp.Modify(verbs.Init))
}

func testOverflow(t *testing.T, w *world) {
	small, err := w.b.dev.CreateCQ(1, nil)
	check(t, err)
	qp, err := w.b.pd.CreateQP(verbs.QPConfig{SendCQ: w.b.cq, RecvCQ: small})
	check(t, err)
	other, err := w.a.pd.CreateQP(verbs.QPConfig{SendCQ: w.a.cq, RecvCQ: w.a.cq})
	check(t, err)
	check(t, qp.Modify(verbs.Init))
	check(t, other.Modify(verbs.Init))
	w.fab.Connect(t, other, qp, func(done func() bool) { w.until("connection", done) })
	for i := range uint64(small.Cap() + 1) {
		_, err := qp.PostRecv(verbs.RecvWR{ID: i})
		check(t, err)
		_, err = other.PostSend(verbs.SendWR{ID: i})
		check(t, err)
	}
	w.until("error", func() bool { return qp.State() == verbs.Err })
	if !w.fab.Stream() {
		_, err := other.PostSend(verbs.SendWR{ID: 9})
		check(t, err)
	}
	w.until("the other's error", func() bool { return other.State() == verbs.Err })
	if !slices.Contains(w.b.events, verbs.EventCQError) || !small.Failed() || w.a.qp.State() != verbs.RTS {
		t.Errorf("events %v, the other connection in %v", w.b.events, w.a.qp.State())
	}
}

func testNotification(t *testing.T, w *world) {
	w.b.woken = 0
	w.b.cq.ReqNotify(true)
	for i := range uint64(3) {
		w.recv(w.b, i, 0, 8)
	}
	solicited := w.wr(2, verbs.OpSend, 0, 8)
	solicited.Flags |= verbs.Solicited
	w.post(w.a, w.wr(1, verbs.OpSend, 0, 8))
	w.want(w.b, []uint64{0}, verbs.StatusSuccess)
	if w.b.woken != 0 {
		t.Error("woken by what was not solicited")
	}
	w.post(w.a, solicited, w.wr(3, verbs.OpSend, 0, 8))
	w.want(w.b, []uint64{1, 2}, verbs.StatusSuccess)
	w.until("notification", func() bool { return w.b.woken > 0 })
	if w.b.woken != 1 {
		t.Errorf("woken %d times", w.b.woken)
	}
}

// testLocalWork binds a window and registers a region in the order of the send
// queue, tells the peer, and takes the window back.
func testLocalWork(t *testing.T, w *world) {
	mw, err := w.b.pd.AllocMW(verbs.MWType2B)
	check(t, err)
	bind := &verbs.Bind{MW: mw, MR: w.b.mr, Addr: w.b.mr.Addr() + 512, Length: 64, Access: verbs.RemoteWrite, Key: 5}
	_, err = w.b.qp.PostSend(verbs.SendWR{ID: 1, Opcode: verbs.OpBindMW, Flags: verbs.Signaled, Bind: bind})
	check(t, err)
	w.want(w.b, []uint64{1}, verbs.StatusSuccess)
	wr := w.wr(2, verbs.OpWrite, 512, 64)
	wr.RKey = mw.RKey()
	fill(w.a.mem, 6)
	w.post(w.a, wr, w.wr(3, verbs.OpRead, 8192, 8))
	w.want(w.a, []uint64{2, 3}, verbs.StatusSuccess)
	if !bytes.Equal(w.a.mem[512:576], w.b.mem[512:576]) {
		t.Error("a Write through a window is lost")
	}
	_, err = w.b.qp.PostSend(verbs.SendWR{ID: 4, Opcode: verbs.OpLocalInv, Flags: verbs.Signaled,
		Invalidate: mw.RKey()})
	check(t, err)
	w.want(w.b, []uint64{4}, verbs.StatusSuccess)
	w.post(w.a, wr)
	w.failed()
}

func testPeerGone(t *testing.T, w *world) {
	w.recv(w.a, 1, 0, 8)
	w.recv(w.b, 2, 0, 8)
	if err := w.b.cq.Destroy(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a CQ in use: %v", err)
	}
	check(t, w.b.qp.Destroy())
	if w.fab.Stream() {
		w.want(w.a, []uint64{1}, verbs.StatusFlushed)
	} else {
		w.post(w.a, w.wr(3, verbs.OpWrite, 0, 8))
		w.want(w.a, []uint64{3, 1}, verbs.StatusRetryExceeded, verbs.StatusFlushed)
	}
	if len(w.b.wcs) != 0 {
		t.Errorf("completions of a destroyed queue pair: %s", names(w.b.wcs))
	}
	if left := w.b.dev.QPs(); len(left) != 0 {
		t.Errorf("%d queue pairs left", len(left))
	}
}

func testStates(t *testing.T, w *world) {
	bad := verbs.ErrState
	if !w.fab.Stream() {
		bad = verbs.ErrInvalid
	}
	if err := w.a.qp.Modify(verbs.RTR); !errors.Is(err, bad) {
		t.Errorf("RTS to RTR: %v", err)
	}
	check(t, w.a.qp.Modify(verbs.Err))
	if err := w.a.qp.Modify(verbs.Init); !errors.Is(err, bad) {
		t.Errorf("Err to Init: %v", err)
	}
	check(t, w.a.qp.Modify(verbs.Reset))
	if _, err := w.a.qp.PostSend(w.wr(1, verbs.OpSend, 0, 8)); !errors.Is(err, verbs.ErrState) {
		t.Errorf("post in Reset: %v", err)
	}
	if w.fab.Stream() {
		w.until("the peer's error", func() bool { return w.b.qp.State() == verbs.Err })
	}
}
