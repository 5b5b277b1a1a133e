package link

import (
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// seenAgo is a stamp of the kernel's: the message was there so long before it was read.
type seenAgo time.Duration

func (s seenAgo) Received([]byte) (int64, bool) {
	return time.Now().Add(-time.Duration(s)).UnixNano(), true
}
func (s seenAgo) Close() error { return nil }

// exchange has a Sync and a Delay_Req pass a cable of 10 s in either direction, which reads the
// Sync wait after it came and leaves both later than they are due. It returns the offset that the
// slave computes (IEEE 1588-2019 sections 11.2 and 11.3); its clock is right.
func exchange(t *testing.T, compensate bool, wait, lateSync, lateReq time.Duration) time.Duration {
	t.Helper()
	const delay = 10 * time.Second
	a, b, err := NewWire("master", "far", false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c, err := Impair(a, Impairment{Delay: delay}, Impairment{Delay: delay}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if compensate {
		c.Compensate([2]Seen{seenAgo(wait), nil})
	}
	// What the cable sees as its time is moved on, instead of waiting.
	pass := func(typ msg.Type, from func(*frame.Frame) error, to func(*frame.Frame) error,
		late time.Duration) (took time.Duration, correction time.Duration) {
		t.Helper()
		m := msg.Message{Header: msg.Header{Type: typ, Sequence: 1}}
		f := frame.New(make([]byte, 512), nil)
		h := ether.Header{Dst: ether.Addr{1, 0x1b, 0x19}, Type: ether.TypePTP}
		f.Append(m.Append(h.AppendTo(nil)))
		began := c.now()
		if err := from(f); err != nil {
			t.Fatal(err)
		}
		f.Reset()
		_ = to(f) // it comes in, and is not due
		c.start = c.start.Add(-delay - late)
		if err := to(f); err != nil {
			t.Fatal(err)
		}
		took = c.now() - began
		p, ok := transport.Find(f.Bytes())
		if !ok {
			t.Fatalf("no PTP: % x", f.Bytes())
		}
		if err := m.Parse(p.Body); err != nil {
			t.Fatal(err)
		}
		return took, time.Duration(m.Correction >> 16)
	}
	sync, syncMore := pass(msg.Sync, b.Write, c.Read, lateSync)
	out := func(f *frame.Frame) error {
		if err := c.drain(c.now()); err != nil {
			return err
		}
		return b.Read(f)
	}
	req, reqMore := pass(msg.DelayReq, c.Write, out, lateReq)
	sync += wait
	mean := (sync + req - syncMore - reqMore) / 2
	return sync - syncMore - mean
}

// TestResidence: of a link that reads a Sync 20 ms late and leaves it 40 ms late a slave has half
// of it as offset, unless the link tells.
func TestResidence(t *testing.T) {
	const wait, late = 20 * time.Millisecond, 40 * time.Millisecond
	if got := exchange(t, false, wait, late, 0); got < 29*time.Millisecond {
		t.Errorf("without compensation the offset is %v, want 30 ms or more", got)
	}
	got := exchange(t, true, wait, late, 7*time.Millisecond)
	t.Logf("offset with compensation: %v", got)
	if got > time.Millisecond || got < -time.Millisecond {
		t.Errorf("with compensation the offset is %v", got)
	}
}
