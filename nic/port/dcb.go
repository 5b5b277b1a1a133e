package port

import (
	"tapir/nic/dcb"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

var noDCB dcb.State

// DCB is what DCBX has come to; borrowed.
func (p *Port) DCB() *dcb.State {
	if p.dcb == nil {
		return &noDCB
	}
	return p.dcb
}

// SetDCB tells the port what DCBX has come to. While it is in use, its traffic classes and PFC
// take the place of those of SetClasses, whose trust and rates stay. Functions that share a port take the priorities of
// protocols alone.
func (p *Port) SetDCB(s dcb.State, now frame.Time) {
	p.dcb = nil
	if s != (dcb.State{}) {
		p.dcb = &s
	}
	var c dcb.Port
	if p.fixed != nil && !p.Shared() {
		c = *p.fixed
	}
	if s.InUse && !p.Shared() {
		c.Config = s.Config
	}
	p.useClasses(c, now)
}

// Prioritize gives a packet, which has no Ethernet header yet, the priority of its
// protocol, if it has none of its own.
func (o *Out) Prioritize(p *dcb.Priority) {
	switch {
	case !p.On:
	case p.ByDSCP:
		if o.Type == 0 {
			ip.SetDSCP(o.Frame.Bytes(), p.DSCP)
		}
		fallthrough
	default:
		if o.Priority == 0 {
			o.Priority = p.PCP
		}
		o.AddTag = !p.ByDSCP
	}
}
