package fault

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// packet is a RoCE packet in a frame.
type packet struct {
	ib.Packet
	src, dst netip.Addr
	bth, end int // where in the frame the BTH begins, and where the ICRC has ended
	start    ib.ICRC
}

// lookRoCE takes RoCE v2: a UDP datagram at l4 whose payload is rest.
func (t *thing) lookRoCE(b []byte, n, l4 int, h *ip.Header, rest []byte) {
	start, length := ib.ICRCIPv6, ip.HeaderLen6
	if h.Version == 4 {
		start, length = ib.ICRCIPv4, ip.HeaderLen4
	}
	if l4-n != length { // nobody takes one with options
		return
	}
	bth := l4 + udp.HeaderLen
	t.lookPacket(b, packet{src: h.Src, dst: h.Dst, bth: bth, end: bth + len(rest), start: start(b[n:bth])})
}

// lookRoCEv1 takes what follows the Ethernet header.
func (t *thing) lookRoCEv1(b []byte, n int) {
	h, body, err := ib.ParseGRH(b[n:])
	if err != nil {
		return
	}
	bth := n + ib.GRHLen
	t.lookPacket(b, packet{src: netip.AddrFrom16(h.SGID).Unmap(), dst: netip.AddrFrom16(h.DGID).Unmap(), bth: bth,
		end: bth + len(body), start: ib.ICRCGRH(b[n:])})
}

// lookPacket takes a packet that its receiver will take: one with a right ICRC.
func (t *thing) lookPacket(b []byte, p packet) {
	if !p.start.Check(b[p.bth:p.end]) || p.Parse(b[p.bth:p.end-ib.ICRCLen]) != nil {
		return
	}
	t.class, t.at, t.roce = ofRoCE, p.bth, p
}

// message is which message of communication management the packet carries, 0 if none.
func (p *packet) message() uint16 {
	if p.DestQP != ib.QP1 || len(p.Payload) != ib.MADLen || p.Payload[1] != ib.ClassCM {
		return 0
	}
	return uint16(p.Payload[16])<<8 | uint16(p.Payload[17])
}

// carries reports whether the operation is one of a connection's requests or responses, whose
// entry in the opcode table is good.
func (p *packet) carries(good func(op ib.Opcode, o *ib.Operation) bool) bool {
	o := p.Opcode.Operation()
	return o != nil && p.DestQP != ib.QP1 && good(p.Opcode.Op(), o)
}

// roceKinds are the RoCE packets that rules strike.
func roceKinds() []kind {
	among := func(list ...ib.Opcode) func(ib.Opcode, *ib.Operation) bool {
		return func(op ib.Opcode, _ *ib.Operation) bool { return slices.Contains(list, op) }
	}
	named := func(prefix string) func(ib.Opcode, *ib.Operation) bool {
		return func(_ ib.Opcode, o *ib.Operation) bool { return strings.HasPrefix(o.Name, prefix) }
	}
	answers := func(is func(ib.Syndrome) bool) func(*thing) bool {
		return func(t *thing) bool {
			return t.roce.carries(among(ib.OpAcknowledge)) && is(t.roce.AETH.Syndrome)
		}
	}
	of := func(w What, good func(ib.Opcode, *ib.Operation) bool, text string) kind {
		return kind{w, ofRoCE, func(t *thing) bool { return t.roce.carries(good) }, text}
	}
	all := []kind{
		{"roce", ofRoCE, func(*thing) bool { return true }, "any RoCE packet"},
		of("roce-send", named("SEND"), "a packet of a Send, on RoCE"),
		of("roce-write", named("RDMA WRITE"), "a packet of an RDMA Write, on RoCE"),
		of("roce-read-request", among(ib.OpReadRequest), "an RDMA Read request, on RoCE"),
		of("roce-read-response", named("RDMA READ response"), "a packet of an RDMA Read response, on RoCE"),
		of("roce-atomic", among(ib.OpCompareSwap, ib.OpFetchAdd), "an atomic request, on RoCE"),
		of("roce-atomic-ack", among(ib.OpAtomicAcknowledge), "the response to an atomic request, on RoCE"),
		{"roce-ack", ofRoCE, answers(ib.Syndrome.ACK), "an acknowledgement, on RoCE"},
		{"roce-nak", ofRoCE, answers(ib.Syndrome.NAK), "a NAK, on RoCE"},
		{"roce-rnr-nak", ofRoCE, answers(func(s ib.Syndrome) bool { _, ok := s.RNR(); return ok }),
			"an RNR NAK, on RoCE"},
		{"roce-cnp", ofRoCE, func(t *thing) bool { return t.roce.Opcode == ib.CNP },
			"a congestion notification packet"},
	}
	for attr := ib.AttrREQ; attr <= ib.AttrAPR; attr++ {
		name := ib.CMName(attr)
		all = append(all, kind{What("cm-" + strings.ToLower(strings.ReplaceAll(name, "_", "-"))), ofRoCE,
			func(t *thing) bool { return t.roce.message() == attr }, "the " + name + " of communication management"})
	}
	return all
}

