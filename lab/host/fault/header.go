package fault

import (
	"slices"

	"tapir/opa"
	"tapir/ptp/msg"
)

// headerField is a part of a header that begins where a thing does.
type headerField struct {
	name string
	at   int // bits from its beginning, the most significant of each octet first; negative: from the frame's end
	size int // in bits; 0: from there to the end of the thing
}

// little are the fields of 16B packets, which are little-endian: bits are counted from the least significant
// of each octet.
var little = []headerField{
	{"slid", 0, 20}, {"length", 20, 11}, {"becn", 31, 1}, {"dlid", 32, 20}, {"sc", 52, 5}, {"rc", 57, 3},
	{"fecn", 60, 1},
	{"l2", 61, 2}, {"l4", 64, 8}, {"p-key", 80, 16}, {"entropy", 96, 16}, {"age", 112, 8}, {"vesw", 144, 12},
	{payloadField, 8 * opa.HeaderLen, 0}, {icrcField, -8 * opa.TrailerLen, 32},
}

// fields9B are those of 9B packets: local route header, base transport header and datagram header.
var fields9B = []headerField{
	{"sc", 0, 4}, {"sl", 8, 4}, {"lnh", 14, 2}, {"dlid", 16, 16}, {"length", 36, 12}, {"slid", 48, 16},
	{"opcode", 64, 8}, {"pad-count", 74, 2}, {"p-key", 80, 16}, {"fecn", 96, 1}, {"becn", 97, 1}, {"dest-qp", 104, 24},
	{"psn", 136, 24}, {"q-key", 160, 32}, {"src-qp", 200, 24}, {payloadField, 8 * opa.HeaderLen9B, 0},
	{icrcField, -32, 32},
}

// tcpFields are those of TCP segments (RFC 9293 section 3.1).
var tcpFields = []headerField{
	{"src-port", 0, 16}, {"dst-port", 16, 16}, {"seq", 32, 32}, {"ack", 64, 32}, {"data-offset", 96, 4},
	{"flags", 104, 8},
	{"window", 112, 16}, {"checksum", 128, 16}, {"urgent", 144, 16}, {payloadField, 0, 0},
}

// ptpFields are those of PTP messages (IEEE 1588-2019 section 13.3); seconds and nanoseconds are those of the
// time stamp that the message begins with.
var ptpFields = []headerField{
	{"major-sdo-id", 0, 4}, {"message-type", 4, 4}, {"version", 12, 4}, {"length", 16, 16}, {"domain", 32, 8},
	{"flags", 48, 16}, {"correction", 64, 64}, {"clock-identity", 160, 64}, {"port-number", 224, 16},
	{"sequence", 240, 16},
	{"log-interval", 264, 8}, {secondsField, 272, 48}, {nanosecondsField, 320, 32},
}

const secondsField, nanosecondsField = "seconds", "nanoseconds"

// headerFields are those of things that are found by their header.
func headerFields(k *kind) []headerField {
	switch {
	case k.class == ofTCP:
		return tcpFields
	case k.class == ofPTP:
		return ptpFields
	case k.what == "16b":
		return little
	case k.class == ofFabric:
		return fields9B
	case k.class == ofFCoE:
		return fcoeFields
	case k.class == ofFIP:
		return fipFields
	}
	return nil
}

func headerFieldOf(k *kind, name string) *headerField {
	all := headerFields(k)
	i := slices.IndexFunc(all, func(f headerField) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// placeHeader is what a rule flips in the frame in hand; false if that has no such field.
func (r *rule) placeHeader(j *judgement) (octet int, mask byte, ok bool) {
	t, end := j.t, len(j.frame)
	f := headerFieldOf(r.kind, r.Field)
	if f == nil {
		return r.pick(t.at, end-t.at, false, r.rng.IntN)
	}
	at, end, ok := j.extent(r.kind, f)
	switch {
	case !ok:
		return 0, 0, false
	case r.kind.class == ofTCP && f.size == 0:
		return r.pick(t.payloadAt(), len(t.payload), false, r.rng.IntN)
	case f.size == 0:
		return r.pick(at+f.at/8, end-r.kind.trailer()-at-f.at/8, false, r.rng.IntN)
	case t.class == ofPTP && (t.ptp == msg.Signaling || t.ptp == msg.Management) &&
		(f.name == secondsField || f.name == nanosecondsField):
		return 0, 0, false
	}
	n, ok := r.bitOf(f.size)
	from := 8 * at
	if f.at < 0 {
		from = 8 * end
	}
	if r.kind.what == "16b" {
		n = from + f.at + n
		octet, mask = n/8, 1<<(n%8)
	} else {
		n = from + f.at + f.size - 1 - n
		octet, mask = n/8, 0x80>>(n%8)
	}
	return octet, mask, ok && octet >= at && octet < end
}

// trailer is how many octets stand behind the payload of a thing.
func (k *kind) trailer() int {
	switch {
	case k.what == "9b":
		return 4
	case k.class == ofFabric:
		return opa.TrailerLen
	case k.class == ofFCoE:
		return fcoeTail
	}
	return 0
}

// bitOf is the bit of a field of size bits that a rule flips, 0 being the least significant.
func (r *rule) bitOf(size int) (n int, ok bool) {
	switch n = r.Bit; {
	case !r.AnyOctet: // an octet of the field, from its most significant on
		octets := (size + 7) / 8
		k := r.Octet
		if k < 0 {
			k += octets
		}
		if k < 0 || k >= octets {
			return 0, false
		}
		if n < 0 {
			n = r.rng.IntN(min(8, size))
		}
		n += 8 * (octets - 1 - k)
	case n < 0:
		n = r.rng.IntN(size)
	}
	return n, n < size
}
