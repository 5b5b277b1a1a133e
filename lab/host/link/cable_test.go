package link_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/host/link"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

// An hour would pass before what found the queue full had its turn.
func TestRateAndQueue(t *testing.T) {
	i := link.Impairment{Rate: 8, Queue: 299} // a frame of 100 octets takes 100 s
	_, c := through(t, 10, link.Impairment{}, i, false, 1)
	if _, out := c.Faults(); out.Segments != 3 || out.Refused != 7 {
		t.Errorf("%+v", out)
	}
}

func TestRatePassesInTime(t *testing.T) {
	i := link.Impairment{Rate: 80_000_000}
	if got, c := through(t, 50, i, i, true, 1); len(got) != 50 {
		in, _ := c.Faults()
		t.Errorf("%d frames: %+v", len(got), in)
	}
}

// fates keeps what a cable tells.
type fates struct {
	mu  sync.Mutex
	all []string
}

func (s *fates) Trace(r *frame.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, fmt.Sprintf("%d %v %d %v %s", r.Port, r.Dir, r.ID, r.Drop, r.Text()))
}

// next returns the next frame at q.
func next(t *testing.T, q tap.Queue) []byte {
	t.Helper()
	f := frame.New(make([]byte, 4096), nil)
	for {
		if err := q.Read(f); err == nil {
			return bytes.Clone(f.Bytes())
		} else if err != tap.ErrAgain {
			t.Fatal(err)
		}
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(q.Fd()), Events: unix.POLLIN}}, 20000); err == nil && n == 0 {
			t.Fatal("no frame comes")
		}
	}
}

func send(t *testing.T, q tap.Queue, b []byte) {
	t.Helper()
	f := frame.New(make([]byte, 4096), nil)
	f.Append(b)
	if err := q.Write(f); err != nil {
		t.Fatal(err)
	}
}

// A cable carries both ways, changes while it does, and tells every frame's
// fate.
func TestCable(t *testing.T) {
	var inner, outer [2]*link.WireEnd
	for i, name := range []string{"a", "b"} {
		var err error
		if inner[i], outer[i], err = link.NewWire(name, name+"-far", false); err != nil {
			t.Fatal(err)
		}
		defer outer[i].Close()
	}
	told := &fates{}
	c, err := link.NewCable(link.CableConfig{A: inner[0], B: inner[1], MTU: 1500, Tracer: told, ToA: link.Impairment{Delay: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	other := make([]byte, 60) // of no protocol
	for n, b := range [][]byte{tcpFrame(1), other} {
		for side := range 2 {
			send(t, outer[side], b)
			if got := next(t, outer[1-side]); !bytes.Equal(got, b) {
				t.Errorf("frame %d from side %d: % x", n, side, got)
			}
		}
	}
	set := func(toB link.Impairment, b []byte, want func(link.FaultCount) uint64) {
		t.Helper()
		if err := c.Set(toB, link.Impairment{}); err != nil {
			t.Fatal(err)
		}
		send(t, outer[0], b)
		for {
			if f, _ := c.Faults(); want(f) == 1 {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	set(link.Impairment{Loss: 1e6, All: true}, other, func(f link.FaultCount) uint64 { return f.Lost })
	set(link.Impairment{Down: true}, other, func(f link.FaultCount) uint64 { return f.Refused })
	set(link.Impairment{Corrupt: 1e6, Duplicate: 1e6}, tcpFrame(2), func(f link.FaultCount) uint64 { return f.Duplicated })
	if a, b := next(t, outer[1]), next(t, outer[1]); bytes.Equal(a, tcpFrame(2)) || !bytes.Equal(a, b) {
		t.Errorf("corrupted twice: % x, % x", a, b)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0 out 1 none ", "1 in 1 none ", "1 out 2 none ", "0 in 2 none ",
		"0 out 3 none ", "1 in 3 none ", "1 out 4 none ", "0 in 4 none ",
		"0 out 5 injected fault lost on the link", "0 out 6 link refused ",
		"0 out 7 none corrupted", "1 in 7 none ", "1 in 7 none ",
	}
	if len(told.all) != len(want) {
		t.Fatalf("%q", told.all)
	}
	for i, got := range told.all {
		if !strings.HasPrefix(got, want[i]) {
			t.Errorf("%d: %q, want %q", i, got, want[i])
		}
	}
	if f, _ := c.Faults(); f.Corrupted != 1 || f.Lost != 1 {
		t.Errorf("after the end: %+v", f)
	}
}
