package iwarp

import (
	"time"

	"tapir/ddp"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// A Linux siw responder sends its MPA reply first and installs its receive
// handler after it: what arrives in between lies in its socket until something
// else comes. An initiator that hears nothing after its first FPDU therefore
// nudges: it sends a zero-length RDMA Write, which moves no data and which no
// receiver may check or report (RFC 5040 section 5.1, RFC 5041 section 5.2),
// and which makes siw look. Whoever sends something else in the meantime has
// nudged already.

// Never as Config.Nudge or Config.SendFirst says so where 0 has another meaning.
const Never time.Duration = -1

// nudges is how often an initiator nudges at most, each time after four times
// the silence of the time before.
const nudges = 4

// nudger is an initiator's wait for the first sign of life.
type nudger struct {
	at   frame.Time // when to look, frame.Never if not at all
	wait time.Duration
	left uint8
	// begins: the first FPDU has been cut since the last poll.
	begins bool
	sent   uint64 // end of the stream when the wait began
}

// startNudger readies the nudger of an initiator that enters full operation.
func (c *conn) startNudger() {
	if wait := c.e.cfg.Nudge; wait > 0 {
		c.nudger.wait, c.nudger.left = wait, nudges
	}
}

// sentFPDU begins the wait with the first FPDU.
func (c *conn) sentFPDU() {
	n := &c.nudger
	if n.left > 0 && n.at == frame.Never {
		n.at, n.begins, n.sent = 0, true, c.log.end // it counts from the next poll on
		c.e.rearm(c)
	}
}

// stopNudger ends the wait: the peer has been heard of.
func (c *conn) stopNudger() {
	if c.nudger.left > 0 {
		c.nudger.left, c.nudger.at = 0, frame.Never
	}
}

// nudge runs when the wait is over.
func (c *conn) nudge(now frame.Time) {
	n := &c.nudger
	if n.begins {
		n.at, n.begins = now.Add(n.wait), false
		return
	}
	n.at = frame.Never
	switch {
	case c.phase != full || c.finished || n.left == 0:
		n.left = 0
		return
	case c.log.end != n.sent: // that may have been just behind the first
		n.at, n.sent = now.Add(n.wait), c.log.end
		n.left--
		return
	}
	n.wait *= 4
	n.left--
	if n.left > 0 {
		n.at = now.Add(n.wait)
	}
	n.sent = c.log.end + uint64(c.tx.FPDULen(c.log.end-c.base, ddp.TaggedLen))
	c.stream.SendRTR(rdmap.Write)
	c.counters.Nudges++
	c.tcp.Kick()
}
