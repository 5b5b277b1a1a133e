package verbs

import (
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// modelRegion is what the rules say of one STag.
type modelRegion struct {
	mr *MR
	mw *MW

	pd, qp       int // qp: the only one that may use it, or -1
	via          int // queue pair that fast-registered it, or -1
	length       uint64
	access       Access
	valid, gone  bool
	fast, shared bool
	windows      int
	over         *modelRegion // of a bound window
}

func (m *modelRegion) region() *Region {
	if m.mw != nil {
		return &m.mw.Region
	}
	return &m.mr.Region
}

// memoryModel drives a device with random calls and keeps a second account of
// what each of them does, by the rules alone.
type memoryModel struct {
	t       *rapid.T
	dev     *Device
	cq      *CQ
	pds     []*PD
	qps     []*QP
	pdOf    []int // by queue pair
	regions []*modelRegion
	mem     []byte
}

func newMemoryModel(t *rapid.T) *memoryModel {
	m := &memoryModel{t: t, dev: NewDevice(Limits{}, rand.NewPCG(0, 1)), pdOf: []int{0, 0, 1}, mem: make([]byte, 4096)}
	m.dev.SetTransport(&recorder{})
	m.cq, _ = m.dev.CreateCQ(64, nil)
	for range 2 {
		pd, _ := m.dev.AllocPD()
		m.pds = append(m.pds, pd)
	}
	m.qps = make([]*QP, len(m.pdOf))
	for i := range m.qps {
		m.makeQP(i)
	}
	for pd, p := range m.pds {
		mr, _ := p.RegMR(m.mem, allAccess&^ZeroBased)
		fast, _ := p.AllocMR(4)
		m.regions = append(m.regions,
			&modelRegion{mr: mr, pd: pd, qp: -1, via: -1, length: uint64(len(m.mem)), access: allAccess &^ ZeroBased, valid: true},
			&modelRegion{mr: fast, pd: pd, qp: -1, via: -1, fast: true})
		for kind := range numMWKinds {
			mw, _ := p.AllocMW(kind)
			m.regions = append(m.regions, &modelRegion{mw: mw, pd: pd, qp: -1, via: -1})
		}
	}
	return m
}

func (m *memoryModel) makeQP(i int) {
	q, err := m.pds[m.pdOf[i]].CreateQP(QPConfig{SendCQ: m.cq, RecvCQ: m.cq})
	if err != nil {
		m.t.Fatal(err)
	}
	m.qps[i] = q
	m.revive(q)
}

// revive brings a queue pair into RTS.
func (m *memoryModel) revive(q *QP) {
	m.dev.Dispatch(0)
	if q.State() == Err {
		_ = q.Modify(Reset)
	}
	if q.State() == Reset && (q.Modify(Init) != nil || !q.Transition(RTS)) {
		m.t.Fatal("queue pair does not come up")
	}
}

func (m *memoryModel) pick(what string, fits func(*modelRegion) bool) *modelRegion {
	var list []*modelRegion
	for _, r := range m.regions {
		if fits(r) {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		m.t.Skip("no", what)
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(m.t, what)]
}

func (m *memoryModel) anyMR() *modelRegion {
	return m.pick("MR", func(r *modelRegion) bool { return r.mr != nil })
}

func (m *memoryModel) qp() int { return rapid.IntRange(0, len(m.qps)-1).Draw(m.t, "qp") }

// access is a random subset of of, mostly all of it.
func (m *memoryModel) access(of Access) Access {
	if rapid.Bool().Draw(m.t, "all") {
		return of
	}
	return of & Access(rapid.IntRange(0, int(allAccess)).Draw(m.t, "access"))
}

func (m *memoryModel) expect(what string, err, want error) bool {
	m.t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		m.t.Fatalf("%s: %v, the rules say %v", what, err, want)
	}
	return err == nil
}

// execute posts wr and compares its status with the rules.
func (m *memoryModel) execute(q int, wr SendWR, good bool) {
	m.t.Helper()
	wr.Flags = Signaled
	if _, err := m.qps[q].PostSend(wr); err != nil {
		m.t.Fatalf("%v: %v", wr.Opcode, err)
	}
	m.settle(q, good)
}

func (m *memoryModel) settle(q int, good bool) {
	m.t.Helper()
	m.qps[q].NextSend()
	var wcs [2]WC
	if n := m.cq.Poll(wcs[:]); n != 1 || (wcs[0].Status == StatusSuccess) != good {
		m.t.Fatalf("%d completions, %v %v; the rules say success: %v", n, wcs[0].Opcode, wcs[0].Status, good)
	}
	m.revive(m.qps[q])
}

func writable(a Access) bool { return a&(RemoteWrite|RemoteAtomic) == 0 || a&LocalWrite != 0 }

func (m *memoryModel) register(*rapid.T) {
	pd, a := rapid.IntRange(0, 1).Draw(m.t, "pd"), m.access(allAccess)
	n := rapid.IntRange(0, len(m.mem)).Draw(m.t, "length")
	mr, err := m.pds[pd].RegMR(m.mem[:n], a)
	want := error(nil)
	if !writable(a) {
		want = ErrInvalid
	}
	if m.expect("register", err, want) {
		m.regions = append(m.regions, &modelRegion{mr: mr, pd: pd, qp: -1, via: -1, length: uint64(n), access: a, valid: true})
	}
}

func (m *memoryModel) share(*rapid.T) {
	of, pd := m.anyMR(), rapid.IntRange(0, 1).Draw(m.t, "pd")
	mr, err := m.pds[pd].RegShared(of.mr, 1<<40, RemoteRead)
	want := error(nil)
	if !of.valid {
		want = ErrInvalid
	}
	if m.expect("share", err, want) {
		of.shared = true
		m.regions = append(m.regions, &modelRegion{mr: mr, pd: pd, qp: -1, via: -1, length: of.length, access: RemoteRead, valid: true, shared: true})
	}
}

func (m *memoryModel) allocFast(*rapid.T) {
	pd := rapid.IntRange(0, 1).Draw(m.t, "pd")
	mr, err := m.pds[pd].AllocMR(4)
	if m.expect("allocate", err, nil) {
		m.regions = append(m.regions, &modelRegion{mr: mr, pd: pd, qp: -1, via: -1, fast: true})
	}
}

func (m *memoryModel) fastRegister(*rapid.T) {
	r, q, a := m.pick("fast MR", func(r *modelRegion) bool { return r.fast }), m.qp(), m.access(allAccess&^ZeroBased)
	if !writable(a) {
		a |= LocalWrite
	}
	n := uint64(rapid.IntRange(0, 2048).Draw(m.t, "length"))
	reg := &FastReg{MR: r.mr, Key: rapid.Byte().Draw(m.t, "key"), Access: a, IOVA: 1 << 50,
		Pages: PageList{Space: Bytes(m.mem), PageSize: 512, Pages: []uint64{1024, 0, 512, 2048}, Length: n}}
	good := !r.gone && !r.valid && r.pd == m.pdOf[q]
	m.execute(q, SendWR{Opcode: OpRegMR, Reg: reg}, good)
	if good {
		r.valid, r.via, r.access, r.length = true, q, a, n
	}
}

// associated tells whether queue pair q may use r at all.
func (m *memoryModel) associated(r *modelRegion, q int) bool {
	if r.mw != nil && r.mw.Kind() == MWType2A {
		return r.qp == q
	}
	return r.pd == m.pdOf[q] && (r.qp < 0 || r.qp == q)
}

func (m *memoryModel) close(r *modelRegion) {
	r.valid = false
	if r.over != nil {
		r.over.windows--
		r.over, r.qp = nil, -1
	}
}

// closable tells whether an invalidation may close r.
func (r *modelRegion) closable() bool {
	if r.mw != nil {
		return r.mw.Kind() != MWType1
	}
	return !r.shared && r.windows == 0
}

func (m *memoryModel) invalidateLocal(*rapid.T) {
	r, q := m.pick("STag", func(r *modelRegion) bool { return true }), m.qp()
	good := r.valid && m.associated(r, q) && r.closable()
	m.execute(q, SendWR{Opcode: OpLocalInv, Invalidate: r.region().RKey()}, good)
	if good {
		m.close(r)
	}
}

func (m *memoryModel) invalidateRemote(*rapid.T) {
	r, q := m.pick("STag", func(r *modelRegion) bool { return true }), m.qp()
	alone := r.mw != nil || r.via == q || r.via == -1 && m.pdOf[q] == 1 // domain 0 has two queue pairs
	good := r.valid && m.associated(r, q) && r.closable() && alone && r.access&remoteAccess != 0
	if f := m.qps[q].InvalidateRemote(r.region().RKey()); (f == FaultNone) != good {
		m.t.Fatalf("invalidation by the peer: %v; the rules say success: %v", f, good)
	}
	if good {
		m.close(r)
	}
}

func (m *memoryModel) reregister(*rapid.T) {
	r, a := m.anyMR(), m.access(allAccess)
	pd := rapid.IntRange(0, 1).Draw(m.t, "pd")
	err := r.mr.Rereg(Rereg{PD: m.pds[pd], Memory: Bytes(m.mem), IOVA: 1 << 45, Access: &a})
	want := error(nil)
	switch {
	case r.gone:
		want = ErrDestroyed
	case r.fast:
		want = ErrInvalid
	case r.windows > 0:
		want = ErrBusy
	case !writable(a):
		want = ErrInvalid
	}
	if m.expect("reregister", err, want) {
		r.pd, r.valid, r.access, r.length = pd, true, a, uint64(len(m.mem))
	}
}

func (m *memoryModel) deregister(*rapid.T) {
	r := m.pick("region", func(r *modelRegion) bool { return true })
	if r.mw != nil {
		want := error(nil)
		if r.gone {
			want = ErrDestroyed
		}
		if m.expect("deallocate", r.mw.Dealloc(), want) {
			m.close(r)
			r.gone = true
		}
		return
	}
	want := error(nil)
	switch {
	case r.gone:
		want = ErrDestroyed
	case r.windows > 0:
		want = ErrBusy
	}
	if m.expect("deregister", r.mr.Dereg(), want) {
		r.valid, r.gone = false, true
	}
}

func (m *memoryModel) allocWindow(*rapid.T) {
	pd := rapid.IntRange(0, 1).Draw(m.t, "pd")
	kind := MWKind(rapid.IntRange(0, int(numMWKinds)-1).Draw(m.t, "type"))
	mw, err := m.pds[pd].AllocMW(kind)
	if m.expect("allocate window", err, nil) {
		m.regions = append(m.regions, &modelRegion{mw: mw, pd: pd, qp: -1, via: -1})
	}
}

func (m *memoryModel) bind(*rapid.T) {
	w := m.pick("window", func(r *modelRegion) bool { return r.mw != nil })
	r, q, a := m.anyMR(), m.qp(), m.access(remoteAccess)
	n := uint64(rapid.IntRange(1, len(m.mem)).Draw(m.t, "length"))
	b := Bind{MW: w.mw, Key: rapid.Byte().Draw(m.t, "key"), MR: r.mr, Addr: r.mr.Addr(), Length: n, Access: a}
	good := !w.gone && r.valid && r.pd == m.pdOf[q] && r.access&MWBind != 0 && n <= r.length &&
		(a&(RemoteWrite|RemoteAtomic) == 0 || r.access&LocalWrite != 0)
	if w.mw.Kind() == MWType1 {
		good = good && w.pd == m.pdOf[q]
		stag, err := m.qps[q].BindMW(0, Signaled, b)
		if m.expect("bind", err, nil); !good {
			m.settle(q, false)
			return
		}
		if m.settle(q, true); w.mw.RKey() != stag {
			m.t.Fatalf("STag %#x, promised was %#x", w.mw.RKey(), stag)
		}
		m.close(w)
	} else {
		good = good && !w.valid && (w.mw.Kind() == MWType2A || w.pd == m.pdOf[q])
		if m.execute(q, SendWR{Opcode: OpBindMW, Bind: &b}, good); !good {
			return
		}
		w.qp = q
	}
	w.valid, w.over, w.access, w.length = true, r, a, n
	r.windows++
}

func (m *memoryModel) replaceQP(*rapid.T) {
	q := m.qp()
	m.expect("destroy", m.qps[q].Destroy(), nil)
	for _, r := range m.regions {
		if r.qp == q {
			m.close(r)
		}
		if r.via == q {
			r.via = -2 // fast-registered through one that is gone
		}
	}
	m.makeQP(q)
}

// check compares every STag with the rules, from every queue pair.
func (m *memoryModel) check(t *rapid.T) {
	mrs, mws := 0, 0
	for i, r := range m.regions {
		reg := r.region()
		if r.mr != nil && !r.gone {
			mrs++
			if r.mr.Windows() != r.windows {
				t.Fatalf("region %d has %d windows, the rules say %d", i, r.mr.Windows(), r.windows)
			}
		} else if r.mw != nil && !r.gone {
			mws++
		}
		for q := range m.qps {
			for _, need := range []Access{RemoteRead, RemoteWrite, RemoteAtomic} {
				want := FaultNone
				switch {
				case !r.valid:
					want = FaultSTag
				case !m.associated(r, q):
					want = FaultPD
				case r.access&need == 0:
					want = FaultAccess
				}
				if _, got := m.qps[q].CheckRemote(reg.RKey(), reg.Addr(), r.length, need); got != want {
					t.Fatalf("region %d, queue pair %d, %v: %v, the rules say %v", i, q, need, got, want)
				}
			}
			_, got := m.qps[q].CheckRemote(reg.RKey(), reg.Addr(), r.length+1, 0)
			if r.valid && m.associated(r, q) && got != FaultBounds {
				t.Fatalf("region %d: an octet more than it has: %v", i, got)
			}
		}
	}
	if mrs != len(m.dev.MRs()) || mws != len(m.dev.MWs()) {
		t.Fatalf("%d regions and %d windows, the rules say %d and %d", len(m.dev.MRs()), len(m.dev.MWs()), mrs, mws)
	}
}

func TestMemoryAgainstModel(t *testing.T) {
	for range 10 {
		rapid.Check(t, runMemoryModel)
	}
}

func runMemoryModel(t *rapid.T) {
	m := newMemoryModel(t)
	t.Repeat(map[string]func(*rapid.T){
		"register": m.register, "share": m.share, "allocate": m.allocFast, "fast": m.fastRegister,
		"local": m.invalidateLocal, "remote": m.invalidateRemote, "rereg": m.reregister,
		"dereg": m.deregister, "window": m.allocWindow, "bind": m.bind, "bind again": m.bind,
		"qp": m.replaceQP, "": m.check,
	})
}
