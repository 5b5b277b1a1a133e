package fault

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// Verdict is what happens to a frame, in this order: its bits are flipped, it
// is dropped or takes its way, with copies behind it; what is injected goes its
// way behind it.
type Verdict struct {
	Drop   bool
	Delay  time.Duration // later than it would be; others do not wait for it
	Copies int           // besides the frame
	Behind int           // that many later frames of its direction overtake it
	Flips  []Bitflip
	Inject []Injection
	// Struck are the rules that struck, for log and comment.
	Struck []Strike
}

// BehindWithin bounds how long a frame waits to be overtaken.
const BehindWithin = time.Second

// Bitflip flips bits of an octet of the frame.
type Bitflip struct {
	Octet int
	Mask  byte
	// L4 and Sum are where the octets begin that the checksum at Sum covers,
	// which has to be mended; 0: none.
	L4, Sum int
	// FC is where an FCoE frame begins whose CRC has to be mended; 0: it stays.
	FC int
	// icrc is the packet whose ICRC has to be mended, too; nil: it stays.
	icrc *packet
}

// Injection is a frame that enters the link as if it came from end From.
type Injection struct {
	From  Side
	Frame []byte
	Note  string
}

// Strike is one rule that struck.
type Strike struct {
	Rule   string
	Effect Effect
	What   string // that was struck
	At     frame.Time
}

// String is the strike for people.
func (s Strike) String() string { return fmt.Sprintf("%s: %s: %s", s.Rule, done[s.Effect], s.What) }

var done = map[Effect]string{Drop: "dropped", Delay: "delayed", Duplicate: "duplicated", Flip: "bit flipped",
	Reset: "connection reset", Reorder: "reordered"}

// Note is what the comment of the frame says.
func (v *Verdict) Note() string {
	var all []string
	for _, s := range v.Struck {
		all = append(all, s.String())
	}
	for _, f := range v.Flips {
		all = append(all, fmt.Sprintf("octet %d is xored with %#02x", f.Octet, f.Mask))
	}
	return strings.Join(all, "; ")
}

// Apply flips the bits in b, the frame with its checksums complete.
func (v *Verdict) Apply(b []byte) {
	for _, f := range v.Flips {
		f.apply(b)
	}
}

func (f *Bitflip) apply(b []byte) {
	f.xor(b, f.Octet, f.Mask)
	if f.icrc != nil {
		f.mendICRC(b)
	}
	if f.FC > 0 {
		mendFC(b, f.FC)
	}
}

// xor changes an octet, and the checksum that covers it.
func (f *Bitflip) xor(b []byte, octet int, mask byte) {
	old := uint16(b[octet])
	b[octet] ^= mask
	if f.Sum == 0 || octet < f.L4 || octet == f.Sum || octet == f.Sum+1 || f.Sum+2 > len(b) {
		return
	}
	shift := 8 * (1 - (octet-f.L4)&1)
	was, is := old<<shift, uint16(b[octet])<<shift
	sum := binary.BigEndian.Uint16(b[f.Sum:])
	if sum == 0 && f.Sum-f.L4 == udpSumAt {
		return // no checksum
	}
	// RFC 1624 section 3.
	binary.BigEndian.PutUint16(b[f.Sum:], ^ip.Fold(uint32(^sum)+uint32(^was)+uint32(is)))
}

// verdict is what came out, nil if the frame passes as it is.
func (j *judgement) verdict() *Verdict {
	if v := &j.v; v.Drop || len(v.Struck) > 0 || len(v.Inject) > 0 {
		return v
	}
	return nil
}

// strike gives the frame what the rule of s does.
func (j *judgement) strike(s *strike) {
	r, v := s.rule, &j.v
	if !s.counted {
		s.counted = true
		r.struck++
	}
	v.Struck = append(v.Struck, Strike{r.Name, r.Effect, s.what, j.now})
	switch r.Effect {
	case Drop:
		v.Drop = true
	case Delay:
		v.Delay = max(v.Delay, r.By)
	case Duplicate:
		v.Copies += max(r.Copies, 1)
	case Reorder:
		v.Behind = max(v.Behind, r.Behind, 1)
	case Reset:
		j.reset(r)
	}
}

// flip notes a bit to be flipped.
func (j *judgement) flip(octet int, mask byte, r *rule) {
	f := Bitflip{Octet: octet, Mask: mask, L4: j.t.l4, Sum: j.t.sum}
	if r.Stale {
		f.L4, f.Sum = 0, 0
	}
	if j.t.class == ofFCoE && !r.Stale && r.Field != fcCRCField && r.kind.class == ofFCoE {
		f.FC = j.t.at
	}
	if r.MendICRC {
		p := j.t.roce
		f.icrc = &p
	}
	j.v.Flips = append(j.v.Flips, f)
}

// segmentAt is the place of the segment's payload in the stream as it was
// before the segment was taken.
func (j *judgement) segmentAt() int64 { return j.h.place(j.t) }

