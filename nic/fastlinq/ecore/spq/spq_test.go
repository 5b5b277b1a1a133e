package spq

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// tb is what testing.T and rapid.T share.
type tb interface {
	Helper()
	Fatal(...any)
}

// bed is a queue with its firmware.
type bed struct {
	q      *SPQ
	eq     *EQ
	now    frame.Time
	held   []Element // fetched and not answered
	stuck  []string
	drains []func(frame.Time, error)
}

func newBed(t tb) *bed {
	t.Helper()
	b := &bed{}
	q, err := New(Config{
		Bell:  func(prod uint16) { b.q.Doorbell(prod) },
		Drain: func(_ frame.Time, done func(frame.Time, error)) { b.drains = append(b.drains, done) },
		Stuck: func(err error) { b.stuck = append(b.stuck, err.Error()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.q = q
	if b.eq, err = NewEQ(q, 256); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) fetch() {
	for el, ok := b.q.Fetch(); ok; el, ok = b.q.Fetch() {
		b.held = append(b.held, el)
	}
}

func (b *bed) answer(i int) error {
	el := b.held[i]
	b.held = slices.Delete(b.held, i, i+1)
	if err := b.eq.Produce(Event{Protocol: el.Protocol, Opcode: el.Cmd, Echo: el.Echo, VF: NoVF}); err != nil {
		return err
	}
	return b.eq.Complete(b.now)
}

// IT-16: however many are posted and in whatever order they are answered, each
// ends once, and those that wait are sent in order.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBed(t)
		var order []int
		ended := map[int]int{}
		posted := 0
		post := func(n int) {
			for range n {
				id := posted
				posted++
				err := b.q.Post(Request{CID: 0, Cmd: uint8(id), Protocol: cxt.Eth, Mode: Callback, Data: id,
					Done: func(r Result, _ frame.Time) { ended[id]++ }}, b.now)
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			post(rapid.IntRange(0, 150).Draw(t, "posted"))
			b.fetch()
			for range rapid.IntRange(0, 150).Draw(t, "answered") {
				if len(b.held) > 0 {
					i := rapid.IntRange(0, len(b.held)-1).Draw(t, "which")
					order = append(order, b.held[i].Data.(int))
					if err := b.answer(i); err != nil {
						t.Fatal(err)
					}
				}
			}
			if s := b.q.Stats(); s.InUse != posted-len(order) || s.InUse > 255 && s.Waiting == 0 {
				t.Fatalf("%+v, %d posted, %d answered", s, posted, len(order))
			}
		}
		for b.fetch(); len(b.held) > 0; b.fetch() {
			if err := b.answer(0); err != nil {
				t.Fatal(err)
			}
		}
		for id := range posted {
			if ended[id] != 1 {
				t.Fatalf("ramrod %d of %d ended %d times", id, posted, ended[id])
			}
		}
		if s := b.q.Stats(); s.InUse != 0 || s.Waiting != 0 || b.q.ring.Left() != Elements || s.Completed != uint64(posted) {
			t.Fatalf("%+v, %d free", s, b.q.ring.Left())
		}
	})
}

// IT-16: 255 ramrods and one of high priority are on their way, the others
// wait; ring elements come back only when all before them are done.
func TestPriority(t *testing.T) {
	b := newBed(t)
	for i := range 300 {
		b.q.Post(Request{Cmd: uint8(i), Protocol: cxt.Eth, Mode: Callback, Data: i}, 0)
	}
	b.q.Post(Request{Protocol: cxt.Common, Mode: Callback, Priority: High, Data: -1}, 0)
	b.q.Post(Request{Protocol: cxt.Common, Mode: Callback, Priority: High, Data: -2}, 0)
	b.fetch()
	if len(b.held) != 256 || b.held[255].Data != -1 {
		t.Fatalf("%d sent, the last %v", len(b.held), b.held[len(b.held)-1].Data)
	}
	if s := b.q.Stats(); s.Waiting != 46 || s.Unlimited != 46 || s.High != 2 {
		t.Errorf("%+v", s)
	}
	b.answer(1)
	if b.fetch(); len(b.held) != 255 {
		t.Errorf("an element came back before the one in front of it: %d sent", len(b.held))
	}
	b.answer(0) // two are free: one for the second of high priority, the other is kept
	if b.fetch(); len(b.held) != 255 || b.held[254].Data != -2 {
		t.Errorf("%d sent, the last %v", len(b.held), b.held[len(b.held)-1].Data)
	}
	b.answer(0)
	if b.fetch(); len(b.held) != 255 || b.held[254].Data != 255 {
		t.Errorf("%d sent, the last %v", len(b.held), b.held[len(b.held)-1].Data)
	}
	for what, err := range map[string]error{
		"mode": b.q.Post(Request{Mode: 2}, 0), "priority": b.q.Post(Request{Priority: 2}, 0), "protocol": b.q.Post(Request{Protocol: 9}, 0),
	} {
		if !errors.Is(err, status.Inval) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// IT-16
func TestUnknownEcho(t *testing.T) {
	b := newBed(t)
	b.q.Post(Request{Protocol: cxt.Eth, Mode: Callback}, 0)
	b.fetch()
	for _, echo := range []uint16{1, 256} {
		if err := b.q.Complete(echo, 0, 0, 0); !errors.Is(err, status.Exists) {
			t.Errorf("echo %d: %v", echo, err)
		}
	}
	if err := b.answer(0); err != nil {
		t.Error(err)
	}
	if err := b.q.Complete(0, 0, 0, 0); !errors.Is(err, status.Exists) {
		t.Errorf("twice: %v", err)
	}
}

// until polls to the deadline that the queue names.
func (b *bed) until(t *testing.T) {
	t.Helper()
	next := b.q.Poll(b.now)
	if next == frame.Never {
		t.Fatal("no deadline")
	}
	b.now = next
	b.q.Poll(next)
}

// IT-18
func TestStuck(t *testing.T) {
	b := newBed(t)
	var results []Result
	done := func(r Result, _ frame.Time) { results = append(results, r) }
	b.q.Post(Request{CID: 0x10, Cmd: 5, Protocol: cxt.Common, Data: 1, Done: done}, 0)
	b.fetch()
	b.until(t)
	if b.now != frame.Time(quickWait+DefaultTimeout) || len(b.drains) != 1 || len(results) != 0 {
		t.Fatalf("after %v: %d drains, %v", b.now, len(b.drains), results)
	}
	if next := b.q.Poll(b.now); next != frame.Never {
		t.Fatalf("in the middle of the drain: a deadline at %v", next)
	}
	b.drains[0](b.now, nil)
	b.until(t)
	if want := "ramrod is stuck [CID 0x00000010 cmd 0x05 protocol COMMON echo 0x0000]: BUSY"; !slices.Equal(b.stuck, []string{want}) {
		t.Errorf("%q, want %q", b.stuck, want)
	}
	if len(results) != 1 || !errors.Is(results[0].Err, status.Busy) || b.now != frame.Time(quickWait+2*DefaultTimeout) {
		t.Errorf("%v after %v", results, b.now)
	}
	if s := b.q.Stats(); s.InUse != 1 || s.Stuck != 1 {
		t.Errorf("%+v", s)
	}
	if err := b.answer(0); err != nil || len(results) != 1 { // late, and told no more
		t.Errorf("%v, %v", err, results)
	}
	if s := b.q.Stats(); s.InUse != 0 || b.q.Poll(b.now) != frame.Never {
		t.Errorf("%+v", s)
	}
}

// IT-18: a drain that fails ends the wait; an answer during the second wait is
// in time.
func TestDrain(t *testing.T) {
	for _, fails := range []bool{false, true} {
		b := newBed(t)
		var result *Result
		b.q.SetTimeout(time.Millisecond)
		b.q.Post(Request{Protocol: cxt.Eth, Done: func(r Result, _ frame.Time) { result = &r }}, 0)
		b.fetch()
		b.until(t)
		if fails {
			b.drains[0](b.now, status.Aborted)
			b.q.Poll(b.now)
			if b.now != frame.Time(quickWait+time.Millisecond) || result == nil || !errors.Is(result.Err, status.Busy) {
				t.Errorf("after %v: %v", b.now, result)
			}
			continue
		}
		b.drains[0](b.now, nil)
		if err := b.answer(0); err != nil || result == nil || result.Err != nil || len(b.stuck) != 0 {
			t.Errorf("%v, %v, %q", err, result, b.stuck)
		}
	}
}

// XX-02: in recovery ramrods end as if they were done, and none is sent.
func TestRecovery(t *testing.T) {
	b := newBed(t)
	var got []string
	post := func(name string) {
		b.q.Post(Request{Protocol: cxt.Eth, Done: func(r Result, _ frame.Time) { got = append(got, fmt.Sprint(name, r.Err)) }}, 0)
	}
	post("sent ")
	b.fetch()
	b.q.SetRecovery(true, 0)
	post("posted ")
	if want := []string{"sent <nil>", "posted <nil>"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := b.answer(0); !errors.Is(err, status.Inval) || !strings.Contains(err.Error(), "EXISTS") {
		t.Errorf("an answer to what was sent before: %v", err)
	}
	b.q.SetRecovery(false, 0)
	post("after ")
	if b.fetch(); len(b.held) != 1 {
		t.Errorf("%d sent after recovery", len(b.held))
	}
	if s := b.q.Stats(); s.Skipped != 2 || s.InUse != 1 {
		t.Errorf("%+v", s)
	}
}

// IT-17
func TestAsync(t *testing.T) {
	b := newBed(t)
	var got []string
	for _, p := range []cxt.Protocol{cxt.Common, cxt.IWARP} {
		if err := b.eq.RegisterAsync(p, func(e Event, _ frame.Time) error {
			got = append(got, fmt.Sprint(p, e))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	events := []Event{
		{Protocol: cxt.Common, Opcode: 4, VF: 3, Echo: 0xbeef, Code: 2, Async: true, Data: 1 << 63},
		{Protocol: cxt.IWARP, Opcode: 9, VF: NoVF, Async: true},
	}
	var want []string
	for _, e := range events {
		want = append(want, fmt.Sprint(e.Protocol, e))
		if err := b.eq.Produce(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.eq.Complete(0); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: %v, want %v", err, got, want)
	}
	if err := b.eq.RegisterAsync(cxt.IWARP, nil); !errors.Is(err, status.Exists) {
		t.Errorf("twice: %v", err)
	}
	if err := b.eq.RegisterAsync(cxt.NumProtocols, nil); !errors.Is(err, status.Inval) {
		t.Errorf("no protocol: %v", err)
	}
	b.eq.UnregisterAsync(cxt.IWARP)
	b.eq.Produce(events[1])
	if err := b.eq.Complete(0); !errors.Is(err, status.Inval) || b.eq.Stats().Unknown != 1 {
		t.Errorf("nobody's: %v", err)
	}
}

// IT-17: the firmware may write as many events as the driver has taken.
func TestEventRoom(t *testing.T) {
	b := newBed(t)
	n := 0
	b.eq.RegisterAsync(cxt.Common, func(Event, frame.Time) error { n++; return b.eq.Produce(Event{Protocol: cxt.Common, Async: true}) })
	b.eq.Produce(Event{Protocol: cxt.Common, Async: true})
	for range 255 {
		if err := b.eq.Produce(Event{Protocol: cxt.Common, Async: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.eq.Produce(Event{}); !errors.Is(err, status.NoResources) {
		t.Errorf("one too many: %v", err)
	}
	if err := b.eq.Complete(0); !errors.Is(err, status.Inval) { // the handler's own found no room before the batch ended
		t.Errorf("%v", err)
	}
	if s := b.eq.Stats(); n != 256 || s.Overflow != 257 || b.eq.room != 256 {
		t.Errorf("%d handled, %+v, room %d", n, s, b.eq.room)
	}
	for _, elems := range []int{0, 0x10000} {
		if _, err := NewEQ(b.q, elems); !errors.Is(err, status.Inval) {
			t.Errorf("%d elements: %v", elems, err)
		}
	}
}
