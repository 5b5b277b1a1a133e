package nic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// opsPair is two NICs and a connection on which every operation is tried.
type opsPair struct {
	*world
	c, s *rdmaEnd
}

func newOpsPair(t *testing.T, cfg Config) *opsPair {
	w, a, b := twoNICs(t, cfg)
	c, s := dial(w, a, b, peer4, 64<<10)
	return &opsPair{w, c, s}
}

// do posts wrs on the client, waits until the last has completed and returns
// the new completions. All are signalled.
func (p *opsPair) do(wrs ...verbs.SendWR) []verbs.WC {
	p.t.Helper()
	return p.doOn(p.c, wrs...)
}

func (p *opsPair) doOn(e *rdmaEnd, wrs ...verbs.SendWR) []verbs.WC {
	p.t.Helper()
	for i := range wrs {
		wrs[i].Flags |= verbs.Signaled
	}
	have := e.completions()
	if bad, err := e.qp.PostSend(wrs...); err != nil {
		p.t.Fatalf("WR %d: %v", bad, err)
	}
	p.until(10*time.Second, func() bool { return e.completions() >= have+len(wrs) })
	return e.wcs[have:]
}

// good is do for requests that must succeed.
func (p *opsPair) good(wrs ...verbs.SendWR) {
	p.t.Helper()
	for _, wc := range p.do(wrs...) {
		if wc.Status != verbs.StatusSuccess {
			p.t.Fatalf("%v: %v", wc.Opcode, wc.Status)
		}
	}
}

func (e *rdmaEnd) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: e.mr.Addr() + uint64(off), Length: uint32(n), LKey: e.mr.LKey()}
}

// state lets everything come to rest and names the states of both sides.
func (p *opsPair) state() string {
	p.run(time.Second)
	return fmt.Sprint(p.c.qp.State(), p.s.qp.State())
}

// The target registers pages by work request, the peer writes to them and
// takes the right away with its next Send.
func TestFastRegisteredRegionOverTheWire(t *testing.T) {
	overBoth(t, testFastRegisteredRegionOverTheWire)
}

func testFastRegisteredRegionOverTheWire(t *testing.T, cfg Config) {
	p := newOpsPair(t, cfg)
	const pages, size = 256, 512 // 128 KiB scattered over twice as much
	arena := make([]byte, 2*pages*size)
	mr, err := p.s.pd.AllocMR(pages)
	if err != nil {
		t.Fatal(err)
	}
	list := verbs.PageList{Space: verbs.Bytes(arena), PageSize: size, Offset: 100, Length: pages*size - 200}
	for i := range pages {
		list.Pages = append(list.Pages, uint64((i*77%pages)*2*size))
	}
	reg := &verbs.FastReg{MR: mr, Key: 1, Access: verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead, IOVA: 0x10000,
		Pages: list}
	if wcs := p.doOn(p.s, verbs.SendWR{ID: 1, Opcode: verbs.OpRegMR, Reg: reg}); wcs[0].Status != verbs.StatusSuccess ||
		wcs[0].Opcode != verbs.WCRegMR {
		t.Fatal(wcs)
	}
	big, err := p.c.pd.RegMR(make([]byte, list.Length), verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	src := []byte(big.Memory().(verbs.Bytes))
	fill(src, 3)
	all := []verbs.SGE{{Addr: big.Addr(), Length: uint32(list.Length), LKey: big.LKey()}}
	p.s.qp.PostRecv(verbs.RecvWR{ID: 2})
	p.good(
		verbs.SendWR{Opcode: verbs.OpWrite, SGEs: all, RKey: mr.RKey(), RemoteAddr: 0x10000},
		verbs.SendWR{Opcode: verbs.OpSendInv, Invalidate: mr.RKey()})
	for i := range src {
		at := list.Pages[(i+100)/size] + uint64((i+100)%size)
		if arena[at] != src[i] {
			t.Fatalf("octet %d is not in its page", i)
		}
	}
	p.until(time.Second, func() bool { return p.s.completions() == 2 })
	if wc := p.s.wcs[1]; !wc.WithInv || wc.Invalidated != mr.RKey() || mr.Valid() {
		t.Errorf("Send with Invalidate: %+v, valid %v", wc, mr.Valid())
	}
	reg.Key = 2
	p.doOn(p.s, verbs.SendWR{Opcode: verbs.OpRegMR, Reg: reg})
	clear(src)
	p.good(verbs.SendWR{Opcode: verbs.OpRead, SGEs: all, RKey: mr.RKey(), RemoteAddr: 0x10000})
	want := make([]byte, len(src))
	if fill(want, 3); !bytes.Equal(src, want) {
		t.Error("Read from scattered pages differs")
	}
	wcs := p.do(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: all[:1], RKey: mr.RKey() - 1, RemoteAddr: 0x10000})
	if got := p.state(); got != "ERR ERR" {
		t.Errorf("Write with the old key: %v, queue pairs in %s", wcs[0].Status, got)
	}
}

