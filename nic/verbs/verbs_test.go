package verbs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"tapir/wire/frame"
)

// recorder is a transport that only counts what it is told.
type recorder struct {
	posted, reclaimed, destroyed int
	moved                        []State
}

func (r *recorder) Opcodes() OpSet             { return 1<<numOpcodes - 1 }
func (r *recorder) NewEndpoint(q *QP) Endpoint { return &recorded{r, q} }

type recorded struct {
	*recorder
	qp *QP
}

func (r *recorded) Posted()        { r.posted++ }
func (r *recorded) Modified(State) { r.moved = append(r.moved, r.qp.State()) }
func (r *recorded) Destroyed()     { r.destroyed++ }
func (r *recorded) Reclaim(*MR)    { r.reclaimed++ }

type fixture struct {
	dev  *Device
	tr   *recorder
	pd   *PD
	cq   *CQ
	qp   *QP
	mr   *MR
	mem  []byte
	tape []frame.Time
}

func newFixture(t testing.TB, cfg QPConfig) *fixture {
	t.Helper()
	f := &fixture{dev: NewDevice(Limits{}, rand.NewPCG(0, 1)), tr: &recorder{}, mem: make([]byte, 4096)}
	f.dev.SetTransport(f.tr)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	f.pd, err = f.dev.AllocPD()
	must(err)
	f.cq, err = f.dev.CreateCQ(64, func(_ *CQ, now frame.Time) { f.tape = append(f.tape, now) })
	must(err)
	f.mr, err = f.pd.RegMR(f.mem, LocalWrite|RemoteWrite|RemoteRead)
	must(err)
	cfg.SendCQ, cfg.RecvCQ = f.cq, f.cq
	f.qp, err = f.pd.CreateQP(cfg)
	must(err)
	must(f.qp.Modify(Init))
	return f
}

func (f *fixture) up(t testing.TB) {
	t.Helper()
	if !f.qp.Transition(RTS) {
		t.Fatal("Init to RTS refused")
	}
}

func (f *fixture) sge(off, n int) []SGE {
	return []SGE{{Addr: f.mr.Addr() + uint64(off), Length: uint32(n), LKey: f.mr.LKey()}}
}

func TestStateTable(t *testing.T) {
	owner := map[[2]State]bool{
		{Reset, Init}: true, {Reset, Err}: true, {Init, Init}: true, {Init, Err}: true,
		{Init, Reset}: true, {RTR, Err}: true, {RTR, Reset}: true, {RTS, SQD}: true,
		{RTS, Err}: true, {RTS, Reset}: true, {SQD, Err}: true, {SQD, Reset}: true,
		{SQE, Err}: true, {SQE, Reset}: true, {Err, Reset}: true,
	}
	stays := map[[2]State]bool{
		{Reset, Reset}: true, {RTR, RTR}: true, {RTS, RTS}: true, {SQD, SQD}: true, {SQE, SQE}: true,
		{SQE, SQD}: true, {Err, Err}: true, {Err, SQD}: true,
	}
	transport := map[[2]State]bool{
		{Init, RTR}: true, {Init, RTS}: true, {Init, Err}: true, {RTR, RTS}: true,
		{RTR, SQD}: true, {RTR, SQE}: true, {RTR, Err}: true, {RTS, SQD}: true,
		{RTS, SQE}: true, {RTS, Err}: true, {SQD, SQE}: true, {SQD, Err}: true, {SQE, Err}: true,
	}
	for from := Reset; from < numStates; from++ {
		for to := Reset; to < numStates; to++ {
			f := newFixture(t, QPConfig{})
			f.qp.state = from
			move := [2]State{from, to}
			want := from
			if owner[move] {
				want = to
			}
			if err := f.qp.Modify(to); (err == nil) != (owner[move] || stays[move]) || f.qp.state != want {
				t.Errorf("Modify %v to %v: %v, now %v", from, to, err, f.qp.state)
			} else if err != nil && !errors.Is(err, ErrState) {
				t.Errorf("Modify %v to %v: %v is no ErrState", from, to, err)
			}
			f.qp.state = from
			if ok := f.qp.Transition(to); ok != transport[[2]State{from, to}] {
				t.Errorf("Transition %v to %v: %v", from, to, ok)
			}
		}
	}
	for s, want := range map[State]string{Reset: "IDLE", Init: "IDLE", RTR: "IDLE", RTS: "RTS",
		SQD: "CLOSING", SQE: "TERMINATE", Err: "ERROR"} {
		if s.IWARP() != want {
			t.Errorf("%v is %s, want %s", s, s.IWARP(), want)
		}
	}
}

