package fault

import (
	"fmt"
	"strings"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

// field is a part of a thing, in octets from its beginning without markers.
type field struct {
	name string
	at   int // negative: from the end
	size int // 0: all that follows, but for an FPDU's pad and CRC
	has  func(*item) bool
}

// of reports whether a field is in i.
func (f *field) of(i *item) bool { return f.has == nil || f.has(i) }

// Where the headers of an FPDU begin, and what follows them (RFC 5044 section
// 4, RFC 5041 section 4, RFC 5040 section 4.4).
const (
	ddpAt      = mpa.LengthLen
	taggedEnd  = ddpAt + ddp.TaggedLen
	untaggedAt = ddpAt + ddp.UntaggedLen
)

func isTagged(i *item) bool      { return i.tagged }
func isUntagged(i *item) bool    { return !i.tagged }
func isReadRequest(i *item) bool { return i.opcode == rdmap.ReadRequestOp }

// fpduFields are those of FPDUs.
var fpduFields = []field{
	{"length", 0, 2, nil},
	{"ddp-control", ddpAt, 1, nil},
	{"rdmap-control", ddpAt + 1, 1, nil},
	{"stag", ddpAt + 2, 4, isTagged},
	{"to", ddpAt + 6, 8, isTagged},
	{"invalidate-stag", ddpAt + 2, 4, isUntagged},
	{"qn", ddpAt + 6, 4, isUntagged},
	{"msn", ddpAt + 10, 4, isUntagged},
	{"mo", ddpAt + 14, 4, isUntagged},
	{"sink-stag", untaggedAt, 4, isReadRequest},
	{"sink-to", untaggedAt + 4, 8, isReadRequest},
	{"read-size", untaggedAt + 12, 4, isReadRequest},
	{"source-stag", untaggedAt + 16, 4, isReadRequest},
	{"source-to", untaggedAt + 20, 8, isReadRequest},
	{"payload", taggedEnd, 0, isTagged},
	{"payload", untaggedAt, 0, isUntagged},
	{"crc", -4, 4, nil},
}

// startupFields are those of MPA request and reply frames (RFC 5044 section
// 7.1.1).
var startupFields = []field{
	{"key", 0, 16, nil},
	{"flags", 16, 1, nil},
	{"revision", 17, 1, nil},
	{"pd-length", 18, 2, nil},
	{"private-data", mpa.FrameHeaderLen, 0, nil},
}

func fieldsOf(k *kind) []field {
	switch k.class {
	case ofStartup:
		return startupFields
	case ofFPDU, ofMessage:
		if k.isNVMe() {
			return fieldsOfNVMe(k)
		}
		return fpduFields
	case ofPDU:
		return pduFields
	}
	return fieldsOfNVMe(k)
}

// fieldOf is the field of that name, nil if k has none.
func fieldOf(k *kind, name string) *field {
	all := fieldsOf(k)
	for i := range all {
		if all[i].name == name {
			return &all[i]
		}
	}
	return nil
}

func fieldNames(k *kind) (names []string) {
	if k.class == ofRoCE && !k.isNVMe() {
		for _, f := range roceFields {
			names = append(names, f.name)
		}
		return names
	}
	for _, f := range headerFields(k) {
		names = append(names, f.name)
	}
	for _, f := range fieldsOf(k) {
		if len(names) == 0 || names[len(names)-1] != f.name {
			names = append(names, f.name)
		}
	}
	if names == nil {
		names = []string{"no fields: say which octet"}
	}
	return names
}

// FieldNames are those of all things, for people.
func FieldNames() string {
	of := func(w What) string { return strings.Join(fieldNames(w.kind()), ", ") }
	return fmt.Sprintf("of FPDUs and messages: %s; of MPA frames: %s; of RoCE packets: %s; of PDUs of iSCSI: %s; "+
		"of TCP segments: %s; of PTP messages: %s; of 16B packets: %s; of 9B packets: %s; of FCoE frames: %s; "+
		"of FIP frames: %s; of commands of NVMe: %s; of completions of NVMe: %s",
		of("fpdu"), of("mpa-request"), of("roce"), of("iscsi"), of("tcp"), of("ptp"), of("16b"), of("9b"),
		of("fcoe"), of("fip"), of("nvme-command"), of("nvme-completion"))
}

// bits is how many bits there are to choose from.
func (r *Rule) bits() int {
	k := r.What.kind()
	if f := nvmeField(k, r.Field); r.AnyOctet && f != nil && f.size > 0 {
		return f.size * 8
	}
	if f := roceField(r.Field); r.AnyOctet && k.class == ofRoCE && f != nil && f.size > 0 {
		return f.size
	}
	if f := headerFieldOf(k, r.Field); r.AnyOctet && f != nil && f.size > 0 {
		return f.size
	}
	if f := fieldOf(k, r.Field); r.AnyOctet && f != nil && f.size > 0 {
		return f.size * 8
	}
	return 8
}

// place is where in i the octets of what a rule flips lie, and which bit of
// them; false if there are none.
func (r *Rule) place(i *item, draw func(n int) int) (octet int, mask byte, ok bool) {
	length := i.length()
	from, size, fixed := 0, length, false
	if r.Field != "" {
		f := r.fieldIn(i)
		if f == nil {
			return 0, 0, false
		}
		from, size, fixed = f.at, f.size, f.size > 0
		if from < 0 {
			from += length
		}
		if !fixed {
			size = i.contents() - from
		}
	}
	octet, mask, ok = r.pick(from, size, fixed, draw)
	if f := nvmeField(r.What.kind(), r.Field); f != nil {
		octet = f.little(from, octet, r.AnyOctet)
	}
	return octet, mask, ok
}

// fieldIn is the rule's field as i has it, nil if i lacks it.
func (r *Rule) fieldIn(i *item) *field {
	all := fieldsOf(r.What.kind())
	for n := range all {
		if all[n].name == r.Field && all[n].of(i) {
			return &all[n]
		}
	}
	return nil
}

// pick chooses an octet from size octets at from on, and a bit of it.
func (r *Rule) pick(from, size int, fixed bool, draw func(n int) int) (octet int, mask byte, ok bool) {
	at := r.Octet
	switch {
	case size <= 0:
		return 0, 0, false
	case r.AnyOctet && fixed:
		bit := r.Bit
		if bit < 0 {
			bit = draw(size * 8)
		}
		return from + size - 1 - bit/8, 1 << (bit % 8), true
	case r.AnyOctet:
		at = draw(size)
	case at < 0:
		at += size
	}
	bit := r.Bit
	if bit < 0 {
		bit = draw(8)
	}
	return from + at, 1 << bit, at >= 0 && at < size
}
