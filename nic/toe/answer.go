package toe

import (
	"net/netip"

	"tapir/nic/toe/ports"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// Reset queues a RST in answer to a segment that Segment did not own, for the
// next Poll (RFC 9293 section 3.10.7.1). A RST is not answered.
func (e *Engine) Reset(h *ip.Header, seg []byte) {
	th, data, err := tcp.Parse(seg)
	if err != nil || th.Flags.Has(tcp.RST) || !ports.Usable(h.Src) || !ports.Usable(h.Dst) || th.SrcPort == 0 {
		return
	}
	local, remote := netip.AddrPortFrom(h.Dst, th.DstPort), netip.AddrPortFrom(h.Src, th.SrcPort)
	e.answers.Reset(local, remote, &th, len(data), e.par.TOS)
}

// sendAnswers sends the answers that wait, as far as there is room.
func (e *Engine) sendAnswers(now frame.Time) {
	if e.answers.Len() == 0 {
		return
	}
	sent := 0
	for ; sent < e.answers.Len() && e.out.Room() > 0; sent++ {
		a := e.answers.At(sent)
		src, dst := a.Local.Addr(), a.Remote.Addr()
		f := e.packets.New(src, dst, &a.H, 0, 0, a.TOS)
		if f == nil {
			e.starve()
			break
		}
		e.packets.Seal(f, src, dst, 0)
		if a.H.Flags.Has(tcp.RST) {
			e.stats.ResetsOut++
		}
		e.send(f, dst, ether.Addr{}, 1, e.sched.Node, now)
	}
	e.answers.Sent(sent)
}