func TestCheck(t *testing.T) {
	f := newFixture(t, QPConfig{})
	other, _ := f.dev.AllocPD()
	ro, _ := f.pd.RegMR(make([]byte, 16), 0)
	top, _ := f.pd.RegMemory(Bytes(make([]byte, 16)), ^uint64(0)-31, LocalWrite|RemoteWrite)
	gone, _ := f.pd.RegMR(make([]byte, 16), LocalWrite|RemoteWrite)
	gone.Invalidate()
	a := f.mr.Addr()
	for _, c := range []struct {
		name string
		pd   *PD
		stag uint32
		addr uint64
		n    uint64
		want Fault
	}{
		{"whole", f.pd, f.mr.RKey(), a, 4096, FaultNone},
		{"empty at end", f.pd, f.mr.RKey(), a + 4096, 0, FaultNone},
		{"one beyond", f.pd, f.mr.RKey(), a + 1, 4096, FaultBounds},
		{"one below", f.pd, f.mr.RKey(), a - 1, 2, FaultBounds},
		{"far beyond", f.pd, f.mr.RKey(), a + 5000, 1, FaultBounds},
		{"wrong key", f.pd, f.mr.RKey() ^ 1, a, 1, FaultSTag},
		{"unknown", f.pd, f.mr.RKey() ^ 1<<31, a, 1, FaultSTag},
		{"zero", f.pd, 0, a, 1, FaultSTag},
		{"invalidated", f.pd, gone.RKey(), gone.Addr(), 1, FaultSTag},
		{"other PD", other, f.mr.RKey(), a, 1, FaultPD},
		{"no right", f.pd, ro.RKey(), ro.Addr(), 1, FaultAccess},
		{"wrap", f.pd, top.RKey(), ^uint64(0) - 7, 16, FaultWrap},
	} {
		if _, got := f.dev.Check(c.pd, c.stag, c.addr, c.n, RemoteWrite); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSTagsDifferAndAreSeeded(t *testing.T) {
	stags := func(seed uint64) (s [64]uint32) {
		d := NewDevice(Limits{}, rand.NewPCG(0, seed))
		pd, _ := d.AllocPD()
		for i := range s {
			mr, err := pd.RegMR(make([]byte, 1), 0)
			if err != nil || mr.RKey()>>8 == 0 {
				t.Fatal(err, mr.RKey())
			}
			s[i] = mr.RKey()
		}
		return s
	}
	a := stags(1)
	if a != stags(1) || a == stags(2) {
		t.Error("STags must follow from the seed")
	}
	seen := map[uint32]bool{}
	for _, s := range a {
		if seen[s>>8] {
			t.Fatalf("index %#x given twice", s>>8)
		}
		seen[s>>8] = true
	}
}

func TestPostErrors(t *testing.T) {
	f := newFixture(t, QPConfig{MaxSend: 2, MaxRecv: 2, MaxSGE: 2, MaxInline: 8})
	ok := SendWR{SGEs: f.sge(0, 4)}
	if _, err := f.qp.PostSend(ok); !errors.Is(err, ErrState) {
		t.Errorf("post in Init: %v", err)
	}
	f.up(t)
	three := append(append(f.sge(0, 1), f.sge(1, 1)...), f.sge(2, 1)...)
	for _, c := range []struct {
		name string
		wrs  []SendWR
		bad  int
		want error
	}{
		{"too many SGEs", []SendWR{{SGEs: three}}, 0, ErrTooManySGE},
		{"two for a CmpSwap", []SendWR{{Opcode: OpCompSwap, SGEs: three[:2]}}, 0, ErrTooManySGE},
		{"inline too long", []SendWR{{Flags: Inline, Inline: make([]byte, 9)}}, 0, ErrInlineSize},
		{"inline Read", []SendWR{{Opcode: OpRead, Flags: Inline}}, 0, ErrInvalid},
		{"opcode", []SendWR{{Opcode: numOpcodes}}, 0, ErrInvalid},
		{"second is bad", []SendWR{ok, {Opcode: numOpcodes}}, 1, ErrInvalid},
		{"full", []SendWR{ok, ok}, 1, ErrQueueFull},
	} {
		if bad, err := f.qp.PostSend(c.wrs...); bad != c.bad || !errors.Is(err, c.want) {
			t.Errorf("%s: bad %d, %v", c.name, bad, err)
		}
	}
	if f.tr.posted != 2 {
		t.Errorf("doorbell rang %d times, want 2", f.tr.posted)
	}
	if bad, err := f.qp.PostRecv(RecvWR{}, RecvWR{}, RecvWR{}); bad != 2 || !errors.Is(err, ErrQueueFull) {
		t.Errorf("receives: bad %d, %v", bad, err)
	}
}

func TestCompletionOrder(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	for id := range uint64(4) {
		flags := Signaled
		if id == 1 {
			flags = 0
		}
		if _, err := f.qp.PostSend(SendWR{ID: id, Flags: flags, SGEs: f.sge(0, int(id))}); err != nil {
			t.Fatal(err)
		}
		f.qp.BeginSend()
	}
	f.qp.FinishSend(2, StatusSuccess)
	f.qp.FinishSend(1, StatusSuccess)
	if f.cq.Len() != 0 {
		t.Fatal("completed ahead of the request before")
	}
	f.qp.FinishSend(0, StatusSuccess)
	f.qp.FinishSend(0, StatusGeneral)
	f.qp.Transition(Err)
	var got []uint64
	var wcs [8]WC
	for _, wc := range wcs[:f.cq.Poll(wcs[:])] {
		got = append(got, wc.ID<<8|uint64(wc.Status))
	}
	want := []uint64{0, 2 << 8, 3<<8 | uint64(StatusFlushed)}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("completions %x, want %x", got, want)
	}
}

// What was finished early behind a failure is flushed with it, signalled or
// not, and with a failure of its own keeps that.
func TestNothingSucceedsBehindAFailure(t *testing.T) {
	for _, first := range []Status{StatusFlushed, StatusLocalProtection} {
		f := newFixture(t, QPConfig{})
		f.up(t)
		for id := range uint64(4) {
			if _, err := f.qp.PostSend(SendWR{ID: id, Flags: Signaled * SendFlags(id&1), SGEs: f.sge(0, 8)}); err != nil {
				t.Fatal(err)
			}
			f.qp.BeginSend()
		}
		f.qp.FinishSend(1, StatusSuccess)
		f.qp.FinishSend(2, StatusSuccess)
		f.qp.FinishSend(3, StatusRemoteAccess)
		if first != StatusFlushed {
			f.qp.FinishSend(0, first)
		}
		f.qp.Transition(Err)
		var wcs [8]WC
		want := []Status{first, StatusFlushed, StatusFlushed, StatusRemoteAccess}
		n := f.cq.Poll(wcs[:])
		for i := range min(n, len(want)) {
			if wcs[i].ID != uint64(i) || wcs[i].Status != want[i] {
				t.Errorf("WR %d: %v, want %v", wcs[i].ID, wcs[i].Status, want[i])
			}
		}
		if n != len(want) {
			t.Errorf("%d completions", n)
		}
	}
}

func TestFlushAndPostInErr(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	f.qp.PostRecv(RecvWR{ID: 1}, RecvWR{ID: 2})
	f.qp.PostSend(SendWR{ID: 3}, SendWR{ID: 4})
	if err := f.qp.Modify(Err); err != nil {
		t.Fatal(err)
	}
	f.qp.PostSend(SendWR{ID: 5})
	f.qp.PostRecv(RecvWR{ID: 6})
	var wcs [8]WC
	n := f.cq.Poll(wcs[:])
	want := []uint64{3, 4, 1, 2, 5, 6}
	if n != len(want) {
		t.Fatalf("%d completions", n)
	}
	for i, id := range want {
		if wcs[i].ID != id || wcs[i].Status != StatusFlushed {
			t.Errorf("completion %d: WR %d %v, want %d", i, wcs[i].ID, wcs[i].Status, id)
		}
	}
	if f.qp.NextSend() != nil || f.qp.CurrentRecv() != nil {
		t.Error("queues not empty")
	}
}

func TestNotify(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	recv := func(solicited bool, s Status) {
		f.qp.PostRecv(RecvWR{})
		f.qp.NextRecv()
		f.qp.FinishRecv(RecvDone{Solicited: solicited, Status: s})
	}
	for _, c := range []struct {
		name      string
		arm       func()
		solicited bool
		status    Status
		calls     int
	}{
		{"not armed", func() {}, true, StatusSuccess, 0},
		{"next", func() { f.cq.ReqNotify(false) }, false, StatusSuccess, 1},
		{"once only", func() {}, false, StatusSuccess, 0},
		{"solicited, plain", func() { f.cq.ReqNotify(true) }, false, StatusSuccess, 0},
		{"still armed", func() {}, true, StatusSuccess, 1},
		{"solicited, error", func() { f.cq.ReqNotify(true) }, false, StatusGeneral, 1},
		{"next outranks solicited", func() { f.cq.ReqNotify(false); f.cq.ReqNotify(true) }, false, StatusSuccess, 1},
	} {
		f.tape = nil
		c.arm()
		recv(c.solicited, c.status)
		for f.dev.Dispatch(7) {
		}
		if len(f.tape) != c.calls {
			t.Errorf("%s: %d calls, want %d", c.name, len(f.tape), c.calls)
		}
	}
	if !f.cq.ReqNotify(false) {
		t.Error("waiting completions not reported")
	}
}

func TestCQOverflow(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	var events []AsyncEvent
	f.dev.OnAsync(func(ev AsyncEvent, _ frame.Time) { events = append(events, ev) })
	for range f.cq.Cap() + 2 {
		f.qp.PostRecv(RecvWR{})
		f.qp.NextRecv()
		f.qp.FinishRecv(RecvDone{})
	}
	for f.dev.Dispatch(0) {
	}
	if len(events) != 2 || events[0].Type != EventCQError || events[0].CQ != f.cq || !f.cq.Failed() {
		t.Errorf("events %v, failed %v", events, f.cq.Failed())
	}
	if events[1].Type != EventQPFatal || f.qp.State() != Err || len(f.tr.moved) != 2 {
		t.Errorf("event %v, QP in %v, transport told %v", events[1].Type, f.qp.State(), f.tr.moved)
	}
}

func TestDestroyRules(t *testing.T) {
	f := newFixture(t, QPConfig{})
	srq, err := f.pd.CreateSRQ(4, 1)
	if err != nil {
		t.Fatal(err)
	}
	qp2, err := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq, SRQ: srq})
	if err != nil {
		t.Fatal(err)
	}
	for name, destroy := range map[string]func() error{
		"CQ": f.cq.Destroy, "PD": f.pd.Dealloc, "SRQ": srq.Destroy,
	} {
		if err := destroy(); !errors.Is(err, ErrBusy) {
			t.Errorf("%s in use: %v", name, err)
		}
	}
	var inside error
	f.cq.SetHandler(func(*CQ, frame.Time) {
		inside = f.qp.Destroy()
		f.dev.Defer(func(frame.Time) { err = f.qp.Destroy() })
	})
	f.cq.ReqNotify(false)
	f.qp.PostRecv(RecvWR{})
	f.qp.Modify(Err)
	f.dev.Dispatch(0)
	if !errors.Is(inside, ErrInCallback) || err != nil {
		t.Errorf("in callback: %v; deferred: %v", inside, err)
	}
	if f.cq.Len() != 0 {
		t.Error("completions of a destroyed QP remain")
	}
	for _, destroy := range []func() error{qp2.Destroy, srq.Destroy, f.mr.Dereg, f.cq.Destroy, f.pd.Dealloc} {
		if err := destroy(); err != nil {
			t.Error(err)
		}
	}
	for _, destroy := range []func() error{qp2.Destroy, srq.Destroy, f.mr.Dereg, f.cq.Destroy, f.pd.Dealloc} {
		if err := destroy(); !errors.Is(err, ErrDestroyed) {
			t.Errorf("second destroy: %v", err)
		}
	}
	if f.tr.destroyed != 2 {
		t.Errorf("transport told %+v", f.tr)
	}
}

