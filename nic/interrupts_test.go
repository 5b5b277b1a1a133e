package nic

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/frame"
)

func (n *node) irq(user string) view.IRQInfo {
	list := n.dev.ShowIRQ()
	i := slices.IndexFunc(list, func(r view.IRQInfo) bool { return r.User == user })
	if i < 0 {
		n.w.t.Fatalf("no status block of %s: %+v", user, list)
	}
	return list[i]
}

// answered is how long after a ping of s its answer arrives.
func answered(w *world, n *node, s *station) time.Duration {
	start := w.now
	s.take()
	s.ping(n.dev, peer4, nic4, 56, 1500)
	w.untilExactly(func() bool { return len(s.take()) > 0 })
	return w.now.Sub(start)
}

// untilExactly lets microseconds pass until done.
func (w *world) untilExactly(done func() bool) {
	w.t.Helper()
	for range 1_000_000 {
		if done() {
			return
		}
		w.run(time.Microsecond)
	}
	w.t.Fatal("not done after a second")
}

// Coalescing of received frames is what a ping takes longer, and one interrupt
// for what comes within that time.
//
// IT-19 IT-03
func TestRxCoalescing(t *testing.T) {
	w, n, s := pair(t, Config{})
	answered(w, n, s) // the neighbor is known now
	bare := answered(w, n, s)
	for _, usecs := range []int{64, 500, 1, 0} {
		if err := n.dev.Set(Setting{"rx_usecs", fmt.Sprint(usecs)}); err != nil {
			t.Fatal(err)
		}
		if more := answered(w, n, s) - bare; more != time.Duration(usecs)*time.Microsecond {
			t.Errorf("rx_usecs %d: a ping takes %v longer", usecs, more)
		}
		if got := n.irq("ethernet").RxUsecs; got != usecs {
			t.Errorf("shown as %d us, set to %d", got, usecs)
		}
		before := n.irq("ethernet")
		for range 10 {
			s.ping(n.dev, peer4, nic4, 56, 1500)
		}
		w.run(time.Millisecond)
		if answers := len(s.take()); answers != 10 {
			t.Fatalf("rx_usecs %d: %d answers to 10 pings", usecs, answers)
		}
		after := n.irq("ethernet")
		most := uint64(1 + 10) // of Rx, and of Tx
		if usecs == 0 {
			most = 20
		}
		if got := after.Interrupts - before.Interrupts; got == 0 || got > most {
			t.Errorf("rx_usecs %d: %d interrupts for 10 pings", usecs, got)
		}
	}
	if err := n.dev.Set(Setting{"rx_usecs", "512"}); err == nil {
		t.Error("512 us are accepted")
	}
	// Frames that wait are not lost when coalescing ends.
	_ = n.dev.Set(Setting{"rx_usecs", "511"})
	s.take()
	s.ping(n.dev, peer4, nic4, 56, 1500)
	w.run(20 * time.Microsecond)
	_ = n.dev.Set(Setting{"rx_usecs", "0"})
	if w.run(30 * time.Microsecond); len(s.take()) != 1 {
		t.Error("the frame that waited got no answer")
	}
}

// Tx completions wait for each other.
func TestTxCoalescing(t *testing.T) {
	interrupts := map[int]uint64{}
	for _, usecs := range []int{0, 400} {
		w, n, s := pair(t, setting(t, fmt.Sprintf("rx_usecs=10 tx_usecs=%d", usecs)))
		answered(w, n, s)
		w.run(time.Millisecond)
		before := n.irq("ethernet")
		for range 20 { // 15 us apart, more than Rx waits
			s.ping(n.dev, peer4, nic4, 56, 1500)
			w.run(15 * time.Microsecond)
		}
		w.run(time.Millisecond)
		after := n.irq("ethernet")
		if after.Events-before.Events != 40 || after.TxUsecs != usecs {
			t.Errorf("tx_usecs %d: %d events, shown as %d us", usecs, after.Events-before.Events, after.TxUsecs)
		}
		interrupts[usecs] = after.Interrupts - before.Interrupts
	}
	// An interrupt of Rx takes Tx completions along.
	if interrupts[0] != 40 || interrupts[400] > 21 {
		t.Errorf("interrupts by tx_usecs: %v", interrupts)
	}
}

// A completion's notification waits for rx_usecs, and without coalescing not at
// all.
func TestCNQCoalescing(t *testing.T) { overBoth(t, testCNQCoalescing) }

