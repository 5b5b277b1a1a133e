package inspect

import (
	"errors"
	"fmt"
	"net/netip"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/ip"
)

type ptpKey struct {
	iface  int
	domain uint8
}

// ptpDomain is what was seen of a domain at one interface.
type ptpDomain struct {
	flow   *Flow
	series map[seriesKey]*ptpSeries
	ports  map[msg.PortIdentity]*ptpSource
}

// seriesKey is what has a sequenceId of its own: section 7.3.7.
type seriesKey struct {
	source msg.PortIdentity
	kind   msg.Type
	dst    transport.Addr
}

// ptpSeries is a run of sequenceIds. A message out of the run is at fault only
// if the one behind it goes on with the run; else messages are missing.
type ptpSeries struct {
	flow *Flow
	last uint16
	odd  *oddSequence
}

type oddSequence struct {
	packet   int
	got      uint16
	expected uint16
}

// ptpSource is what one port has sent and is owed.
type ptpSource struct {
	sync  *ptpEvent
	early *ptpEvent // a Follow_Up that overtook its Sync
	bare  int       // Syncs without the Follow_Up that they announce; below 0: there have been some
	asked map[msg.Type]*ptpAsked
}

// ptpAsked is what a port has asked for, and the answers that fit none of it.
type ptpAsked struct {
	last uint16
	odd  []ptpOdd
}

type ptpOdd struct {
	packet   int
	sequence uint16
	port     msg.PortIdentity
	rule     *Rule
}

type ptpEvent struct {
	sequence uint16
	packet   int
	twoStep  bool
	followed bool
	odd      bool // its sequenceId may be wrong
}

// parseErrors are the rules behind what package msg refuses.
var parseErrors = []struct {
	err  error
	rule *Rule
}{
	{msg.ErrVersion, ptpVersion}, {msg.ErrType, ptpType}, {msg.ErrLength, ptpLength}, {msg.ErrTruncated, ptpLength},
	{msg.ErrNanoseconds, ptpNanos}, {msg.ErrTLV, ptpTLV}, {msg.ErrTLVLength, ptpTLV},
}

// ptpFrame takes an Ethernet frame that carries PTP and reports false for all
// others.
func (i *Inspector) ptpFrame(p *Packet, b []byte) bool {
	x, err := transport.Decapsulate(b)
	if err == transport.ErrChecksum {
		if udpOffloaded(b) {
			i.note(p.Number, "UDP checksums are left to the sender's hardware: not judged")
			x, _ = transport.Find(b)
		} else {
			i.violate(udpChecksum, p.Number, nil, "")
			return true
		}
	} else if err != nil {
		return false
	}
	switch body := x.Body; {
	case len(p.Data) < p.OrigLen:
		i.note(p.Number, "the capture has cut PTP messages short: not judged")
	case len(body) >= 4 && body[0] == 0 && body[1] == 1 && be.Uint16(body[2:]) == 1:
		i.unjudged(otherKey{kind: "PTP version 1", src: x.Src.String(), dst: x.Dst.String()}, p)
	case len(body) < msg.HeaderLen:
		i.violate(ptpLength, p.Number, nil, "%d octets", len(body))
	default:
		i.ptpMessage(p, &x)
	}
	return true
}

// udpOffloaded tells whether a UDP checksum is the sum over the pseudo-header
// alone, which hosts leave to their hardware.
func udpOffloaded(b []byte) bool {
	_, n, _ := ether.Parse(b)
	h, d, err := ip.Parse(b[n:])
	return err == nil && len(d) >= 8 && be.Uint16(d[6:]) == ip.Fold(ip.PseudoSum(h.Src, h.Dst, ip.ProtoUDP, len(d)))
}

