package verbs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"tapir/wire/frame"
)

// Tests of the security requirements of RFC 5040 section 8.1 and RFC 5041
// sections 8.2 and 8.3, clause by clause.

// Sections 8.1.1 of RFC 5040, 8.2 and 8.3 of RFC 5041 (5040-8.1.1-2,
// 5040-8.1.1-4, 5041-8.2-1, 5041-8.2-4, 5041-8.3-3, 5041-8.3.1-2,
// 5041-8.3.1-4): a protection domain and the bounds of a region fence it.
func TestRegionIsFenced(t *testing.T) {
	f := newFixture(t, QPConfig{})
	pd, err := f.dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq})
	if err != nil {
		t.Fatal(err)
	}
	a, n := f.mr.Addr(), f.mr.Len()
	for _, need := range []Access{RemoteRead, RemoteWrite} {
		for _, c := range []struct {
			qp   *QP
			addr uint64
			n    uint64
			want Fault
		}{
			{f.qp, a, n, FaultNone}, {stranger, a, n, FaultPD}, {stranger, a, 1, FaultPD},
			{f.qp, a, n + 1, FaultBounds}, {f.qp, a - 1, 1, FaultBounds}, {f.qp, a + n, 1, FaultBounds},
			{f.qp, a + 1, ^uint64(0) - a - 1, FaultBounds}, {f.qp, a + 1, ^uint64(0), FaultWrap}, {f.qp, 0, n, FaultBounds},
		} {
			if _, got := c.qp.CheckRemote(f.mr.RKey(), c.addr, c.n, need); got != c.want {
				t.Errorf("QP %d, %d octets at %#x: %v", c.qp.Num(), c.n, c.addr, got)
			}
		}
	}
}

// Sections 8.1.1 of RFC 5040, 8.2 and 8.3 of RFC 5041 (5040-8.1.1-3,
// 5041-8.2-2, 5041-8.2-4, 5041-8.3-3, 5041-8.3.1-3): a window of type 2
// belongs to one stream.
func TestWindowOfOneStream(t *testing.T) {
	for _, kind := range []MWKind{MWType2A, MWType2B} {
		f := newFixture(t, QPConfig{})
		f.up(t)
		other, err := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq})
		if err != nil {
			t.Fatal(err)
		}
		mr, err := f.pd.RegMR(make([]byte, 4096), LocalWrite|RemoteWrite|MWBind)
		if err != nil {
			t.Fatal(err)
		}
		w, err := f.pd.AllocMW(kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.qp.PostSend(SendWR{Opcode: OpBindMW, Bind: &Bind{MW: w, MR: mr, Addr: mr.Addr() + 8, Length: 16, Access: RemoteWrite, Key: 9}}); err != nil {
			t.Fatal(err)
		}
		f.qp.NextSend()
		if _, got := f.qp.CheckRemote(w.RKey(), mr.Addr()+8, 16, RemoteWrite); got != FaultNone {
			t.Errorf("type %v, its own stream: %v", kind, got)
		}
		if _, got := other.CheckRemote(w.RKey(), mr.Addr()+8, 16, RemoteWrite); got != FaultPD {
			t.Errorf("type %v, another stream: %v", kind, got)
		}
		if got := other.InvalidateRemote(w.RKey()); got != FaultPD {
			t.Errorf("type %v, invalidated by another stream: %v", kind, got)
		}
		if got := f.qp.InvalidateRemote(w.RKey()); got != FaultNone || w.Valid() {
			t.Errorf("type %v, invalidated by its own: %v", kind, got)
		}
	}
}

