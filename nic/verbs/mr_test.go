package verbs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

func TestAddressesOfRegions(t *testing.T) {
	f := newFixture(t, QPConfig{})
	list := f.pagesOf(100, 1000, 3, 1, 2)
	for _, c := range []struct {
		name string
		reg  func() (*MR, error)
		addr uint64
		len  uint64
	}{
		{"virtual at an iova", func() (*MR, error) { return f.pd.RegMemory(Bytes(f.mem), 0x77000, LocalWrite) }, 0x77000, 4096},
		{"zero-based", func() (*MR, error) { return f.pd.RegMR(f.mem, LocalWrite|ZeroBased) }, 0, 4096},
		{"physical", func() (*MR, error) { return f.pd.RegPages(list, 0x5000, LocalWrite) }, 0x5000, 1000},
		{"physical, zero-based", func() (*MR, error) { return f.pd.RegPages(list, 0x5000, LocalWrite|ZeroBased) }, 0, 1000},
		{"shared", func() (*MR, error) { return f.pd.RegShared(f.mr, 0x9000, 0) }, 0x9000, 4096},
	} {
		mr, err := c.reg()
		if err != nil {
			t.Fatal(c.name, err)
		}
		if mr.Addr() != c.addr || mr.Len() != c.len || !mr.Valid() {
			t.Errorf("%s: %#x+%d", c.name, mr.Addr(), mr.Len())
		}
		if _, fault := f.dev.Check(f.pd, mr.LKey(), c.addr, c.len, 0); fault != FaultNone {
			t.Errorf("%s: whole region: %v", c.name, fault)
		}
		if _, fault := f.dev.Check(f.pd, mr.LKey(), c.addr+c.len, 1, 0); fault != FaultBounds {
			t.Errorf("%s: octet behind: %v", c.name, fault)
		}
	}
}

