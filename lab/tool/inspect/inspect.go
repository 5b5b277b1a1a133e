// Package inspect replays a capture of anyone's traffic through the state
// machines of the protocols and names what breaks a rule, with the number of
// the packet and the clause: TCP, MPA, DDP and RDMAP, RoCE,
// NVMe over RDMA, iSER, iSCSI, FIP and FCoE, Omni-Path's packets, PTP.
//
// An Inspector takes packets and gives a Report; it does no I/O and owns no
// clock. It stands beside the wire: it does not know what memory, queues and
// receive buffers the two ends have, so it names only what the packets prove.
package inspect

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"tapir/wire/ether"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/pcapng"
	"tapir/wire/udp"
)

// Packet is one packet of a capture.
type Packet struct {
	Number    int   // from 1
	Time      int64 // nanoseconds since the epoch
	Interface int   // of the capture; a packet seen at two of them is judged at each
	Link      uint16
	Data      []byte // borrowed
	End       string // of a link, if the capture is a lab's: frames are seen at several
	OrigLen   int    // on the wire; more than len(Data) if the capture has cut it
	Corrupted bool   // by a link of the lab, at random, as the capture's comments say
}

// Options of an Inspector.
type Options struct {
	// QuirksSiw lowers what Linux siw is known to do differently to notes.
	QuirksSiw bool
	// Ladder keeps up to that many events of the exchange for a drawing: the
	// first, or the last, of those in the window.
	Ladder int
	Last   bool
	Window Window
	// Tell is told of each event at once; nil: nobody is.
	Tell func(Event)
	// Start is what the ladder's times count from, in nanoseconds since the
	// epoch; 0: the first packet.
	Start int64
	// Choose, if there is one, chooses the packets of a capture that Read gives
	// to the inspector, as if all were of one interface, by the name of theirs
	// and their direction.
	Choose func(iface string, inbound bool) bool
}

// Window bounds events by the times of their packets, in nanoseconds since the
// epoch. The zero value takes all.
type Window struct{ From, To int64 }

func (w Window) has(t int64) bool { return w == Window{} || t >= w.From && t <= w.To }

// Inspector judges the packets of one capture.
type Inspector struct {
	opt    Options
	report Report
	conns  map[connKey]*conn
	order  []*conn
	over   []*conn // those that have ended lately, by time
	other  map[otherKey]*Flow
	fabric map[fabricKey]*Flow
	ptp    map[ptpKey]*ptpDomain
	vlans  map[vlanKey]*fibreVLAN
	noted  map[string]bool // notes that are made once
	struck map[int]bool    // packets that a link of a lab has corrupted
	start  int64           // time of the first packet
	hand   *Packet         // that is judged
	roce   roceState
	views  views
}

// New returns an inspector.
func New(opt Options) *Inspector {
	return &Inspector{opt: opt, start: opt.Start, report: Report{part: opt.Last ||
		opt.Window != Window{}, last: opt.Last}, conns: map[connKey]*conn{}, other: map[otherKey]*Flow{},
		fabric: map[fabricKey]*Flow{}, vlans: map[vlanKey]*fibreVLAN{}, noted: map[string]bool{},
		struck: map[int]bool{}, ptp: map[ptpKey]*ptpDomain{}, roce: newRoCEState(), views: newViews()}
}

// Link types beside Ethernet in which IP packets are captured
// (tcpdump.org/linktypes.html).
const (
	linkRaw  = 101
	linkSLL  = 113
	linkSLL2 = 276
)

// Packet takes the next packet of the capture.
func (i *Inspector) Packet(p *Packet) {
	i.hand = p
	if p.Corrupted {
		i.struck[p.Number] = true
	}
	i.atEnd(p.End)
	i.report.Packets++
	if i.report.Packets == 1 && i.start == 0 {
		i.start = p.Time
	}
	if i.fabricPacket(p) {
		return
	}
	switch p.Link {
	case pcapng.LinkEthernet:
		i.ethernet(p, p.Data)
	case linkRaw:
		i.ip(p, p.Data)
	case linkSLL:
		i.cooked(p, 14, 16)
	case linkSLL2:
		i.cooked(p, 0, 20)
	default:
		i.note(p.Number, fmt.Sprintf("link type %d: not replayed", p.Link))
	}
}

// cooked takes a packet of a Linux cooked capture, whose EtherType lies at typ
// and whose content follows n octets.
func (i *Inspector) cooked(p *Packet, typ, n int) {
	if len(p.Data) < n {
		return
	}
	if t := binary.BigEndian.Uint16(p.Data[typ:]); t == ether.TypeIPv4 || t == ether.TypeIPv6 {
		i.ip(p, p.Data[n:])
	}
}