// bits is a part of a RoCE packet: bits of a header, 0 for all that follows but for pad and ICRC.
type bits struct {
	name   string
	header ib.Headers // 0: the BTH
	at     int        // bits from the beginning of the header, the most significant first
	size   int
}

// The parts of a RoCE packet that no header of the opcode table is.
const (
	payloadField = "payload"
	icrcField    = "icrc"
)

// roceFields are those of RoCE packets (InfiniBand Architecture 1.3 sections 9.2, 9.3 and 7.8).
var roceFields = []bits{
	{"opcode", 0, 0, 8}, {"se", 0, 8, 1}, {"migreq", 0, 9, 1}, {"pad-count", 0, 10, 2}, {"tver", 0, 12, 4},
	{"p-key", 0, 16, 16}, {"fecn", 0, 32, 1}, {"becn", 0, 33, 1}, {"dest-qp", 0, 40, 24}, {"ackreq", 0, 64, 1},
	{"psn", 0, 72, 24},
	{"xrc-srq", ib.HasXRCETH, 8, 24},
	{"q-key", ib.HasDETH, 0, 32}, {"src-qp", ib.HasDETH, 40, 24},
	{"va", ib.HasRETH, 0, 64}, {"r-key", ib.HasRETH, 64, 32}, {"dma-length", ib.HasRETH, 96, 32},
	{"atomic-va", ib.HasAtomicETH, 0, 64}, {"atomic-r-key", ib.HasAtomicETH, 64, 32},
	{"swap-add", ib.HasAtomicETH, 96, 64}, {"compare", ib.HasAtomicETH, 160, 64},
	{"syndrome", ib.HasAETH, 0, 8}, {"msn", ib.HasAETH, 8, 24},
	{"original", ib.HasAtomicAckETH, 0, 64},
	{"immediate", ib.HasImm, 0, 32},
	{"invalidate-r-key", ib.HasIETH, 0, 32},
	{payloadField, 0, 0, 0},
	{icrcField, 0, 0, 8 * ib.ICRCLen},
}