func TestRegisterRefused(t *testing.T) {
	f := newFixture(t, QPConfig{})
	gone, _ := f.dev.AllocPD()
	gone.Dealloc()
	other, _ := NewDevice(Limits{}, rand.NewPCG(0, 2)).AllocPD()
	for name, reg := range map[string]func() (*MR, error){
		"rights":          func() (*MR, error) { return f.pd.RegMR(f.mem, RemoteAtomic) },
		"unknown rights":  func() (*MR, error) { return f.pd.RegMR(f.mem, 0x80) },
		"wrap":            func() (*MR, error) { return f.pd.RegMemory(Bytes(f.mem), ^uint64(0), 0) },
		"page list":       func() (*MR, error) { return f.pd.RegPages(f.pagesOf(0, 513, 1), 0, 0) },
		"no pages at all": func() (*MR, error) { return f.pd.AllocMR(0) },
		"too many pages":  func() (*MR, error) { return f.pd.AllocMR(1025) },
		"share nothing":   func() (*MR, error) { return f.pd.RegShared(nil, 0, 0) },
		"share a device's": func() (*MR, error) {
			return other.RegShared(f.mr, 0, 0)
		},
	} {
		if _, err := reg(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := gone.RegMR(f.mem, 0); !errors.Is(err, ErrDestroyed) {
		t.Errorf("PD gone: %v", err)
	}
	if used := f.dev.Usage(); used[2].Used != 1 || used[2].Name != "MR" {
		t.Errorf("a refused region counts: %+v", used[2])
	}
}

// Octets move to and from scattered pages as they do in one piece.
func TestPageMemory(t *testing.T) {
	space := make([]byte, 16*64)
	list := PageList{Space: Bytes(space), PageSize: 64, Pages: []uint64{64, 128, 0, 640}, Offset: 10, Length: 200}
	m := &pageMemory{}
	m.set(&list)
	want := make([]byte, 200)
	for i := range want {
		want[i] = byte(i + 1)
	}
	if m.WriteAt(want, 0) != nil || m.Len() != 200 {
		t.Fatal("write")
	}
	if space[73] != 0 || space[74] != 1 || space[191] != 118 || space[0] != 119 || space[640] != 183 || space[658] != 0 {
		t.Error("octets not where the list says")
	}
	for off := range want {
		for _, n := range []int{1, 54, 55, 64, 118, 119, 200} {
			if off+n > len(want) {
				continue
			}
			p := make([]byte, n)
			if err := m.ReadAt(p, uint64(off)); err != nil || !bytes.Equal(p, want[off:off+n]) {
				t.Fatalf("read %d+%d", off, n)
			}
			contiguous := off+n <= 118 || off >= 118 && off+n <= 182 || off >= 182
			s := m.Slice(uint64(off), n)
			if (s != nil) != contiguous || contiguous && !bytes.Equal(s, want[off:off+n]) {
				t.Fatalf("slice %d+%d: %d octets", off, n, len(s))
			}
		}
	}
}

func TestRereg(t *testing.T) {
	f := newFixture(t, QPConfig{})
	old := f.mr.RKey()
	pd2, _ := f.dev.AllocPD()
	rights := LocalWrite
	mem := Bytes(make([]byte, 64))
	if err := f.mr.Rereg(Rereg{PD: pd2, Memory: mem, IOVA: 0x100, Access: &rights}); err != nil {
		t.Fatal(err)
	}
	if f.mr.PD() != pd2 || f.mr.Addr() != 0x100 || f.mr.Len() != 64 || f.mr.Access() != LocalWrite {
		t.Errorf("%+v", f.mr)
	}
	if f.mr.RKey() == old || f.mr.RKey()>>8 != old>>8 {
		t.Errorf("STag %#x, was %#x", f.mr.RKey(), old)
	}
	if f.dev.Lookup(old) != nil {
		t.Error("the old STag still works")
	}
	if pd2.Dealloc() == nil {
		t.Error("new PD not in use")
	}
	bad := Access(RemoteWrite)
	before := fmt.Sprintf("%+v", f.mr.Region)
	if err := f.mr.Rereg(Rereg{Memory: Bytes(f.mem), Access: &bad}); !errors.Is(err, ErrInvalid) || fmt.Sprintf("%+v", f.mr.Region) != before {
		t.Errorf("refused change: %v", err)
	}
	f.mr.Invalidate()
	if err := f.mr.Rereg(Rereg{}); err != nil || !f.mr.Valid() || f.mr.Len() != 64 {
		t.Errorf("revive: %v", err)
	}
	fast, _ := f.pd.AllocMR(1)
	if err := fast.Rereg(Rereg{Memory: mem}); !errors.Is(err, ErrInvalid) {
		t.Errorf("of a fast-registered region: %v", err)
	}
	f.mr.Dereg()
	if err := f.mr.Rereg(Rereg{}); !errors.Is(err, ErrDestroyed) {
		t.Errorf("of a gone region: %v", err)
	}
}

// A request resolved before its region was given up or registered anew does
// not touch the memory any more, even if the STag is the same.
func TestResolvedRequestsNoticeChange(t *testing.T) {
	for name, change := range map[string]func(f *fixture, mr *MR){
		"dereg":      func(_ *fixture, mr *MR) { mr.Dereg() },
		"invalidate": func(_ *fixture, mr *MR) { mr.Invalidate() },
		"same STag, smaller": func(f *fixture, mr *MR) {
			mr.Invalidate()
			reg := FastReg{MR: mr, Key: uint8(mr.RKey()), Access: LocalWrite, Pages: f.pagesOf(0, 8, 1)}
			if !reg.register(f.qp) {
				panic("not registered")
			}
		},
	} {
		f := newFixture(t, QPConfig{})
		f.up(t)
		mr, _ := f.pd.AllocMR(1)
		reg := FastReg{MR: mr, Access: LocalWrite, Pages: f.pagesOf(0, 512, 0)}
		reg.register(f.qp)
		sges := []SGE{{LKey: mr.LKey(), Length: 512}}
		f.qp.PostSend(SendWR{Opcode: OpRead, SGEs: sges})
		f.qp.PostRecv(RecvWR{SGEs: sges})
		w, r := f.qp.NextSend(), f.qp.rq.at(0)
		if f.qp.Resolve(w) != FaultNone {
			t.Fatal(name)
		}
		f.qp.NextRecv()
		change(f, mr)
		p := bytes.Repeat([]byte{1}, 100)
		if w.Valid() || w.Place(p, 300) == nil || r.Place(p, 300) == nil || w.Fetch(p, 0) == nil {
			t.Errorf("%s: the region is still used", name)
		}
		if bytes.Contains(f.mem, []byte{1}) {
			t.Errorf("%s: memory changed", name)
		}
	}
}

func TestRemoteInvalidation(t *testing.T) {
	f := newFixture(t, QPConfig{})
	f.up(t)
	fast := func(q *QP, a Access) *MR {
		mr, _ := q.pd.AllocMR(1)
		if reg := (FastReg{MR: mr, Access: a, Pages: f.pagesOf(0, 8, 0)}); !reg.register(q) {
			t.Fatal("not registered")
		}
		return mr
	}
	other, _ := f.dev.AllocPD()
	foreign, _ := other.RegMR(f.mem, RemoteRead)
	local, _ := f.pd.RegMR(f.mem, LocalWrite)
	first, _ := f.pd.RegMR(f.mem, RemoteRead)
	shared, _ := f.pd.RegShared(first, 0, RemoteRead)
	alone, _ := f.pd.RegMR(f.mem, RemoteRead)
	if f.qp.InvalidateRemote(alone.RKey()) != FaultNone || alone.Valid() {
		t.Error("region of a domain with one queue pair")
	}
	qp2, _ := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq})
	mine, theirs := fast(f.qp, RemoteRead), fast(qp2, RemoteRead)
	for _, c := range []struct {
		name string
		mr   *MR
		want Fault
	}{
		{"again", alone, FaultSTag}, {"other PD", foreign, FaultPD}, {"no remote right", local, FaultAccess},
		{"shared", shared, FaultAccess}, {"its original", first, FaultAccess},
		{"two streams", f.mr, FaultAccess}, {"fast-registered by the other", theirs, FaultAccess},
		{"fast-registered here", mine, FaultNone},
	} {
		valid := c.mr.Valid()
		if got := f.qp.InvalidateRemote(c.mr.RKey()); got != c.want || c.mr.Valid() != (valid && c.want != FaultNone) {
			t.Errorf("%s: %v, valid %v", c.name, got, c.mr.Valid())
		}
	}
}

