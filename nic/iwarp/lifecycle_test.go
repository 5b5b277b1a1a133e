package iwarp

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/wire/frame"
)

// told checks what a node has been told of its endpoint: one completion of what
// it asked for or was asked; CLOSE at most once, last, and not before
// DISCONNECT if it was connected, with the queue pair in ERROR.
func told(rt *rapid.T, who string, n *node, completion cm.DeviceEvent) {
	var story []cm.DeviceEvent
	count := map[cm.DeviceEvent]int{}
	list := n.cm.Log().Since(0)
	for _, e := range list {
		story = append(story, e.Event)
		count[e.Event]++
	}
	if len(list) == 0 {
		return // it was never asked
	}
	last := list[len(list)-1]
	connected := count[cm.EvDisconnect] > 0
	switch {
	case count[completion] != 1, count[cm.EvClose] > 1, count[cm.EvDisconnect] > 1:
		rt.Fatalf("%s: %v", who, story)
	case connected && count[cm.EvClose] != 1, count[cm.EvClose] == 1 && last.Event != cm.EvClose:
		rt.Fatalf("%s: %v: CLOSE is not the end", who, story)
	case connected && last.State != "ERROR":
		rt.Fatalf("%s: ends in %s: %v", who, last.State, story)
	}
}

// first returns the first event of a type.
func (e *end) first(t cm.EventType) *cm.Event {
	for i := range e.events {
		if e.events[i].Type == t {
			return &e.events[i]
		}
	}
	return nil
}

// C8: whatever is asked for, answered and ended when: each side gets exactly one
// completion and CLOSE as the last event, private data arrives intact, and no side may
// issue more Reads than the other serves, with an indication that both know.
//
// IW-02 IW-14 IW-17 IW-18 IW-19 IW-26
func TestEndpointLifeCycle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		data := func(what string) []byte {
			b := make([]byte, rapid.OneOf(rapid.IntRange(0, 508), rapid.SampledFrom([]int{0, 1, 507, 508})).Draw(rt, what))
			fill(b, len(b)+1)
			return b
		}
		reads := func(what string) uint16 { return uint16(rapid.IntRange(1, 32).Draw(rt, what)) }
		rtr := func(what string) mpa.RTR { return mpa.RTR(rapid.IntRange(1, int(mpa.RTRAny)).Draw(rt, what)) }
		ask := cm.Params{PrivateData: data("asked with"), IRD: reads("IRD"), ORD: reads("ORD"), PeerToPeer: rapid.Bool().Draw(rt, "peer to peer")}
		answer := cm.Params{PrivateData: data("answered with"), IRD: reads("server's IRD"), ORD: reads("server's ORD")}
		accepts := rapid.IntRange(0, 3).Draw(rt, "accepts") > 0
		offered, wanted := rtr("RTR"), rtr("server's RTR")
		w := newWorld(t, toe.Config{SynRetries: 2}, Config{})
		for n, r := range map[*node]mpa.RTR{w.a: offered, w.b: wanted} {
			n.e.Configure(Config{RTR: r, ReplyTimeout: time.Second, CloseTimeout: time.Second, Source: n.e.cfg.Source})
		}
		x := dial(t, w, 64, ask, func(s *end, ev cm.Event, now frame.Time) {
			answer.QP = s.qp
			if accepts {
				_ = ev.ID.Accept(answer, now) // it may have ended already
			} else {
				_ = ev.ID.Reject(answer.PrivateData, now)
			}
		})
		met := !accepts || !ask.PeerToPeer || offered&wanted != 0
		if rapid.Bool().Draw(rt, "undisturbed") {
			w.run(func() bool { return len(x.c.events) > 0 && len(x.s.events) > 1 })
			asked := x.s.first(cm.ConnectRequest)
			if asked == nil || !bytes.Equal(asked.PrivateData, ask.PrivateData) {
				rt.Fatalf("the server was asked %+v", x.s.events)
			}
			up, served := x.c.first(cm.ActiveComplete), x.s.first(cm.PassiveComplete)
			if (up != nil) != (accepts && met) {
				rt.Fatalf("client: %s; RTR %v and %v", x.c.names(), offered, wanted)
			}
			if met && !bytes.Equal(x.c.events[0].PrivateData, answer.PrivateData) {
				rt.Fatalf("%d octets of answer, sent %d", len(x.c.events[0].PrivateData), len(answer.PrivateData))
			}
			if up != nil {
				agreed(rt, x, up, served, ask.PeerToPeer, offered&wanted)
			}
		} else {
			steps := rapid.IntRange(0, 60).Draw(rt, "steps")
			w.run(func() bool { steps--; return steps < 0 })
		}
		for _, id := range []*cm.ID{x.c.id, x.s.id} {
			if id != nil && rapid.IntRange(0, 2).Draw(rt, "ends") > 0 {
				_ = id.Disconnect(rapid.Bool().Draw(rt, "aborts"), w.now)
			}
		}
		_ = x.c.id.Disconnect(true, w.now)
		if x.s.id != nil {
			_ = x.s.id.Disconnect(true, w.now)
		}
		w.must("the end", func() bool { return x.a.e.Idle() && x.b.e.Idle() && !x.a.dev.Pending() && !x.b.dev.Pending() })
		told(rt, "client", x.a, cm.EvActiveComplete)
		told(rt, "server", x.b, cm.EvPassiveComplete)
		for who, e := range map[string]*end{"client": x.c, "server": x.s} {
			if n := strings.Count(e.names(), cm.ClosedEvent.String()+"; "); n > 1 || n == 1 && e.events[len(e.events)-1].Type != cm.ClosedEvent {
				rt.Fatalf("%s: %s", who, e.names())
			}
		}
	})
}

// agreed checks what the two sides of a connection have agreed on.
func agreed(rt *rapid.T, x *pair, up, served *cm.Event, p2p bool, rtr mpa.RTR) {
	if served == nil {
		rt.Fatalf("server: %s", x.s.names())
	}
	if up.ORD > served.IRD || served.ORD > up.IRD || max(up.IRD, up.ORD, served.IRD, served.ORD) > 32 {
		rt.Fatalf("client IRD %d ORD %d, server IRD %d ORD %d", up.IRD, up.ORD, served.IRD, served.ORD)
	}
	got := x.a.e.conns.All()[0].result
	if p2p && (got.RTR == 0 || got.RTR&^rtr != 0 || got.RTR&(got.RTR-1) != 0) {
		rt.Fatalf("RTR %v of %v", got.RTR, rtr)
	}
}