func TestLimits(t *testing.T) {
	d := NewDevice(Limits{MaxPD: 1, MaxMR: 1, MaxCQ: 1, MaxQP: 1}, rand.NewPCG(0, 0))
	pd, _ := d.AllocPD()
	cq, _ := d.CreateCQ(1, nil)
	pd.RegMR(nil, 0)
	pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq})
	_, e1 := d.AllocPD()
	_, e2 := d.CreateCQ(1, nil)
	_, e3 := pd.RegMR(nil, 0)
	_, e4 := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq})
	for i, err := range []error{e1, e2, e3, e4} {
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestScatterGather(t *testing.T) {
	f := newFixture(t, QPConfig{MaxSGE: 3})
	f.up(t)
	for i := range f.mem {
		f.mem[i] = byte(i)
	}
	sges := append(append(f.sge(0, 3), f.sge(100, 0)...), f.sge(10, 5)...)
	f.qp.PostSend(SendWR{SGEs: sges})
	w := f.qp.NextSend()
	if fault := f.qp.Resolve(w); fault != FaultNone || w.Length != 8 || !w.Addressable() || !w.Uses(f.mr) {
		t.Fatal(fault, w.Length)
	}
	want := []byte{0, 1, 2, 10, 11, 12, 13, 14}
	for off := range want {
		for n := 0; off+n <= len(want); n++ {
			p := make([]byte, n)
			if err := w.Fetch(p, uint64(off)); err != nil || !bytes.Equal(p, want[off:off+n]) {
				t.Fatalf("fetch %d+%d: %v %v", off, n, p, err)
			}
		}
	}
	if err := w.Fetch(make([]byte, 9), 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("fetch beyond the end: %v", err)
	}
	f.qp.PostRecv(RecvWR{SGEs: append(f.sge(200, 2), f.sge(300, 2)...)})
	r, fault := f.qp.NextRecv()
	if fault != FaultNone || r.Place([]byte{7, 8, 9}, 1) != nil {
		t.Fatal(fault)
	}
	if got := []byte{f.mem[200], f.mem[201], f.mem[300], f.mem[301]}; !bytes.Equal(got, []byte{200, 7, 8, 9}) {
		t.Errorf("placed %v", got)
	}
}

func TestSRQ(t *testing.T) {
	f := newFixture(t, QPConfig{})
	srq, _ := f.pd.CreateSRQ(4, 1)
	qp, _ := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq, SRQ: srq})
	qp.Modify(Init)
	var events []EventType
	f.dev.OnAsync(func(ev AsyncEvent, _ frame.Time) { events = append(events, ev.Type) })
	srq.PostRecv(RecvWR{ID: 1}, RecvWR{ID: 2}, RecvWR{ID: 3})
	srq.SetLimit(2)
	qp.NextRecv()
	if r, _ := qp.NextRecv(); r.ID != 1 || srq.Len() != 2 {
		t.Fatalf("took %d, %d left", r.ID, srq.Len())
	}
	qp.FinishRecv(RecvDone{})
	qp.NextRecv()
	qp.Transition(Err)
	f.dev.Dispatch(0)
	if srq.Len() != 1 || len(events) != 2 || events[0] != EventSRQLimit || events[1] != EventLastWQE {
		t.Errorf("left %d, events %v", srq.Len(), events)
	}
	var wcs [4]WC
	if n := f.cq.Poll(wcs[:]); n != 2 || wcs[1].ID != 2 || wcs[1].Status != StatusFlushed {
		t.Errorf("completions %+v", wcs[:n])
	}
	if _, err := qp.PostRecv(RecvWR{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("receive to a QP with SRQ: %v", err)
	}
}

