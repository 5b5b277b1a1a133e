package umode

import (
	"fmt"

	"tapir/nic/verbs"
)

// PD is a protection domain.
type PD struct{ object }

// AllocPD makes a protection domain.
func (c *Context) AllocPD() (*PD, error) {
	p := &PD{object{ctx: c, end: DeallocPD}}
	if err := p.create(AllocPD, p, fields(response), func([]byte) {}); err != nil {
		return nil, err
	}
	return p, nil
}

// Dealloc destroys the PD; ErrBusy while an MR, MW, QP or SRQ uses it, or a CQ
// belongs to it.
func (p *PD) Dealloc() error { return p.destroy(p, nil) }

// AllocRDD would make a reliable datagram domain; an RNIC refuses it with
// ErrUnsupported.
func (p *PD) AllocRDD() error { return p.ctx.do(AllocRDD, p, fields(response, p.handle, uint32(0))) }

// MR is a registered memory region.
type MR struct {
	object
	pd         *PD
	lkey, rkey uint32
	buf        []byte // nil: it does not lie in one piece
	addr, n    uint64
	access     verbs.Access
	block      *block
}

// RegMR registers buf, part of what Alloc returned. Its first octet has the
// address that it has in this process, or 0 with ZeroBased.
func (p *PD) RegMR(buf []byte, access verbs.Access) (*MR, error) {
	block, err := p.ctx.hold(buf)
	if err != nil {
		return nil, err
	}
	m := &MR{buf: buf, addr: addrOf(buf), n: uint64(len(buf)), access: access, block: block}
	return m.register(p, RegMR, func() []byte {
		return fields(response, addrOf(buf), uint64(len(buf)), m.addr, p.handle, uint32(access))
	})
}

// PageList is memory that lies in pages scattered over a space, as a driver sees
// physical memory.
type PageList struct {
	Space    []byte   // part of what Alloc returned
	Pages    []uint64 // where each page begins in Space, multiples of PageSize
	PageSize uint32   // octets, a power of two
	Offset   uint32   // of the first octet within the first page
	Length   uint64   // octets
}

// RegPages registers a list of pages (the kit's registration of physical memory).
// Its first octet has address iova, or 0 with ZeroBased.
func (p *PD) RegPages(list PageList, iova uint64, access verbs.Access) (*MR, error) {
	block, err := p.ctx.hold(list.Space)
	if err != nil {
		return nil, err
	}
	m := &MR{addr: iova, n: list.Length, access: access, block: block}
	return m.register(p, RegPages, func() []byte {
		request := fields(response, addrOf(list.Space), uint64(len(list.Space)), m.addr, p.handle, uint32(access),
			list.PageSize, list.Offset, list.Length, uint64(0))
		for _, page := range list.Pages {
			request = native.AppendUint64(request, page)
		}
		return request
	})
}

// RegShared registers the memory of a region, perhaps of another domain, once more
// with keys, address and rights of its own.
func (p *PD) RegShared(of *MR, iova uint64, access verbs.Access) (*MR, error) {
	c := p.ctx
	c.mu.Lock()
	if of.block != nil {
		of.block.mrs++
	}
	c.mu.Unlock()
	m := &MR{buf: of.buf, addr: iova, n: of.n, access: access, block: of.block}
	return m.register(p, RegShared, func() []byte {
		return fields(response, m.addr, p.handle, of.handle, uint32(access), uint32(0))
	})
}

// register makes a region by a verb; its block is held.
func (m *MR) register(p *PD, v Verb, request func() []byte) (*MR, error) {
	m.object, m.pd = object{ctx: p.ctx, end: DeregMR}, p
	if m.access&verbs.ZeroBased != 0 {
		m.addr = 0
	}
	err := m.create(v, m, request(), func(b []byte) { m.lkey, m.rkey = native.Uint32(b[4:]), native.Uint32(b[8:]) })
	if err != nil {
		p.ctx.release(m.block)
		return nil, err
	}
	return m, nil
}

