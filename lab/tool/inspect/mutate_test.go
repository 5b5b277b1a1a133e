package inspect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/nic"
	"tapir/opa"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/rdmap"
	"tapir/wire/crc"
	"tapir/wire/ether"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// A mutant is a capture without a new fault but for one field of one packet.
// The checksums below the field are made right again, so that nothing but the
// field's own rule can tell.

// place is where a kind of mutation can be tried: octets at up to at+n of a
// packet.
type place struct {
	capture, packet int
	layer           layer
	at, n           int
	crc             bool
	header          ddp.Header
	payload         int // octets of the segment
	seq             tcp.Seq
	first           bool // segment of its message
	follows         bool // another segment of the same model and queue follows
}

type layer int

const (
	onIP layer = iota
	onTCP
	onStart // an MPA frame
	onFPDU
	onMarker
	onTerminate
	on16B
	onPTP
	layers
)

// field is a kind of mutation.
type field struct {
	name  string
	on    layer
	rule  *Rule
	where func(c *place, b []byte) bool        // nil: everywhere
	alter func(b []byte, r *rand.Rand)         // of the octets of the place
	mends func(c *place, whole []byte, at int) // nil: as the layer does
}

// xor alters some of the bits of mask in octet at.
func xor(at int, mask byte) func([]byte, *rand.Rand) {
	return func(b []byte, r *rand.Rand) {
		for {
			if v := byte(r.Uint32()) & mask; v != 0 {
				b[at] ^= v
				return
			}
		}
	}
}

// xorTail is xor in one of the last n octets.
func xorTail(n, of int) func([]byte, *rand.Rand) {
	return func(b []byte, r *rand.Rand) { xor(len(b)-n+r.IntN(of), 0xff)(b, r) }
}

func put(at int, v byte) func([]byte, *rand.Rand) {
	return func(b []byte, _ *rand.Rand) { b[at] = v }
}

// add16 adds up to most to the two octets at at.
func add16(at int, most int) func([]byte, *rand.Rand) {
	return func(b []byte, r *rand.Rand) {
		binary.BigEndian.PutUint16(b[at:], binary.BigEndian.Uint16(b[at:])+uint16(1+r.IntN(most)))
	}
}

func untagged(c *place, _ []byte) bool { return !c.header.Tagged }
func op(c *place) rdmap.Opcode         { return rdmap.ParseControl(c.header.ULP).Opcode }
func isOp(o rdmap.Opcode) func(*place, []byte) bool {
	return func(c *place, _ []byte) bool { return op(c) == o && c.payload > 0 }
}
func laterWrite(c *place, _ []byte) bool { return op(c) == rdmap.Write && !c.first && c.payload > 0 }
func quotes(_ *place, b []byte) bool     { return len(b) >= 4+2+ddp.UntaggedLen }
func withCRC(c *place, _ []byte) bool    { return c.crc }
func isReply(_ *place, b []byte) bool    { return b[9] == 'p' }
func isRequest(_ *place, b []byte) bool  { return b[9] == 'q' }
func padded(c *place, b []byte) bool     { return (2+int(binary.BigEndian.Uint16(b)))&3 != 0 }
func enhanced(_ *place, b []byte) bool   { return b[16]&0x30 == 0x10 && len(b) >= 24 && b[20]&0x80 == 0 }
func isType(types ...msg.Type) func(*place, []byte) bool {
	return func(_ *place, b []byte) bool {
		for _, t := range types {
			if msg.Type(b[0]&15) == t {
				return true
			}
		}
		return false
	}
}

// asIs leaves what has been altered as it is.
func asIs(*place, []byte, int) {}