func (i *Inspector) ethernet(p *Packet, b []byte) {
	h, n, err := ether.Parse(b)
	if err != nil {
		i.report.Other++
		return
	}
	switch h.Type {
	case ether.TypeIPv4, ether.TypeIPv6:
		if i.ptpFrame(p, b) {
			return
		}
		i.ip(p, b[n:])
	case ether.TypePTP:
		i.ptpFrame(p, b)
	case fip.EtherType, fcoe.EtherType:
		i.fibre(p, h, b[n:])
	case ib.EtherType:
		i.roceV1(p, b[n:])
	default:
		i.report.Other++
	}
}

func (i *Inspector) ip(p *Packet, b []byte) {
	h, payload, err := ip.Parse(b)
	cut := len(p.Data) < p.OrigLen
	switch {
	case err == ip.ErrChecksum:
		i.violate(ipChecksum, p.Number, nil, "")
		h, payload, err = ip.ParseQuoted(b)
	case err == ip.ErrTruncated:
		h, payload, err = ip.ParseQuoted(b)
		if err == nil && !cut {
			i.violate(ipLength, p.Number, nil, "%d octets, %d of them captured", h.HeaderLen()+h.PayloadLen, len(b))
			return
		}
	case err != nil:
		i.violate(ipHeader, p.Number, nil, "")
		return
	}
	switch {
	case err != nil:
		i.report.Other++
	case h.IsFragment():
		i.note(p.Number, "fragments of IP packets: not replayed")
	case h.Proto == ip.ProtoTCP:
		i.tcp(p, &h, payload, cut)
	case h.Proto == ip.ProtoUDP:
		i.udp(p, &h, payload)
	default:
		i.report.Other++
	}
}

func (i *Inspector) udp(p *Packet, h *ip.Header, b []byte) {
	u, _, _ := udp.Parse(b)
	if len(b) >= udp.HeaderLen && u.Dst == ib.UDPPort {
		i.roceV2(p, h, b)
		return
	}
	i.report.Other++
}

type otherKey struct {
	iface          int
	kind, src, dst string
}

// unjudged counts a packet of a protocol that is not replayed. Both directions
// make one flow.
func (i *Inspector) unjudged(k otherKey, p *Packet) {
	k.iface = p.Interface
	if k.src > k.dst {
		k.src, k.dst = k.dst, k.src
	}
	f := i.other[k]
	if f == nil {
		f = &Flow{Number: len(i.report.Flows) + 1, Protocol: k.kind, A: k.src, B: k.dst, First: p.Number,
			State: NotReplayed, Why: k.kind + ": not replayed"}
		i.other[k] = f
		i.addFlow(p, f)
	}
	f.Packets++
	f.Last = p.Number
}

// note remarks something once.
func (i *Inspector) note(packet int, text string) {
	if !i.noted[text] {
		i.noted[text] = true
		i.report.Findings = append(i.report.Findings, Finding{Packet: packet, Note: true, Detail: text})
	}
}

// violate reports that packet breaks r. It is a note if a link of the lab has
// corrupted the packet: nobody has sent those octets.
func (i *Inspector) violate(r *Rule, packet int, f *Flow, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	if i.seenBefore(r, packet, f, detail) {
		return
	}
	x := Finding{Packet: packet, Clause: r.Clause, Says: r.Says, Detail: detail,
		Siw: r.Siw, Note: r.Should || r.Siw && i.opt.QuirksSiw}
	if i.struck[packet] {
		x.Note, x.Detail = true, strings.TrimPrefix(detail+": the lab's link corrupted the packet", ": ")
	}
	if f != nil {
		x.Flow = f.Number
		f.first().judged(x.Note)
	}
	i.report.Findings = append(i.report.Findings, x)
}

// Finish judges what was left open and returns the report.
func (i *Inspector) Finish() *Report {
	for _, c := range i.order {
		c.finish()
	}
	i.finishRoCE()
	r := &i.report
	slices.SortStableFunc(r.Flows, func(a, b *Flow) int { return cmp.Compare(a.First, b.First) })
	numbers := map[int]int{}
	for n, f := range r.Flows {
		numbers[f.Number], f.Number = n+1, n+1
	}
	for k := range r.Findings {
		if f := &r.Findings[k]; f.Flow != 0 {
			f.Flow = numbers[f.Flow]
		}
	}
	for k := range r.Ladder {
		r.Ladder[k].Flow = numbers[r.Ladder[k].Flow]
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.Packet, b.Packet) })
	slices.SortStableFunc(r.Ladder, func(a, b Event) int { return cmp.Compare(a.Packet, b.Packet) })
	return r
}
