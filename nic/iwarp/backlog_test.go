package iwarp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
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

// lobby is a listener and peers without an MPA request.
type lobby struct {
	*world
	l *cm.Listener
}

func newLobby(t *testing.T, addr string, backlog int, cfg Config) *lobby {
	t.Helper()
	w := newWorld(t, toe.Config{}, cfg)
	l, err := w.b.cm.Listen(netip.AddrPortFrom(netip.MustParseAddr(addr), port), backlog, func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			if err := ev.ID.Accept(cm.Params{QP: newEnd(t, w.b, 64).qp}, now); err != nil {
				t.Error(err)
			}
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &lobby{world: w, l: l}
}

// silent makes a TCP connection from an address that says nothing.
func (w *lobby) silent(from string) *scripted {
	w.t.Helper()
	p := &scripted{}
	var err error
	if p.conn, err = w.a.tcp.Connect(netip.AddrPortFrom(netip.MustParseAddr(from), 0), w.l.Local(), p, w.now); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// connects is how long a connection of the address takes.
func (w *lobby) connects(from string) time.Duration {
	w.t.Helper()
	c, start := newEnd(w.t, w.a, 64), w.now
	if err := w.a.cm.NewID(c.handle, nil).Connect(w.l.Local(),
		cm.Params{QP: c.qp, Local: netip.AddrPortFrom(netip.MustParseAddr(from), 0)}, w.now); err != nil {
		w.t.Fatal(err)
	}
	w.must("connection of "+from, func() bool { return c.got(cm.ActiveComplete) })
	return w.now.Sub(start)
}

// resets counts the connections that were reset.
func resets(list []*scripted) (n int) {
	for _, p := range list {
		if p.ended {
			n++
		}
	}
	return n
}

// Connections that send no MPA request take room until they make it for others:
// the oldest does, once it has been silent for longer than a lost request takes.
func TestSilentPeersFillTheBacklog(t *testing.T) {
	w := newLobby(t, "10.0.0.2", 2, Config{RequestTimeout: time.Hour})
	w.b.notes.On = true
	var list []*scripted
	for range 2 {
		list = append(list, w.silent("10.0.0.7"))
		w.must("TCP", func() bool { return list[len(list)-1].up })
		w.quiet(10 * time.Millisecond)
	}
	if d := w.connects("10.0.0.8"); d < silentGrace/2 || d > 3*time.Second || !list[0].ended || list[1].ended {
		t.Errorf("connected after %v, ended: %v, %v", d, list[0].ended, list[1].ended)
	}
	if n := w.b.e.Totals().Evicted; n != 1 || !slices.ContainsFunc(w.b.said, func(s string) bool { return strings.Contains(s, errSilent.Error()) }) {
		t.Errorf("%d evicted; said %q", n, w.b.said)
	}
}

// 1024 silent connections of one address, and as many of other ones, do not keep
// others waiting; whoever has its share only replaces its own.
func TestSilentPeersHaveAShare(t *testing.T) {
	for addr, from := range map[string]struct{ hog, few, other string }{
		"10.0.0.2": {"10.0.0.7", "10.0.0.9", "10.0.0.8"},
		"fd00::2":  {"fd00:7::%x", "fd00:9::%x", "fd00:8::1"}, // a /64 is one host
	} {
		w := newLobby(t, addr, 64, Config{RequestTimeout: time.Hour, SilentShare: 25})
		many := func(n int, from string) (list []*scripted) {
			for i := range n {
				if strings.Contains(from, "%") {
					list = append(list, w.silent(fmt.Sprintf(from, i+1)))
				} else {
					list = append(list, w.silent(from))
				}
			}
			return list
		}
		few := many(16, from.few)
		w.quiet(time.Second)
		hog := many(1024, from.hog)
		w.quiet(2 * silentGrace)
		for range 20 {
			if d := w.connects(from.other); d > 100*time.Millisecond {
				t.Fatalf("%s: connected after %v", addr, d)
			}
		}
		if resets(few) != 0 || resets(hog) == 0 || w.b.e.Totals().Evicted == 0 {
			t.Errorf("%s: reset: %d of those with their share, %d of the others", addr, resets(few), resets(hog))
		}
	}
}

// A burst of peers that mean it loses none to the rule.
func TestBurstIsNotEvicted(t *testing.T) {
	w := newLobby(t, "10.0.0.2", 8, Config{ReplyTimeout: time.Hour})
	var clients []*end
	for range 40 {
		c := newEnd(t, w.a, 64)
		clients = append(clients, c)
		if err := w.a.cm.NewID(c.handle, nil).Connect(w.l.Local(), cm.Params{QP: c.qp}, w.now); err != nil {
			t.Fatal(err)
		}
	}
	w.quiet(time.Minute) // peers try ever more rarely
	w.must("all connections", func() bool {
		return !slices.ContainsFunc(clients, func(c *end) bool { return !c.got(cm.ActiveComplete) })
	})
	if n := w.b.e.Totals().Evicted; n != 0 {
		t.Errorf("%d evicted", n)
	}
}
