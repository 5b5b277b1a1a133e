package loop

import (
	"testing"
	"time"

	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// sightings is an observer that has seen every frame a second ago, but for
// those whose last octet is 0.
type sightings struct{ asked, closed int }

func (s *sightings) Received(b []byte) (int64, bool) {
	s.asked++
	return time.Now().Add(-time.Second).UnixNano(), b[len(b)-1] != 0
}

func (s *sightings) Sent(b []byte) (int64, bool) { return s.Received(b) }
func (s *sightings) Event(b []byte) bool         { return tap.EventHeader(b) != nil }
func (s *sightings) Close() error                { s.closed++; return nil }

// seer keeps what the engine is told about received frames.
type seer struct {
	*echo
	seen []frame.Time
}

func (s *seer) Receive(p frame.Port, frames []*frame.Frame, now frame.Time) {
	for _, f := range frames {
		s.seen = append(s.seen, f.Seen)
	}
	s.echo.Receive(p, frames, now)
}

func syncFrame(last byte) []byte {
	b := make([]byte, 60)
	copy(b[12:], []byte{byte(ether.TypePTP >> 8), byte(ether.TypePTP & 0xff)})
	b[59] = last
	return b
}

// Event messages are observed both ways; other frames are none of the
// observer's business.
func TestObservedFrames(t *testing.T) {
	w := prepare(t, 0)
	eyes, o := &seer{echo: w.engine}, &sightings{}
	w.SetEngine(eyes)
	w.engine.link.Observe(o)
	w.run(t)
	for _, b := range [][]byte{syncFrame(1), []byte("no message"), syncFrame(0)} {
		w.far.send(t, b)
		w.far.receive(t)
	}
	now := w.Now()
	must(t, w.DoWait(func(frame.Time) {}))
	w.stop()
	if o.asked != 4 || o.closed != 1 {
		t.Errorf("asked %d times, closed %d times", o.asked, o.closed)
	}
	seen := eyes.seen
	if len(seen) != 3 || now.Sub(seen[0]) < time.Second || seen[1] != 0 || seen[2] != frame.Never {
		t.Fatalf("received %v at %v", seen, now)
	}
	sent := w.engine.reported
	if len(sent) != 3 || now.Sub(sent[0].at) < time.Second || sent[0].at <= seen[0] || sent[1].at < 0 || sent[1].at > now || sent[2].at != frame.Never {
		t.Errorf("sent %v at %v", sent, now)
	}
	if tap.EventHeader(syncFrame(1)) == nil {
		t.Error("the test's message is none")
	}
}

// The interval between the clocks narrows, whatever comes between two looks,
// and begins anew when the system's clock is set.
func TestRealtime(t *testing.T) {
	var r realtime
	r.look(1000, 5000_001_000+900, 2000) // interrupted behind the second look
	r.look(5000, 5000_005_000+40, 5100)
	r.look(9000, 5000_009_000+30, 90_000)
	if r.low > 5000_000_000+30 || r.high < 5000_000_000 || r.high-r.low > 104 {
		t.Errorf("between %d and %d", r.low, r.high)
	}
	r.look(10_000, 7000_010_050, 10_100)
	if r.low != 7000_000_000-50-resolution || r.high != 7000_000_000+50+resolution {
		t.Errorf("after a step between %d and %d", r.low, r.high)
	}
}
