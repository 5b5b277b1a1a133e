package inspect

import (
	"fmt"
	"strings"

	"tapir/mpa"
)

// words are the enhanced data of a frame, false if it has none.
func words(f *mpa.Frame) (e mpa.Enhanced, ok bool) {
	if f == nil || !f.Enhanced || f.Rev < 2 || len(f.PrivateData) < mpa.EnhancedLen {
		return e, false
	}
	e, _, err := mpa.ParseEnhanced(f.PrivateData)
	return e, err == nil
}

// siwGSO is the reserved bit by which siw offers FPDUs over several segments.
const siwGSO = 0x08

// frameRules are the rules about one frame.
var frameRules = []struct {
	rule   *Rule
	broken func(f *mpa.Frame) bool
}{
	{mpaGSO, func(f *mpa.Frame) bool { return f.Reserved == siwGSO }},
	{mpaReserved, func(f *mpa.Frame) bool { return f.Reserved != 0 && f.Reserved != siwGSO }},
	{mpaRejectReq, func(f *mpa.Frame) bool { return f.Kind == mpa.Request && f.Reject }},
	{mpaRevision, func(f *mpa.Frame) bool { return f.Rev > 2 }},
	{mpaSWithout, func(f *mpa.Frame) bool { return f.Enhanced && f.Rev == 1 }},
	{mpaBCD, func(f *mpa.Frame) bool {
		e, ok := words(f)
		return ok && !e.P2P && e.RTR() != 0
	}},
	{mpaNoRTR, func(f *mpa.Frame) bool {
		e, ok := words(f)
		return ok && e.P2P && e.RTR() == 0 && f.Kind == mpa.Reply && !f.Reject
	}},
}

// replyRules are the rules about a reply to a request.
var replyRules = []struct {
	rule   *Rule
	broken func(q, r *mpa.Frame) bool
}{
	{mpaSReply, func(q, r *mpa.Frame) bool { return (q.Enhanced && q.Rev >= 2) != (r.Enhanced && r.Rev >= 2) }},
	{mpaORD, func(q, r *mpa.Frame) bool {
		a, b, ok := bothWords(q, r)
		return ok && a.IRD != mpa.NotNegotiated && b.ORD != mpa.NotNegotiated && b.ORD > a.IRD && !(a.P2P && b.ORD == 1)
	}},
	{mpaLeft, func(q, r *mpa.Frame) bool {
		a, b, ok := bothWords(q, r)
		return ok && (a.IRD == mpa.NotNegotiated && b.ORD != mpa.NotNegotiated ||
			a.ORD == mpa.NotNegotiated && b.IRD != mpa.NotNegotiated)
	}},
	{mpaFlagA, func(q, r *mpa.Frame) bool {
		a, b, ok := bothWords(q, r)
		return ok && a.P2P != b.P2P
	}},
}

func bothWords(q, r *mpa.Frame) (a, b mpa.Enhanced, ok bool) {
	a, ok1 := words(q)
	b, ok2 := words(r)
	return a, b, ok1 && ok2 && !r.Reject
}

// judgeFrame applies the rules about start-up frames.
func (h *half) judgeFrame(f *mpa.Frame, packet int) {
	for _, r := range frameRules {
		if r.broken(f) {
			h.violate(r.rule, packet, "%s", frameText(f))
		}
	}
	// With fewer octets than the words take, siw's wrapped length is a finding
	// of its own.
	if f.Enhanced && f.Rev >= 2 && len(f.PrivateData) < mpa.EnhancedLen && !f.Reject && len(h.stream.rest()) == 0 {
		h.violate(mpaNoWords, packet, "PD_Length is %d", len(f.PrivateData))
	}
	if f.Kind == mpa.Reply {
		for _, r := range replyRules {
			if r.broken(h.c.req, f) {
				h.violate(r.rule, packet, "%s", frameText(f))
			}
		}
	}
}

// frameText is a start-up frame in a line.
func frameText(f *mpa.Frame) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rev %d", f.Rev)
	for _, x := range []struct {
		on   bool
		name string
	}{{f.Markers, " M"}, {f.CRC, " C"}, {f.Reject, " R"}, {f.Enhanced, " S"}} {
		if x.on {
			b.WriteString(x.name)
		}
	}
	pd := len(f.PrivateData)
	if e, ok := words(f); ok {
		pd -= mpa.EnhancedLen
		fmt.Fprintf(&b, " ird %d ord %d", e.IRD, e.ORD)
		if e.P2P {
			fmt.Fprintf(&b, " p2p rtr %v", e.RTR())
		}
	}
	if pd > 0 {
		fmt.Fprintf(&b, ", %d octets of private data", pd)
	}
	return b.String()
}

// agreedText is what start-up agreed on.
func agreedText(c *conn) string {
	if c.reply.Reject {
		return fmt.Sprintf("MPA rev %d, rejected", c.reply.Rev)
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, "MPA rev %d, CRC %s", c.reply.Rev, onOff(c.req.CRC || c.reply.CRC))
	fmt.Fprintf(b, ", markers to the initiator %s, to the responder %s", onOff(c.req.Markers), onOff(c.reply.Markers))
	if e, ok := words(c.reply); ok {
		fmt.Fprintf(b, ", responder's IRD %d ORD %d", e.IRD, e.ORD)
	}
	return b.String()
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
