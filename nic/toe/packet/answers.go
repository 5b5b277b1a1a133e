package packet

import (
	"net/netip"

	"tapir/wire/tcp"
)

// Answer is a segment to be sent that no connection keeps: a RST, a SYN cookie,
// or an acknowledgement in TIME-WAIT.
type Answer struct {
	Local, Remote netip.AddrPort
	H             tcp.Header
	TOS           uint8 // of the packet
}

// Answers wait to be sent, at most MaxAnswers of them; more are not given.
type Answers struct{ list []Answer }

// MaxAnswers bounds the answers that wait.
const MaxAnswers = 256

// Add queues a segment from local to remote.
func (a *Answers) Add(local, remote netip.AddrPort, h tcp.Header, tos uint8) {
	if len(a.list) < MaxAnswers {
		h.SrcPort, h.DstPort = local.Port(), remote.Port()
		a.list = append(a.list, Answer{local, remote, h, tos})
	}
}

// Reset queues the RST to the segment h from remote with n octets of data (RFC
// 9293 section 3.10.7.1).
func (a *Answers) Reset(local, remote netip.AddrPort, h *tcp.Header, n int, tos uint8) {
	if h.Flags.Has(tcp.ACK) {
		a.Add(local, remote, tcp.Header{Seq: h.Ack, Flags: tcp.RST}, tos)
		return
	}
	a.Add(local, remote, tcp.Header{Ack: h.Seq.Add(SegLen(h, n)), Flags: tcp.RST | tcp.ACK}, tos)
}

// SegLen is SEG.LEN: the sequence numbers that a segment with n octets takes.
func SegLen(h *tcp.Header, n int) int {
	if h.Flags.Has(tcp.SYN) {
		n++
	}
	if h.Flags.Has(tcp.FIN) {
		n++
	}
	return n
}

// Len is how many wait.
func (a *Answers) Len() int { return len(a.list) }

// At is the answer i (borrowed), oldest first.
func (a *Answers) At(i int) *Answer { return &a.list[i] }

// Sent forgets the first n.
func (a *Answers) Sent(n int) { a.list = a.list[:copy(a.list, a.list[n:])] }