func (i *Inspector) ptpMessage(p *Packet, x *transport.Packet) {
	d := i.ptpDomain(p, x.Body[4])
	var m msg.Message
	if err := m.Parse(x.Body); err != nil {
		d.spoil(msg.ClockIdentity(x.Body[20:28]))
		for _, e := range parseErrors {
			if errors.Is(err, e.err) {
				i.violate(e.rule, p.Number, d.flow, "")
			}
		}
		return
	}
	d.flow.Sides[0].Octets += uint64(m.Len())
	d.flow.Sides[0].message(m.Type.String(), uint64(m.Len()))
	to := ""
	if m.Port != (msg.PortIdentity{}) && m.Port != msg.AllPorts {
		to = m.Port.String()
	}
	i.event(Event{Packet: p.Number, Flow: d.flow.Number, From: m.Source.String(), To: to, Name: m.Type.String(),
		Detail: ptpText(&m)}, p.Time)
	for _, r := range ptpRules {
		if r.broken(&m, x) {
			i.violate(r.rule, p.Number, d.flow, "%v: %s", m.Type, ptpText(&m))
			if r.rule == ptpPort {
				d.spoil(m.Source.Clock)
				return
			}
		}
	}
	i.ptpExchange(p, d, &m, i.ptpSequence(p, d, &m, x))
}

// spoil forgets what a message of the clock that cannot be read may have
// belonged to.
func (d *ptpDomain) spoil(clock msg.ClockIdentity) {
	for id, s := range d.ports {
		if id.Clock == clock {
			s.sync, s.early = nil, nil
		}
	}
}

// ptpText is a message in a few words.
func ptpText(m *msg.Message) string {
	s := fmt.Sprintf("sequenceId %d, flags %#04x, correctionField %v", m.Sequence, uint16(m.Flags), m.Correction)
	if m.Type == msg.Announce {
		s += fmt.Sprintf(", grandmaster %v, steps %d", m.Grandmaster.Identity, m.Grandmaster.StepsRemoved)
	}
	return s
}

func (i *Inspector) ptpDomain(p *Packet, domain uint8) *ptpDomain {
	k := ptpKey{p.Interface, domain}
	d := i.ptp[k]
	if d == nil {
		d = &ptpDomain{series: map[seriesKey]*ptpSeries{}, ports: map[msg.PortIdentity]*ptpSource{},
			flow: &Flow{Number: len(i.report.Flows) + 1, Protocol: PTP, A: fmt.Sprintf("domain %d", domain),
				First: p.Number, State: Replayed, Sides: make([]Side, 1)}}
		i.ptp[k] = d
		i.addFlow(p, d.flow)
	}
	d.flow.Packets++
	d.flow.Sides[0].Packets++
	d.flow.Last = p.Number
	return d
}

// Flags by the messages that may have them (table 37).
const (
	flagsEvery    = msg.FlagUnicast | msg.FlagProfile1 | msg.FlagProfile2 | 0x8000 // security, of 2008
	flagsAnnounce = msg.FlagLeap61 | msg.FlagLeap59 | msg.FlagUTCOffsetValid | msg.FlagPTPTimescale |
		msg.FlagTimeTraceable | msg.FlagFrequencyTraceable | msg.FlagSyncUncertain
)

func flagsOf(t msg.Type) msg.Flags {
	f := flagsEvery
	switch t {
	case msg.Announce:
		f |= flagsAnnounce | msg.FlagAlternateMaster
	case msg.Sync:
		f |= msg.FlagTwoStep | msg.FlagAlternateMaster
	case msg.FollowUp, msg.DelayResp:
		f |= msg.FlagAlternateMaster
	case msg.PdelayResp:
		f |= msg.FlagTwoStep
	}
	return f
}

// gPTP tells whether m belongs to IEEE 802.1AS.
func gPTP(m *msg.Message) bool { return m.SdoID>>8 == 1 }

// peerDelay tells whether messages of type t stay on the link.
func peerDelay(t msg.Type) bool {
	return t == msg.PdelayReq || t == msg.PdelayResp || t == msg.PdelayRespFollowUp
}