// payloadAt is where the payload begins in the frame.
func (t *thing) payloadAt() int { return t.l4 + t.head }

// reset ends the connection of the segment.
func (j *judgement) reset(r *rule) {
	j.v.Drop = true
	if j.c != nil {
		j.c.dead, j.c.tell = true, r.To
	}
	if r.To == Either || r.To == j.from {
		j.refusal()
	}
	if r.To == Either || r.To != j.from {
		j.inject(j.from, false, tcp.Header{Seq: j.t.tcp.Seq, Ack: j.t.tcp.Ack, Flags: rst | j.t.tcp.Flags&ack})
	}
}

// refuse drops a segment of a connection that is gone. It is answered as a host
// does that knows nothing of it, so whoever speaks is told in the end, whatever
// was lost before (RFC 9293 section 3.10.7.1).
func (j *judgement) refuse() {
	j.v.Drop = true
	if j.c.tell == Either || j.c.tell == j.from {
		j.refusal()
	}
}

// refusal answers the segment with an RST.
func (j *judgement) refusal() {
	t := &j.t.tcp
	switch {
	case t.Flags.Has(rst):
	case t.Flags.Has(ack):
		j.inject(1-j.from, true, tcp.Header{Seq: t.Ack, Flags: rst})
	default:
		n := len(j.t.payload)
		for _, f := range []tcp.Flags{syn, fin} {
			if t.Flags.Has(f) {
				n++
			}
		}
		j.inject(1-j.from, true, tcp.Header{Ack: t.Seq.Add(n), Flags: rst | ack})
	}
}

// inject sends h with the addresses of the frame in hand, or the other way
// round.
func (j *judgement) inject(from Side, back bool, h tcp.Header) {
	eth, _, _ := ether.Parse(j.frame)
	src, dst := j.t.src, j.t.dst
	if back {
		eth.Src, eth.Dst = eth.Dst, eth.Src
		src, dst = dst, src
	}
	h.SrcPort, h.DstPort = src.Port(), dst.Port()
	i := ip.Header{Version: j.t.ip.Version, TTL: 64, Proto: ip.ProtoTCP, DF: j.t.ip.Version == 4, Src: src.Addr(),
		Dst: dst.Addr(), PayloadLen: h.Len()}
	b := eth.AppendTo(nil)
	l3 := len(b)
	b = append(b, make([]byte, i.HeaderLen()+h.Len())...)
	i.Put(b[l3:])
	seg := b[l3+i.HeaderLen():]
	h.Put(seg)
	binary.BigEndian.PutUint16(seg[tcp.ChecksumOffset:], ip.Checksum(seg,
		ip.PseudoSum(i.Src, i.Dst, ip.ProtoTCP, len(seg))))
	j.v.Inject = append(j.v.Inject, Injection{from, b, "RST injected on the link"})
}

// describe says what is being judged.
func (j *judgement) describe() string {
	t := j.t
	var s string
	switch i := t.item; {
	case i != nil && i.pdu != nil:
		s = fmt.Sprintf("iSCSI PDU %d (operation code %#02x)", i.number, byte(i.pdu.bhs.Opcode()))
	case i != nil && i.startup:
		s = "MPA " + i.kind.String()
	case i != nil && !i.opcode.Valid():
		s = fmt.Sprintf("FPDU %d", i.number)
	case i != nil:
		s = fmt.Sprintf("FPDU %d (%v %d, segment %d)", i.number, i.opcode, i.message, i.segment)
	case t.class == ofTCP && len(t.payload) > 0:
		s = fmt.Sprintf("TCP segment %v with %d octets", t.tcp.Flags, len(t.payload))
	case t.class == ofTCP:
		s = fmt.Sprintf("TCP segment %v", t.tcp.Flags)
	case t.class == ofRoCE:
		s = fmt.Sprintf("%v PSN %d to QP %d", t.roce.Opcode, t.roce.PSN, t.roce.DestQP)
	case t.class == ofFCoE:
		s = fmt.Sprintf("FCoE frame (R_CTL %#02x)", uint8(t.fc))
	case t.class == ofFIP:
		s = fmt.Sprintf("FIP frame (operation %d, subcode %d)", t.fip>>8, t.fip&0xff)
	case t.class == ofPTP:
		s = t.ptp.String()
	case t.class == ofFabric && t.bypass:
		s = fmt.Sprintf("16B packet with L4 %#02x", t.fabL4)
	case t.class == ofFabric:
		s = "9B packet"
	case t.arp:
		s = "ARP packet"
	default:
		s = fmt.Sprintf("frame of %d octets", len(j.frame))
	}
	s += " from " + j.e.names[j.from]
	if j.c != nil {
		s += fmt.Sprintf(", connection %d", j.c.number)
	}
	for _, q := range *j.qps() {
		if q.qpn > 0 {
			s += fmt.Sprintf(", QP %d of %s", q.qpn, q.nic)
		}
	}
	return s
}
