package ctl

import (
	"context"
	"fmt"

	"tapir/nic/fastlinq"
	"tapir/nic/linkmode"
	"tapir/wire/frame"
)

// Commands by which the ends of a link negotiate: on a cable, pulses carry that (IEEE
// 802.3 clause 28), which a TAP does not have. Whoever made the link tells each end
// what the other offers.
const (
	// OfferCommand answers with the linkmode.Ability of a port, as soon as it is not
	// the one in the LinkEnd; a switch, whose ports offer the same for ever, at once.
	OfferCommand = "link.offer"
	// PartnerCommand tells a port the ability of the other end.
	PartnerCommand = "link.partner"
)

// LinkEnd is a port, by the name of its TAP, and an ability: of it, or of the other end.
type LinkEnd struct {
	Port    string            `json:"port"`
	Ability *linkmode.Ability `json:"ability"` // nil: none is known
}

// is tells whether e is the port of that name, as an error.
func (e *LinkEnd) is(port, nic string) error {
	if e.Port != port {
		return &Error{What: fmt.Sprintf("%s has no port %q, but %s", nic, e.Port, port)}
	}
	return nil
}

// offer answers OfferCommand.
func offer(d *served, h *fastlinq.Device, e LinkEnd, _ frame.Time, done func(linkmode.Ability, error)) {
	if err := e.is(name(d.TAP), d.Device.Config().Name); err != nil {
		done(linkmode.Ability{}, err)
		return
	}
	h.Offer(e.Ability, func(a linkmode.Ability) { done(a, nil) })
}

// partner answers PartnerCommand.
func partner(d *served, h *fastlinq.Device, e LinkEnd, now frame.Time, done func(nothing, error)) {
	err := e.is(name(d.TAP), d.Device.Config().Name)
	if err == nil && e.Ability != nil {
		h.Negotiate(*e.Ability, now)
	}
	done(nothing{}, err)
}

// LinkOffer is what a port offers to the other end of its link, as soon as it is not
// known.
func (c *Client) LinkOffer(ctx context.Context, port string, known *linkmode.Ability) (a linkmode.Ability, err error) {
	return a, c.Command(ctx, OfferCommand, LinkEnd{port, known}, &a)
}

// LinkPartner tells a port what the other end of its link offers.
func (c *Client) LinkPartner(ctx context.Context, port string, a linkmode.Ability) error {
	return c.Command(ctx, PartnerCommand, LinkEnd{port, &a}, nil)
}