var fields = []field{
	{"IP checksum", onIP, ipChecksum, nil, xor(10, 0xff), asIs},
	{"IP length", onIP, ipLength, nil, add16(2, 300), mendIP},
	{"TCP checksum", onTCP, tcpChecksum, nil, xor(16, 0xff), asIs},
	{"TCP data offset", onTCP, tcpHeader, nil, func(b []byte, r *rand.Rand) { b[12] = byte(r.IntN(5)) << 4 }, nil},
	{"TCP reserved", onTCP, tcpReserved, nil, xor(12, 0x0e), nil},
	{"TCP ack", onTCP, tcpAck, func(c *place, b []byte) bool { return b[13]&0x16 == 0x10 && c.follows }, func(b []byte, r *rand.Rand) { b[8] += byte(1 + r.IntN(100)) }, nil},
	{"TCP sequence", onTCP, tcpWindow, func(c *place, b []byte) bool { return b[13]&0x17 == 0x10 && len(b) > 80 }, func(b []byte, r *rand.Rand) { b[4] += byte(1 + r.IntN(100)) }, nil},

	{"key", onStart, mpaKey, nil, func(b []byte, r *rand.Rand) { xor(r.IntN(9), 0x1f)(b, r) }, nil},
	{"PD_Length above 512", onStart, mpaPDTooLong, nil, func(b []byte, r *rand.Rand) { b[18] = byte(3 + r.IntN(200)) }, nil},
	{"PD_Length more", onStart, mpaPDLength, nil, add16(18, 200), nil},
	{"PD_Length less", onStart, mpaPDLength, func(_ *place, b []byte) bool { return len(b) > 30 && len(b) == 20+int(b[18])<<8+int(b[19]) }, func(b []byte, r *rand.Rand) { b[19] -= byte(1 + r.IntN(3)) }, nil},
	{"MPA reserved", onStart, mpaReserved, nil, xor(16, 7), nil},
	{"R of a request", onStart, mpaRejectReq, isRequest, xor(16, 0x20), nil},
	{"MPA revision", onStart, mpaRevision, nil, func(b []byte, r *rand.Rand) { b[17] = byte(3 + r.IntN(250)) }, nil},
	{"A of a reply", onStart, mpaFlagA, func(c *place, b []byte) bool { return isReply(c, b) && enhanced(c, b) }, func(b []byte, _ *rand.Rand) { b[20] ^= 0x80; b[22] |= 0x40 }, nil},
	{"RTR without A", onStart, mpaBCD, enhanced, xor(22, 0xc0), nil},
	{"ORD of a reply", onStart, mpaORD, func(c *place, b []byte) bool { return isReply(c, b) && enhanced(c, b) }, put(22, 0x3e), nil},

	{"ULPDU_Length", onFPDU, fpduLength, func(c *place, _ []byte) bool { return c.follows && c.payload > 8 }, func(b []byte, r *rand.Rand) {
		n := binary.BigEndian.Uint16(b) + 4*uint16(1+r.IntN(30))
		if r.IntN(2) == 0 && n > 400 {
			n -= 4 * uint16(31+r.IntN(50))
		}
		binary.BigEndian.PutUint16(b, n)
	}, mendSegment},
	{"CRC", onFPDU, fpduCRC, withCRC, xorTail(4, 4), mendSegment},
	{"payload", onFPDU, fpduCRC, func(c *place, b []byte) bool { return c.crc && c.payload > 0 }, xorTail(8, 1), mendSegment},
	{"pad", onFPDU, fpduPad, padded, xorTail(5, 1), nil},
	{"DDP version", onFPDU, ddpVersion, nil, xor(2, 3), nil},
	{"DDP reserved", onFPDU, ddpReserved, nil, xor(2, 0x3c), nil},
	{"T", onFPDU, rdmapTagged, nil, xor(2, 0x80), nil},
	{"L of a Read Request", onFPDU, readLast, isOp(rdmap.ReadRequestOp), xor(2, 0x40), nil},
	{"L of a Read Response", onFPDU, ddpLast, isOp(rdmap.ReadResponse), xor(2, 0x40), nil},
	{"L of a Send", onFPDU, ddpLast, func(c *place, b []byte) bool { return op(c).IsSend() && c.follows && c.payload > 0 }, xor(2, 0x40), nil},
	{"RDMAP version", onFPDU, rdmapVersion, nil, xor(3, 0xc0), nil},
	{"RDMAP reserved", onFPDU, rdmapReserved, nil, xor(3, 0x30), nil},
	{"opcode", onFPDU, rdmapOpcode, nil, func(b []byte, r *rand.Rand) { b[3] = b[3]&0xf0 | byte(12+r.IntN(4)) }, nil},
	{"Invalidate STag", onFPDU, rdmapInvSTag, func(c *place, b []byte) bool { return !c.header.Tagged && !op(c).Invalidates() }, xor(5, 0xff), nil},
	{"queue number", onFPDU, rdmapQueue, untagged, xor(11, 0xff), nil},
	{"MSN", onFPDU, ddpMSN, untagged, func(b []byte, r *rand.Rand) { xor(12+r.IntN(4), 0xff)(b, r) }, nil},
	{"MO", onFPDU, ddpMO, untagged, func(b []byte, r *rand.Rand) { xor(16+r.IntN(4), 0xff)(b, r) }, nil},
	{"STag inside a Write", onFPDU, ddpSTag, laterWrite, func(b []byte, r *rand.Rand) { xor(4+r.IntN(4), 0xff)(b, r) }, nil},
	{"TO inside a Write", onFPDU, ddpTO, laterWrite, func(b []byte, r *rand.Rand) { xor(9+r.IntN(7), 0xff)(b, r) }, nil},
	{"STag of a Read Response", onFPDU, respSTag, isOp(rdmap.ReadResponse), func(b []byte, r *rand.Rand) { xor(4+r.IntN(4), 0xff)(b, r) }, nil},
	{"TO of a Read Response", onFPDU, respTO, isOp(rdmap.ReadResponse), func(b []byte, r *rand.Rand) { xor(9+r.IntN(7), 0xff)(b, r) }, nil},

	{"FPDUPTR", onMarker, markerPtr, nil, func(b []byte, r *rand.Rand) { b[3] ^= byte(4 << r.IntN(6)) }, nil},
	{"low bits of FPDUPTR", onMarker, markerLow, nil, xor(3, 3), nil},
	{"marker reserved", onMarker, markerResvd, nil, func(b []byte, r *rand.Rand) { xor(r.IntN(2), 0xff)(b, r) }, nil},

	{"Terminate reserved", onTerminate, termReserved, nil, xor(3, 0xff), nil},
	{"Terminate code", onTerminate, termUnknown, func(_ *place, b []byte) bool { return b[0] != 0 }, func(b []byte, r *rand.Rand) { b[1] = byte(0x40 + r.IntN(0x80)) }, nil},
	{"Terminate layer", onTerminate, termUnknown, nil, func(b []byte, r *rand.Rand) { b[0] |= 8 }, nil},
	{"DDP Segment Length", onTerminate, termSegment, quotes, xor(4, 0x7f), nil},
	{"quoted header", onTerminate, termQuote, quotes, func(b []byte, r *rand.Rand) { xor(8+r.IntN(10), 0x7f)(b, r) }, nil},
	{"quoted Read Request", onTerminate, termRead, func(_ *place, b []byte) bool { return len(b) >= 4+2+18+28 }, func(b []byte, r *rand.Rand) { xor(24+r.IntN(28), 0xff)(b, r) }, nil},

	{"16B L2", on16B, opaL2, nil, xor(7, 0x60), nil},
	{"16B Length", on16B, opaLength, nil, xor(3, 0x7f), nil},
	{"16B L4", on16B, opaL4, nil, xor(8, 0xff), nil},
	{"16B SLID", on16B, opaSLID, nil, func(b []byte, r *rand.Rand) { b[9] |= 0x0f }, nil},
	{"16B tail", on16B, opaTail, nil, func(b []byte, r *rand.Rand) { b[len(b)-1] ^= byte(8 << r.IntN(3)) }, nil},
	{"16B ICRC", on16B, opaICRC, nil, xorTail(5, 4), asIs},
	{"16B P_Key", on16B, opaICRC, nil, xor(10, 0x7f), asIs},
	{"16B entropy", on16B, opaICRC, nil, xor(12, 0xff), asIs},
	{"16B LT", on16B, opaLT, nil, xor(7, 0x80), nil},
	{"16B reserved", on16B, opaReserved, nil, func(b []byte, r *rand.Rand) { xor(15+r.IntN(3), 0xff)(b, r) }, nil},

	{"versionPTP", onPTP, ptpVersion, nil, func(b []byte, r *rand.Rand) { b[1] = b[1]&0xf0 | byte(3+r.IntN(13)) }, nil},
	{"minorVersionPTP", onPTP, ptpMinor, nil, func(b []byte, r *rand.Rand) { b[1] |= byte(2+r.IntN(14)) << 4 }, nil},
	{"messageType", onPTP, ptpType, nil, func(b []byte, r *rand.Rand) { b[0] = b[0]&0xf0 | []byte{4, 5, 6, 7, 14, 15}[r.IntN(6)] }, nil},
	{"messageLength less", onPTP, ptpLength, isType(msg.Sync, msg.DelayReq, msg.DelayResp), func(b []byte, r *rand.Rand) { b[3] -= byte(1 + r.IntN(40)) }, nil},
	{"messageLength more", onPTP, ptpLength, nil, func(b []byte, r *rand.Rand) { b[2] += byte(1 + r.IntN(200)) }, nil},
	{"flagField", onPTP, ptpFlags, nil, func(b []byte, r *rand.Rand) { xor(6, 0x18)(b, r) }, nil},
	{"both leap flags", onPTP, ptpLeap, isType(msg.Announce), func(b []byte, r *rand.Rand) { b[7] |= 3 }, nil},
	{"correctionField", onPTP, ptpCorrect, isType(msg.Announce), func(b []byte, r *rand.Rand) { xor(8+r.IntN(8), 0xff)(b, r) }, nil},
	{"messageTypeSpecific", onPTP, ptpSpecific, isType(msg.Announce, msg.FollowUp, msg.DelayResp), func(b []byte, r *rand.Rand) { xor(16+r.IntN(4), 0xff)(b, r) }, nil},
	{"port number", onPTP, ptpPort, nil, func(b []byte, r *rand.Rand) { b[28], b[29] = 0xff, 0xff }, nil},
	{"controlField", onPTP, ptpControl, nil, xor(32, 0xff), nil},
	{"logMessageInterval", onPTP, ptpInterval, isType(msg.DelayReq, msg.PdelayResp), xor(33, 0xff), nil},
	{"nanoseconds", onPTP, ptpNanos, isType(msg.FollowUp, msg.DelayResp), put(40, 0xf0), nil},
	{"stepsRemoved", onPTP, ptpSteps, isType(msg.Announce), xor(61, 0xff), nil},
	{"sequenceId", onPTP, ptpSequence, func(c *place, b []byte) bool { return c.follows }, func(b []byte, r *rand.Rand) { xor(30, 0xff)(b, r) }, nil},
	{"sequenceId of a Delay_Resp", onPTP, ptpDelayResp, func(c *place, b []byte) bool { return msg.Type(b[0]&15) == msg.DelayResp && c.first }, xor(30, 0xff), nil},
	{"twoStepFlag", onPTP, ptpTwoStep, func(c *place, b []byte) bool { return msg.Type(b[0]&15) == msg.Sync && c.first }, xor(6, 2), nil},
}

