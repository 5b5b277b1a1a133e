package toe

import (
	"testing"
	"time"

	"tapir/wire/tcp"
)

// TestPeerThatKeepsSACKToItself agrees to SACK but never reports anything, as
// gVisor does after its own FIN: duplicate acknowledgements must do.
func TestPeerThatKeepsSACKToItself(t *testing.T) {
	w := newWorld(t, 3, Config{}, Config{}, faults{loss: 10, delay: time.Millisecond}, false)
	a, b := newApp(4<<20, 1), newApp(0, 2)
	a.closeAtEnd, b.closeAtEnd = true, true
	c := w.connect(a, b)
	w.run(time.Minute, func() bool { return b.established })
	b.conn.snd.SACK = false
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

// TestFinBeforeItsData acknowledges every FIN that cannot be taken yet: the
// peer may wait for nothing else, as gVisor does after a tail loss probe.
func TestFinBeforeItsData(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.establish(quietApp(0))
	for range 3 {
		p.in(tcp.FIN|tcp.ACK, 11, 1, "")
		p.expect("ACK 1 ack 1")
	}
	p.in(tcp.ACK, 1, 1, "0123456789")
	p.expect("ACK 1 ack 12")
	p.state(StateCloseWait)
}
