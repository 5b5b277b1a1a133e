package irq

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/wire/frame"
)

// driver services a device as an operating system does, but slowly: every step
// of an interrupt handler is one that others may come between.
type driver struct {
	t     *rapid.T
	dev   *Device
	sbs   []*SB
	fired []int // vectors that wait for the ISR
	phase []int // of each block's handler: 0 none runs
	seen  [][PIs]uint16
	got   [][PIs]int
}

func newDriver(t *rapid.T, c Config, each int) *driver {
	w := &driver{t: t}
	c.Fired = func(v int, _ frame.Time) { w.fired = append(w.fired, v) }
	dev, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.dev = dev
	for i := range each * len(dev.Hwfns) {
		sb, err := dev.Hwfns[i%len(dev.Hwfns)].SBInit(i / len(dev.Hwfns))
		if err != nil {
			t.Fatal(err)
		}
		sb.hwfn.Setup(sb)
		w.sbs = append(w.sbs, sb)
	}
	w.phase, w.seen, w.got = make([]int, len(w.sbs)), make([][PIs]uint16, len(w.sbs)), make([][PIs]int, len(w.sbs))
	for _, h := range dev.Hwfns {
		h.IntEnable(0)
	}
	return w
}

func (w *driver) index(h *Hwfn, vector int) int {
	return slices.IndexFunc(w.sbs, func(sb *SB) bool { return sb.hwfn == h && sb.id == vector-1 })
}

// isr takes one interrupt.
func (w *driver) isr() {
	if len(w.fired) == 0 {
		return
	}
	v := w.fired[0]
	w.fired = w.fired[1:]
	n := len(w.dev.Hwfns)
	if w.dev.Mode() == MSIX {
		w.phase[w.index(w.dev.Hwfns[v%n], v/n)] = 1
		return
	}
	for _, h := range w.dev.Hwfns {
		bits := h.ReadSISR()
		for b := range 64 {
			if bits>>b&1 != 0 {
				w.phase[w.index(h, b)] = 1
			}
		}
	}
}

// step does the next thing of block i's handler.
func (w *driver) step(i int, now frame.Time) {
	sb := w.sbs[i]
	switch w.phase[i] {
	case 0:
		return
	case 1:
		sb.Ack(Disable, false, now)
	case 2:
		sb.UpdateIdx()
	case 3:
		w.consume(i)
	case 4:
		w.phase[i] = 0
		sb.Ack(Enable, true, now)
		return
	}
	w.phase[i]++
}

func (w *driver) consume(i int) {
	for pi := range PIs {
		at := w.sbs[i].PI(pi)
		w.got[i][pi] += int(at - w.seen[i][pi])
		w.seen[i][pi] = at
	}
}

// settle lets everything end.
func (w *driver) settle(now frame.Time) {
	for v := range w.dev.vectors {
		w.dev.UnmaskVector(v, now)
	}
	for _, sb := range w.sbs {
		for _, f := range []FSM{Rx, Tx} {
			if sb.State(f) == Stopped {
				sb.SetState(f, Enabled, now)
			}
		}
	}
	for range 100000 {
		w.isr()
		for i := range w.sbs {
			w.step(i, now)
		}
		if next := w.dev.Poll(now); next != frame.Never {
			now = max(now, next)
		} else if len(w.fired) == 0 && slices.Max(w.phase) == 0 {
			return
		}
	}
	w.t.Fatal("the driver never comes to rest")
}

var anyMode = rapid.SampledFrom([]Mode{MSIX, MSI, INTA, Poll})

func anyConfig(t *rapid.T, mode Mode) Config {
	c := Config{Hwfns: rapid.IntRange(1, 2).Draw(t, "hwfns"), SBs: rapid.IntRange(1, 4).Draw(t, "SBs"),
		Mode: mode, Platform: Platform{Vectors: 64}}
	if mode == MSI {
		c.Hwfns = 1
	}
	return c
}