// mendSegment leaves the FPDU's CRC as it is.
func mendSegment(_ *place, b []byte, _ int) { mendTCP(b) }

// mendIP makes the IP header's checksum right again.
func mendIP(_ *place, b []byte, _ int) {
	_, n, _ := ether.Parse(b)
	if b[n]>>4 == 4 {
		h := b[n : n+int(b[n]&15)*4]
		h[10], h[11] = 0, 0
		binary.BigEndian.PutUint16(h[10:], ip.Checksum(h, 0))
	}
}

// mendTCP makes the TCP checksum right again.
func mendTCP(b []byte) {
	_, n, _ := ether.Parse(b)
	h, s, err := ip.Parse(b[n:])
	if err == nil && h.Proto == ip.ProtoTCP {
		s[16], s[17] = 0, 0
		binary.BigEndian.PutUint16(s[16:], ip.Checksum(s, ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(s))))
	}
}

// mend makes everything below the altered field right again.
func mend(c *place, b []byte) {
	switch c.layer {
	case onFPDU, onMarker, onTerminate:
		at, n := c.at, c.n
		if c.layer == onMarker { // the segment holds the FPDU alone
			at, n = payloadAt, len(b)-payloadAt
		}
		if f := b[at : at+n]; c.crc {
			binary.LittleEndian.PutUint32(f[n-4:], crc.CRC32C(f[:n-4]))
		}
		mendTCP(b)
	case onTCP, onStart:
		mendTCP(b)
	case on16B:
		end := len(b) - opa.TrailerLen
		binary.LittleEndian.PutUint32(b[end:], crc.OPA16B(b[c.at:end]))
	}
}

