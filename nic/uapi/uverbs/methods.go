package uverbs

import (
	"syscall"

	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
)

// methodID names a method of ioctl(2): a kind of object (enum
// uverbs_default_objects) and a number of its own.
type methodID struct{ object, method uint16 }

// Kinds of objects.
const (
	objectDevice = iota
	objectPD
	objectCompChannel
	objectCQ
	objectQP
	objectSRQ
	objectAH         = 6
	objectMR         = 7
	objectMW         = 8
	objectXRCD       = 10
	objectAsyncEvent = 16
)

// Attributes of INVOKE_WRITE.
const (
	attrCoreIn = iota
	attrCoreOut
)

// Makers of attributes, each of exactly so many octets.
func in(id uint16, octets, at int) attribute {
	return attribute{id: id, kind: input, must: true, least: octets, most: octets, at: at}
}

func out(id uint16, octets, at int) attribute {
	return attribute{id: id, kind: output, must: true, least: octets, most: octets, at: at}
}

func handleOf(id uint16, at int) attribute {
	return attribute{id: id, kind: handle, must: true, at: at}
}

func newObject(id uint16) attribute { return attribute{id: id, kind: made, must: true} }

func optional(a attribute) attribute {
	a.must = false
	return a
}

// flags are 8 octets, or 4 of older programs.
func flags(id uint16, at int) attribute {
	return attribute{id: id, kind: input, least: 4, most: 8, at: at}
}

func must(a attribute) attribute {
	a.must = true
	return a
}

// longer lets a program have an attribute that has grown since.
func longer(a attribute) attribute {
	a.extends = true
	return a
}

// anyLength is room for, or of, any number of octets, which the method looks at by
// itself.
func anyLength(id uint16, k kind, least int, must bool) attribute {
	return attribute{id: id, kind: k, must: must, least: least, extends: true, most: 1 << 16, at: nowhere}
}

func eventsAt(id uint16) attribute { return attribute{id: id, kind: events, at: nowhere} }

// none is a handle or descriptor that is not given.
var none = []byte{0xff, 0xff, 0xff, 0xff}

// without is the beginning of a request whose field of 4 octets at off says none.
func without(offs ...int) []byte {
	b := make([]byte, 0, 32)
	for _, off := range offs {
		b = append(append(b, make([]byte, off-len(b))...), none...)
	}
	return b
}

// destroys is a method that ends an object, whose handle is its attribute 0; with an
// answer, its attribute 1 is that.
func destroys(name string, at, answer int, serve func(*request) error) *method {
	m := &method{command: command{name: name, in: at + 4, serve: serve}, attrs: []attribute{handleOf(0, at)},
		answer: answer}
	if answer > 0 {
		m.attrs = append(m.attrs, out(1, answer, 0))
	}
	return m
}

