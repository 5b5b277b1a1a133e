package inspect

import (
	"fmt"

	"tapir/lab/tool/capture"
	"tapir/opa"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/geneve"
	"tapir/wire/headers"
	"tapir/wire/ip"
	"tapir/wire/nsh"
	"tapir/wire/pcapng"
	"tapir/wire/udp"
)

type fabricKey struct {
	iface  int
	format opa.Format
	vesw   uint16
}

// parseRules are the rules behind the reasons for which package opa refuses a
// packet.
var parseRules = map[opa.Format]map[frame.DropReason]*Rule{
	opa.Format16B: {drop.Truncated: opaShort, opa.DropL2: opaL2, opa.DropLength: opaLength, opa.DropL4: opaL4,
		opa.DropSLID: opaSLID, opa.DropDLID: opaDLID, opa.DropTail: opaTail, opa.DropPad: opaPad},
	opa.Format9B: {drop.Truncated: opaShort, opa.DropL2: opa9BL2, opa.DropLength: opa9BLength, opa.DropL4: opa9BBTH,
		opa.DropSLID: opaSLID, opa.DropDLID: opaDLID, opa.DropPad: opa9BPad},
}

// framingRules are those behind the reasons for which a framing is refused.
var framingRules = map[frame.DropReason]*Rule{
	drop.Truncated: opaFraming, drop.Malformed: opaFraming, drop.IPChecksum: ipChecksum, drop.L4Checksum: udpChecksum,
}

// fabricPacket takes a packet of a fabric and reports false for all others.
func (i *Inspector) fabricPacket(p *Packet) bool {
	framed := p.Link == pcapng.LinkEthernet
	if framed && !carriesFabric(p.Data) {
		return false
	}
	b, format, _, ok := capture.FabricPacket(p.Link, p.Data)
	switch {
	case ok && len(p.Data) < p.OrigLen:
		i.note(p.Number, "the capture has cut packets of the fabric short: not judged")
		return true
	case ok:
		i.fabricFormat(p, b, format)
		return true
	case framed:
		f := frame.New(make([]byte, frame.DefaultHeadroom+len(p.Data)), nil)
		f.Append(p.Data)
		_, drop := opa.Unwrap(f)
		if r := framingRules[drop]; r != nil {
			i.violate(r, p.Number, nil, "")
			return true
		}
	}
	return false
}

// carriesFabric tells whether an Ethernet frame is to carry a packet of a
// fabric. NSH and Geneve have other users too.
func carriesFabric(b []byte) bool {
	var v headers.View
	if !v.Parse(b) || v.Tags > 0 {
		return false
	}
	switch v.Type {
	case opa.EtherType16B, opa.EtherType9B:
		return true
	case nsh.EtherType:
		return classAt(b, v.L3+nsh.HeaderLen)
	case ether.TypeIPv4:
		v.ParseNetwork()
		at := v.L4 + udp.HeaderLen
		if v.Proto != ip.ProtoUDP || len(b) < at+geneve.HeaderLen || be.Uint16(b[v.L4+2:]) != geneve.Port {
			return false
		}
		inner := be.Uint16(b[at+2:])
		return inner == opa.EtherType9B || inner == opa.EtherType16B || classAt(b, at+geneve.HeaderLen)
	}
	return false
}

// classAt tells whether metadata of the fabric's class begin at octet n.
func classAt(b []byte, n int) bool { return len(b) > n+3 && be.Uint16(b[n:]) == opa.MetadataClass }

func (i *Inspector) fabricFormat(p *Packet, b []byte, format opa.Format) {
	if format == opa.Format9B {
		i.packet9B(p, b)
		return
	}
	if len(b) >= opa.MinPacket && (opa.Packet(b).L4() == opa.L4FM || opa.IsCNP(b)) {
		i.management16B(p, b)
		return
	}
	vesw := uint16(0)
	if len(b) >= opa.HeaderLen {
		vesw = opa.Packet(b).VESW()
	}
	f := i.fabricFlow(p, fabricKey{p.Interface, format, vesw}, "Omni-Path 16B", fmt.Sprintf("vESW %d", vesw))
	v, drop := opa.Parse(b, opa.ICRCNone)
	if i.refused(p, f, format, drop) {
		return
	}
	f.Sides[0].Octets += uint64(len(b))
	i.icrc(p, f, b[len(b)-opa.TrailerLen:], v.ICRCGood())
	if b[7]>>7 == 0 {
		i.violate(opaLT, p.Number, f, "")
	}
	if b[15] != 0 || b[16] != 0 || b[17] != 0 || b[19]>>4 != 0 {
		i.violate(opaReserved, p.Number, f, "octets 15 to 17, 19: %x %x", b[15:18], b[19]>>4)
	}
	inner := v.Frame()
	if len(inner) < opa.MinFrame {
		i.violate(opaRunt, p.Number, f, "%d octets", len(inner))
	}
	h, _, _ := ether.Parse(inner)
	i.event(Event{Packet: p.Number, Flow: f.Number, From: v.SLID().String(), To: v.DLID().String(), Name: "16B packet",
		Detail: fmt.Sprintf("%d octets, %v > %v, EtherType %#04x", len(inner), h.Src, h.Dst, h.Type)}, p.Time)
	f.Sides[0].message("16B packet", uint64(len(inner)))
	within := *p
	within.Data, within.OrigLen, within.Link = inner, len(inner), pcapng.LinkEthernet
	i.ethernet(&within, inner)
}

