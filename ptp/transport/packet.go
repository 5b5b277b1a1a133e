package transport

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"tapir/ptp/msg"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// What can be wrong with a frame, beside the errors of the packages ether, ip
// and udp.
var (
	ErrNotPTP   = errors.New("transport: no PTP message")
	ErrChecksum = errors.New("transport: UDP checksum wrong")
)

// Packet is a PTP message inside an Ethernet frame. Its methods edit the frame
// in place and keep the UDP checksum right, or as wrong as it was.
type Packet struct {
	Kind   Kind
	Header ether.Header
	Src    Addr
	Dst    Addr   // never zero
	Event  bool   // over UDP: to the event port; else by the message's type
	Body   []byte // the message and padding behind it, borrowed from the frame
	frame  []byte
	net    int // place of the IP header in frame
	udp    int // of the UDP header; 0 on Ethernet
}

// Decapsulate finds the message in an Ethernet frame (borrowed) with up to two
// VLAN tags. ErrNotPTP is not an error of the frame: it is about something
// else. Fragments are none of PTP's business.
func Decapsulate(b []byte) (Packet, error) {
	p, err := find(b)
	if err != nil {
		return Packet{}, err
	}
	if p.udp != 0 && !p.validChecksum() {
		return Packet{}, ErrChecksum
	}
	return p, nil
}

// Find is Decapsulate for those who pass frames on: it leaves the checksum to
// the receiver.
func Find(b []byte) (Packet, bool) {
	p, err := find(b)
	return p, err == nil
}

func find(b []byte) (p Packet, err error) {
	p.frame = b
	if p.Header, p.net, err = ether.Parse(b); err != nil {
		return p, err
	}
	switch p.Header.Type {
	case ether.TypePTP:
		if p.Body = b[p.net:]; len(p.Body) == 0 {
			return p, ErrNotPTP
		}
		p.Src, p.Dst = Addr{MAC: p.Header.Src}, Addr{MAC: p.Header.Dst}
		p.Event = msg.Type(p.Body[0] & 15).Event()
		return p, nil
	case ether.TypeIPv4:
		p.Kind = UDPv4
	case ether.TypeIPv6:
		p.Kind = UDPv6
	default:
		return p, ErrNotPTP
	}
	return p, p.findUDP()
}

func (p *Packet) findUDP() error {
	h, payload, err := ip.Parse(p.frame[p.net:])
	switch {
	case err != nil:
		return err
	case h.Proto != ip.ProtoUDP || h.IsFragment() || (h.Version == 4) != (p.Kind == UDPv4):
		return ErrNotPTP
	}
	u, body, err := udp.Parse(payload)
	switch {
	case err != nil:
		return err
	case u.Dst != EventPort && u.Dst != GeneralPort || len(body) == 0:
		return ErrNotPTP
	}
	p.Src, p.Dst = Addr{IP: h.Src}, Addr{IP: h.Dst}
	p.Event, p.Body = u.Dst == EventPort, body
	p.udp = p.net + h.HeaderLen()
	return nil
}

// datagram is the UDP header with its payload.
func (p *Packet) datagram() []byte { return p.frame[p.udp : p.udp+udp.HeaderLen+len(p.Body)] }

// validChecksum reports whether the datagram has the right checksum; on IPv4
// it may have none.
func (p *Packet) validChecksum() bool {
	d := p.datagram()
	if binary.BigEndian.Uint16(d[6:]) == 0 {
		return p.Kind == UDPv4
	}
	return ip.Checksum(d, ip.PseudoSum(p.Src.IP, p.Dst.IP, ip.ProtoUDP, len(d))) == 0
}

// edit replaces octets of the message, at an even place and an even number of
// them (RFC 1624).
func (p *Packet) edit(at int, v []byte) {
	old := p.Body[at : at+len(v)]
	if p.udp != 0 {
		place := p.frame[p.udp+6:]
		if sum := binary.BigEndian.Uint16(place); sum != 0 {
			s := uint32(^sum) + uint32(^ip.Fold(ip.Sum(old, 0))) + uint32(ip.Fold(ip.Sum(v, 0)))
			if sum = ^ip.Fold(s); sum == 0 {
				sum = 0xffff
			}
			binary.BigEndian.PutUint16(place, sum)
		}
	}
	copy(old, v)
}

// AddCorrection adds to the correctionField of a message that has been parsed.
func (p *Packet) AddCorrection(by msg.TimeInterval) {
	old := msg.TimeInterval(binary.BigEndian.Uint64(p.Body[msg.CorrectionAt:]))
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], uint64(old.Add(by)))
	p.edit(msg.CorrectionAt, v[:])
}

// AddFlags sets flags of a message that has been parsed.
func (p *Packet) AddFlags(f msg.Flags) {
	var v [2]byte
	binary.BigEndian.PutUint16(v[:], binary.BigEndian.Uint16(p.Body[msg.FlagsAt:])|uint16(f))
	p.edit(msg.FlagsAt, v[:])
}

// SetTimestamp sets the timestamp of a message that has been parsed and has
// one, as one-step clocks do while it leaves.
func (p *Packet) SetTimestamp(t msg.Timestamp) {
	var v [msg.TimestampLen]byte
	t.Put(v[:])
	p.edit(msg.BodyAt, v[:])
}

// OneStep writes what one-step clocks do into the event message of a frame that
// leaves at that stamp: its time into a Sync, and into the correctionField of
// a Pdelay_Resp how long ago its request came, at since.
func OneStep(bytes []byte, at, since frame.Stamp) {
	p, ok := Find(bytes)
	if !ok {
		return
	}
	if msg.Type(p.Body[0]&15) == msg.Sync {
		p.SetTimestamp(msg.TimestampOf(at))
		return
	}
	p.AddCorrection(msg.IntervalOf(time.Duration(at - since)))
}

// Reply fills the empty frame f with m as a general message from the same
// sender to the same receivers: the Follow_Up that a two-step clock adds to a
// one-step Sync that passes it. f needs as much room as p's frame has octets,
// and m must be no longer than p's message.
func (p *Packet) Reply(f *frame.Frame, m *msg.Message) {
	head := len(p.frame) - len(p.Body)
	if p.udp != 0 {
		head = p.udp + udp.HeaderLen
	}
	n := m.Len()
	b := f.Extend(head + n)
	copy(b, p.frame[:head])
	m.Append(b[head:head])
	if p.udp == 0 {
		return
	}
	u := udp.Header{Src: GeneralPort, Dst: GeneralPort}
	u.Put(b[p.udp:], n)
	if h := b[p.net:p.udp]; p.Kind == UDPv4 {
		binary.BigEndian.PutUint16(h[2:], uint16(len(b)-p.net))
		h[10], h[11] = 0, 0
		binary.BigEndian.PutUint16(h[10:], ip.Checksum(h, 0))
	} else {
		binary.BigEndian.PutUint16(h[4:], uint16(len(b)-p.net-ip.HeaderLen6))
	}
	putChecksum(b[p.udp:], p.Src.IP, p.Dst.IP)
}

// putChecksum sets the checksum of a datagram in which it is 0.
func putChecksum(datagram []byte, src, dst netip.Addr) {
	sum := ip.Checksum(datagram, ip.PseudoSum(src, dst, ip.ProtoUDP, len(datagram)))
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(datagram[6:], sum)
}
