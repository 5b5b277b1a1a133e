package script

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// ipFields are what a script says in [] about the packet around a segment.
type ipFields struct {
	list []ipField
	word word
}

type ipField struct {
	name string
	n    int64
	word word
}

// ecnNames are the code points of RFC 3168 section 5.
var ecnNames = []string{"noecn", "ect1", "ect0", "ce"}

// ipFieldKind is a kind of field: get reads it from a packet of the NIC, nil if
// only peers have it; set writes it into a packet of the peer.
type ipFieldKind struct {
	limit int64 // of the number behind the name; 0: there is none
	get   func(got *packet) int64
	set   func(h *ip.Header, seg []byte, off *frame.Offload, n int64)
}

var ipFieldKinds = map[string]ipFieldKind{
	"ecn": {0, func(got *packet) int64 { return int64(got.ip.TOS & 3) },
		func(h *ip.Header, _ []byte, _ *frame.Offload, n int64) { h.TOS = h.TOS&^3 | uint8(n) }},
	"tos": {255, func(got *packet) int64 { return int64(got.ip.TOS) },
		func(h *ip.Header, _ []byte, _ *frame.Offload, n int64) { h.TOS = uint8(n) }},
	"ttl": {255, func(got *packet) int64 { return int64(got.ip.TTL) },
		func(h *ip.Header, _ []byte, _ *frame.Offload, n int64) { h.TTL = uint8(n) }},
	"gso": {65535, (*packet).gsoSize, setGSO},
	"badsum": {set: func(_ *ip.Header, seg []byte, _ *frame.Offload, _ int64) {
		seg[tcp.ChecksumOffset] ^= 0xff
	}},
	"trunc": {limit: 59, set: func(h *ip.Header, seg []byte, _ *frame.Offload, n int64) {
		h.PayloadLen = min(int(n), len(seg))
		putChecksum(seg[:max(h.PayloadLen, tcp.HeaderLen)], h.Src, h.Dst)
	}},
}

// gsoSize is the size of the segments of a super-frame, 0 of another packet.
func (p *packet) gsoSize() int64 {
	if !super(p.off) {
		return 0
	}
	return int64(p.off.GSOSize)
}

func setGSO(h *ip.Header, _ []byte, off *frame.Offload, n int64) {
	*off = frame.Offload{DataValid: true, GSO: frame.GSOTCPv4, GSOSize: uint16(n)}
	if h.Version == 6 {
		off.GSO = frame.GSOTCPv6
	}
}

const ipForms = "noecn, ect0, ect1, ce, tos N, ttl N, gso N or, into the NIC only, badsum, trunc N"

// parseIPFields reads a list such as [ce, ttl 64].
func parseIPFields(l *line, w word, out bool) *ipFields {
	f := &ipFields{word: w}
	for at := range w.items() {
		name, arg, has := strings.Cut(at.text, " ")
		field := ipField{name: name, word: at}
		if ecn := slices.Index(ecnNames, name); ecn >= 0 {
			field.name, field.n = "ecn", int64(ecn)
		}
		kind, ok := ipFieldKinds[field.name]
		var err error
		if kind.limit > 0 {
			field.n, err = parseInt(arg, 0, kind.limit)
		}
		if err != nil || !ok || name == "ecn" || has != (kind.limit > 0) || out && kind.get == nil {
			panic(l.at(at, "%q: expected %s", at.text, ipForms))
		}
		f.list = append(f.list, field)
	}
	return f
}

// apply writes the fields into a packet of the peer and returns what a device
// would say about it.
func (f *ipFields) apply(h *ip.Header, seg []byte) (off frame.Offload) {
	if f == nil {
		return off
	}
	for _, field := range f.list {
		ipFieldKinds[field.name].set(h, seg, &off, field.n)
	}
	return off
}

// compare says where a packet of the NIC differs. A super-frame must be named
// as such; at is marked if it is not.
func (f *ipFields) compare(got *packet, at word) (diffs []difference) {
	named := false
	if f != nil {
		for _, field := range f.list {
			named = named || field.name == "gso"
			if ipFieldKinds[field.name].get(got) != field.n {
				diffs = append(diffs, difference{field.word.text, field.word})
			}
		}
	}
	if super(got.off) && !named {
		diffs = append(diffs, difference{fmt.Sprintf("frame: a super-frame, [gso %d]", got.off.GSOSize), at})
	}
	return diffs
}

// putChecksum computes the checksum of a TCP segment in place.
func putChecksum(seg []byte, src, dst netip.Addr) {
	field := seg[tcp.ChecksumOffset:]
	binary.BigEndian.PutUint16(field, 0)
	binary.BigEndian.PutUint16(field, ip.Checksum(seg, ip.PseudoSum(src, dst, ip.ProtoTCP, len(seg))))
}