// Section 8.1.1 (5040-8.1.1-8): what several streams may use, none of their
// peers can invalidate.
func TestPeerCannotInvalidateWhatIsShared(t *testing.T) {
	f := newFixture(t, QPConfig{})
	mr, err := f.pd.RegMR(make([]byte, 64), LocalWrite|RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.qp.InvalidateRemote(mr.RKey()); got == FaultNone || !mr.Valid() {
		t.Errorf("two queue pairs in the domain: %v", got)
	}
	if err := second.Destroy(); err != nil {
		t.Fatal(err)
	}
	if got := f.qp.InvalidateRemote(mr.RKey()); got != FaultNone || mr.Valid() {
		t.Errorf("one queue pair in the domain: %v", got)
	}
}

// Sections 8.1.1 of RFC 5040 and 8.3 of RFC 5041 (5040-8.1.1-5,
// 5040-8.1.1-6, 5040-8.1.1-7, 5041-8.3-1, 5041-8.3-2, 5041-8.3-4,
// 5041-8.3.1-5, 5041-8.3.1-6, 5041-8.3.1-7): rights and addresses are given
// by registration and gone with it.
func TestRightsAreGivenAndRevoked(t *testing.T) {
	f := newFixture(t, QPConfig{})
	for _, rights := range []Access{0, RemoteRead, LocalWrite, LocalWrite | RemoteWrite, LocalWrite | RemoteWrite | RemoteRead} {
		mr, err := f.pd.RegMemory(Bytes(make([]byte, 64)), 0x1234_0000, rights)
		if err != nil {
			t.Fatal(err)
		}
		stag := mr.RKey()
		usable := func(need Access) bool {
			_, fault := f.qp.CheckRemote(stag, 0x1234_0000, 64, need)
			return fault == FaultNone
		}
		for _, need := range []Access{RemoteRead, RemoteWrite} {
			if usable(need) != (rights&need != 0) {
				t.Errorf("rights %v, %v: %v", rights, need, usable(need))
			}
		}
		if f.dev.Lookup(stag) != &mr.Region {
			t.Error("the STag does not name its region")
		}
		if rights&RemoteRead != 0 {
			mr.Invalidate()
			if usable(RemoteRead) || usable(0) || mr.Valid() {
				t.Errorf("rights %v: usable after invalidation", rights)
			}
		}
		if err := mr.Dereg(); err != nil {
			t.Fatal(err)
		}
		if usable(0) || f.dev.Lookup(stag) != nil {
			t.Errorf("rights %v: usable after deregistration", rights)
		}
	}
}

// Section 8.1.1 (5040-8.1.1-9, 5040-8.1.1-10): STags are spread over the
// whole range, and one does not tell the next.
func TestSTagsAreHardToPredict(t *testing.T) {
	d := NewDevice(Limits{}, rand.NewPCG(0, 7))
	pd, _ := d.AllocPD()
	const n = 4096
	steps := map[uint32]int{}
	var quarters [4]int
	keys := map[byte]bool{}
	last := uint32(0)
	for range n {
		mr, err := pd.RegMR(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		stag := mr.RKey()
		steps[stag>>8-last>>8]++
		quarters[stag>>30]++
		keys[byte(stag)] = true
		last = stag
	}
	for step, k := range steps {
		if k > 3 {
			t.Errorf("the index goes on by %d %d times in %d", step, k, n)
		}
	}
	for i, k := range quarters {
		if k < n/5 {
			t.Errorf("quarter %d has %d of %d", i, k, n)
		}
	}
	if len(keys) != 256 {
		t.Errorf("%d keys", len(keys))
	}
}

// Section 8.1.1 (5040-8.1.1-11): contexts, which is what programs are here,
// do not share completion queues.
func TestCQIsNotSharedAcrossContexts(t *testing.T) {
	d := NewDevice(Limits{}, rand.NewPCG(0, 1))
	a, err := d.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := d.Open(nil)
	pd, _ := a.AllocPD()
	own, _ := a.CreateCQ(4, 0, nil)
	foreign, _ := b.CreateCQ(4, 0, nil)
	for _, cfg := range []QPConfig{{SendCQ: foreign, RecvCQ: own}, {SendCQ: own, RecvCQ: foreign}} {
		if _, err := pd.CreateQP(cfg); !errors.Is(err, ErrInvalid) {
			t.Errorf("foreign CQ: %v", err)
		}
	}
	if _, err := pd.CreateQP(QPConfig{SendCQ: own, RecvCQ: own}); err != nil {
		t.Error(err)
	}
}

// Section 8.1.1 (5040-8.1.1-12): the overflow of one completion queue is no
// matter for queue pairs that use another.
func TestCQOverflowStaysLocal(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	cq, err := f.dev.CreateCQ(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := f.pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Modify(Init); err != nil || !other.Transition(RTS) {
		t.Fatal(err)
	}
	for range f.cq.Cap() + 1 {
		f.qp.PostRecv(RecvWR{})
		f.qp.NextRecv()
		f.qp.FinishRecv(RecvDone{})
	}
	for f.dev.Dispatch(0) {
	}
	if !f.cq.Failed() || f.qp.State() != Err {
		t.Fatalf("no overflow: %v, %v", f.cq.Failed(), f.qp.State())
	}
	other.PostRecv(RecvWR{ID: 5})
	other.NextRecv()
	other.FinishRecv(RecvDone{})
	var wcs [4]WC
	if n := cq.Poll(wcs[:]); n != 1 || wcs[0].ID != 5 || wcs[0].Status != StatusSuccess || other.State() != RTS || cq.Failed() {
		t.Errorf("%d completions, %v, QP in %v", n, wcs[0], other.State())
	}
}

// Sections 8.1.1 and 8.1.2 of RFC 5040, 8.3.2 of RFC 5041 (5040-8.1.2-2,
// 5040-8.1.2-5, 5040-8.1.2-6, 5041-8.3.2-3, 5041-8.3.2-6): what there is is
// given out by the device, within its limits.
func TestScarceResourcesAreCounted(t *testing.T) {
	d := NewDevice(Limits{MaxPD: 2, MaxMR: 2, MaxCQ: 2, MaxQP: 2, MaxSRQ: 2, MaxCQE: 100, MaxQPWR: 50}, rand.NewPCG(0, 0))
	pd, _ := d.AllocPD()
	cq, _ := d.CreateCQ(10, nil)
	for name, make := range map[string]func() error{
		"PD":  func() error { _, err := d.AllocPD(); return err },
		"MR":  func() error { _, err := pd.RegMR(nil, 0); return err },
		"CQ":  func() error { _, err := d.CreateCQ(1, nil); return err },
		"QP":  func() error { _, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq}); return err },
		"SRQ": func() error { _, err := pd.CreateSRQ(1, 1); return err },
	} {
		var err error
		given := 0
		for ; err == nil && given < 5; given++ {
			err = make()
		}
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %d given, then %v", name, given, err)
		}
	}
	if _, err := d.CreateCQ(101, nil); err == nil {
		t.Error("a completion queue of more entries than allowed")
	}
	if _, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: 51}); err == nil {
		t.Error("a send queue of more entries than allowed")
	}
}

