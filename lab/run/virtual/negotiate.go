package virtual

import (
	"tapir/nic/fastlinq"
	"tapir/nic/linkmode"
	"tapir/wire/frame"
)

// Ends of a link tell each other what they offer: speeds, pause and EEE. Nothing of
// that is a frame, as on a cable, where pulses carry it (IEEE 802.3 clause 28).

// ability is what a node's ports offer; false: it does not negotiate.
func (n *node) ability() (linkmode.Ability, bool) {
	switch {
	case n.dev != nil:
		if d := fastlinq.Of(n.dev.Hardware); d != nil {
			return d.Ability(), true
		}
	case n.sw != nil:
		return n.sw.Ability(), true
	}
	return linkmode.Ability{}, false
}

// negotiate has the ends of a link tell each other what they offer.
func (k *link) negotiate(now frame.Time) {
	for i, e := range k.ends {
		far := k.ends[1-i]
		offer, ok := far.node.ability()
		if _, both := e.node.ability(); !ok || !both {
			return
		}
		if e.node.sw != nil {
			e.node.sw.Negotiate(int(e.port), offer, now)
		} else {
			fastlinq.Of(e.node.dev.Hardware).Negotiate(offer, now)
		}
	}
}

// renegotiate begins anew when the node offers something else than before.
func (n *node) renegotiate(now frame.Time) {
	if n.dev == nil {
		return
	}
	if offer, ok := n.ability(); ok && offer != n.offered {
		n.offered = offer
		for _, e := range n.ends {
			e.link.negotiate(now)
			n.lab.world.Touch(n.place)
			n.lab.world.Touch(e.link.ends[1-e.side].node.place)
		}
	}
}