func TestQPAccess(t *testing.T) {
	f := newFixture(t, QPConfig{})
	if err := f.qp.SetAccess(RemoteRead); err != nil {
		t.Fatal(err)
	}
	if _, fault := f.qp.CheckRemote(f.mr.RKey(), f.mr.Addr(), 1, RemoteWrite); fault != FaultAccess {
		t.Errorf("write: %v", fault)
	}
	if _, fault := f.qp.CheckRemote(f.mr.RKey(), f.mr.Addr(), 1, RemoteRead); fault != FaultNone {
		t.Errorf("read: %v", fault)
	}
	if err := f.qp.SetAccess(LocalWrite); !errors.Is(err, ErrInvalid) {
		t.Errorf("local right: %v", err)
	}
	if a := f.qp.Query(); a.Access != RemoteRead || a.State != Init || a.MaxSend != 16 {
		t.Errorf("%+v", a)
	}
}

func TestLoadStore(t *testing.T) {
	f := newFixture(t, QPConfig{})
	r, _ := f.qp.CheckRemote(f.mr.RKey(), f.mr.Addr()+8, AtomicLen, RemoteRead)
	if err := r.Store(f.mr.Addr()+8, 0x0102030405060708); err != nil {
		t.Fatal(err)
	}
	if v, err := r.Load(f.mr.Addr() + 8); v != 0x0102030405060708 || err != nil || f.mem[7] != 0 || f.mem[16] != 0 {
		t.Errorf("%#x %v", v, err)
	}
}

// 65,536 regions and 1,000 queue pairs stay small.
func TestMemoryPerObject(t *testing.T) {
	const mrs, qps = 65536, 1000
	d := NewDevice(Limits{}, rand.NewPCG(0, 1))
	pd, _ := d.AllocPD()
	cq, _ := d.CreateCQ(1, nil)
	buf := make([]byte, 4096)
	grown := func(n int, make func() error) uint64 {
		var a, b runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&a)
		for range n {
			if err := make(); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&b)
		return (b.HeapAlloc - min(a.HeapAlloc, b.HeapAlloc)) / uint64(n)
	}
	perMR := grown(mrs, func() error { _, err := pd.RegMR(buf, 0); return err })
	perQP := grown(qps, func() error { _, err := pd.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq}); return err })
	t.Logf("%d octets per region of %d, %d per queue pair of %d", perMR, mrs, perQP, qps)
	if perMR > 320 || perQP > 1024 {
		t.Error("that is too much")
	}
	runtime.KeepAlive(d)
}

// BenchmarkRegDereg shows that the cost does not depend on how many regions
// there are.
func BenchmarkRegDereg(b *testing.B) {
	for name, others := range map[string]int{"0": 0, "65536": 65536} {
		b.Run(name, func(b *testing.B) {
			d := NewDevice(Limits{}, rand.NewPCG(0, 1))
			pd, _ := d.AllocPD()
			buf := make([]byte, 4096)
			for range others {
				pd.RegMR(buf, 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				mr, err := pd.RegMR(buf, LocalWrite)
				if err != nil {
					b.Fatal(err)
				}
				mr.Dereg()
			}
		})
	}
}
