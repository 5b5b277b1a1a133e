package link

import (
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// Seen tells when the kernel handed a PTP event message to the cable's end: a *tap.Observer.
type Seen interface {
	// Received is asked right after the frame b was read; it answers in nanoseconds of
	// CLOCK_REALTIME, false for a stamp that is lost.
	Received(b []byte) (realtime int64, ok bool)
	Close() error
}

// residence has a lane answer for being late, as a transparent clock answers for a switch
// (IEEE 1588-2019 section 10.2): what a PTP event message stays in it beyond its intended
// delay, jitter and turn is added to the message's correctionField. What is intended is not:
// it belongs to the link that is imitated.
type residence struct {
	on   bool
	seen Seen // at the end where frames enter; nil: a frame enters when it is read
}

// longestWait bounds what a stamp is believed: a step of the system's clock is longer.
const longestWait = 10 * time.Second

// entered is when f came to the cable's end, now or before.
func (r *residence) entered(f *frame.Frame, start time.Time, now time.Duration) time.Duration {
	if r.seen == nil || event(f) == nil {
		return now
	}
	at, ok := r.seen.Received(f.Bytes())
	t := time.Now()
	if wait := time.Duration(t.UnixNano() - at); ok && wait >= 0 && wait < longestWait {
		return min(now, t.Sub(start)-wait)
	}
	return now
}

// correct tells an event message in f how late it leaves. A checksum that a device still has to
// complete is of the pseudo-header alone, and stays.
func (r *residence) correct(f *frame.Frame, late time.Duration) {
	p := event(f)
	if p == nil {
		return
	}
	sum := f.Bytes()[:0]
	if at := int(f.CsumStart) + int(f.CsumOffset); f.NeedsCsum && at+2 <= f.Len() {
		sum = f.Bytes()[at : at+2]
	}
	was := [2]byte(append([]byte{0, 0}, sum...)[len(sum):])
	p.AddCorrection(msg.TimeInterval(late) << 16)
	copy(sum, was[:])
}

// event is the PTP event message in f, nil if there is none.
func event(f *frame.Frame) *transport.Packet {
	p, ok := transport.Find(f.Bytes())
	if !ok || !p.Event || len(p.Body) < msg.BodyAt {
		return nil
	}
	return &p
}