// places lists where mutations can be tried in a capture.
func places(capture int, list []Packet, withCRC bool) (all []place) {
	for k := range list {
		b := list[k].Data
		p := place{capture: capture, packet: k, crc: withCRC}
		add := func(l layer, at, n int) { q := p; q.layer, q.at, q.n = l, at, n; all = append(all, q) }
		if x, ok := transport.Find(b); ok {
			add(onPTP, len(b)-len(x.Body), len(x.Body))
			continue
		}
		e, n, err := ether.Parse(b)
		if err == nil && e.Type == opa.EtherType16B {
			add(on16B, n, len(b)-n)
			continue
		}
		h, s, err := ip.Parse(b[n:])
		if err != nil || h.Proto != ip.ProtoTCP {
			continue
		}
		if h.Version == 4 {
			add(onIP, n, h.HeaderLen())
		}
		t, octets, _ := tcp.Parse(s)
		p.seq, p.payload = t.Seq, len(octets)
		add(onTCP, len(b)-len(s), len(s))
		if at := len(b) - len(s) + int(s[12]>>4)*4; at < len(b) {
			all = append(all, payloadPlaces(p, b, at)...)
		}
	}
	follow(all, list)
	return all
}

// payloadPlaces are those of a segment that holds whole FPDUs, or a frame.
func payloadPlaces(p place, b []byte, at int) (all []place) {
	if bytes.HasPrefix(b[at:], []byte("MPA ID Re")) {
		p.layer, p.at, p.n = onStart, at, len(b)-at
		return []place{p}
	}
	for at < len(b) {
		u, n, err := mpa.Layout{CRC: p.crc}.ParseFPDU(b[at:], 0, nil)
		if err != nil || n == 0 || !plausible(u) {
			return nil
		}
		h, payload, _ := ddp.Parse(u)
		q := p
		q.layer, q.at, q.n, q.header, q.payload = onFPDU, at, n, h, len(payload)
		q.first = !(h.Tagged && len(all) == 0) || h.Last
		all = append(all, q)
		if op(&q) == rdmap.TerminateOp && !p.crc {
			q.layer, q.at, q.n = onTerminate, at+2+h.Len(), len(payload)
			all = append(all, q)
		}
		at += n
	}
	return all
}