// methods are those that the kernel has for the rxe driver's objects of an RNIC.
var methods = map[methodID]*method{
	{objectDevice, 0}: {command: command{name: "INVOKE_WRITE", in: 8, uhw: true}, attrs: []attribute{
		in(2, 8, 0), anyLength(attrCoreIn, input, 4, false), anyLength(attrCoreOut, output, 0, false)}},
	{objectDevice, 2}: {command: command{name: "QUERY_PORT", in: 16, serve: queryPortMethod},
		attrs: []attribute{in(0, 8, 8), longer(out(1, portAttrExLen, 0))}, answer: portAttrExLen},
	{objectDevice, 3}: {command: command{name: "GET_CONTEXT", uhw: true, first: true, serve: getContextMethod},
		attrs: []attribute{optional(out(0, 4, 0)), optional(out(1, 8, 8))}, answer: 16},
	{objectDevice, 5}: {command: command{name: "QUERY_GID_TABLE", in: 16, serve: queryGIDTable}, attrs: []attribute{
		in(0, 8, 0), flags(1, 8), anyLength(attrGIDEntries, output, 0, true), out(attrGIDCount, 8, 0)}, answer: 8},
	{objectDevice, 6}: {command: command{name: "QUERY_GID_ENTRY", in: 24, serve: queryGIDEntry}, attrs: []attribute{
		in(0, 8, 0), in(1, 8, 8), must(flags(2, 16)), longer(out(3, gidEntryLen, 0))}, answer: gidEntryLen},
	{objectPD, 0}: destroys("PD_DESTROY", 0, 0, ends[*pd](0)),
	{objectCompChannel, 0}: {command: command{name: "COMP_CHANNEL_CREATE", serve: createCompChannel},
		attrs: []attribute{newObject(0)}, answer: 4},
	{objectCQ, 0}: {command: command{name: "CQ_CREATE", in: 40, uhw: true, serve: createCQMethod}, request: without(24),
		attrs: []attribute{newObject(0), in(1, 4, 16), in(2, 8, 8), optional(handleOf(3, 24)), in(4, 4, 20),
			flags(5, 32), out(6, 4, 4), eventsAt(7)}, answer: 8},
	{objectCQ, 1}: destroys("CQ_DESTROY", 8, 8, ends[*cq](8)),
	{objectQP, 0}: {command: command{name: "QP_CREATE", in: 72, uhw: true, serve: createQPMethod},
		request: without(16, 20, 24, 28), attrs: []attribute{newObject(0), optional(handleOf(attrXRCD, 28)),
			optional(handleOf(2, 16)),
			optional(handleOf(attrQPSRQ, 28)), optional(handleOf(4, 20)), optional(handleOf(5, 24)), in(7, 8, 8),
			longer(in(8, 20, 32)), in(9, 8, 56), flags(10, 64), eventsAt(12), longer(out(13, 20, 8)),
			out(14, 4, 4)},
		answer: createQPAnswerLen},
	{objectQP, 1}: destroys("QP_DESTROY", 8, 4, ends[*qp](8)),
	{objectSRQ, 0}: {command: command{name: "SRQ_CREATE", in: 40, uhw: true, serve: createSRQMethod},
		attrs: []attribute{newObject(0), handleOf(1, 16), in(4, 8, 8), in(5, 4, 20), in(6, 4, 24), in(7, 4, 28),
			in(9, 8, 32), eventsAt(10), out(11, 4, 4), out(12, 4, 8), optional(out(13, 4, 12))}, answer: srqAnswerLen},
	{objectSRQ, 1}:  destroys("SRQ_DESTROY", 8, 4, ends[*srq](8)),
	{objectAH, 0}:   destroys("AH_DESTROY", 0, 0, ends[*ah](0)),
	{objectXRCD, 0}: destroys("XRCD_DESTROY", 0, 0, ends[*xrcd](0)),
	{objectMR, 1}:   destroys("MR_DESTROY", 0, 0, ends[*mr](0)),
	{objectMR, 3}: {command: command{name: "QUERY_MR", in: 4, serve: about(0, queryMR)},
		attrs:  []attribute{handleOf(0, 0), out(1, 4, 0), out(2, 4, 4), out(3, 8, 8), optional(out(4, 8, 16))},
		answer: 24},
	{objectMW, 0}: destroys("MW_DESTROY", 0, 0, ends[*mw](0)),
	{objectAsyncEvent, 0}: {command: command{name: "ASYNC_EVENT_ALLOC", serve: allocAsync},
		attrs: []attribute{newObject(0)}, answer: 4},
}

// portAttrExLen is struct ib_uverbs_query_port_resp_ex: QUERY_PORT's answer, 2
// octets of capabilities, 2 reserved, 4 for speeds that the answer has no number for.
const portAttrExLen = portAttrLen + 8

// queryPortMethod serves QUERY_PORT, whose port number is a constant of 64 bits.
func queryPortMethod(r *request) error {
	if r.in.u64(8) > 0xff {
		return syscall.EINVAL
	}
	return queryPort(r)
}

// The one flag of CQ_CREATE's that the kernel knows beside time stamps.
const (
	cqTimestamps    = 1 << 0
	cqIgnoreOverrun = 1 << 1
)

// createCQMethod serves CQ_CREATE: CREATE_CQ, and {u64 flags} behind it.
func createCQMethod(r *request) error {
	switch wants := r.in.u64(32); {
	case wants&^(cqTimestamps|cqIgnoreOverrun) != 0:
		return syscall.EINVAL
	case wants != 0:
		return syscall.EOPNOTSUPP
	}
	return createCQ(r)
}