// cycle is one post, hand-over and completion.
func (f *fixture) cycle(wr *SendWR, wcs []WC) {
	f.qp.PostSend(*wr)
	w := f.qp.NextSend()
	f.qp.Resolve(w)
	f.qp.BeginSend()
	f.qp.FinishSend(w.Seq, StatusSuccess)
	f.cq.Poll(wcs)
}

func TestPostAllocatesNothing(t *testing.T) {
	f := newFixture(t, QPConfig{MaxInline: 64})
	f.up(t)
	wr := SendWR{Flags: Signaled, SGEs: f.sge(0, 8)}
	inline := SendWR{Flags: Signaled | Inline, Inline: make([]byte, 64)}
	wcs := make([]WC, 4)
	run := func() {
		f.cycle(&wr, wcs)
		f.cycle(&inline, wcs)
		f.cq.ReqNotify(false)
		f.dev.Dispatch(0)
		f.tape = f.tape[:0]
	}
	for range 100 {
		run()
	}
	if n := testing.AllocsPerRun(1000, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPostPoll(b *testing.B) {
	f := newFixture(b, QPConfig{})
	f.up(b)
	wr := SendWR{Flags: Signaled, SGEs: f.sge(0, 8)}
	wcs := make([]WC, 4)
	b.ReportAllocs()
	for b.Loop() {
		f.cycle(&wr, wcs)
	}
}
