package uverbs

import (
	"cmp"
	"syscall"

	"tapir/nic/verbs"
)

// pd is a protection domain.
type pd struct{ *verbs.PD }

func (p *pd) destroy() error { return p.Dealloc() }

// allocPD serves ALLOC_PD{response} -> {handle}.
func allocPD(r *request) error {
	p := &pd{}
	return r.create(p, func() (err error) {
		r.trace(StepDriver)
		p.PD, err = r.f.ctx.AllocPD()
		return err
	}, func(h uint32) ([]byte, []byte) { return words(h), nil })
}

// allocRDD serves ALLOC_RDD{response, pd, u32}, which an RNIC refuses.
func allocRDD(_ *request, p *pd) error { return p.AllocRDD() }

// mr is a region of a program's own memory.
type mr struct {
	*verbs.MR
	start, length uint64 // of the program's addresses
	writable      bool   // the memory was obtained for writing
	fixed         bool   // cannot be registered anew: it is more than one range of addresses, or another's too
}

func (m *mr) destroy() error { return m.Dereg() }

// Access flags that the kernel knows beside those of verbs.Access.
const (
	accessOnDemand = 1 << 6
	accessHugeTLB  = 1 << 7
	accessOptional = 0x3ff00000 // to be ignored where unknown
)

// access checks flags as ib_check_mr_access does.
func access(flags uint32) (verbs.Access, error) {
	flags &^= accessOptional | accessHugeTLB
	switch {
	case flags&accessOnDemand != 0:
		return 0, syscall.EOPNOTSUPP
	case flags > 0xff:
		return 0, syscall.EINVAL
	}
	return verbs.Access(flags), nil
}

// writes tells whether someone may change memory with these rights.
func writes(a verbs.Access) bool {
	return a&(verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteAtomic|verbs.MWBind) != 0
}

const pageMask = 0xfff

// region obtains the program's memory [start, start+length), which is to have
// addresses from iova on.
func (r *request) region(start, length, iova uint64, write bool) (verbs.Memory, error) {
	if length == 0 || start+length < start || (start^iova)&pageMask != 0 {
		return nil, syscall.EINVAL
	}
	return r.c.Region(start, length, write)
}

// regMR serves REG_MR{response, start, length, hca_va, pd, access} ->
// {handle, lkey, rkey}.
func regMR(r *request) error {
	start, length, iova := r.in.u64(8), r.in.u64(16), r.in.u64(24)
	p, err := lookup[*pd](r.f, r.in.u32(32))
	if err != nil {
		return err
	}
	rights, err := access(r.in.u32(36))
	if err != nil {
		return err
	}
	m := &mr{start: start, length: length, writable: writes(rights)}
	return r.create(m, func() error {
		mem, err := r.region(start, length, iova, m.writable)
		if err != nil {
			return err
		}
		r.trace(StepDriver)
		m.MR, err = p.RegMemory(mem, iova, rights)
		return err
	}, m.keys)
}

// regPages serves REG_PAGES{response, start, length, hca_va, pd, access, u32
// page size, u32 offset, octets} {u64 pages}: pages are offsets in the program's
// memory [start, start+length) -> {handle, lkey, rkey}.
func regPages(r *request, p *pd) error {
	start, length := r.in.u64(8), r.in.u64(16)
	rights, err := access(r.in.u32(36))
	if err != nil || len(r.uhw)%8 != 0 || length == 0 || start+length < start {
		return cmp.Or(err, error(syscall.EINVAL))
	}
	list := verbs.PageList{PageSize: uint64(r.in.u32(40)), Offset: uint64(r.in.u32(44)), Length: r.in.u64(48)}
	for i := range len(r.uhw) / 8 {
		list.Pages = append(list.Pages, r.uhw.u64(8*i))
	}
	m := &mr{fixed: true, writable: writes(rights)}
	return r.create(m, func() (err error) {
		if list.Space, err = r.c.Region(start, length, m.writable); err != nil {
			return err
		}
		r.trace(StepDriver)
		m.MR, err = p.RegPages(list, r.in.u64(24), rights)
		return err
	}, m.keys)
}

// regShared serves REG_SHARED{response, hca_va, pd, mr, access, u32} -> {handle,
// lkey, rkey}.
func regShared(r *request, p *pd) error {
	of, err := lookup[*mr](r.f, r.in.u32(20))
	if err != nil {
		return err
	}
	rights, err := access(r.in.u32(24))
	if err != nil || writes(rights) && !of.writable {
		return cmp.Or(err, error(syscall.EINVAL))
	}
	m := &mr{fixed: true, writable: of.writable}
	return r.create(m, func() (err error) {
		r.trace(StepDriver)
		m.MR, err = p.RegShared(of.MR, r.in.u64(8), rights)
		return err
	}, m.keys)
}

// keys answers a registration.
func (m *mr) keys(handle uint32) (core, uhw []byte) { return words(handle, m.LKey(), m.RKey()), nil }

// What REREG_MR changes.
const (
	reregTranslation = 1 << iota
	reregPD
	reregAccess
)

// reregMR serves REREG_MR{response, mr, flags, start, length, hca_va, pd,
// access} -> {lkey, rkey}.
func reregMR(r *request, m *mr) error {
	flags := r.in.u32(12)
	switch {
	case flags == 0:
		return syscall.EINVAL
	case flags&^(reregTranslation|reregPD|reregAccess) != 0, m.fixed:
		return syscall.EOPNOTSUPP
	}
	next := *m
	change, err := r.rereg(&next, flags)
	if err != nil {
		return err
	}
	if err := m.Rereg(change); err != nil {
		return err
	}
	*m = next
	return r.answer(words(m.LKey(), m.RKey()), nil)
}

// rereg collects what changes, and in next how the region is afterwards. New
// rights to change memory need it obtained again.
func (r *request) rereg(next *mr, flags uint32) (change verbs.Rereg, err error) {
	again, iova := flags&reregTranslation != 0, next.Addr()
	if again {
		next.start, next.length, iova = r.in.u64(16), r.in.u64(24), r.in.u64(32)
	}
	if flags&reregPD != 0 {
		p, err := lookup[*pd](r.f, r.in.u32(40))
		if err != nil {
			return change, err
		}
		change.PD = p.PD
	}
	if flags&reregAccess != 0 {
		rights, err := access(r.in.u32(44))
		if err != nil {
			return change, err
		}
		change.Access = &rights
		if writes(rights) && !next.writable {
			next.writable, again = true, true
		}
	}
	if again {
		change.IOVA = iova
		change.Memory, err = r.region(next.start, next.length, iova, next.writable)
	}
	return change, err
}

// mw is a memory window.
type mw struct{ *verbs.MW }

func (w *mw) destroy() error { return w.Dealloc() }

// mwKinds are the kinds of window by the numbers of ibv_mw_type.
var mwKinds = map[uint8]verbs.MWKind{1: verbs.MWType1, 2: verbs.MWType2B}

// allocMW serves ALLOC_MW{response, pd, u8 type} -> {handle, rkey}.
func allocMW(r *request, p *pd) error {
	kind, known := mwKinds[r.in.u8(12)]
	if !known {
		return syscall.EINVAL
	}
	w := &mw{}
	return r.create(w, func() (err error) {
		r.trace(StepDriver)
		w.MW, err = p.AllocMW(kind)
		return err
	}, func(h uint32) ([]byte, []byte) { return words(h, w.RKey()), nil })
}
