package fault

import (
	"fmt"
	"slices"
	"time"

	"tapir/lab/conf"
	"tapir/ptp/msg"
	"tapir/rdmap"
)

// Side is an end of a link: a frame comes from side A or from side B.
type Side uint8

// The ends of a link.
const (
	A Side = iota
	B
	// Either stands for both where a rule says so.
	Either
)

// Effect is what a rule does to what it strikes.
type Effect string

// The effects.
const (
	Drop      Effect = "drop"      // it vanishes
	Delay     Effect = "delay"     // it arrives later; others overtake it
	Duplicate Effect = "duplicate" // it arrives more than once
	Flip      Effect = "flip"      // one bit of it is flipped
	Reset     Effect = "reset"     // its TCP connection is gone: whoever speaks on it gets an RST
	Reorder   Effect = "reorder"   // later frames overtake it
)

// Effects are all of them.
var Effects = []Effect{Drop, Delay, Duplicate, Flip, Reset, Reorder}

// What names what a rule strikes.
type What string

// class says how a thing is found.
type class uint8

const (
	ofFrame   class = iota // any frame
	ofTCP                  // a TCP segment
	ofStartup              // an MPA request or reply frame in the stream
	ofFPDU                 // an FPDU
	ofPDU                  // a PDU of iSCSI
	ofMessage              // an RDMAP message, one or more FPDUs
	ofPTP                  // a PTP message
	ofFabric               // an Omni-Path packet on Ethernet
	ofRoCE                 // a RoCE packet with a right ICRC
	ofFCoE                 // an FCoE frame
	ofFIP                  // a FIP frame
)

// kind is what rules know of a What.
type kind struct {
	what  What
	class class
	is    func(*thing) bool
	text  string // what it is, for people
}

// kinds are the things that rules strike.
var kinds = append([]kind{
	{"frame", ofFrame, func(*thing) bool { return true }, "any Ethernet frame"},
	{"arp", ofFrame, func(t *thing) bool { return t.arp }, "an ARP packet"},
	{"tcp", ofTCP, func(*thing) bool { return true }, "any TCP segment"},
	{"data", ofTCP, func(t *thing) bool { return len(t.payload) > 0 }, "a TCP segment with payload"},
	{"ack", ofTCP, (*thing).pureACK, "a TCP segment that only acknowledges"},
	{"syn", ofTCP, func(t *thing) bool { return t.is(syn) && !t.is(ack) }, "a SYN"},
	{"syn-ack", ofTCP, func(t *thing) bool { return t.is(syn | ack) }, "a SYN,ACK"},
	{"fin", ofTCP, func(t *thing) bool { return t.is(fin) }, "a FIN"},
	{"rst", ofTCP, func(t *thing) bool { return t.is(rst) }, "an RST"},
	{"mpa-request", ofStartup, nil, "an MPA request frame"},
	{"mpa-reply", ofStartup, nil, "an MPA reply frame"},
	{"fpdu", ofFPDU, nil, "an FPDU"},
	message("message", func(rdmap.Opcode) bool { return true }, "an RDMAP message of any kind"),
	message("send", rdmap.Opcode.IsSend, "a Send of any kind"),
	message("write", opcode(rdmap.Write), "an RDMA Write"),
	message("read-request", opcode(rdmap.ReadRequestOp), "an RDMA Read Request"),
	message("read-response", opcode(rdmap.ReadResponse), "an RDMA Read Response"),
	message("terminate", opcode(rdmap.TerminateOp), "a Terminate"),
	message("immediate", rdmap.Opcode.IsImmediate, "Immediate Data"),
	message("atomic-request", opcode(rdmap.AtomicRequestOp), "an Atomic Request"),
	message("atomic-response", opcode(rdmap.AtomicResponseOp), "an Atomic Response"),
	{"ptp", ofPTP, func(*thing) bool { return true }, "any PTP message"},
	ptp("sync", msg.Sync), ptp("delay-req", msg.DelayReq), ptp("pdelay-req", msg.PdelayReq),
	ptp("pdelay-resp", msg.PdelayResp), ptp("follow-up", msg.FollowUp), ptp("delay-resp", msg.DelayResp),
	ptp("pdelay-resp-follow-up", msg.PdelayRespFollowUp), ptp("announce", msg.Announce),
	ptp("signaling", msg.Signaling), ptp("management", msg.Management),
	{"16b", ofFabric, func(t *thing) bool { return t.bypass }, "an Omni-Path 16B packet"},
	{"9b", ofFabric, func(t *thing) bool { return !t.bypass }, "an Omni-Path 9B packet"},
}, slices.Concat(pduKinds(), storageKinds(), roceKinds())...)

func message(w What, is func(rdmap.Opcode) bool, text string) kind {
	return kind{w, ofMessage, func(t *thing) bool {
		return t.item != nil && t.item.opcode.Valid() && is(t.item.opcode)
	}, text}
}

func opcode(o rdmap.Opcode) func(rdmap.Opcode) bool {
	return func(other rdmap.Opcode) bool { return other == o }
}

func ptp(w What, m msg.Type) kind {
	return kind{w, ofPTP, func(t *thing) bool { return t.ptp == m }, "a PTP " + m.String()}
}

// Whats are the names of all things, with what each is.
func Whats() (names []What, texts []string) {
	for _, k := range kinds {
		names, texts = append(names, k.what), append(texts, k.text)
	}
	return names, texts
}

func (w What) kind() *kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.what == w })
	if i < 0 {
		return nil
	}
	return &kinds[i]
}

// LastSegment as Rule.Segment means the one with the Last flag.
const LastSegment = -1

