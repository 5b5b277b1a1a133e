package script

import (
	"encoding/hex"
	"fmt"
	"strings"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// begin implements liveBench: what a script needs is made when it is first needed.
func (w *world) begin() error { return nil }

// ours tells whether a frame asks for the peer's address or belongs to one of
// its connections.
func (w *world) ours(b []byte) bool {
	c := w.r.live.cable
	eh, n, err := ether.Parse(b)
	if err != nil {
		return false
	}
	if eh.Type == ether.TypeARP {
		q, err := arp.Parse(b[n:])
		return err == nil && q.TargetIP == c.Remote
	}
	h, seg, err := ip.Parse(b[n:])
	switch {
	case err != nil:
		return false
	case h.Proto == ip.ProtoICMPv6:
		return true
	case h.Proto != ip.ProtoTCP || eh.Dst != c.Station || h.Dst != c.Remote:
		return false
	}
	th, _, err := tcp.Parse(seg)
	return err == nil && th.SrcPort == c.Port && th.DstPort >= c.First &&
		th.DstPort < c.First+maxConns
}

// acked implements liveBench.
func (w *world) acked() bool {
	for _, p := range w.r.peers {
		if e := p.end; e.open && !e.rst && e.taken < e.sent && len(e.lost) == 0 {
			return false
		}
	}
	return true
}

// look implements liveBench.
func (w *world) look() error {
	for _, r := range w.regions {
		if r.mr.(*guestMR).gone {
			continue
		}
		text, err := w.r.live.guest.call("get %d %d", r.mr.Addr()-guard, len(r.all))
		if err == nil {
			_, err = hex.Decode(r.all, []byte(text))
		}
		if err != nil {
			return fmt.Errorf("the memory of %s: %w", r.name, err)
		}
	}
	return nil
}

// hangUp resets what is still open.
func (w *world) hangUp() {
	for _, p := range w.r.peers {
		if e := p.end; p.based && !e.rst {
			e.indicate()
			e.segment(tcp.RST|tcp.ACK, e.sent, 0, nil)
		}
	}
}

// indicate sends the ready-to-receive indication that a connection of the
// peer-to-peer model waits for: an end without it is a BUG in the connection
// manager of Linux.
func (e *endpoint) indicate() {
	if e.mine == nil || e.mine.Kind != mpa.Request || e.theirs == nil || len(e.out) > e.start || e.finSent {
		return
	}
	if words, _, err := mpa.ParseEnhanced(e.mine.PrivateData); e.mine.Enhanced && err == nil && words.P2P {
		h := ddp.Header{Tagged: true, Last: true, Version: ddp.Version,
			ULP: rdmap.Control{Version: rdmap.Version, Opcode: rdmap.Write}.Byte(), STag: 1}
		_ = e.frame(&framing{}, h.AppendTo(nil)) // an empty Write fits
		e.soonClaim("event established")
	}
}

// decided implements liveBench.
func (w *world) decided(e *expectation, p *peer) bool {
	if e.kind == nil {
		return !e.waits || e.about() == "memory" && p.end.settled(w.r.live)
	}
	h, _ := p.end.first(e.kind)
	return h != nil || p.end.settled(w.r.live)
}

// skip implements liveBench: what follows is judged by itself.
func (w *world) skip(e *expectation, p *peer) {
	if e.kind != nil {
		if h, i := p.end.first(e.kind); h != nil {
			p.end.told = append(p.end.told[:i:i], p.end.told[i+1:]...)
		}
		return
	}
	if e.about() == "memory" {
		for _, g := range w.regions {
			copy(g.known, g.all)
		}
	}
}

// about is the first word of an expectation.
func (e *expectation) about() string {
	first, _, _ := strings.Cut(strings.TrimPrefix(e.word.text, "expect "), " ")
	return first
}