// ptpRules are the rules about one message.
var ptpRules = []struct {
	rule   *Rule
	broken func(m *msg.Message, x *transport.Packet) bool
}{
	{ptpMinor, func(m *msg.Message, _ *transport.Packet) bool { return m.MinorVersion > 1 }},
	{ptpLength, func(m *msg.Message, x *transport.Packet) bool {
		return x.Kind == transport.UDPv4 && len(x.Body) > m.Len() || x.Kind == transport.UDPv6 &&
			len(x.Body) > m.Len()+2
	}},
	// 802.1AS lets every message have the flags that an Announce has.
	{ptpFlags, func(m *msg.Message, _ *transport.Packet) bool {
		extra := msg.Flags(0)
		if gPTP(m) {
			extra = flagsAnnounce
		}
		return m.Flags&^(flagsOf(m.Type)|extra) != 0
	}},
	{ptpLeap, func(m *msg.Message, _ *transport.Packet) bool {
		return m.Type == msg.Announce && m.Flags.Has(msg.FlagLeap61|msg.FlagLeap59)
	}},
	{ptpCorrect, func(m *msg.Message, _ *transport.Packet) bool {
		return m.Correction != 0 && (m.Type == msg.Announce || m.Type == msg.Signaling || m.Type == msg.Management)
	}},
	{ptpSpecific, func(m *msg.Message, _ *transport.Packet) bool { return !m.Type.Event() && m.TypeSpecific != 0 }},
	{ptpControl, func(m *msg.Message, _ *transport.Packet) bool { return m.Control != m.Type.Control() }},
	{ptpInterval, func(m *msg.Message, _ *transport.Packet) bool {
		switch m.Type {
		case msg.DelayReq, msg.PdelayResp, msg.PdelayRespFollowUp, msg.Signaling, msg.Management:
			return m.LogInterval != msg.IntervalUnspecified
		}
		return false
	}},
	{ptpPort, func(m *msg.Message, _ *transport.Packet) bool {
		own := m.Type != msg.Management // a manager may have port number 0
		return own && m.Source.Port == 0 || m.Source.Port == 0xffff || m.Source.Clock == msg.AllClocks
	}},
	{ptpSteps, func(m *msg.Message, _ *transport.Packet) bool {
		return m.Type == msg.Announce && m.Grandmaster.StepsRemoved >= 255
	}},
	{ptpUDPPort, func(m *msg.Message, x *transport.Packet) bool {
		return x.Kind != transport.Ethernet && x.Event != m.Type.Event()
	}},
	{ptpGroup, wrongGroup},
}

// wrongGroup tells whether x goes to a group that is not for its message.
func wrongGroup(m *msg.Message, x *transport.Packet) bool {
	if !x.Dst.IsMulticast() {
		return false
	}
	link := peerDelay(m.Type)
	switch x.Kind {
	case transport.Ethernet:
		if x.Dst.MAC == (ether.Addr{0x01, 0x80, 0xc2, 0, 0, 0x0e}) {
			return false // 802.1AS and G.8275.1 send everything there
		}
		return x.Dst.MAC != ether.Addr{0x01, 0x1b, 0x19, 0, 0, 0} || link
	case transport.UDPv4:
		if x.Dst.IP == netip.AddrFrom4([4]byte{224, 0, 0, 107}) {
			return !link
		}
		return x.Dst.IP != netip.AddrFrom4([4]byte{224, 0, 1, 129}) || link
	}
	a := x.Dst.IP.As16()
	a[1] &= 0xf0 // the scope is the sender's choice
	if netip.AddrFrom16(a) == netip.MustParseAddr("ff00::6b") {
		return !link
	}
	return netip.AddrFrom16(a) != netip.MustParseAddr("ff00::181") || link
}

// numbered tells whether messages of type t have a sequence of their own;
// others repeat the sequenceId of what they belong to.
func numbered(t msg.Type) bool {
	switch t {
	case msg.Announce, msg.Sync, msg.DelayReq, msg.PdelayReq:
		return true
	}
	return false
}

// ptpSequence tells whether the sequenceId of m is not the next.
func (i *Inspector) ptpSequence(p *Packet, d *ptpDomain, m *msg.Message, x *transport.Packet) (odd bool) {
	if !numbered(m.Type) {
		return false
	}
	k := seriesKey{m.Source, m.Type, x.Dst}
	s := d.series[k]
	if s == nil {
		d.series[k] = &ptpSeries{flow: d.flow, last: m.Sequence}
		return false
	}
	switch n := m.Sequence; {
	case s.odd != nil && n == s.odd.expected+1:
		if !near(s.odd.got, n) { // not one that is late
			i.violate(ptpSequence, s.odd.packet, s.flow, "%d instead of %d", s.odd.got, s.odd.expected)
		}
	case s.odd != nil:
		// The run did not go on: messages are missing, or the clock began anew.
		i.note(s.odd.packet, "sequenceIds are missing from the capture")
	case n != s.last+1:
		s.odd = &oddSequence{p.Number, n, s.last + 1}
		s.last = n
		return true
	}
	s.odd, s.last = nil, m.Sequence
	return false
}

