package toe

import (
	"testing"
	"time"
)

// TestPeerThatKeepsSACKToItself agrees to SACK but never reports anything, as
// gVisor does after its own FIN: duplicate acknowledgements must do.
func TestPeerThatKeepsSACKToItself(t *testing.T) {
	w := newWorld(t, 3, Config{}, Config{}, faults{loss: 10, delay: time.Millisecond}, false)
	a, b := newApp(4<<20, 1), newApp(0, 2)
	a.closeAtEnd, b.closeAtEnd = true, true
	c := w.connect(a, b)
	w.run(time.Minute, func() bool { return b.established })
	b.conn.sackOK = false
	if !w.run(time.Minute, func() bool { return a.closed && b.closed }) {
		t.Fatalf("stuck: %+v", c.Info())
	}
	b.check(t, a)
	i := c.Info()
	if !i.SACK || i.FastRecovers < 10 || i.Timeouts > i.FastRecovers/2 {
		t.Errorf("%d fast recoveries, %d timeouts", i.FastRecovers, i.Timeouts)
	}
	w.rest()
}
