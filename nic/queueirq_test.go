package nic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// irqOf is the row of a queue's status block.
func (e *ethernetHost) irqOf(queue int) view.IRQInfo {
	e.Helper()
	return e.n.irq(fmt.Sprint("queue ", queue))
}

// inbound offers n frames that RSS has go to queue.
func (e *ethernetHost) inbound(queue, n int) {
	e.Helper()
	var batch []*frame.Frame
	for port := uint16(100); len(batch) < n; port = 100 + (port-99)%300 {
		b := e.frame(e.n.dev.cfg.MAC, 0, port)
		if e.queueOf[port] == queue {
			f := e.w.pool.Get(len(b))
			f.Append(b)
			batch = append(batch, f)
		}
	}
	e.n.dev.Receive(frame.Wire, batch, e.w.now)
}

// learn finds the queue of destination ports, as RSS has it.
func (e *ethernetHost) learn() {
	e.queueOf = map[uint16]int{}
	for port := uint16(100); port < 400; port++ {
		e.in(e.frame(e.n.dev.cfg.MAC, 0, port))
		e.queueOf[port] = int(e.h.queues[0])
	}
}

// A frame interrupts by the vector of its queue alone. With too few vectors queues share
// some, MSI and a line have one for all, and a driver that polls has none.
//
// IT-01
func TestVectorsOfQueues(t *testing.T) {
	for _, c := range []struct {
		set  string
		want [4]uint64 // interrupts by the vector of each queue, for a frame of the first
	}{
		{"", [4]uint64{1, 0, 0, 0}},
		{"msix_vectors=4", [4]uint64{1, 0, 0, 1}}, // three for four queues
		{"int_mode=msi", [4]uint64{1, 1, 1, 1}},
		{"int_mode=inta", [4]uint64{1, 1, 1, 1}},
		{"int_mode=poll", [4]uint64{}},
	} {
		e := newEthernetHost(t, setting(t, c.set))
		e.learn()
		count := func() (n [4]uint64) {
			for _, r := range e.n.dev.ShowIRQ() {
				for q := range n {
					if slices.Contains(strings.Split(r.User, ", "), fmt.Sprint("queue ", q)) {
						n[q] = r.Interrupts
					}
				}
			}
			return n
		}
		before := count()
		e.inbound(0, 1)
		e.w.run(time.Millisecond)
		after := count()
		for q := range after {
			after[q] -= before[q]
		}
		if after != c.want {
			t.Errorf("%s: interrupts %v, want %v", c.set, after, c.want)
		}
	}
}

// Every queue pair of the host function has a status block; its times are the
// latency of its frames alone, and one interrupt for what comes meanwhile.
//
// IT-01 IT-03 IT-19
func TestQueueInterrupts(t *testing.T) {
	for _, mode := range []string{"msix", "msi", "inta"} {
		e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: mode}}})
		e.learn()
		if rows := e.n.dev.ShowIRQ(); len(rows) != 1+4+8 {
			t.Fatalf("%s: %d status blocks", mode, len(rows))
		}
		latency := func(queue, frames int) (time.Duration, uint64) {
			e.h.got = nil
			before, start := e.irqOf(queue), e.w.now
			e.inbound(queue, frames)
			e.w.untilExactly(func() bool { return len(e.h.got) == frames })
			took := e.w.now.Sub(start)
			e.w.run(time.Millisecond)
			after := e.irqOf(queue)
			if after.Events-before.Events != uint64(frames) {
				t.Errorf("%s: queue %d: %d events for %d frames", mode, queue, after.Events-before.Events, frames)
			}
			return took, after.Updates - before.Updates
		}
		if took, updates := latency(2, 5); took > time.Microsecond || updates != 1 {
			t.Errorf("%s: without coalescing %v, %d updates", mode, took, updates)
		}
		e.set("rx_usecs", "64")
		e.set("queue_usecs", "1:200/0")
		for queue, want := range []int{64, 200, 64, 64} {
			if took, updates := latency(queue, 7); took != time.Duration(want)*time.Microsecond || updates != 1 {
				t.Errorf("%s: queue %d: %v, %d updates, want %d us and 1", mode, queue, took, updates, want)
			}
			if got := e.irqOf(queue).RxUsecs; got != want {
				t.Errorf("%s: queue %d is shown with %d us", mode, queue, got)
			}
		}
		if e.set("rx_usecs", "10"); e.irqOf(1).RxUsecs != 10 {
			t.Errorf("%s: rx_usecs does not change a queue with times of its own", mode)
		}
		// Frames that wait are not lost when coalescing ends.
		e.inbound(3, 3)
		e.set("rx_usecs", "0")
		e.h.got = nil
		if e.w.run(time.Microsecond); len(e.h.got) != 3 {
			t.Errorf("%s: %d of 3 frames that waited", mode, len(e.h.got))
		}
	}
}