// management16B takes a MAD or a notification of congestion in a 16B packet.
func (i *Inspector) management16B(p *Packet, b []byte) {
	f := i.fabricFlow(p, fabricKey{iface: p.Interface, format: opa.Format9B}, "Omni-Path", "management")
	name, detail := "notification of congestion", ""
	v, drop := opa.ParseCNP(b, opa.ICRCNone)
	if opa.Packet(b).L4() == opa.L4FM {
		var m opa.PacketMAD
		if m, drop = opa.ParseMAD(b, opa.ICRCNone); drop == frame.DropNone {
			name = "management datagram"
			detail = fmt.Sprintf("queue pair %d to %d, %d octets", m.SrcQP(), m.DestQP(), len(m.Payload()))
		}
		v = m.Packet
	}
	if i.refused(p, f, opa.Format16B, drop) {
		return
	}
	f.Sides[0].Octets += uint64(len(b))
	i.icrc(p, f, b[len(b)-opa.TrailerLen:], v.ICRCGood())
	f.Sides[0].message(name, uint64(len(b)))
	i.event(Event{Packet: p.Number, Flow: f.Number, From: v.SLID().String(), To: v.DLID().String(), Name: name,
		Detail: detail}, p.Time)
}

func (i *Inspector) packet9B(p *Packet, b []byte) {
	f := i.fabricFlow(p, fabricKey{iface: p.Interface, format: opa.Format9B}, "Omni-Path 9B", "management")
	v, drop := opa.Parse9B(b, opa.ICRCNone)
	if i.refused(p, f, opa.Format9B, drop) {
		return
	}
	f.Sides[0].Octets += uint64(len(b))
	i.icrc(p, f, b[len(b)-icrcLen:], v.ICRCGood())
	if (v.DestQP() == opa.QPGeneral) != (v.QKey() == opa.QKeyGSI) {
		i.violate(opa9BQKey, p.Number, f, "%#x to queue pair %d", v.QKey(), v.DestQP())
	}
	f.Sides[0].message("management datagram", uint64(len(v.Payload())))
	i.event(Event{Packet: p.Number, Flow: f.Number, From: v.SLID().String(), To: v.DLID().String(), Name: "9B packet",
		Detail: fmt.Sprintf("queue pair %d to %d, %d octets", v.SrcQP(), v.DestQP(), len(v.Payload()))}, p.Time)
}

const icrcLen = 4

// icrc judges the ICRC at the front of b. Zero is what senders leave that have
// none.
func (i *Inspector) icrc(p *Packet, f *Flow, b []byte, good bool) {
	switch {
	case good:
	case be.Uint32(b) == 0:
		i.note(p.Number, "packets of the fabric without ICRC: it is not judged")
	default:
		f.Sides[0].CRCErrors++
		i.violate(opaICRC, p.Number, f, "")
	}
}

// refused reports what package opa refuses a packet for.
func (i *Inspector) refused(p *Packet, f *Flow, format opa.Format, drop frame.DropReason) bool {
	if drop == frame.DropNone {
		return false
	}
	i.violate(parseRules[format][drop], p.Number, f, "")
	return true
}

// fabricFlow is the flow of a vESW, or that of the management.
func (i *Inspector) fabricFlow(p *Packet, k fabricKey, protocol, name string) *Flow {
	f := i.fabric[k]
	if f == nil {
		f = &Flow{Number: len(i.report.Flows) + 1, Protocol: protocol, A: name, First: p.Number, State: Replayed,
			Sides: make([]Side, 1)}
		i.fabric[k] = f
		i.addFlow(p, f)
	}
	f.Packets++
	f.Sides[0].Packets++
	f.Last = p.Number
	return f
}