// Section 8.1.2 of RFC 5040 and 8.3.2 of RFC 5041 (5040-8.1.2-8,
// 5041-8.3.2-7): a shared receive queue says when it runs low, and each
// completion says which stream took the receive.
func TestSharedReceivesAreWatched(t *testing.T) {
	f := newFixture(t, QPConfig{})
	srq, err := f.pd.CreateSRQ(8, 1)
	if err != nil {
		t.Fatal(err)
	}
	qp, err := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq, SRQ: srq})
	if err != nil {
		t.Fatal(err)
	}
	var events []AsyncEvent
	f.dev.OnAsync(func(ev AsyncEvent, _ frame.Time) { events = append(events, ev) })
	qp.Modify(Init)
	qp.Transition(RTS)
	srq.SetLimit(3)
	for range 4 {
		srq.PostRecv(RecvWR{})
	}
	for i := range 2 {
		if qp.NextRecv(); true {
			qp.FinishRecv(RecvDone{})
		}
		f.dev.Dispatch(0)
		if low := i == 1; (len(events) == 1) != low || low && (events[0].Type != EventSRQLimit || events[0].SRQ != srq) {
			t.Errorf("after %d receives: %v", i+1, events)
		}
	}
	var wcs [4]WC
	if n := f.cq.Poll(wcs[:]); n != 2 || wcs[0].QP != qp || wcs[1].QP != qp {
		t.Errorf("%d completions", n)
	}
}

// Section 8.3.1 of RFC 5041 (5041-8.3.1-7): a receive
// into a region that was invalidated meanwhile finds it closed.
func TestRevokedRegionIsNotWritten(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	f.qp.PostRecv(RecvWR{ID: 1, SGEs: f.sge(0, 64)})
	f.mr.Invalidate()
	if _, fault := f.qp.NextRecv(); fault != FaultSTag {
		t.Errorf("a receive into an invalidated region: %v", fault)
	}
	if !bytes.Equal(f.mem, make([]byte, 4096)) {
		t.Error("memory was touched")
	}
}
