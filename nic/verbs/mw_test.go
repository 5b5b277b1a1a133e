package verbs

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// windows is a fixture whose region windows may be bound to.
func windows(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, QPConfig{})
	f.up(t)
	var err error
	f.mr, err = f.pd.RegMR(f.mem, LocalWrite|RemoteRead|MWBind)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) mw(t *testing.T, kind MWKind) *MW {
	t.Helper()
	w, err := f.pd.AllocMW(kind)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// part is a binding of w to octets 100 to 200 of f's region.
func (f *fixture) part(w *MW, key uint8) Bind {
	return Bind{MW: w, Key: key, MR: f.mr, Addr: f.mr.Addr() + 100, Length: 100, Access: RemoteWrite}
}

func TestWindowType1(t *testing.T) {
	f := windows(t)
	w := f.mw(t, MWType1)
	bind := func(b Bind) uint32 {
		t.Helper()
		stag, err := f.qp.BindMW(1, Signaled, b)
		if err != nil {
			t.Fatal(err)
		}
		if s := f.finish(t); s != StatusSuccess {
			t.Fatal(s)
		}
		return stag
	}
	first := bind(f.part(w, 0))
	if first != w.RKey() || w.Bound() != f.mr || f.mr.Windows() != 1 {
		t.Errorf("STag %#x returned, %#x bound", first, w.RKey())
	}
	for _, c := range []struct {
		name string
		addr uint64
		n    uint64
		need Access
		want Fault
	}{
		{"all", 100, 100, RemoteWrite, FaultNone},
		{"below", 99, 1, RemoteWrite, FaultBounds},
		{"beyond", 200, 1, RemoteWrite, FaultBounds},
		{"a right of the region only", 100, 1, RemoteRead, FaultAccess},
	} {
		if _, got := f.qp.CheckRemote(first, f.mr.Addr()+c.addr, c.n, c.need); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if _, got := f.dev.Check(f.pd, first, f.mr.Addr()+100, 1, 0); got != FaultSTag {
		t.Errorf("window as a local element: %v", got)
	}
	b := f.part(w, 0)
	b.Access |= ZeroBased
	second := bind(b)
	if second == first || f.dev.Lookup(first) != nil || f.mr.Windows() != 1 {
		t.Errorf("bound again: STag %#x after %#x, %d windows", second, first, f.mr.Windows())
	}
	r, fault := f.qp.CheckRemote(second, 0, 100, RemoteWrite)
	if fault != FaultNone || r.Place([]byte{42}, 7) != nil || f.mem[107] != 42 {
		t.Errorf("zero-based: %v", fault)
	}
	if err := f.mr.Dereg(); !errors.Is(err, ErrBusy) {
		t.Errorf("deregister with a window: %v", err)
	}
	if err := f.mr.Rereg(Rereg{}); !errors.Is(err, ErrBusy) {
		t.Errorf("reregister with a window: %v", err)
	}
	if f.qp.InvalidateRemote(second) != FaultAccess || !w.Valid() {
		t.Error("a type 1 window was invalidated")
	}
	bind(Bind{MW: w})
	if w.Valid() || w.Bound() != nil || f.mr.Windows() != 0 {
		t.Error("not unbound")
	}
	if err := errors.Join(w.Dealloc(), f.mr.Dereg()); err != nil {
		t.Error(err)
	}
	if err := w.Dealloc(); !errors.Is(err, ErrDestroyed) {
		t.Errorf("second dealloc: %v", err)
	}
}

// The new STag of a type 1 window is known at once and valid when the
// request's turn has come; until then the old one is.
func TestWindowBindsInOrder(t *testing.T) {
	f := windows(t)
	w := f.mw(t, MWType1)
	old, _ := f.qp.BindMW(1, 0, f.part(w, 0))
	f.qp.NextSend()
	f.qp.PostSend(SendWR{Opcode: OpWrite})
	stag, _ := f.qp.BindMW(2, 0, f.part(w, 0))
	f.qp.NextSend()
	if f.dev.Lookup(old) == nil || f.dev.Lookup(stag) != nil {
		t.Error("bound ahead of the Write")
	}
	f.qp.BeginSend()
	f.qp.NextSend()
	if f.dev.Lookup(old) != nil || f.dev.Lookup(stag) == nil {
		t.Error("not bound behind the Write")
	}
}

func TestWindowType2(t *testing.T) {
	for _, kind := range []MWKind{MWType2A, MWType2B} {
		f := windows(t)
		other, _ := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq})
		w := f.mw(t, kind)
		b := f.part(w, 9)
		if s := f.do(t, SendWR{Opcode: OpBindMW, Bind: &b}); s != StatusSuccess || uint8(w.RKey()) != 9 {
			t.Fatalf("%v: %v, STag %#x", kind, s, w.RKey())
		}
		if _, got := f.qp.CheckRemote(w.RKey(), b.Addr, 100, RemoteWrite); got != FaultNone {
			t.Errorf("%v: %v", kind, got)
		}
		if _, got := other.CheckRemote(w.RKey(), b.Addr, 100, RemoteWrite); got != FaultPD {
			t.Errorf("%v through another queue pair: %v", kind, got)
		}
		if other.InvalidateRemote(w.RKey()) != FaultPD || other.invalidate(w.RKey()) {
			t.Errorf("%v: invalidated through another queue pair", kind)
		}
		if f.qp.InvalidateRemote(w.RKey()) != FaultNone || w.Valid() || f.mr.Windows() != 0 {
			t.Errorf("%v: not invalidated by the peer", kind)
		}
		b.Key = 10
		if s := f.do(t, SendWR{Opcode: OpBindMW, Bind: &b}); s != StatusSuccess {
			t.Errorf("%v: bind again: %v", kind, s)
		}
		if s := f.do(t, SendWR{Opcode: OpLocalInv, Invalidate: w.RKey()}); s != StatusSuccess || w.Valid() {
			t.Errorf("%v: local invalidation: %v", kind, s)
		}
		f.do(t, SendWR{Opcode: OpBindMW, Bind: &b})
		if err := f.qp.Destroy(); err != nil || w.Valid() || f.mr.Windows() != 0 {
			t.Errorf("%v: %v, window outlives its queue pair", kind, err)
		}
	}
}

