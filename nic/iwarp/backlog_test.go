package iwarp

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// No more connections wait for the application than the listener's backlog
// says, however they come; the others get in as soon as there is room.
func TestBacklogIsExact(t *testing.T) {
	for _, backlog := range []int{1, 3} {
		w := newWorld(t, toe.Config{}, Config{ReplyTimeout: time.Hour})
		var waiting []*cm.ID
		held, most := true, 0
		answer := func(now frame.Time) {
			for _, id := range waiting {
				if err := id.Accept(cm.Params{QP: newEnd(t, w.b, 64).qp}, now); err != nil {
					t.Error(err)
				}
			}
			waiting = nil
		}
		l, err := w.b.cm.Listen(netip.AddrPortFrom(w.b.addr, port), backlog, func(ev cm.Event, now frame.Time) {
			if ev.Type != cm.ConnectRequest {
				return
			}
			waiting = append(waiting, ev.ID)
			most = max(most, len(waiting))
			if !held {
				answer(now)
			}
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var clients []*end
		for range 5 * backlog {
			c := newEnd(t, w.a, 64)
			clients = append(clients, c)
			if err := w.a.cm.NewID(c.handle, nil).Connect(l.Local(), cm.Params{QP: c.qp}, w.now); err != nil {
				t.Fatal(err)
			}
		}
		w.quiet(3 * time.Second)
		if len(waiting) != backlog || w.b.tcp.Stats().Drops[drop.Backlog] == 0 {
			t.Errorf("backlog %d: %d wait, %d dropped", backlog, len(waiting), w.b.tcp.Stats().Drops[drop.Backlog])
		}
		for i := range 2 {
			_ = waiting[0].Reject(nil, w.now)
			waiting = waiting[1:]
			w.must("another request", func() bool { return len(waiting) == backlog })
			w.quiet(3 * time.Second)
			if len(waiting) != backlog {
				t.Errorf("backlog %d, rejected %d: %d wait", backlog, i+1, len(waiting))
			}
		}
		held = false
		answer(w.now)
		w.quiet(time.Minute) // peers try ever more rarely
		w.must("the rest", func() bool {
			up := 0
			for _, c := range clients {
				if c.got(cm.ActiveComplete) {
					up++
				}
			}
			return up == len(clients)-2
		})
		if most != backlog {
			t.Errorf("backlog %d: %d waited", backlog, most)
		}
	}
}

// Connections that send no MPA request take room, too, until their time is
// up.
func TestSilentPeersFillTheBacklog(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{RequestTimeout: 4 * time.Second})
	s := newEnd(t, w.b, 64)
	l, err := w.b.cm.Listen(netip.AddrPortFrom(w.b.addr, port), 2, func(ev cm.Event, now frame.Time) {
		s.handle(ev, now)
		if ev.Type == cm.ConnectRequest {
			acceptAll(cm.Params{})(s, ev, now)
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		silent := &scripted{}
		if silent.conn, err = w.a.tcp.Connect(netip.AddrPortFrom(w.a.addr, 0), l.Local(), silent, w.now); err != nil {
			t.Fatal(err)
		}
		w.must("TCP", func() bool { return silent.up })
	}
	c, start := newEnd(t, w.a, 64), w.now
	if err := w.a.cm.NewID(c.handle, nil).Connect(l.Local(), cm.Params{QP: c.qp}, w.now); err != nil {
		t.Fatal(err)
	}
	w.must("connection", func() bool { return c.got(cm.ActiveComplete) })
	if d := w.now.Sub(start); d < 3*time.Second || d > 8*time.Second {
		t.Errorf("connected after %v", d)
	}
}