// A window opens part of a region; it closes by invalidation, and the peer
// that goes on is cut off without touching memory.
func TestWindowsOverTheWire(t *testing.T) { overBoth(t, testWindowsOverTheWire) }

func testWindowsOverTheWire(t *testing.T, cfg Config) {
	for _, kind := range []verbs.MWKind{verbs.MWType1, verbs.MWType2A, verbs.MWType2B} {
		p := newOpsPair(t, cfg)
		mem := make([]byte, 4096)
		mr, _ := p.s.pd.RegMR(mem, verbs.LocalWrite|verbs.MWBind)
		w, err := p.s.pd.AllocMW(kind)
		if err != nil {
			t.Fatal(err)
		}
		b := verbs.Bind{MW: w, Key: 5, MR: mr, Addr: mr.Addr() + 1000, Length: 100,
			Access: verbs.RemoteWrite | verbs.RemoteRead | verbs.ZeroBased}
		if kind == verbs.MWType1 {
			if _, err := p.s.qp.BindMW(1, 0, b); err != nil {
				t.Fatal(err)
			}
		} else if _, err := p.s.qp.PostSend(verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &b}); err != nil {
			t.Fatal(err)
		}
		p.run(time.Millisecond)
		shown := view.MWInfo{Num: 1, Kind: kind.String(), STag: w.RKey(), PD: p.s.pd.Num(), MR: mr.Num(), Len: 100,
			Access: "rw,rr,zb"}
		if kind != verbs.MWType1 {
			shown.QP = p.s.qp.Num()
		}
		if got := p.s.n.dev.ShowMW(); len(got) != 1 || got[0] != shown {
			t.Errorf("shown as %+v, want %+v", got, shown)
		}
		fill(p.c.mem, 9)
		want := bytes.Clone(p.c.mem[:100])
		p.good(
			verbs.SendWR{Opcode: verbs.OpWrite, SGEs: []verbs.SGE{p.c.sge(0, 100)}, RKey: w.RKey()},
			verbs.SendWR{Opcode: verbs.OpRead, SGEs: []verbs.SGE{p.c.sge(200, 100)}, RKey: w.RKey()})
		if !bytes.Equal(mem[1000:1100], want) || !bytes.Equal(p.c.mem[200:300], want) {
			t.Errorf("type %v: the window's octets differ", kind)
		}
		if kind == verbs.MWType1 {
			p.s.qp.BindMW(2, 0, verbs.Bind{MW: w})
		} else if wcs := p.doOn(p.s, verbs.SendWR{Opcode: verbs.OpLocalInv,
			Invalidate: w.RKey()}); wcs[0].Status != verbs.StatusSuccess {
			t.Errorf("type %v: %v", kind, wcs[0].Status)
		}
		p.run(time.Millisecond)
		before := bytes.Clone(mem)
		p.do(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: []verbs.SGE{p.c.sge(500, 50)}, RKey: w.RKey()})
		if got := p.state(); got != "ERR ERR" || !bytes.Equal(mem, before) {
			t.Errorf("type %v closed: queue pairs in %s, memory touched %v", kind, got, !bytes.Equal(mem, before))
		}
		if err := errors.Join(w.Dealloc(), mr.Dereg()); err != nil {
			t.Error(err)
		}
	}
}

func TestReadsOverTheWire(t *testing.T) { overBoth(t, testReadsOverTheWire) }

