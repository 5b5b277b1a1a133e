package virtual

import (
	"tapir/nic/fastlinq"
	"tapir/nic/linkmode"
	"tapir/wire/frame"
)

// Ends of a link tell each other what they offer: speeds, pause and EEE. Nothing of
// that is a frame, as on a cable, where pulses carry it (IEEE 802.3 clause 28).

// driver is that of the port at this end: of a card, that of the first function there;
// nil: none negotiates.
func (e *end) driver() *fastlinq.Device {
	if e.node.dev != nil {
		return e.node.driver()
	}
	for _, n := range e.on() {
		if d := n.driver(); d != nil {
			return d
		}
	}
	return nil
}

// driver is that of the NIC, if it negotiates and lives.
func (n *node) driver() *fastlinq.Device {
	if n.dead {
		return nil
	}
	return fastlinq.Of(n.dev.Hardware)
}

// ability is what the port at this end offers; false: it does not negotiate.
func (e *end) ability() (linkmode.Ability, bool) {
	switch d := e.driver(); {
	case d != nil:
		return d.Ability(), true
	case e.node.sw != nil:
		return e.node.sw.Ability(), true
	}
	return linkmode.Ability{}, false
}

// negotiate has the ends of a link tell each other what they offer.
func (k *link) negotiate(now frame.Time) {
	for i, e := range k.ends {
		far := k.ends[1-i]
		offer, ok := far.ability()
		if _, both := e.ability(); !ok || !both {
			return
		}
		if e.node.sw != nil {
			e.node.sw.Negotiate(int(e.port), offer, now)
		} else {
			e.driver().Negotiate(offer, now)
		}
	}
}

// renegotiate begins anew when the node offers something else than before.
func (n *node) renegotiate(now frame.Time) {
	if n.sw != nil {
		return
	}
	for _, e := range n.ends {
		d := e.driver()
		if d == nil || d == e.offerer && d.Managed() == e.managed {
			continue
		}
		e.offerer, e.managed = d, d.Managed()
		if offer, ok := e.ability(); ok && offer != e.offered {
			e.offered = offer
			e.link.negotiate(now)
			n.lab.world.Touch(n.place)
			n.lab.world.Touch(e.link.ends[1-e.side].node.place)
		}
	}
}