// source is what is known of a port.
func (d *ptpDomain) source(id msg.PortIdentity) *ptpSource {
	s := d.ports[id]
	if s == nil {
		s = &ptpSource{asked: map[msg.Type]*ptpAsked{}}
		d.ports[id] = s
	}
	return s
}

// ptpExchange holds messages against those that they belong to.
func (i *Inspector) ptpExchange(p *Packet, d *ptpDomain, m *msg.Message, odd bool) {
	own := d.source(m.Source)
	switch m.Type {
	case msg.Sync:
		i.ptpSync(p, d, own, m, odd)
	case msg.FollowUp:
		i.ptpFollowUp(p, d, own, m)
	case msg.DelayReq, msg.PdelayReq:
		i.ask(d, own, m.Type, m.Sequence)
	case msg.DelayResp:
		answered(p, m, d.source(m.Port), msg.DelayReq, ptpDelayResp)
	case msg.PdelayResp:
		answered(p, m, d.source(m.Port), msg.PdelayReq, ptpPdelay)
		i.ask(d, own, msg.PdelayResp, m.Sequence)
	case msg.PdelayRespFollowUp:
		answered(p, m, own, msg.PdelayResp, ptpPdelayFU)
	}
}

// ask remembers what will be answered. Eight bits of sequenceIds are kept. If they
// have gone on, answers that named others belonged to no request that was lost.
func (i *Inspector) ask(d *ptpDomain, s *ptpSource, t msg.Type, n uint16) {
	a := s.asked[t]
	if a == nil {
		a = &ptpAsked{}
		s.asked[t] = a
	}
	for _, x := range a.odd {
		if near(n, a.last) && !near(x.sequence, n) && !near(x.sequence, a.last) {
			i.violate(x.rule, x.packet, d.flow, "sequenceId %d of %v", x.sequence, x.port)
		}
	}
	a.last, a.odd = n, nil
}

// near tells whether sequenceIds may belong together though messages between them
// are lost or late.
func near(a, b uint16) bool { return a-b+mostLost <= 2*mostLost }

const mostLost = 127

// answered checks that m answers a message of type t of the port. Ports of
// which the capture shows no such message are on another link.
func answered(p *Packet, m *msg.Message, by *ptpSource, t msg.Type, r *Rule) {
	if a := by.asked[t]; a != nil && !near(m.Sequence, a.last) && len(a.odd) < mostLost {
		a.odd = append(a.odd, ptpOdd{p.Number, m.Sequence, m.Port, r})
	}
}

func (i *Inspector) ptpSync(p *Packet, d *ptpDomain, s *ptpSource, m *msg.Message, odd bool) {
	o := s.sync
	if o != nil && o.twoStep && !o.followed {
		// One may be lost; a port that never sends any is at fault.
		if s.bare++; s.bare == manyBare {
			i.violate(ptpTwoStep, o.packet, d.flow, "sequenceId %d and those before have no Follow_Up", o.sequence)
		}
	}
	e := s.early
	s.sync, s.early = &ptpEvent{m.Sequence, p.Number, m.Flags.Has(msg.FlagTwoStep), false, odd}, nil
	switch {
	case e == nil:
	case e.sequence == m.Sequence:
		s.sync.followed = true
	case o != nil && near(m.Sequence, o.sequence) && !near(e.sequence, m.Sequence) && !o.odd && !odd:
		i.violate(ptpFollowUp, e.packet, d.flow, "sequenceId %d", e.sequence)
	}
}

// manyBare is how many Syncs in a row want a Follow_Up before its absence is no
// accident.
const manyBare = 4

func (i *Inspector) ptpFollowUp(p *Packet, d *ptpDomain, s *ptpSource, m *msg.Message) {
	s.bare = -1 << 30
	switch o := s.sync; {
	case o == nil: // the capture began between the two
	case o.sequence != m.Sequence && !o.odd:
		s.early = &ptpEvent{sequence: m.Sequence, packet: p.Number}
	default:
		o.followed = true
		if !o.twoStep && o.sequence == m.Sequence {
			i.violate(ptpTwoStep, o.packet, d.flow, "sequenceId %d has a Follow_Up", o.sequence)
		}
	}
}
