package toe

import (
	"net/netip"

	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// answer is a segment to be sent that no connection keeps: a RST, a SYN
// cookie, or an acknowledgement in TIME-WAIT.
type answer struct {
	local, remote netip.AddrPort
	h             tcp.Header
}

// maxAnswers bounds the answers waiting for a Poll; more are not given.
const maxAnswers = 256

func (e *Engine) answer(local, remote netip.AddrPort, h tcp.Header) {
	if len(e.answers) < maxAnswers {
		h.SrcPort, h.DstPort = local.Port(), remote.Port()
		e.answers = append(e.answers, answer{local, remote, h})
	}
}

// answerReset is the RST to a segment with an ACK field that fits nothing.
func (e *Engine) answerReset(local, remote netip.AddrPort, ack tcp.Seq) {
	e.answer(local, remote, tcp.Header{Seq: ack, Flags: tcp.RST})
}

// Reset queues a RST in answer to a segment that Segment did not own, for the
// next Poll (RFC 9293 section 3.10.7.1). A RST is not answered.
func (e *Engine) Reset(h *ip.Header, seg []byte) {
	th, data, err := tcp.Parse(seg)
	if err != nil || th.Flags.Has(tcp.RST) || !usable(h.Src) || !usable(h.Dst) || th.SrcPort == 0 {
		return
	}
	local, remote := netip.AddrPortFrom(h.Dst, th.DstPort), netip.AddrPortFrom(h.Src, th.SrcPort)
	if th.Flags.Has(tcp.ACK) {
		e.answerReset(local, remote, th.Ack)
		return
	}
	e.answer(local, remote, tcp.Header{Ack: th.Seq.Add(segLen(&th, len(data))), Flags: tcp.RST | tcp.ACK})
}

// segLen is SEG.LEN: the sequence numbers that a segment with n octets takes.
func segLen(h *tcp.Header, n int) int {
	if h.Flags.Has(tcp.SYN) {
		n++
	}
	if h.Flags.Has(tcp.FIN) {
		n++
	}
	return n
}

// sendAnswers sends what answer has gathered, as far as there is room.
func (e *Engine) sendAnswers() {
	sent := 0
	for i := range e.answers {
		if e.out.Room() <= 0 {
			break
		}
		a := &e.answers[i]
		src, dst := a.local.Addr(), a.remote.Addr()
		f := e.packet(src, dst, &a.h, 0, 0, e.cfg.TOS)
		if f == nil {
			break
		}
		e.seal(f, src, dst, 0)
		if a.h.Flags.Has(tcp.RST) {
			e.stats.ResetsOut++
		}
		e.send(f, dst, 1)
		sent++
	}
	e.answers = e.answers[:copy(e.answers, e.answers[sent:])]
}