func testReadsOverTheWire(t *testing.T, cfg Config) {
	p := newOpsPair(t, cfg)
	fill(p.s.mem, 5)
	sink, _ := p.c.pd.RegMR(make([]byte, 5000), verbs.LocalWrite)
	got := []byte(sink.Memory().(verbs.Bytes))
	p.good(verbs.SendWR{Opcode: verbs.OpReadInv, RKey: p.s.mr.RKey(), RemoteAddr: p.s.mr.Addr() + 7,
		SGEs: []verbs.SGE{{Addr: sink.Addr(), Length: 5000, LKey: sink.LKey()}}})
	if !bytes.Equal(got, p.s.mem[7:5007]) || sink.Valid() {
		t.Errorf("Read with Invalidate: data %v, sink still valid %v", bytes.Equal(got, p.s.mem[7:5007]), sink.Valid())
	}
	other, _ := p.c.pd.RegMR(make([]byte, 3000), verbs.LocalWrite)
	p.good(verbs.SendWR{Opcode: verbs.OpRead, RKey: p.s.mr.RKey(), RemoteAddr: p.s.mr.Addr(), SGEs: []verbs.SGE{
		p.c.sge(100, 1), {Addr: other.Addr(), Length: 3000, LKey: other.LKey()}, p.c.sge(2000, 1999)}})
	var want []byte
	want = append(append(append(want, p.c.mem[100]), other.Memory().(verbs.Bytes)...), p.c.mem[2000:3999]...)
	if !bytes.Equal(want, p.s.mem[:5000]) {
		t.Error("Read into three elements differs")
	}
}

// A local operation that fails ends the connection; what was posted behind it
// is flushed, in order, and the peer of iWARP learns of it.
func TestLocalFailureOverTheWire(t *testing.T) { overBoth(t, testLocalFailureOverTheWire) }

func testLocalFailureOverTheWire(t *testing.T, cfg Config) {
	p := newOpsPair(t, cfg)
	wcs := p.do(
		verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, SGEs: []verbs.SGE{p.c.sge(0, 10000)}, RKey: p.s.mr.RKey(),
			RemoteAddr: p.s.mr.Addr()},
		verbs.SendWR{ID: 2, Opcode: verbs.OpLocalInv, Invalidate: 0x12345678, Flags: verbs.LocalFence},
		verbs.SendWR{ID: 3, Opcode: verbs.OpWrite, SGEs: []verbs.SGE{p.c.sge(0, 8)}, RKey: p.s.mr.RKey(),
			RemoteAddr: p.s.mr.Addr()})
	got := ""
	for _, wc := range wcs {
		got += fmt.Sprintf("%d %v; ", wc.ID, wc.Status)
	}
	if got != "1 success; 2 memory management operation error; 3 WR flushed; " {
		t.Error(got)
	}
	if s := p.state(); s != map[bool]string{false: "ERR ERR", true: "ERR RTS"}[roce(cfg)] {
		t.Errorf("queue pairs in %s", s)
	}
}

// A work request behind a fence waits for what it is told to wait for.
func TestFencesOverTheWire(t *testing.T) { overBoth(t, testFencesOverTheWire) }

func testFencesOverTheWire(t *testing.T, cfg Config) {
	for flag, late := range map[verbs.SendFlags]bool{0: false, verbs.Fence: true, verbs.ReadFence: true,
		verbs.LocalFence: true} {
		p := newOpsPair(t, cfg)
		var wrote, read frame.Time
		p.c.qp.PostSend(
			verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: []verbs.SGE{p.c.sge(0, 30000)},
				RKey: p.s.mr.RKey(), RemoteAddr: p.s.mr.Addr()},
			verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, Flags: verbs.Signaled | flag, SGEs: []verbs.SGE{p.c.sge(40000, 1)},
				RKey: p.s.mr.RKey(), RemoteAddr: p.s.mr.Addr() + 50000})
		p.c.mem[40000] = 1
		for wrote == 0 || read == 0 {
			p.run(time.Microsecond)
			if wrote == 0 && p.s.mem[50000] == 1 {
				wrote = p.now
			}
			if read == 0 && p.c.completions() > 0 {
				read = p.now
			}
		}
		if (wrote > read) != late {
			t.Errorf("flags %#x: Write placed at %v, Read complete at %v", flag, wrote, read)
		}
	}
}