func roceField(name string) *bits {
	i := slices.IndexFunc(roceFields, func(f bits) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return &roceFields[i]
}

// header is where in the frame a header begins; false if the packet does not have it.
func (p *packet) header(h ib.Headers) (at int, ok bool) {
	if h == 0 {
		return p.bth, true
	}
	has, _ := p.Opcode.Headers()
	return p.bth + ib.BTHLen + (has & (h - 1)).Len(), has&h != 0
}

// value is a field of the packet in frame b; false if it has none, or it is the payload.
func (f *bits) value(p *packet, b []byte) (v uint64, ok bool) {
	at, ok := p.header(f.header)
	if !ok || f.size == 0 {
		return 0, false
	}
	for n := range f.size {
		octet, mask := f.octet(p, at, f.size-1-n)
		v <<= 1
		if b[octet]&mask != 0 {
			v |= 1
		}
	}
	return v, true
}

// octet is where bit n of a field is, 0 being the least significant; its header begins at at.
func (f *bits) octet(p *packet, at, n int) (octet int, mask byte) {
	if f.name == icrcField { // least significant octet first
		return p.end - ib.ICRCLen + n/8, 1 << (n % 8)
	}
	last := f.at + f.size - 1 - n
	return at + last/8, 0x80 >> (last % 8)
}

// placeRoCE is what a rule flips in the packet in hand, drawn from its seed where the rule leaves
// it open; false if the packet has no such field.
func (r *rule) placeRoCE(p *packet) (octet int, mask byte, ok bool) {
	if f := nvmeField(r.kind, r.Field); f != nil {
		return r.placeNVMe(p, f)
	}
	f := roceField(r.Field)
	switch {
	case f == nil:
		return r.pick(p.bth, p.end-p.bth, false, r.rng.IntN)
	case f.size == 0:
		return r.pick(p.bth+p.HeaderLen(), len(p.Payload), false, r.rng.IntN)
	}
	at, ok := p.header(f.header)
	if !ok {
		return 0, 0, false
	}
	n, ok := r.bitOf(f.size)
	if !ok {
		return 0, 0, false
	}
	octet, mask = f.octet(p, at, n)
	return octet, mask, true
}

// Match says that a field has a value.
type Match struct {
	Field string
	Value uint64
}

// String is how a topology file says it.
func (m Match) String() string { return fmt.Sprintf("%s: %d", m.Field, m.Value) }

// checkMatch says what is wrong with a rule's values of fields.
func (r *Rule) checkMatch(k *kind) error {
	if len(r.Match) > 0 && k.class != ofRoCE {
		return fmt.Errorf("is of RoCE packets")
	}
	for _, m := range r.Match {
		f := roceField(m.Field)
		switch {
		case f == nil || f.size == 0:
			return fmt.Errorf("%s: expected a field of RoCE packets: %s", m.Field, strings.Join(matchFields(), ", "))
		case f.size < 64 && m.Value>>f.size != 0:
			return fmt.Errorf("%s: it has %d bits: expected a number up to %d", m.Field, f.size, uint64(1)<<f.size-1)
		}
	}
	return nil
}

// matchFields are the fields that have a value.
func matchFields() (names []string) {
	for _, f := range roceFields {
		if f.size > 0 {
			names = append(names, f.name)
		}
	}
	return names
}

// matches reports whether the packet in hand has all values.
func (r *rule) matches(j *judgement) bool {
	for _, m := range r.Match {
		if v, ok := roceField(m.Field).value(&j.t.roce, j.frame); !ok || v != m.Value {
			return false
		}
	}
	return true
}

// mendICRC makes the ICRC right of the packet in b, and the UDP checksum that covers it.
func (f *Bitflip) mendICRC(b []byte) {
	p := f.icrc
	if p.end > len(b) {
		return
	}
	var right [ib.ICRCLen]byte
	at := p.end - ib.ICRCLen
	p.start.Headers(b[p.bth : p.bth+ib.BTHLen]).Payload(b[p.bth+ib.BTHLen : at]).Put(right[:])
	for i, c := range right {
		f.xor(b, at+i, b[at+i]^c)
	}
}

// mostFlows bounds the flows of RoCE that are followed at a time; the one begun first is
// forgotten.
const mostFlows = 1 << 14

// flowKey is a direction of a connection, or the datagrams from one queue pair to another.
type flowKey struct {
	src, dst      netip.Addr
	destQP, srcQP uint32 // srcQP of datagrams
}

// flow is what passes in one direction between two queue pairs.
type flow struct {
	seen  [3]window // of requests, responses of Reads and acknowledgements
	tally tally
	again []again
	qps   []ownedQP
}

// again is a packet that is to be struck when it is transmitted once more.
type again struct {
	rule  *rule
	psn   uint32
	space int
	left  int
}

// window remembers which packet sequence numbers have passed, back to windowLen before the
// newest.
type window struct {
	begun  bool
	newest uint32
	passed [windowLen / 64]uint64
}

const windowLen = 4096

// first reports whether psn passes for the first time.
func (w *window) first(psn uint32) bool {
	ahead := (psn - w.newest) & ib.PSNMask
	switch {
	case !w.begun || ahead > windowLen && ahead < 1<<23:
		*w = window{begun: true, newest: psn}
	case ahead < 1<<23:
		for w.newest != psn {
			w.newest = (w.newest + 1) & ib.PSNMask
			w.passed[w.newest%windowLen/64] &^= 1 << (w.newest % 64)
		}
	case 1<<24-ahead >= windowLen:
		return false
	}
	word, bit := &w.passed[psn%windowLen/64], uint64(1)<<(psn%64)
	passed := *word&bit != 0
	*word |= bit
	return !passed
}

// space is which of a flow's windows a packet counts in; false if it is never sent again: each
// NAK, datagram and congestion notification has a life of its own.
func (p *packet) space() (int, bool) {
	o := p.Opcode.Operation()
	switch {
	case o == nil || p.Opcode.Transport() == ib.TransportUD:
		return 0, false
	case o.Request:
		return 0, true
	case o.Headers&ib.HasAETH == 0 || o.Payload:
		return 1, true
	case p.AETH.Syndrome.ACK():
		return 2, true
	}
	return 0, false
}

// flow finds the flow of the packet in hand.
func (e *Engine) flow(p *packet) *flow {
	k := flowKey{src: p.src, dst: p.dst, destQP: p.DestQP}
	if p.Opcode.Transport() == ib.TransportUD {
		k.srcQP = p.DETH.SrcQP
	}
	f := e.flows[k]
	if f == nil {
		f = &flow{}
		e.flows[k], e.flowOrder = f, append(e.flowOrder, k)
		if len(e.flowOrder) > mostFlows {
			delete(e.flows, e.flowOrder[0])
			e.flowOrder = slices.Delete(e.flowOrder, 0, 1)
		}
	}
	return f
}

// packet judges a RoCE packet: as a frame, and once for all transmissions of it as a packet.
func (j *judgement) packet() {
	p := &j.t.roce
	j.f = j.e.flow(p)
	space, repeats := p.space()
	first := !repeats || j.f.seen[space].first(p.PSN)
	for _, r := range j.e.rules {
		switch {
		case !r.of(j):
		case r.kind.class == ofFrame && r.kind.is(j.t):
			j.meet(r, &j.e.tally[j.from])
		case first && r.kind.class == ofRoCE && r.kind.is(j.t) && r.matches(j) && r.ofQP(j) && r.hits(p):
			if j.meet(r, &j.f.tally) && r.Transmissions > 1 && repeats && len(j.f.again) < mostStrikes {
				j.f.again = append(j.f.again, again{r, p.PSN, space, r.Transmissions - 1})
			}
		}
	}
	if !first {
		j.packetAgain(space)
	}
}

// hits reports whether a packet has what the rule flips.
func (r *rule) hits(p *packet) bool {
	f := roceField(r.Field)
	if r.Effect != Flip || f == nil || r.kind.isNVMe() {
		return true
	}
	_, ok := p.header(f.header)
	return ok && (f.size > 0 || len(p.Payload) > 0)
}

// packetAgain strikes a packet that has passed before, where a rule wants more transmissions of it.
func (j *judgement) packetAgain(space int) {
	left := j.f.again[:0]
	for _, a := range j.f.again {
		if a.space == space && a.psn == j.t.roce.PSN {
			j.hit(a.rule, &strike{rule: a.rule, counted: true, what: j.describe()})
			a.left--
		}
		if a.left > 0 {
			left = append(left, a)
		}
	}
	j.f.again = left
}