func (m *MR) set(buf []byte, access verbs.Access) {
	m.buf, m.addr, m.n, m.access = buf, addrOf(buf), uint64(len(buf)), access
	if access&verbs.ZeroBased != 0 {
		m.addr = 0
	}
}

// LKey returns the STag for local use.
func (m *MR) LKey() uint32 { return m.lkey }

// RKey returns the STag for the peer's use.
func (m *MR) RKey() uint32 { return m.rkey }

// Addr is the address of the first octet.
func (m *MR) Addr() uint64 { return m.addr }

// Len is the length in octets.
func (m *MR) Len() uint64 { return m.n }

// Access returns the rights.
func (m *MR) Access() verbs.Access { return m.access }

// Bytes is the memory; nil if it does not lie in one piece.
func (m *MR) Bytes() []byte { return m.buf }

// SGE names n octets of the region from offset off on.
func (m *MR) SGE(off, n int) verbs.SGE {
	return verbs.SGE{Addr: m.addr + uint64(off), Length: uint32(n), LKey: m.lkey}
}

// Rereg says what MR.Rereg changes; zero fields stay as they are.
type Rereg struct {
	PD     *PD
	Memory []byte // part of what Alloc returned
	Access *verbs.Access
}

// Flags of ibv_rereg_mr.
const (
	reregTranslation = 1 << iota
	reregPD
	reregAccess
)

// Rereg changes a region, as ibv_rereg_mr; its keys change. On error nothing
// has changed; ErrBusy while windows are bound.
func (m *MR) Rereg(change Rereg) (err error) {
	flags, to := uint32(0), *m
	access := m.access
	if change.Access != nil {
		flags, access = flags|reregAccess, *change.Access
	}
	to.set(m.buf, access)
	if change.PD != nil {
		flags, to.pd = flags|reregPD, change.PD
	}
	if change.Memory != nil {
		if to.block, err = m.ctx.hold(change.Memory); err != nil {
			return err
		}
		to.set(change.Memory, access)
		flags |= reregTranslation
	}
	c := m.ctx
	request := fields(response, m.handle, flags, addrOf(to.buf), uint64(len(to.buf)), to.addr, to.pd.handle,
		uint32(access))
	keys, err := query[[2]uint32](c, ReregMR, m, request)
	switch {
	case err == nil:
		to.lkey, to.rkey = keys[0], keys[1]
		if change.Memory != nil {
			c.release(m.block)
		}
		*m = to
	case change.Memory != nil:
		c.release(to.block)
	}
	return err
}

// Dereg ends the registration; ErrBusy while windows are bound.
func (m *MR) Dereg() error {
	err := m.destroy(m, nil)
	if err == nil {
		m.ctx.release(m.block)
		m.block = nil
	}
	return err
}

// MW is a memory window.
type MW struct {
	object
	rkey uint32
	kind verbs.MWKind
}

// Types of ibv_mw_type.
var mwTypes = map[verbs.MWKind]uint8{verbs.MWType1: 1, verbs.MWType2B: 2}

// AllocMW makes an unbound window, of type 1 or 2B; others are ErrUnsupported.
func (p *PD) AllocMW(kind verbs.MWKind) (*MW, error) {
	if mwTypes[kind] == 0 {
		return nil, fmt.Errorf("%v: %w", AllocMW, verbs.ErrUnsupported)
	}
	w := &MW{object: object{ctx: p.ctx, end: DeallocMW}, kind: kind}
	request := fields(response, p.handle, mwTypes[kind], []byte{0, 0, 0})
	if err := w.create(AllocMW, w, request, func(b []byte) { w.rkey = native.Uint32(b[4:]) }); err != nil {
		return nil, err
	}
	return w, nil
}

// RKey is the STag of the latest binding that was posted.
func (w *MW) RKey() uint32 { return w.rkey }

// Kind is the type of the window.
func (w *MW) Kind() verbs.MWKind { return w.kind }

// Dealloc unbinds and frees the window.
func (w *MW) Dealloc() error { return w.destroy(w, nil) }
