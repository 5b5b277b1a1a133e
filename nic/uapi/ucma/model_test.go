package ucma

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/nic/verbs"
)

// model are programs that do anything at any time; what they are told must
// agree with itself.
type model struct {
	*pair
	rng      interface{ IntN(n int) int }
	channels []*channel
	ids      []*known
	byUID    map[uint64]*known
	fetched  map[EventType]int
}

// known is an id with the events that its program has fetched.
type known struct {
	*cmid
	node *node
	seen []EventType
	lis  *known // of a request
}

// after lists what may come right after an event; nothing comes first but what
// -1 allows.
var after = map[EventType][]EventType{
	none:           {AddrResolved, AddrError, ConnectRequest, Established, ConnectError},
	AddrResolved:   {RouteResolved},
	AddrError:      {AddrResolved, AddrError, ConnectRequest}, // it is bound and may listen
	RouteResolved:  {Established, Rejected, Unreachable, ConnectError},
	Established:    {Disconnected},
	ConnectRequest: {ConnectRequest},
}

const none EventType = 1 << 31

func (m *model) pick() *known {
	if len(m.ids) == 0 {
		return nil
	}
	return m.ids[m.rng.IntN(len(m.ids))]
}

func (m *model) side() (*thread, *node, *channel) {
	if k := m.rng.IntN(len(m.channels)); k%2 == 0 {
		return m.c, m.client, m.channels[k]
	} else {
		return m.s, m.server, m.channels[k]
	}
}

func (m *model) add(i *cmid, n *node) *known {
	k := &known{cmid: i, node: n}
	m.ids = append(m.ids, k)
	m.byUID[i.uid] = k
	return k
}

// fetch takes an event, if there is one, and judges it.
func (m *model) fetch(th *thread, n *node, ch *channel) {
	t := m.w.t
	th.NonBlock = true
	ev, err := th.event(ch)
	if err != nil {
		return
	}
	k := m.byUID[ev.uid]
	if k == nil || k.ch != ch {
		t.Fatalf("event %+v of an id that is gone, or another channel's", ev)
	}
	m.fetched[ev.typ]++
	last := none
	if len(k.seen) > 0 {
		last = k.seen[len(k.seen)-1]
	}
	if !slices.Contains(after[last], ev.typ) {
		t.Fatalf("event %d after %v", ev.typ, k.seen)
	}
	k.seen = append(k.seen, ev.typ)
	k.acked++
	if ev.typ == ConnectRequest {
		lastUID += 16
		m.add(&cmid{t: th, ch: ch, uid: lastUID, num: ev.num}, n).lis = k
	} else if ev.num != k.num {
		t.Fatalf("event %+v has another number than %d", ev, k.num)
	}
}

func (m *model) destroy(k *known) {
	got, err := k.destroy()
	if err != nil || got != k.acked {
		m.w.t.Fatalf("destroy: %d events, fetched were %v: %v", got, k.seen, err)
	}
	delete(m.byUID, k.uid)
	m.ids = slices.DeleteFunc(m.ids, func(o *known) bool { return o == k })
	if k.qp != nil && m.rng.IntN(2) == 0 {
		must(m.w.t, k.qp.Destroy())
	}
}

// act has some program do something; most of it is refused.
func (m *model) act() {
	th, n, ch := m.side()
	k := m.pick()
	switch what := m.rng.IntN(24); {
	case what >= 16 && k != nil:
		m.proceed(k)
	case what < 5:
		m.fetch(th, n, ch)
	case what == 5 && len(m.ids) < 30:
		if i, err := th.create(ch); err == nil {
			m.add(i, n)
		}
	case what == 6:
		m.w.run(time.Duration(m.rng.IntN(int(50 * time.Millisecond))))
	case k == nil:
	case what == 7:
		_ = k.bind(fmt.Sprintf("0.0.0.0:%d", 7000+m.rng.IntN(3)))
	case what == 8:
		_ = k.listen(int32(m.rng.IntN(4)))
	case what == 9:
		to := []string{"10.0.0.1", "10.0.0.2", "10.0.0.77", "127.0.0.1"}[m.rng.IntN(4)]
		_ = k.resolve("", fmt.Sprintf("%s:%d", to, 7000+m.rng.IntN(3)), uint32(m.rng.IntN(100)))
	case what == 10:
		if k.resolveRoute(10) == nil || k.lis != nil && k.qp == nil {
			_ = k.createQP(k.node)
		}
	case what == 11 && k.qp != nil && k.lis == nil:
		_ = k.connect("c")
	case what == 12 && k.lis != nil && k.qp != nil:
		_ = k.accept("a")
	case what == 13 && k.lis != nil && m.rng.IntN(3) == 0:
		_ = k.reject("r")
	case what == 14 && m.rng.IntN(2) == 0:
		_ = k.t.write(k.ch, cmdDisconnect, body{}.u32(k.num), 0)
		if k.qp != nil && m.rng.IntN(4) == 0 {
			_ = k.qp.Modify(verbs.Err)
		}
	case what == 15 && m.rng.IntN(3) > 0:
		if m.rng.IntN(2) == 0 {
			m.destroy(k)
		} else if k.t == th {
			if got, err := k.migrate(ch); err != nil || got != k.acked {
				m.w.t.Fatalf("migrate: %d events, fetched were %v: %v", got, k.seen, err)
			}
		}
	}
}

