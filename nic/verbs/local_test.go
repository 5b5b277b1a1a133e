package verbs

import (
	"bytes"
	"errors"
	"testing"
)

// do posts wr to f's queue pair, which carries everything out at once, and
// returns the status of its completion.
func (f *fixture) do(t testing.TB, wr SendWR) Status {
	t.Helper()
	wr.Flags |= Signaled
	if _, err := f.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	return f.finish(t)
}

// finish begins and completes all that is queued and returns the status of
// the last completion.
func (f *fixture) finish(t testing.TB) Status {
	t.Helper()
	for w := f.qp.NextSend(); w != nil; w = f.qp.NextSend() {
		f.qp.BeginSend()
		f.qp.FinishSend(w.Seq, StatusSuccess)
	}
	var wcs [16]WC
	n := f.cq.Poll(wcs[:])
	if n == 0 {
		t.Fatal("no completion")
	}
	return wcs[n-1].Status
}

// pagesOf is a list of the given 512-octet pages of f's memory.
func (f *fixture) pagesOf(off, length uint64, pages ...uint64) PageList {
	l := PageList{Space: Bytes(f.mem), PageSize: 512, Offset: off, Length: length}
	for _, p := range pages {
		l.Pages = append(l.Pages, p*512)
	}
	return l
}

func TestFastRegisterAndInvalidate(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	mr, err := f.pd.AllocMR(4)
	if err != nil {
		t.Fatal(err)
	}
	if mr.Valid() {
		t.Error("valid before it is registered")
	}
	reg := FastReg{MR: mr, Key: 7, Access: LocalWrite | RemoteWrite, IOVA: 0x1000, Pages: f.pagesOf(500, 600, 6, 2, 3)}
	if s := f.do(t, SendWR{Opcode: OpRegMR, Reg: &reg}); s != StatusSuccess {
		t.Fatal(s)
	}
	if uint8(mr.RKey()) != 7 || !mr.Valid() || mr.Addr() != 0x1000 || mr.Len() != 600 {
		t.Errorf("STag %#x, %#x+%d", mr.RKey(), mr.Addr(), mr.Len())
	}
	data := bytes.Repeat([]byte("tapir"), 120)
	r, fault := f.qp.CheckRemote(mr.RKey(), 0x1000, 600, RemoteWrite)
	if fault != FaultNone || r.Place(data, 0x1000) != nil {
		t.Fatal(fault)
	}
	got := append(append([]byte{}, f.mem[6*512+500:7*512]...), f.mem[2*512:2*512+588]...)
	if !bytes.Equal(got, data) {
		t.Error("octets not where the page list says")
	}
	if s := f.do(t, SendWR{Opcode: OpLocalInv, Invalidate: mr.RKey()}); s != StatusSuccess || mr.Valid() {
		t.Errorf("invalidate: %v, valid %v", s, mr.Valid())
	}
	if _, fault := f.qp.CheckRemote(mr.RKey(), 0x1000, 1, RemoteWrite); fault != FaultSTag {
		t.Errorf("after invalidation: %v", fault)
	}
	reg.Key, reg.Pages = 8, f.pagesOf(0, 512, 1)
	if s := f.do(t, SendWR{Opcode: OpRegMR, Reg: &reg}); s != StatusSuccess || uint8(mr.RKey()) != 8 {
		t.Errorf("again: %v, STag %#x", s, mr.RKey())
	}
	if s := f.do(t, SendWR{Opcode: OpRegMR, Reg: &reg}); s != StatusMWBind {
		t.Errorf("while valid: %v", s)
	}
	f.dev.Dispatch(0)
	if f.qp.State() != Err {
		t.Errorf("QP in %v after a failed registration", f.qp.State())
	}
}