// Immediate data reaches the peer's receive, behind the Write it belongs to,
// and raises a solicited event only if asked to.
func TestImmediateDataOverTheWire(t *testing.T) { overBoth(t, testImmediateDataOverTheWire) }

func testImmediateDataOverTheWire(t *testing.T, cfg Config) {
	p := newOpsPair(t, cfg)
	events := 0
	p.s.cq.SetHandler(func(*verbs.CQ, frame.Time) { events++ })
	p.s.cq.ReqNotify(true)
	p.s.qp.PostRecv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2})
	fill(p.c.mem, 1)
	imm := uint64(0x0123456789abcdef)
	if roce(cfg) {
		imm &= 1<<32 - 1
	}
	p.good(verbs.SendWR{Opcode: verbs.OpWriteImm, Imm: imm, SGEs: []verbs.SGE{p.c.sge(0, 10000)}, RKey: p.s.mr.RKey(),
		RemoteAddr: p.s.mr.Addr()})
	p.run(time.Millisecond)
	if events != 0 {
		t.Error("an event that nobody solicited")
	}
	p.good(verbs.SendWR{Opcode: verbs.OpSendImm, Imm: 42, Flags: verbs.Solicited})
	p.until(time.Second, func() bool { return p.s.completions() == 2 })
	p.run(time.Millisecond)
	for i, want := range []verbs.WC{{ID: 1, Opcode: verbs.WCRecvWrite, Imm: imm},
		{ID: 2, Opcode: verbs.WCRecv, Imm: 42, Solicited: true}} {
		if wc := p.s.wcs[i]; wc.ID != want.ID || wc.Opcode != want.Opcode || !wc.WithImm || wc.Imm != want.Imm ||
			wc.Solicited != want.Solicited {
			t.Errorf("receive %d: %+v", i, wc)
		}
	}
	if !bytes.Equal(p.s.mem[:10000], p.c.mem[:10000]) || events != 1 {
		t.Errorf("%d events", events)
	}
}

func TestAtomicsOverTheWire(t *testing.T) { overBoth(t, testAtomicsOverTheWire) }

func testAtomicsOverTheWire(t *testing.T, cfg Config) {
	p := newOpsPair(t, cfg)
	counter, _ := p.s.pd.RegMR(make([]byte, 16), verbs.LocalWrite|verbs.RemoteAtomic)
	target := counter.Memory().(verbs.Bytes)[8:]
	binary.NativeEndian.PutUint64(target, 0x00ff)
	for i, c := range []struct {
		op     verbs.Opcode
		v      verbs.Operands
		stored uint64
	}{
		{verbs.OpFetchAdd, verbs.Operands{CompareAdd: 1}, 0x0100},
		{verbs.OpCompSwap, verbs.Operands{CompareAdd: 7, Swap: 9}, 0x0100},
		{verbs.OpCompSwap, verbs.Operands{CompareAdd: 0x0100, Swap: 9}, 9},
		{verbs.OpMaskedFetchAdd, verbs.Operands{CompareAdd: 0x01ff, CompareAddMask: 0x80 | 1<<63}, 0x0108},
		{verbs.OpMaskedCompSwap, verbs.Operands{CompareAddMask: 1, Swap: 0xf0, SwapMask: 0xf0}, 0x01f8},
		{verbs.OpSwap, verbs.Operands{Swap: 1 << 63}, 1 << 63},
	} {
		if roce(cfg) && c.op != verbs.OpFetchAdd && c.op != verbs.OpCompSwap {
			continue // RoCE has two
		}
		before := binary.NativeEndian.Uint64(target)
		p.good(verbs.SendWR{Opcode: c.op, Atomic: c.v, SGEs: []verbs.SGE{p.c.sge(100, 8)}, RKey: counter.RKey(),
			RemoteAddr: counter.Addr() + 8})
		if got := binary.NativeEndian.Uint64(target); got != c.stored {
			t.Errorf("%d, %v: stored %#x, want %#x", i, c.op, got, c.stored)
		}
		if got := binary.NativeEndian.Uint64(p.c.mem[100:]); got != before {
			t.Errorf("%d, %v: returned %#x, was %#x", i, c.op, got, before)
		}
	}
}
