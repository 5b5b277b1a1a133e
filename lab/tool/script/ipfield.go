package script

import (
	"encoding/binary"
	"fmt"
	"net/netip"
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

const ipForms = "noecn, ect0, ect1, ce, tos N, ttl N, gso N or, into the NIC only, badsum, trunc N"

// parseIPFields reads a list such as [ce, ttl 64].
func parseIPFields(l *line, w word, out bool) *ipFields {
	f := &ipFields{word: w}
	for at := range w.items() {
		name, arg, has := strings.Cut(at.text, " ")
		field := ipField{name: name, word: at}
		limit, ok := map[string]int64{"tos": 255, "ttl": 255, "gso": 65535, "trunc": 59}[name]
		plain := name == "badsum"
		for i, ecn := range ecnNames {
			if name == ecn {
				plain, field.name, field.n = true, "ecn", int64(i)
			}
		}
		var err error
		if ok {
			field.n, err = parseInt(arg, 0, limit)
		}
		if err != nil || ok != has || (!ok && !plain) || out && (name == "badsum" || name == "trunc") {
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
		switch field.name {
		case "ecn":
			h.TOS = h.TOS&^3 | uint8(field.n)
		case "tos":
			h.TOS = uint8(field.n)
		case "ttl":
			h.TTL = uint8(field.n)
		case "badsum":
			seg[tcp.ChecksumOffset] ^= 0xff
		case "trunc":
			h.PayloadLen = min(int(field.n), len(seg))
			putChecksum(seg[:max(h.PayloadLen, tcp.HeaderLen)], h.Src, h.Dst)
		case "gso":
			off = frame.Offload{DataValid: true, GSO: frame.GSOTCPv4, GSOSize: uint16(field.n)}
			if h.Version == 6 {
				off.GSO = frame.GSOTCPv6
			}
		}
	}
	return off
}

// compare says where a packet of the NIC differs. A super-frame must be named
// as such; at is marked if it is not.
func (f *ipFields) compare(got *packet, at word) (diffs []difference) {
	named := false
	if f != nil {
		for _, field := range f.list {
			var have int64
			switch field.name {
			case "ecn":
				have = int64(got.ip.TOS & 3)
			case "tos":
				have = int64(got.ip.TOS)
			case "ttl":
				have = int64(got.ip.TTL)
			case "gso":
				named = true
				if super(got.off) {
					have = int64(got.off.GSOSize)
				}
			}
			if have != field.n {
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