func TestFastRegisterRefused(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	mr, _ := f.pd.AllocMR(2)
	for name, reg := range map[string]*FastReg{
		"nothing":         nil,
		"no region":       {},
		"registered":      {MR: f.mr, Pages: f.pagesOf(0, 1, 0)},
		"too many pages":  {MR: mr, Pages: f.pagesOf(0, 1, 0, 1, 2)},
		"too long":        {MR: mr, Pages: f.pagesOf(1, 1024, 0, 1)},
		"outside":         {MR: mr, Pages: f.pagesOf(0, 512, 8)},
		"offset":          {MR: mr, Pages: f.pagesOf(512, 1, 0, 1)},
		"unaligned":       {MR: mr, Pages: PageList{Space: Bytes(f.mem), Pages: []uint64{256}, PageSize: 512, Length: 1}},
		"page size":       {MR: mr, Pages: PageList{Space: Bytes(f.mem), Pages: []uint64{0}, PageSize: 500, Length: 1}},
		"no space":        {MR: mr, Pages: PageList{Pages: []uint64{0}, PageSize: 512, Length: 1}},
		"rights":          {MR: mr, Access: RemoteWrite, Pages: f.pagesOf(0, 1, 0)},
		"zero-based at 1": {MR: mr, Access: ZeroBased, IOVA: 1, Pages: f.pagesOf(0, 1, 0)},
		"wrap":            {MR: mr, IOVA: ^uint64(0), Pages: f.pagesOf(0, 2, 0)},
	} {
		if _, err := f.qp.PostSend(SendWR{Opcode: OpRegMR, Reg: reg}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFences(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	read := SendWR{ID: 1, Opcode: OpRead, SGEs: f.sge(0, 8)}
	for _, c := range []struct {
		name  string
		first SendWR
		flags SendFlags
		waits bool
	}{
		{"fence behind a Read", read, Fence, true},
		{"read fence behind a Read", read, ReadFence, true},
		{"local fence behind a Read", read, LocalFence, true},
		{"none behind a Read", read, 0, false},
		{"fence behind an atomic", SendWR{Opcode: OpFetchAdd, SGEs: f.sge(0, 8)}, Fence, true},
		{"fence behind a Write", SendWR{Opcode: OpWrite}, Fence, false},
		{"local fence behind a Write", SendWR{Opcode: OpWrite}, LocalFence, true},
	} {
		f.tr.posted = 0
		f.qp.PostSend(c.first, SendWR{ID: 2, Flags: c.flags})
		first := f.qp.NextSend()
		f.qp.BeginSend()
		if got := f.qp.NextSend() == nil; got != c.waits {
			t.Errorf("%s: waits %v", c.name, got)
		}
		f.qp.FinishSend(first.Seq, StatusSuccess)
		if rang := f.tr.posted == 2; rang != c.waits {
			t.Errorf("%s: transport called %d times", c.name, f.tr.posted)
		}
		second := f.qp.NextSend()
		if second == nil || second.ID != 2 {
			t.Fatalf("%s: never begins", c.name)
		}
		f.qp.BeginSend()
		f.qp.FinishSend(second.Seq, StatusSuccess)
	}
}

func TestReadWithInvalidate(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	if s := f.do(t, SendWR{Opcode: OpReadInv, SGEs: f.sge(0, 8)}); s != StatusSuccess || f.mr.Valid() {
		t.Errorf("%v, region still valid: %v", s, f.mr.Valid())
	}
}

func TestAtomicMasks(t *testing.T) {
	all := ^uint64(0)
	in := Operands{CompareAdd: 1, Swap: 2, CompareAddMask: 3, SwapMask: 4}
	for op, want := range map[Opcode]Operands{
		OpCompSwap:       {1, 2, all, all},
		OpFetchAdd:       {1, 0, 0, 0},
		OpSwap:           {0, 2, 0, all},
		OpMaskedCompSwap: {1, 2, 3, 4},
		OpMaskedFetchAdd: {1, 0, 3, 0},
	} {
		f := newFixture(t, QPConfig{})
		f.up(t)
		if _, err := f.qp.PostSend(SendWR{Opcode: op, SGEs: f.sge(0, 8), Atomic: in}); err != nil {
			t.Fatal(err)
		}
		if got := f.qp.NextSend().Atomic; got != want {
			t.Errorf("%v: %+v, want %+v", op, got, want)
		}
		if _, err := f.qp.PostSend(SendWR{Opcode: op, SGEs: f.sge(0, 4)}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v of 4 octets: %v", op, err)
		}
	}
}
