package receive

import (
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// Timestamps is what RFC 7323 section 4.3 keeps of the peer's timestamps.
type Timestamps struct {
	On     bool // both sides use them
	Recent uint32
	at     frame.Time // when Recent was taken
}

// idle is how long a timestamp stays comparable (RFC 7323 section 5.5).
const idle = 24 * 24 * time.Hour

// Begin takes the option of the peer's SYN.
func (t *Timestamps) Begin(h *tcp.Header, now frame.Time) {
	if t.On = h.Opts.HasTS; t.On {
		t.Recent, t.at = h.Opts.TSVal, now
	}
}

// Unknown says that both sides use timestamps, and that nobody knows those of the peer: its next
// one counts, whatever it is. Until it comes, 0 is echoed.
func Unknown(now frame.Time) Timestamps { return Timestamps{On: true, at: now.Add(-idle)} }

// Old reports whether a segment is older than the last one, as PAWS sees it
// (RFC 7323 section 5.3).
func (t *Timestamps) Old(h *tcp.Header, now frame.Time) bool {
	return int32(h.Opts.TSVal-t.Recent) < 0 && now.Sub(t.at) < idle
}

func (t *Timestamps) take(h *tcp.Header, now frame.Time) {
	if t.On && h.Opts.HasTS && (int32(h.Opts.TSVal-t.Recent) >= 0 || now.Sub(t.at) >= idle) {
		t.Recent, t.at = h.Opts.TSVal, now
	}
}
