package port

import (
	"tapir/nic/dcb"
	"tapir/wire/ip"
)

// SetDCB tells the port what DCB has come to.
func (p *Port) SetDCB(s dcb.State) { p.DCB = s }

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