// Rule says what happens to which of the things that pass a link. Things are
// counted from 1, for each direction of the link and, if they are parts of TCP
// connections, for each direction of each connection; those of RoCE for each direction between
// two queue pairs. What was sent before is not counted again: a retransmission of an FPDU is the
// same FPDU, and a packet of RoCE with a PSN that has passed is the same packet.
type Rule struct {
	Name   string
	Effect Effect
	What   What
	From   Side // whose things; Either: of both

	// Which of them. Without Nth, Every and Probability: all.
	Nth         []int
	Every       int
	Probability int    // parts per million
	Times       int    // strikes no more than so often; 0: no bound
	After       uint64 // octets of TCP payload that have passed before, in that direction of the connection
	Connection  int    // the nth TCP connection of the link by its SYN; 0: any
	NIC         string // whose queue pair QPN is
	QPN         uint32 // of the connection that an FPDU is on; 0: any
	Port        uint16 // of either end of the connection; 0: any
	Segment     int    // of an RDMAP message: which of its DDP segments; 0: all (to flip and to reset: the first)
	L4          int    // of a 16B packet: its L4 type; -1: any
	Match       []Match
	// Transmissions is how many transmissions of the same octets of a stream, or of the same
	// RoCE packet, are struck; 0: one.
	Transmissions int

	By     time.Duration // of a delay
	Copies int           // of a duplicate, besides the original
	Behind int           // of a reordering: so many later frames overtake
	To     Side          // of a reset: who is told; Either: both
	Field  string        // of a flip: of the thing; empty: all of it
	Octet  int           // of a flip: in the field, negative: from its end
	Bit    int           // of a flip: in the field or octet, 0 is the least significant; -1: drawn from the seed
	// AnyOctet means no octet: Bit is one of the whole field, or the seed chooses
	// the octet of a thing or field without a fixed length.
	AnyOctet bool
	// Stale leaves the TCP or UDP checksum as it was, so that the receiver drops
	// what was flipped; else it is mended and the layer above sees the flip.
	Stale bool
	// MendICRC makes the ICRC of a RoCE packet right again, so that its receiver
	// takes what was flipped.
	MendICRC bool

	Optional bool // it need not strike
}

// NewRule is a rule that strikes every w from either side.
func NewRule(e Effect, w What) Rule {
	return Rule{Effect: e, What: w, From: Either, To: Either, L4: -1, Bit: -1, AnyOctet: true}
}

// String is the rule in short, a good name for it.
func (r *Rule) String() string { return string(r.Effect) + "-" + string(r.What) }

// Check tells what does not go together: the key at fault, as the topology file
// calls it, and why.
func (r *Rule) Check() (key string, err error) {
	k := r.What.kind()
	if k == nil {
		return string(r.Effect), fmt.Errorf("unknown thing %q", r.What)
	}
	inTCP := k.class >= ofTCP && k.class <= ofMessage
	inStream := k.class >= ofStartup && k.class <= ofMessage
	ways := 0
	for _, given := range []bool{len(r.Nth) > 0, r.Every > 0, r.Probability > 0} {
		if given {
			ways++
		}
	}
	for _, c := range []struct {
		bad bool
		key string
		why string
	}{
		{ways > 1, "nth", "nth, every and probability exclude each other"},
		{r.Connection > 0 && !inTCP, "connection", "is of things in TCP connections"},
		{r.QPN > 0 && k.class != ofFPDU && k.class != ofMessage && k.class != ofRoCE, "qp",
			"is of FPDUs, messages and RoCE packets: whose a connection is, is known from the first of them on"},
		{r.QPN > 0 && r.NIC == "", "qp", "say whose it is: {nic: NAME, qpn: NUMBER}, or from which NIC: from"},
		{r.Port > 0 && !inTCP, "port", "is of things in TCP connections"},
		{r.After > 0 && !inTCP, "after", "counts octets of TCP connections"},
		{r.Transmissions > 0 && !inStream && k.class != ofRoCE, "transmissions",
			"is of MPA frames, FPDUs, messages, PDUs of iSCSI and RoCE packets"},
		{r.Segment != 0 && k.class != ofMessage, "segment", "is of RDMAP messages"},
		{r.L4 >= 0 && k.what != "16b", "l4", "is of 16b"},
		{r.Effect == Reset && !inTCP, string(Reset), "only TCP connections can be reset"},
		{r.Effect == Delay && r.By <= 0, string(Delay), "say how long: by"},
		{r.Effect != Delay && r.By > 0, "by", "is of delay"},
		{r.Effect != Duplicate && r.Copies > 0, "copies", "is of duplicate"},
		{r.Effect != Reorder && r.Behind > 0, "behind", "is of reorder"},
		{r.Effect != Reset && r.To != Either, "to", "is of reset"},
		{r.Effect != Flip && r.Field != "", "field", "is of flip"},
		{r.Effect != Flip && !r.AnyOctet, "octet", "is of flip"},
		{r.Effect != Flip && r.Bit >= 0, "bit", "is of flip"},
		{r.Effect != Flip && r.Stale, "checksum", "is of flip"},
		{r.MendICRC && k.class != ofRoCE, "icrc", "is of RoCE packets"},
		{r.Field != "" && !slices.Contains(fieldNames(k), r.Field), "field",
			fmt.Sprintf("%s has no field %s: %s", k.text, r.Field, conf.OneOf(r.Field, fieldNames(k)))},
		{r.Bit >= r.bits(), "bit", fmt.Sprintf("there are bits 0 to %d", r.bits()-1)},
	} {
		if c.bad {
			return c.key, fmt.Errorf("%s", c.why)
		}
	}
	if err := r.checkMatch(k); err != nil {
		return "match", err
	}
	return "", nil
}
