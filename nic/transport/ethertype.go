package transport

import (
	"tapir/nic/ip"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// EtherType is a handler of frames that the hardware takes.
type EtherType struct {
	// Take has the header and what follows, borrowed; see hardware.Function.SYN.
	Take func(h ether.Header, body []byte) (taken bool, why frame.DropReason)
}

// Receive implements ip.Handler.
func (t *EtherType) Receive(p *ip.Packet) ip.Verdict {
	switch taken, why := t.Take(p.Ether, p.Frame.Bytes()[p.Ether.Len():]); {
	case why != frame.DropNone:
		return p.Discard(why)
	case taken:
		return ip.Consumed
	}
	return ip.Unmatched
}
