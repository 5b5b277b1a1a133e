package uverbs

import (
	"slices"
	"syscall"
	"unsafe"

	"tapir/nic/uapi/abi"
)

// driverRXE is RDMA_DRIVER_RXE, whose provider works on the device.
const driverRXE = 14

// What the provider adds to a method: attributes of the driver's name space.
const (
	attrUHWIn  = 1 << 12
	attrUHWOut = attrUHWIn + 1
)

// kind is what an attribute carries.
type kind uint8

const (
	input  kind = iota // octets
	output             // room for octets
	handle             // the handle of an object, or the descriptor of a completion channel
	events             // the descriptor of the asynchronous events of what the method makes
	made               // the handle or descriptor of what the method makes
)

// attribute is one that a method knows, as the kernel's UVERBS_ATTR_ macros
// describe it.
type attribute struct {
	id   uint16
	kind kind
	must bool
	// least and most are how many octets it has; longer ones are taken too if
	// extends is set, and what an input has beyond is zero.
	least, most int
	extends     bool
	// at is where it stands in the method's request or answer; nowhere: it is
	// not copied.
	at int
}

const nowhere = -1

// method is one of an object, made of a command: its attributes are put together
// into the command's request, and the answer is taken apart again.
type method struct {
	command // in: octets of the request
	attrs   []attribute
	request []byte // what it begins with where no attribute stands
	answer  int    // octets
}

// given is an attribute that a program has given: octets at addr, or here.
type given struct {
	*attribute
	index int // among those of the ioctl
	len   int
	data  uint64
	addr  uint64
}

// ioctl is a request that came by ioctl(2) and is being served.
type ioctl struct {
	addr    uint64 // of its attributes
	raw     []byte // of them
	given   []given
	invoked bool   // INVOKE_WRITE
	room    []byte // that octets of the request are taken from
}

// take returns n octets that are zero.
func (o *ioctl) take(n int) []byte {
	used := len(o.room)
	o.room = slices.Grow(o.room, n)[:used+n]
	b := o.room[used : used+n : used+n]
	clear(b)
	return b
}

// Ioctl implements abi.File, as ib_uverbs_ioctl does.
func (f *File) Ioctl(c abi.Caller, addr uint64, b []byte) error {
	if f.gone || f.closed {
		return syscall.EIO
	}
	h := abi.Get[abi.IoctlHeader](b)
	n := int(h.Attrs)
	switch {
	case int(h.Length) != len(b), len(b) != abi.IoctlHeaderLen+n*abi.AttrLen:
		return syscall.EINVAL
	case h.Reserved1 != 0, h.Reserved2 != 0:
		return syscall.EPROTONOSUPPORT
	case h.Driver != driverRXE:
		return syscall.EINVAL
	}
	m := methods[methodID{h.Object, h.Method}]
	if m == nil {
		return syscall.EPROTONOSUPPORT
	}
	r := &f.req
	r.c, r.cmd = c, &m.command
	r.io = &f.io
	*r.io = ioctl{addr: addr + abi.IoctlHeaderLen, raw: b[abi.IoctlHeaderLen:], given: f.io.given[:0],
		room: f.io.room[:0]}
	err := f.serveMethod(r, m)
	r.c, r.in, r.uhw, r.io, r.events = nil, nil, nil, nil, nil
	return err
}

func (f *File) serveMethod(r *request, m *method) error {
	if err := r.collect(m); err != nil {
		return err
	}
	if m.serve == nil { // INVOKE_WRITE: an attribute names the command
		r.io.invoked = true
		if err := r.decodeInvoked(); err != nil {
			return err
		}
	}
	return f.carryOut(r)
}

// collect validates the attributes of an ioctl and makes the command's request of
// them, as uverbs_set_attr does.
func (r *request) collect(m *method) error {
	r.in, r.uhw = r.io.take(m.in), nil
	copy(r.in, m.request)
	r.answerAt, r.outLen, r.uhwLen, r.extended = 0, m.answer, 0, true
	for i := range len(r.io.raw) / abi.AttrLen {
		a := abi.Get[abi.Attr](r.io.raw[i*abi.AttrLen:])
		spec := m.find(a.ID)
		switch {
		case spec == nil && a.Flags&abi.AttrMandatory != 0:
			return syscall.EPROTONOSUPPORT
		case spec == nil:
			continue
		case r.io.find(a.ID) != nil:
			return syscall.EINVAL
		}
		g := given{attribute: spec, index: i, len: int(a.Len), data: a.Data, addr: a.Data}
		if g.kind == input && g.len <= len(zeros) {
			g.addr = r.io.dataAt(i)
		}
		if err := r.take(&g, &a); err != nil {
			return err
		}
		r.io.given = append(r.io.given, g)
	}
	for i := range m.attrs {
		if m.attrs[i].must && r.io.find(m.attrs[i].id) == nil {
			return syscall.EINVAL
		}
	}
	return nil
}