// 2A asks for the queue pair alone, 2B for the window's domain too.
func TestWindowDomains(t *testing.T) {
	for kind, want := range map[MWKind]Status{MWType2A: StatusSuccess, MWType2B: StatusMWBind} {
		f := windows(t)
		pd2, _ := f.dev.AllocPD()
		w, _ := pd2.AllocMW(kind)
		b := f.part(w, 1)
		if s := f.do(t, SendWR{Opcode: OpBindMW, Bind: &b}); s != want {
			t.Errorf("%v of another domain: %v", kind, s)
		}
		if want != StatusSuccess {
			continue
		}
		if _, got := f.qp.CheckRemote(w.RKey(), b.Addr, 1, RemoteWrite); got != FaultNone {
			t.Errorf("%v: %v", kind, got)
		}
	}
}

func TestBindRefusedWhenPosted(t *testing.T) {
	f := windows(t)
	one, two := f.mw(t, MWType1), f.mw(t, MWType2A)
	far, _ := NewDevice(Limits{}, rand.NewPCG(0, 1)).AllocPD()
	alien, _ := far.AllocMW(MWType2A)
	for name, b := range map[string]*Bind{
		"nothing": nil, "no window": {MR: f.mr}, "type 1": {MW: one, MR: f.mr, Length: 1},
		"no region": {MW: two, Length: 1}, "other device": {MW: alien, MR: f.mr, Length: 1},
		"local right": {MW: two, MR: f.mr, Length: 1, Access: LocalWrite}, "unbind": {MW: two},
	} {
		if _, err := f.qp.PostSend(SendWR{Opcode: OpBindMW, Bind: b}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.qp.BindMW(1, 0, f.part(two, 1)); !errors.Is(err, ErrInvalid) {
		t.Errorf("type 2 by verb: %v", err)
	}
	if _, err := f.pd.AllocMW(numMWKinds); !errors.Is(err, ErrInvalid) {
		t.Errorf("unknown type: %v", err)
	}
}

func TestBindFails(t *testing.T) {
	for name, spoil := range map[string]func(f *fixture, b *Bind){
		"no right to bind": func(f *fixture, b *Bind) { b.MR, _ = f.pd.RegMR(f.mem, LocalWrite); b.Addr = b.MR.Addr() },
		"not writable": func(f *fixture, b *Bind) {
			b.MR, _ = f.pd.RegMR(f.mem, MWBind)
			b.Addr = b.MR.Addr()
		},
		"out of bounds":      func(f *fixture, b *Bind) { b.Length = 4000 },
		"invalid region":     func(f *fixture, b *Bind) { b.MR.Invalidate() },
		"deregistered":       func(f *fixture, b *Bind) { b.MR.Dereg() },
		"window is gone":     func(f *fixture, b *Bind) { b.MW.Dealloc() },
		"region's PD":        func(f *fixture, b *Bind) { pd, _ := f.dev.AllocPD(); b.MR, _ = pd.RegMR(f.mem, LocalWrite|MWBind) },
		"type 2 still bound": func(f *fixture, b *Bind) { f.do(t, SendWR{Opcode: OpBindMW, Bind: b}) },
	} {
		f := windows(t)
		b := f.part(f.mw(t, MWType2B), 3)
		spoil(f, &b)
		f.qp.PostSend(SendWR{ID: 1, Opcode: OpBindMW, Bind: &b}, SendWR{ID: 2})
		if f.qp.NextSend() != nil {
			t.Errorf("%s: work goes on", name)
		}
		f.dev.Dispatch(0)
		var wcs [3]WC
		if n := f.cq.Poll(wcs[:]); n != 2 || wcs[0].Status != StatusMWBind || wcs[0].Opcode != WCBindMW ||
			wcs[1].Status != StatusFlushed || f.qp.State() != Err {
			t.Errorf("%s: %+v, QP in %v", name, wcs[:n], f.qp.State())
		}
	}
}