// Attributes and flags of QP_CREATE.
const (
	attrXRCD    = 1
	attrQPSRQ   = 3
	qpSignalAll = 1 << 12
)

// createQPMethod serves QP_CREATE: CREATE_QP, and {u64 type, u64 flags} behind it.
func createQPMethod(r *request) error {
	typ, wants := r.in.u64(56), r.in.u64(64)
	switch {
	case typ > 0xff, r.io.find(attrXRCD) != nil, wants&^qpSignalAll != 0: // which are for others than RC
		return syscall.EINVAL
	}
	r.in[53] = uint8(typ)
	if wants != 0 {
		r.in[52] = 1
	}
	if r.io.find(attrQPSRQ) != nil {
		r.in[54] = 1
	}
	return createQP(r)
}

// createSRQMethod serves SRQ_CREATE: CREATE_SRQ, and {u64 type} behind it.
func createSRQMethod(r *request) error {
	switch r.in.u64(32) {
	case 0:
		return createSRQ(r)
	case 1, 2: // XRC, tag matching
		return syscall.EOPNOTSUPP
	}
	return syscall.EINVAL
}

// queryMR serves QUERY_MR -> {lkey, rkey, u64 length, u64 address}.
func queryMR(r *request, m *mr) error {
	b := words(m.LKey(), m.RKey())
	b = native.AppendUint64(b, m.Len())
	return r.answer(native.AppendUint64(b, m.Addr()), nil)
}

// gidEntry is struct ib_uverbs_gid_entry. An RNIC's GIDs are of type 0;
// 1 is RoCE v1, 2 RoCE v2 (enum ibv_gid_type: IB, ROCE_V1, ROCE_V2).
type gidEntry struct {
	GID                       [16]byte
	Index, Port, Type, Netdev uint32
}

const gidEntryLen = 32

// Attributes of QUERY_GID_TABLE.
const (
	attrGIDEntries = 2
	attrGIDCount   = 3
)

// gid is entry i of the port's table as the program sees it. Errors: EINVAL; ENODATA
// of one that is not used.
func (f *File) gid(port, i uint64) (e gidEntry, err error) {
	switch {
	case port != 1, i >= gidTable:
		return e, syscall.EINVAL
	case f.gidAt(int(i)) == (verbs.GID{}):
		return e, syscall.ENODATA
	}
	entry := f.server.ca.Verbs().GIDEntry(int(i))
	e = gidEntry{GID: f.gidAt(int(i)), Index: uint32(i), Port: 1, Type: uint32(entry.Type), Netdev: f.view.Netdev}
	if entry.Netdev != "" { // of a VLAN: the operating system has no such interface
		e.Netdev = 0
	}
	return e, nil
}

// queryGIDEntry serves QUERY_GID_ENTRY{u64 port, u64 index, u64 flags}.
func queryGIDEntry(r *request) error {
	if r.in.u64(16) != 0 {
		return syscall.EINVAL
	}
	e, err := r.f.gid(r.in.u64(0), r.in.u64(8))
	if err != nil {
		return err
	}
	return r.answer(abi.Octets(&e), nil)
}

// queryGIDTable serves QUERY_GID_TABLE{u64 size of an entry, u64 flags} -> {u64
// number of entries}: the entries that are used, in an attribute that has room for
// all of them.
func queryGIDTable(r *request) error {
	size, room := r.in.u64(0), r.io.find(attrGIDEntries)
	entries := uint64(0)
	for _, g := range r.f.gids() {
		if g != (verbs.GID{}) {
			entries++
		}
	}
	if r.in.u64(8) != 0 || size == 0 || uint64(room.len)%size != 0 || uint64(room.len)/size < max(entries, 1) {
		return syscall.EINVAL
	}
	all := make([]byte, 0, entries*size)
	for i := range r.f.gids() {
		if e, err := r.f.gid(1, uint64(i)); err == nil {
			all = append(all, make([]byte, size)...)
			copy(all[uint64(len(all))-size:], abi.Octets(&e))
		}
	}
	if err := r.put(room, all); err != nil {
		return err
	}
	return r.answer(native.AppendUint64(nil, entries), nil)
}