// Sent frames report to the block of their queue.
func TestQueueTxInterrupts(t *testing.T) {
	e := newEthernetHost(t, Config{})
	e.set("queue_usecs", "2:0/300")
	for queue, most := range []uint64{10, 10, 1, 10} {
		before := e.irqOf(queue)
		for range 10 {
			b := e.frame(e.s.mac, 0, 9)
			f := e.w.pool.Get(len(b))
			f.Append(b)
			f.Queue = uint16(queue)
			e.n.dev.Receive(frame.Host, []*frame.Frame{f}, e.w.now)
			e.w.run(10 * time.Microsecond)
		}
		e.w.run(time.Millisecond)
		after := e.irqOf(queue)
		if after.Events-before.Events != 10 || after.Interrupts-before.Interrupts != most {
			t.Errorf("queue %d: %d events, %d interrupts, want 10 and %d", queue, after.Events-before.Events, after.Interrupts-before.Interrupts, most)
		}
	}
}

// In mode POLL nobody interrupts, and all arrives.
func TestQueuesPolled(t *testing.T) {
	e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: "poll"}}})
	e.learn()
	e.h.got = nil
	for queue := range 4 {
		e.inbound(queue, 20)
	}
	e.w.run(time.Microsecond)
	if info := e.irqOf(3); len(e.h.got) != 80 || info.Vector != -1 || info.Interrupts != 0 || info.Events == 0 {
		t.Errorf("%d frames of 80, %+v", len(e.h.got), info)
	}
}

// A ring that is half full does not wait.
func TestHalfFullRing(t *testing.T) {
	e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{RxUsecs: 511}}})
	e.learn()
	e.h.got = nil
	e.inbound(1, 100)
	if e.w.run(time.Microsecond); len(e.h.got) != 0 {
		t.Fatalf("%d frames before their interrupt", len(e.h.got))
	}
	for range 2 {
		e.inbound(1, 20)
	}
	if e.w.run(time.Microsecond); len(e.h.got) != 140 {
		t.Errorf("%d frames of 140 with a ring of %d", len(e.h.got), 256)
	}
}

// With fewer vectors queues share blocks, and CNQs theirs.
func TestQueueVectors(t *testing.T) {
	for vectors, want := range map[int][]string{
		0: {"queue 0", "queue 1", "queue 2", "queue 3", "cnq 0", "cnq 1", "cnq 2", "cnq 3", "cnq 4", "cnq 5", "cnq 6", "cnq 7"},
		7: {"queue 0", "queue 1", "queue 2", "queue 3", "cnq 0, cnq 2, cnq 4, cnq 6", "cnq 1, cnq 3, cnq 5, cnq 7"},
		5: {"queue 0, cnq 0, cnq 4", "queue 1, cnq 1, cnq 5", "queue 2, cnq 2, cnq 6", "queue 3, cnq 3, cnq 7"},
		3: {"queue 0, queue 2, cnq 0, cnq 2, cnq 4, cnq 6", "queue 1, queue 3, cnq 1, cnq 3, cnq 5, cnq 7"},
	} {
		e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Vectors: vectors}}})
		var users []string
		for _, r := range e.n.dev.ShowIRQ()[1:] {
			users = append(users, r.User)
		}
		if !slices.Equal(users, want) {
			t.Errorf("%d vectors: %q", vectors, users)
		}
		e.learn()
		e.h.got = nil
		e.set("rx_usecs", "30")
		for queue := range 4 {
			e.inbound(queue, 3)
		}
		if e.w.run(time.Millisecond); len(e.h.got) != 12 {
			t.Errorf("%d vectors: %d frames of 12", vectors, len(e.h.got))
		}
	}
}

// What is refused changes no time.
func TestQueueUsecsRefused(t *testing.T) {
	e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{RxUsecs: 20}}})
	for _, bad := range []string{"4:1/1", "0:512/0", "1:0/512", "0:-1/0", "0:1", "1:1/1,1:2/2", "x", "00:1/1"} {
		if err := e.n.dev.Set(Setting{"queue_usecs", bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for queue := range 4 {
		if got := e.irqOf(queue); got.RxUsecs != 20 || got.TxUsecs != 0 {
			t.Errorf("queue %d: %+v", queue, got)
		}
	}
}