// C6, the first half: whatever comes between whatever, the driver learns of
// every event, no event waits longer than its timer, and without interrupts it
// learns nothing.
//
// IT-12 IT-03
func TestNoLostWakeUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig(t, anyMode.Draw(t, "mode"))
		w := newDriver(t, c, c.SBs)
		posted := make([][PIs]int, len(w.sbs))
		oldest := make([]frame.Time, len(w.sbs)) // event that is not yet written
		written := make([]uint64, len(w.sbs))
		now := frame.Time(time.Second)
		sb := rapid.IntRange(0, len(w.sbs)-1)
		t.Repeat(map[string]func(*rapid.T){
			"event": func(t *rapid.T) {
				i, pi := sb.Draw(t, "sb"), rapid.IntRange(0, PIs-1).Draw(t, "pi")
				before := w.sbs[i].Updates()
				w.sbs[i].Event(pi, now)
				posted[i][pi]++
				if w.sbs[i].Updates() == before && oldest[i] == 0 {
					oldest[i] = now
				}
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "us")) * time.Microsecond)
				w.dev.Poll(now)
			},
			"coalesce": func(t *rapid.T) {
				i := sb.Draw(t, "sb")
				_ = w.sbs[i].SetCoalesce(rapid.IntRange(0, PIs-1).Draw(t, "pi"), rapid.IntRange(0, MaxCoalesce).Draw(t, "us"))
			},
			"state": func(t *rapid.T) {
				s := rapid.SampledFrom([]State{Enabled, Enabled, Stopped, Disabled}).Draw(t, "state")
				w.sbs[sb.Draw(t, "sb")].SetState(FSM(rapid.IntRange(0, 1).Draw(t, "fsm")), s, now)
			},
			"isr":  func(*rapid.T) { w.isr() },
			"step": func(t *rapid.T) { w.step(sb.Draw(t, "sb"), now) },
			"mask": func(t *rapid.T) {
				v := rapid.IntRange(0, len(w.dev.vectors)).Draw(t, "vector")
				if rapid.Bool().Draw(t, "on") {
					_ = w.dev.MaskVector(v)
				} else {
					_ = w.dev.UnmaskVector(v, now)
				}
			},
			"": func(t *rapid.T) {
				for i, b := range w.sbs {
					if b.Updates() != written[i] {
						written[i], oldest[i] = b.Updates(), 0
					}
					running := b.State(Rx) != Stopped && b.State(Tx) != Stopped
					if !running {
						oldest[i] = 0
					} else if oldest[i] != 0 && now.Sub(oldest[i]) > (MaxCoalesce+600)*time.Microsecond {
						t.Fatalf("status block %d: an event waits for %v", i, now.Sub(oldest[i]))
					}
				}
			},
		})
		w.settle(now)
		if w.dev.Mode() == Poll {
			for i := range w.sbs {
				if w.got[i] != [PIs]int{} {
					t.Fatal("mode POLL: the driver knows without a look")
				}
				if w.sbs[i].UpdateIdx() {
					w.consume(i)
				}
			}
		}
		for i := range w.sbs {
			if w.got[i] != posted[i] {
				t.Fatalf("%v, status block %d: %v events posted, %v seen", w.dev.Mode(), i, posted[i], w.got[i])
			}
		}
	})
}

// C6, the second half: the same script gives the same events at the same time
// under INTA, MSI and MSI-X; in mode POLL with each look.
//
// IT-06 IT-07 IT-08 IT-09
func TestSameEventsInEveryMode(t *testing.T) {
	type act struct{ sb, pi, us int }
	rapid.Check(t, func(t *rapid.T) {
		usecs := rapid.IntRange(0, MaxCoalesce).Draw(t, "usecs")
		script := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
			return act{rapid.IntRange(0, 2).Draw(t, "sb"), rapid.IntRange(0, PIs-1).Draw(t, "pi"), rapid.IntRange(0, 300).Draw(t, "us")}
		}), 1, 40).Draw(t, "script")
		var want []string
		for _, mode := range []Mode{MSIX, MSI, INTA, Poll} {
			dev, err := New(Config{SBs: 3, Mode: mode, Platform: Platform{Vectors: 64}})
			if err != nil {
				t.Fatal(err)
			}
			now := frame.Time(time.Second)
			var log []string
			sbs := make([]*SB, 3)
			for i := range sbs {
				sb, err := dev.Hwfns[0].SBInit(i)
				if err != nil {
					t.Fatal(err)
				}
				sbs[i] = sb
				dev.Hwfns[0].Setup(sb)
				sb.Handle(func(*SB, frame.Time) { log = append(log, fmt.Sprint(now, i, sb.pi)) })
				if usecs > 0 {
					sb.SetState(Rx, Enabled, now)
					if err := sb.SetCoalesce(RxPI, usecs); err != nil {
						t.Fatal(err)
					}
				}
			}
			dev.Hwfns[0].IntEnable(now)
			look := func() {
				before := len(log)
				if mode == Poll && dev.Look(now) != (len(log) > before) {
					t.Fatal("Look does not say what it found")
				}
			}
			for _, a := range script {
				for end := now.Add(time.Duration(a.us) * time.Microsecond); now < end; {
					now = min(end, dev.Poll(now))
					dev.Poll(now)
					look()
				}
				if n := len(log); mode == Poll {
					sbs[a.sb].Event(a.pi, now)
					if len(log) != n {
						t.Fatal("mode POLL: an event without a look")
					}
				} else {
					sbs[a.sb].Event(a.pi, now)
				}
				look()
			}
			if want == nil {
				want = log
			}
			if !slices.Equal(log, want) {
				t.Fatalf("%v: %v\nMSI-X: %v", mode, log, want)
			}
		}
	})
}