// proceed has the program of k do what leads to a connection and its end.
func (m *model) proceed(k *known) {
	last := none
	if len(k.seen) > 0 {
		last = k.seen[len(k.seen)-1]
	}
	if k.qp == nil && (last == RouteResolved || k.lis != nil) {
		_ = k.createQP(k.node)
	}
	switch {
	case last == Established:
		_ = k.t.write(k.ch, cmdDisconnect, body{}.u32(k.num), 0)
	case k.lis != nil:
		_ = k.accept("a")
	case last == none && k.uid%32 == 0:
		_ = k.bind("0.0.0.0:7000")
		_ = k.listen(4)
	case last == none:
		_ = k.resolve("", []string{"10.0.0.1:7000", "10.0.0.2:7000"}[m.rng.IntN(2)], 100)
	case last == AddrResolved:
		_ = k.resolveRoute(10)
	case last == RouteResolved:
		_ = k.connect("c")
	}
}

// check compares what poll says of every channel with what is there.
func (m *model) check() {
	for _, ch := range m.channels {
		if f := ch.File.(*File); ch.readable() != (len(f.events) > 0) {
			m.w.t.Fatalf("readable %v with %d events", ch.readable(), len(f.events))
		}
	}
}

// drawn is chance as rapid has it, who finds a short way to what goes wrong.
type drawn struct{ t *rapid.T }

func (d drawn) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "choice") }

// failing is a test of which rapid is told what fails.
type failing struct {
	testing.TB
	t *rapid.T
}

func (f failing) Helper()                      {}
func (f failing) Error(args ...any)            { f.t.Error(args...) }
func (f failing) Errorf(s string, args ...any) { f.t.Errorf(s, args...) }
func (f failing) Fatal(args ...any)            { f.t.Fatal(args...) }
func (f failing) Fatalf(s string, args ...any) { f.t.Fatalf(s, args...) }

// Whatever programs do on two NICs, each on a thread of its own or both on one:
// events come in an order that makes sense, of ids that are alive, on the channel
// that these belong to; destroying and migrating an id tells how many were
// fetched, which is what librdmacm waits for; poll tells when there are some; and
// nothing is left.
func TestEventsAgree(t *testing.T) {
	total := map[EventType]int{}
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{rng: drawn{rt}, byUID: map[uint64]*known{}, fetched: total}
		tb := failing{t, rt}
		if rapid.Bool().Draw(rt, "one thread") {
			m.pair = newPair(tb, nil)
		} else {
			m.pair = newPair(tb, rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 5)))
		}
		for range 2 {
			m.channels = append(m.channels, m.c.open(), m.s.open())
		}
		rt.Cleanup(func() {
			for _, ch := range m.channels {
				if !ch.File.(*File).closed {
					ch.close()
				}
			}
		})
		for range 600 {
			m.act()
			m.check()
		}
		for len(m.ids) > 0 && m.rng.IntN(4) > 0 {
			m.destroy(m.ids[0])
		}
		m.checkEmpty(tb, m.channels...)
	})
	for _, typ := range []EventType{AddrResolved, AddrError, RouteResolved, ConnectRequest, Rejected, Established, Disconnected} {
		if total[typ] == 0 {
			t.Errorf("event %d never came: %v", typ, total)
		}
	}
	t.Log(total)
}