// follow finds what follows what.
func follow(all []place, list []Packet) {
	source := func(p *place) string { b := list[p.packet].Data; return string(b[6:12]) }
	for k := range all {
		a := &all[k]
		switch a.layer {
		case onTCP: // its sender sends something new
			for j := k + 1; j < len(all) && !a.follows; j++ {
				o := &all[j]
				a.follows = o.layer == onTCP && source(o) == source(a) && o.payload > 0 && a.seq.Add(a.payload).LessEq(o.seq)
			}
		case onFPDU:
			a.first = true
			for j := k - 1; j >= 0; j-- {
				if o := &all[j]; o.layer == onFPDU && o.header.Tagged == a.header.Tagged && source(o) == source(a) {
					a.first = o.header.Last || op(o) != op(a)
					break
				}
			}
			for j := k + 1; j < len(all) && !a.follows; j++ {
				o := &all[j]
				a.follows = o.layer == onFPDU && o.header.Tagged == a.header.Tagged && o.header.QN == a.header.QN && source(o) == source(a)
			}
		case onPTP:
			ptpFollow(all, k, list)
		}
	}
}

// ptpFollow: an odd sequenceId shows if the sequence goes on, and before it
// began; a Sync's flag if its Follow_Up and another Sync come.
func ptpFollow(all []place, k int, list []Packet) {
	a := &all[k]
	body := func(p *place) []byte { return list[p.packet].Data[p.at : p.at+p.n] }
	same := func(x, y []byte) bool {
		return x[0] == y[0] && x[4] == y[4] && bytes.Equal(x[20:30], y[20:30])
	}
	b, before, after := body(a), 0, 0
	for j := range all {
		switch o := &all[j]; {
		case o.layer != onPTP || !same(body(o), b):
		case j < k:
			before++
		case j > k:
			after++
		}
	}
	if msg.Type(b[0]&15) == msg.DelayResp { // its asker asked before, and goes on
		asks := func(p *place) bool {
			x := body(p)
			return p.layer == onPTP && msg.Type(x[0]&15) == msg.DelayReq && bytes.Equal(x[20:30], b[44:54])
		}
		a.first = slices.ContainsFunc(all[:k], func(p place) bool { return asks(&p) }) &&
			slices.ContainsFunc(all[k:], func(p place) bool { return asks(&p) })
		return
	}
	// Of unicast there is a sequence for each receiver.
	group := b[6]&4 == 0
	a.follows = numbered(msg.Type(b[0]&15)) && before > 1 && after > 0 && group
	a.first = after > 0 && before > 0 && group
}

