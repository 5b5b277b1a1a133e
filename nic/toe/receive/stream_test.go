package receive

import (
	"fmt"
	"math"
	"testing"
	"time"

	"tapir/nic/toe/reassembly"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// text collects what a stream delivers.
type text struct{ got string }

func (x *text) Deliver(data []byte, now frame.Time) { x.got += string(data) }
func (x *text) Skip(n int, now frame.Time)          { x.got += fmt.Sprintf("<%d>", n) }

var policy = Policy{Delay: 40 * time.Millisecond, Window: 1 << 20}

// take hands segments of a stream to it as a connection does.
func take(s *Stream, st *reassembly.Store, to Sink, off int64, data string, fin bool) {
	at, b := s.Cut(fin, off, []byte(data), 100)
	switch {
	case len(b) == 0:
	case at > s.Next():
		s.OutOfOrder(st, func(_ uint64, data []byte) int { return len(data) }, at, b)
	default:
		s.InOrder(st, to, b, false, policy, 0)
	}
}

// TestOrder brings a text in pieces that overlap, out of order, and with its
// FIN first: every octet is delivered or skipped once.
func TestOrder(t *testing.T) {
	s, st, to := Stream{Acks: Acks{At: frame.Never, MSS: 10}}, reassembly.Store{PerQueue: 1 << 20, Total: 1 << 20}, &text{}
	take(&s, &st, to, 6, "ghij", true)
	if !s.Due || s.AtFin() || s.Count() != 1 {
		t.Fatalf("%+v", s.Acks)
	}
	s.Answered()
	take(&s, &st, to, 0, "abcd", false)
	take(&s, &st, to, 2, "cdefgh", false)
	take(&s, &st, to, 10, "beyond the end", false)
	if to.got != "abcdef<4>" || !s.AtFin() || s.Next() != 10 {
		t.Fatalf("%q, next %d", to.got, s.Next())
	}
	if s.TakeFin(&st); !s.FinTaken() || s.AtFin() || st.Memory != 0 {
		t.Fatalf("next %d, memory %d", s.Next(), st.Memory)
	}
}

// TestWindow is the table of RFC 9293 section 3.10.7.4.
func TestWindow(t *testing.T) {
	s := Stream{next: 100}
	for _, r := range []struct {
		off  int64
		n    int
		wnd  uint64
		want bool
	}{
		{100, 0, 10, true}, {109, 0, 10, true}, {110, 0, 10, false}, {99, 0, 10, false},
		{95, 5, 10, false}, {95, 6, 10, true}, {109, 5, 10, true}, {110, 1, 10, false}, {-1, 200, 10, true},
	} {
		if got := s.Fits(r.off, r.n, r.wnd); got != r.want {
			t.Errorf("%d octets at %d: %v", r.n, r.off, got)
		}
	}
	if s.Scale = 2; s.Window(1<<20) != 0xffff<<2 || s.Window(1000) != 1000 {
		t.Errorf("window %d", s.Window(1<<20))
	}
	s.IRS = math.MaxUint32 - 50
	if s.Offset(s.Seq(70)) != 70 || s.Offset(tcp.Seq(s.IRS)) != -1 {
		t.Errorf("offset %d", s.Offset(tcp.Seq(s.IRS)))
	}
}

// TestOldTimestamps is PAWS with an idle time of 24 days.
func TestOldTimestamps(t *testing.T) {
	h := func(v uint32) *tcp.Header { return &tcp.Header{Opts: tcp.Options{HasTS: true, TSVal: v}} }
	var ts Timestamps
	ts.Begin(h(math.MaxUint32-1), 0)
	if !ts.Old(h(math.MaxUint32-2), 1) || ts.Old(h(5), 1) {
		t.Error("order of timestamps across 0")
	}
	later := frame.Time(0).Add(idle)
	if ts.Old(h(math.MaxUint32-2), later) {
		t.Error("a timestamp is for ever")
	}
	s := Stream{TS: ts}
	s.acked, s.next = 10, 20
	if s.TakeTimestamp(h(7), 11, 1); s.TS.Recent == 7 {
		t.Error("taken from behind the last acknowledgement")
	}
	if s.TakeTimestamp(h(7), 10, 1); s.TS.Recent != 7 {
		t.Error("not taken")
	}
}