func testCNQCoalescing(t *testing.T, cfg Config) {
	for _, usecs := range []int{0, 100} {
		cfg.Hardware = &fastlinq.Config{Interrupts: fastlinq.Interrupts{RxUsecs: usecs}}
		w, a, b := twoNICs(t, cfg)
		c, s := dial(w, a, b, peer4, 4096)
		var pushed, told frame.Time
		c.cq.SetHandler(func(_ *verbs.CQ, now frame.Time) { told = now })
		c.cq.ReqNotify(false)
		before := a.irq("cnq 0").Interrupts
		total := c.cq.Total()
		c.post(verbs.OpWrite, 64, s)
		w.untilExactly(func() bool {
			if pushed == 0 && c.cq.Total() > total {
				pushed = w.now
			}
			return told != 0
		})
		// The completion is seen up to a microsecond late.
		if late := time.Duration(usecs)*time.Microsecond - told.Sub(pushed); late < 0 || late > time.Microsecond {
			t.Errorf("rx_usecs %d: told %v after the completion", usecs, told.Sub(pushed))
		}
		if n := a.irq("cnq 0").Interrupts - before; n != 1 {
			t.Errorf("rx_usecs %d: %d interrupts", usecs, n)
		}
		closeBoth(w, a, b)
	}
}

// The same scenario gives the same bytes in every mode.
//
// IT-06 IT-07 IT-08 IT-09
func TestModesGiveTheSameBytes(t *testing.T) {
	want := ""
	for _, mode := range []string{"msix", "msi", "inta", "poll"} {
		w, a, b := twoNICs(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: mode}}})
		c, s := dial(w, a, b, peer4, 64<<10)
		told := 0
		c.cq.SetHandler(func(cq *verbs.CQ, _ frame.Time) { told++; cq.ReqNotify(false) })
		c.cq.ReqNotify(false)
		exercise(w, c, s, 5)
		closeBoth(w, a, b)
		if told == 0 {
			t.Errorf("%s: the completion queue is never told", mode)
		}
		got := fmt.Sprintf("%x", w.digest.Sum(nil))
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%s: other frames than with msix", mode)
		}
		info := a.irq("cnq 0")
		if info.Mode != mode || info.Events == 0 || (info.Interrupts == 0) != (mode == "poll") ||
			(info.Vector < 0) != (mode == "poll") {
			t.Errorf("%s: %+v", mode, info)
		}
	}
}

// IT-14: vectors that the machine does not grant.
func TestVectorShortage(t *testing.T) {
	for _, c := range []struct {
		i     fastlinq.Interrupts
		mode  string
		rows  int // slowpath, Ethernet, CNQs
		cnqs  string
		block string
	}{
		{fastlinq.Interrupts{}, "msix", 10, "cnq 7", "8"},
		{fastlinq.Interrupts{Vectors: 4}, "msix", 4, "cnq 1, cnq 3, cnq 5, cnq 7", "2"},
		{fastlinq.Interrupts{Vectors: 2}, "msix", 2, "ethernet, cnq 0, cnq 1, cnq 2, cnq 3, cnq 4, cnq 5, cnq 6, cnq 7", "0"},
		{fastlinq.Interrupts{Vectors: 1}, "msi", 10, "cnq 7", "8"},
		{fastlinq.Interrupts{Mode: "inta"}, "inta", 10, "cnq 7", "8"},
	} {
		_, n, _ := pair(t, Config{Hardware: &fastlinq.Config{Interrupts: c.i}})
		if info := n.irq(c.cnqs); len(n.dev.ShowIRQ()) != c.rows || info.Mode != c.mode || info.SB != c.block {
			t.Errorf("%+v: %+v", c.i, n.dev.ShowIRQ())
		}
	}
	for _, bad := range []fastlinq.Interrupts{{Mode: "legacy"}, {RxUsecs: 512}, {TxUsecs: -1}} {
		if _, err := newNIC(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24"), Hardware: &fastlinq.Config{Interrupts: bad}},
			Env{Pool: newWorld(t).pool, Wire: sink{}}); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// rxRing is how many frames wait for an interrupt.
const rxRing = 1023

// In mode POLL, and with coalescing, more frames than the ring holds arrive, too.
func TestFullRxRing(t *testing.T) {
	w, n, s := pair(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{RxUsecs: 511}}})
	answered(w, n, s)
	s.take()
	for range rxRing + 200 {
		s.ping(n.dev, peer4, nic4, 56, 1500)
	}
	n.room = 4096
	w.run(5 * time.Millisecond)
	if got := len(s.take()) + int(n.counter("tx_drop_transmit_queue_full")); got != rxRing+200 {
		t.Errorf("%d answers, and answers without room, to %d pings", got, rxRing+200)
	}
}
