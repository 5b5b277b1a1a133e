package inspect

import (
	"fmt"

	"tapir/lab/tool/inspect/clause"
	"tapir/lab/tool/inspect/fibre"
	"tapir/wire/ether"
	"tapir/wire/fip"
)

// vlanKey is a VLAN at an interface, where FCoE is judged by itself.
type vlanKey struct {
	iface int
	vlan  uint16
}

// fibreVLAN is FCoE in a VLAN: fibre.Reporter.
type fibreVLAN struct {
	in     *Inspector
	flow   *Flow
	judge  *fibre.Fabric
	packet *Packet // in hand
}

// Violate implements fibre.Reporter.
func (v *fibreVLAN) Violate(r *clause.Rule, detail string) {
	v.in.violate(r, v.packet.Number, v.flow, "%s", detail)
}

// Part implements fibre.Reporter.
func (v *fibreVLAN) Part(why string) {
	if v.flow.Why == "" {
		v.flow.State, v.flow.Why = Partly, fmt.Sprintf("%s in packet %d", why, v.packet.Number)
	}
}

// Frame implements fibre.Reporter.
func (v *fibreVLAN) Frame(from, to, name, detail string, octets int) {
	v.flow.Sides[0].message(name, uint64(octets))
	if v.flow.of == nil {
		v.in.event(Event{Packet: v.packet.Number, Flow: v.flow.Number, From: from, To: to, Name: name, Detail: detail},
			v.packet.Time)
	}
}

// fibre takes a frame of FIP or FCoE.
func (i *Inspector) fibre(p *Packet, h ether.Header, body []byte) {
	k := vlanKey{iface: p.Interface}
	if h.NTags > 0 {
		k.vlan = h.Tags[h.NTags-1].VID()
	}
	v := i.vlans[k]
	if v == nil {
		name := "untagged"
		if k.vlan != 0 {
			name = fmt.Sprintf("VLAN %d", k.vlan)
		}
		v = &fibreVLAN{in: i, flow: &Flow{Number: len(i.report.Flows) + 1, Protocol: "FCoE", A: name, First: p.Number,
			State: Replayed, Sides: make([]Side, 1)}}
		v.judge = fibre.New(v)
		i.vlans[k] = v
		i.addFlow(p, v.flow)
	}
	v.packet, v.flow.Last = p, p.Number
	v.flow.Packets++
	s := &v.flow.Sides[0]
	s.Packets++
	s.Octets += uint64(len(body))
	switch {
	case len(p.Data) < p.OrigLen:
		v.Part("the capture has cut a frame short")
	case h.Type == fip.EtherType:
		v.judge.FIP(h, body)
	default:
		v.judge.FCoE(h, body)
	}
}