// take checks an attribute and copies it into the request.
func (r *request) take(g *given, a *abi.Attr) error {
	if a.Elem != 0 || a.Reserved != 0 {
		return syscall.EINVAL
	}
	if g.kind >= handle {
		if g.len != 0 {
			return syscall.EINVAL
		}
		return r.takeHandle(g)
	}
	if g.len < g.least || g.len > g.most && !g.extends {
		return syscall.EINVAL
	}
	switch {
	case g.id == attrUHWOut:
		r.uhwLen = g.len
		return nil
	case g.kind == output:
		return nil
	}
	b, err := r.octets(g)
	switch {
	case err != nil:
		return err
	case g.id == attrUHWIn:
		r.uhw = b
		return nil
	case g.len > g.most && !isZero(b[g.most:]):
		return syscall.EOPNOTSUPP
	}
	if g.at != nowhere {
		copy(r.in[g.at:], b[:min(g.len, g.most)])
	}
	return nil
}

// takeHandle: 32 bits of a handle say which object it is.
func (r *request) takeHandle(g *given) error {
	switch {
	case g.kind == made && r.f.ctx == nil:
		return syscall.EINVAL
	case g.kind == made:
		return nil
	case g.kind == events:
		ch, err := findChannel(r.f.asyncs, r.c.Process(), int32(g.data))
		if err == nil {
			r.events = ch.pipe
		}
		return err
	case g.data>>32 != 0:
		return syscall.EINVAL
	}
	native.PutUint32(r.in[g.at:], uint32(g.data))
	return nil
}

// octets are those of an input.
func (r *request) octets(g *given) ([]byte, error) {
	b := r.io.take(g.len)
	if g.len <= len(zeros) {
		copy(b, abi.Octets(&g.data))
		return b, nil
	}
	return b, r.c.Read(g.addr, b)
}

func (m *method) find(id uint16) *attribute {
	for i := range m.attrs {
		if m.attrs[i].id == id {
			return &m.attrs[i]
		}
	}
	if m.uhw && id == attrUHWIn {
		return &attribute{id: id, kind: input, extends: true, most: 1 << 16, at: nowhere}
	}
	if m.uhw && id == attrUHWOut {
		return &attribute{id: id, kind: output, extends: true, at: nowhere}
	}
	return nil
}

// find returns a given attribute, nil if it is not.
func (o *ioctl) find(id uint16) *given {
	for i := range o.given {
		if o.given[i].id == id {
			return &o.given[i]
		}
	}
	return nil
}

// dataAt is where the data of attribute i stand in the program.
func (o *ioctl) dataAt(i int) uint64 {
	return o.addr + uint64(i*abi.AttrLen) + uint64(unsafe.Offsetof(abi.Attr{}.Data))
}

// decodeInvoked finds the command that INVOKE_WRITE asks for.
func (r *request) decodeInvoked() error {
	var in, out given
	if g := r.io.find(attrCoreIn); g != nil {
		in = *g
	}
	if g := r.io.find(attrCoreOut); g != nil {
		out = *g
	}
	var err error
	if r.cmd, r.extended, err = commandOf(r.in.u64(0)); err != nil {
		return err
	}
	least := r.cmd.in
	if r.extended {
		least = r.cmd.least
	}
	if in.len < least || out.len < r.cmd.out {
		return syscall.ENOSPC
	}
	b, err := r.octets(&in)
	if err != nil {
		return err
	}
	if r.extended && in.len > r.cmd.in && !isZero(b[r.cmd.in:]) {
		return syscall.EOPNOTSUPP
	}
	r.in = b
	if r.cmd.uhw || r.extended {
		r.in = b[:min(len(b), r.cmd.in)]
	} else {
		r.uhw, r.uhwLen = nil, 0
	}
	r.answerAt, r.outLen = out.addr, out.len
	return nil
}

// scatter writes an answer to the attributes that have room for its parts.
func (r *request) scatter(core, uhw []byte) error {
	for i := range r.io.given {
		g := &r.io.given[i]
		var err error
		switch {
		case g.kind == made:
			v := uint64(body(core).u32(g.at))
			copy(r.io.raw[g.index*abi.AttrLen+8:], abi.Octets(&v))
		case g.id == attrUHWOut && len(uhw) > 0:
			err = r.put(g, uhw[:min(len(uhw), g.len)])
		case g.id == attrCoreOut && r.io.invoked:
			err = r.put(g, core)
		case g.kind == output && g.at != nowhere:
			err = r.put(g, core[g.at:g.at+g.most])
		}
		if err != nil {
			return err
		}
	}
	return r.c.Write(r.io.addr, r.io.raw)
}

// put writes an output.
func (r *request) put(g *given, b []byte) error {
	r.io.raw[g.index*abi.AttrLen+4] |= abi.AttrValidOutput
	return r.c.Write(g.addr, b)
}