// mutate alters one field and returns the packets of the capture that differ.
func mutate(f *field, c *place, list []Packet, r *rand.Rand) []Packet {
	b := bytes.Clone(list[c.packet].Data)
	f.alter(b[c.at:c.at+c.n], r)
	if f.mends != nil {
		f.mends(c, b, c.at)
	} else {
		mend(c, b)
	}
	m := append([]Packet(nil), list...)
	m[c.packet].Data = b
	return m
}

// fresh are the findings that the unaltered capture does not have.
func fresh(r *Report, had map[string]bool) (list []*Finding) {
	for k := range r.Findings {
		f := &r.Findings[k]
		if !f.Note && !had[fmt.Sprint(f.Packet, f.Clause, f.Says)] {
			list = append(list, f)
		}
	}
	return list
}

// specimen is a capture to be altered.
type specimen struct {
	name string
	list []Packet
	had  map[string]bool
}

func specimens(t *testing.T) (all []specimen, by [layers][]place) {
	t.Helper()
	add := func(name string, list []Packet, crc bool) {
		s := specimen{name, list, map[string]bool{}}
		for _, f := range judge(list).Findings {
			s.had[fmt.Sprint(f.Packet, f.Clause, f.Says)] = true
		}
		for _, p := range places(len(all), list, crc) {
			by[p.layer] = append(by[p.layer], p)
		}
		all = append(all, s)
	}
	for _, name := range []string{"siw-rping", "siw-rping-64k", "siw-write-sizes", "siw-send-sizes", "siw-read-sizes", "siw-srq",
		"siw-echo", "siw-sge", "siw-large-send", "siw-rping-ipv6", "siw-p2p-write", "siw-err-wbad", "siw-err-rbad", "siw-err-toolong-multiseg"} {
		add(name, load(t, golden+name+".pcap"), false)
	}
	add("siw-crc", load(t, golden+"siw-crc.pcap"), true)
	for _, name := range []string{"l2-e2e", "udpv4-e2e", "udpv6-p2p", "transparent", "g8275.1", "gptp"} {
		add(name, load(t, "../../check/linuxptp/testdata/"+name+".pcap"), false)
	}
	list := load(t, golden+"siw-write-sizes.pcap")
	for k := range list {
		list[k].Data = fabric(opa.Framing88B5, list[k].Data)
		list[k].OrigLen = len(list[k].Data)
	}
	add("16B", list, false)
	for seed, n := uint64(0), 0; n < 40; seed++ {
		p, r := planOf(seed)
		gso := p.side[0].IWARP.GSO || p.side[1].IWARP.GSO // FPDUs of several segments
		if p.cable != (cable{}) || p.posts < 4 || p.reject || p.end == 1 || p.end > 2 || gso || p.side[0].Frames != nic.Wire || p.side[1].Frames != nic.Wire {
			continue
		}
		list, err := p.play(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := judge(list).Flows[0]
		if a := f.Agreed; a != "" && f.Sides[0].Retransmissions+f.Sides[1].Retransmissions == 0 && !strings.Contains(a, "responder on") && !strings.Contains(a, "initiator on") {
			add(fmt.Sprint("engine ", seed), list, strings.Contains(a, "CRC on"))
			n++
		}
	}
	marked, markers := withMarkers()
	for _, m := range markers {
		m.capture = len(all)
		by[onMarker] = append(by[onMarker], m)
	}
	add("markers", marked, true)
	return all, by
}

// TestMutants: 1,000 captures with one altered field each, by a seed.
func TestMutants(t *testing.T) {
	t.Parallel()
	all, by := specimens(t)
	const tries = 1000
	r := rand.New(rand.NewPCG(1588, 5044))
	packets, clauses, missed := 0, 0, map[string]int{}
	for n := range tries {
		f := &fields[n%len(fields)]
		c := choose(f, by[f.on], all, r)
		if c == nil {
			t.Fatalf("nowhere to alter %s", f.name)
		}
		s := &all[c.capture]
		mutant := mutate(f, c, s.list, r)
		found := fresh(judge(mutant), s.had)
		if len(found) == 0 || found[0].Packet != c.packet+1 {
			t.Errorf("%s of packet %d of %s: %v", f.name, c.packet+1, s.name, found)
			continue
		}
		packets++
		got := found[0]
		for _, x := range found {
			// What the altered segment was answered with quotes it as it was.
			if quoted := f.on == onFPDU && x.Says == termQuote.Says; x.Packet != got.Packet && !quoted {
				t.Errorf("%s of packet %d of %s: %v, and %v", f.name, c.packet+1, s.name, got, x)
			}
		}
		if got.Clause == f.rule.Clause {
			clauses++
		} else {
			missed[fmt.Sprintf("%s: %s: %s", f.name, got.Clause, got.Says)]++
		}
	}
	t.Logf("%d mutants: %d at the right packet, %d with the right clause; others: %v", tries, packets, clauses, missed)
	if packets != tries || clauses < tries*95/100 {
		t.Errorf("%d of %d at the right packet, %d with the right clause", packets, tries, clauses)
	}
}

// choose picks a place where the field can be altered.
func choose(f *field, list []place, all []specimen, r *rand.Rand) *place {
	for range 20_000 {
		c := &list[r.IntN(len(list))]
		b := all[c.capture].list[c.packet].Data
		old := all[c.capture].had[fmt.Sprint(c.packet+1, f.rule.Clause, f.rule.Says)]
		if !old && (f.where == nil || f.where(c, b[c.at:c.at+c.n])) {
			return c
		}
	}
	return nil
}
