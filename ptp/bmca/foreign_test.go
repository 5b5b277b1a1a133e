package bmca

import (
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

func announce(sender byte, priority1 uint8) *msg.Message {
	return &msg.Message{
		Header: msg.Header{Type: msg.Announce, Source: portID(sender, 1)},
		Grandmaster: msg.Grandmaster{
			Priority1: priority1, Identity: clockID(sender), Quality: msg.ClockQuality{Class: 248},
		},
	}
}

// hearer feeds a table.
type hearer struct {
	Table
	now frame.Time
}

func newHearer() *hearer {
	return &hearer{Table: Table{Threshold: Threshold}, now: frame.Time(time.Hour)}
}

func (h *hearer) hear(m *msg.Message, after time.Duration) Heard {
	h.now = h.now.Add(after)
	return h.Hear(m, transport.Addr{}, portID(30, 1), 128, time.Second, h.now)
}

func (h *hearer) best() byte {
	f := h.Best(time.Second, h.now)
	if f == nil {
		return 0
	}
	return f.Identity[7]
}

// TestQualification: two Announces within four intervals.
func TestQualification(t *testing.T) {
	h := newHearer()
	if h.hear(announce(1, 128), 0) != Nothing || h.best() != 0 {
		t.Error("one Announce qualifies")
	}
	if h.hear(announce(1, 128), 4*time.Second) != Changed || h.best() != 1 {
		t.Error("two in four intervals do not qualify")
	}
	if h.hear(announce(1, 128), time.Second) != Nothing {
		t.Error("an Announce like the last one changes something")
	}
	if h.hear(announce(1, 127), time.Second) != Changed {
		t.Error("another priority changes nothing")
	}
	if h.now += frame.Time(4*time.Second) + 1; h.best() != 0 {
		t.Error("a master not heard for more than four intervals is still the best")
	}
	h = newHearer()
	h.hear(announce(1, 128), 0)
	if h.hear(announce(1, 128), 4*time.Second+1) != Nothing || h.best() != 0 {
		t.Error("two in more than four intervals qualify")
	}
	h = newHearer()
	h.Threshold = 1
	if h.hear(announce(1, 128), 0) != Changed || h.best() != 1 {
		t.Error("with a threshold of one, one Announce does not qualify")
	}
}

// TestFlood: thousands of masters that are no better neither grow the table
// nor put out the best; a better one comes in.
func TestFlood(t *testing.T) {
	h := newHearer()
	h.hear(announce(1, 100), 0)
	h.hear(announce(1, 100), time.Millisecond)
	for i := range 5000 {
		m := announce(2, 128)
		m.Source.Clock[0], m.Source.Clock[1] = byte(i), byte(i>>8)
		m.Grandmaster.Identity = m.Source.Clock
		h.hear(m, 0)
		if i%2 == 0 { // half of them qualify
			h.hear(m, 0)
		}
		if h.Len() > MaxForeign || h.best() != 1 {
			t.Fatalf("after %d: %d masters, best %d", i, h.Len(), h.best())
		}
	}
	h.hear(announce(3, 50), 0)
	h.hear(announce(3, 50), 0)
	if h.best() != 3 {
		t.Error("a better master finds no room")
	}
}

// TestRejected: a table full of better masters takes no worse one.
func TestRejected(t *testing.T) {
	h := newHearer()
	for i := range byte(MaxForeign) {
		h.hear(announce(i+1, 100), 0)
		h.hear(announce(i+1, 100), 0)
	}
	if got := h.hear(announce(99, 200), 0); got != Rejected || h.Find(portID(99, 1)) != nil {
		t.Errorf("a worse master: %v", got)
	}
	h.Forget(portID(1, 1))
	if h.best() != 2 || h.Len() != MaxForeign-1 {
		t.Errorf("best %d of %d after the first was forgotten", h.best(), h.Len())
	}
	if h.Clear(); h.Len() != 0 {
		t.Error("a cleared table is not empty")
	}
}

// TestTLVsKept: path trace and TLVs that propagate are kept, others are not,
// and no more than there is room for.
func TestTLVsKept(t *testing.T) {
	h := newHearer()
	m := announce(1, 128)
	b := msg.AppendPathTrace(nil, []msg.ClockIdentity{clockID(9)}, clockID(1))
	b = msg.AppendTLV(b, msg.TLVPad, make([]byte, 8))
	b = msg.AppendTLV(b, msg.TLVOrganizationPropagate, []byte{1, 2, 3, 4})
	b = msg.AppendTLV(b, msg.TLVOrganizationPropagate, make([]byte, MaxPropagated))
	m.TLVs = b
	h.hear(m, 0)
	f := h.Find(m.Source)
	if len(f.Path) != 2 || f.Path[0] != clockID(9) || f.Path[1] != clockID(1) {
		t.Errorf("path %v", f.Path)
	}
	if want := string(msg.AppendTLV(nil, msg.TLVOrganizationPropagate, []byte{1, 2, 3, 4})); string(f.Propagated) != want {
		t.Errorf("propagated % x", f.Propagated)
	}
	m.TLVs = msg.AppendTLV(nil, msg.TLVPathTrace, make([]byte, 8*(MaxPath+5)))
	if h.hear(m, 0); len(f.Path) != MaxPath || len(f.Propagated) != 0 {
		t.Errorf("%d clocks in the path, %d octets propagated", len(f.Path), len(f.Propagated))
	}
}
