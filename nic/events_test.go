package nic

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/verbs"
)

// eventsOf are the NIC's events by name, with reason and text of those that
// have one.
func eventsOf(n *node) (list []string) {
	for _, e := range n.dev.ShowEvents(0) {
		s := e.Event
		for _, more := range []string{e.Reason, e.Err} {
			if more != "" {
				s += " " + more
			}
		}
		list = append(list, s)
	}
	return list
}

func counted(n *node, name string) uint64 {
	for _, s := range n.dev.ShowStats() {
		if s.Name == name {
			return s.Ever
		}
	}
	return 0
}

// A completion queue that overflows ends the connections of its queue pairs,
// and the log says why.
func TestOverflowIsLogged(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	c, s := dial(w, a, b, peer4, 4096)
	if err := s.cq.Resize(1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.qp.PostRecv(verbs.RecvWR{SGEs: []verbs.SGE{s.sge(0, 8)}}, verbs.RecvWR{SGEs: []verbs.SGE{s.sge(8, 8)}}); err != nil {
		t.Fatal(err)
	}
	c.post(verbs.OpSend, 8, s)
	c.post(verbs.OpSend, 8, s)
	w.until(10*time.Second, func() bool { return c.saw(cm.ClosedEvent) && s.saw(cm.ClosedEvent) })
	got := eventsOf(b)
	i := slices.Index(got, "CQ_OVERFLOW CQ_OVERFLOW "+cm.ErrAborted.Error())
	if i < 0 || !strings.HasPrefix(got[i+1], "DISCONNECT CQ_OVERFLOW") || !strings.HasPrefix(got[i+2], "CLOSE CQ_OVERFLOW") {
		t.Errorf("%q", got)
	}
	if e := b.dev.ShowEvents(0)[i]; e.QP != s.qp.Num() || e.ID != s.id.Num() || e.Status != "ECONNRESET" {
		t.Errorf("%+v", e)
	}
	if counted(b, "event_cq_overflow") != 1 || b.dev.Verbs.Raised(verbs.EventCQError) != 1 || counted(a, "event_terminate_received") != 1 {
		t.Errorf("counted %d, raised %d", counted(b, "event_cq_overflow"), b.dev.Verbs.Raised(verbs.EventCQError))
	}
}

// A shared receive queue that runs low, then empty, is in the log of events.
func TestSharedQueueRunsDry(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	s := newEnd(t, b, 4096)
	srq, err := s.pd.CreateSRQ(8, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s.qp, err = s.pd.CreateQP(verbs.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, SRQ: srq}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := srq.PostRecv(verbs.RecvWR{SGEs: []verbs.SGE{s.sge(0, 8)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := srq.SetLimit(2); err != nil {
		t.Fatal(err)
	}
	c := newEnd(t, a, 4096)
	join(w, c, s, peer4)
	for n := range 4 {
		c.post(verbs.OpSend, 8, s)
		w.run(10 * time.Millisecond)
		if low := counted(b, "event_srq_limit"); (low == 1) != (n >= 1) || low > 1 {
			t.Errorf("after %d messages: SRQ_LIMIT %d times", n+1, low)
		}
	}
	w.until(10*time.Second, func() bool { return c.saw(cm.ClosedEvent) && s.saw(cm.ClosedEvent) })
	got := strings.Join(eventsOf(b), "; ")
	if !strings.Contains(got, "SRQ_LIMIT SRQ 1: 1 receives left; SRQ_EMPTY RQ_EMPTY ") || counted(b, "event_srq_empty") != 1 || counted(b, "event_rq_empty") != 0 {
		t.Errorf("%s", got)
	}
}

// The receive queue of a queue pair of its own has another event.
func TestReceiveQueueRunsDry(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	c, s := dial(w, a, b, peer4, 4096)
	c.post(verbs.OpSend, 8, s)
	w.until(10*time.Second, func() bool { return c.saw(cm.ClosedEvent) && s.saw(cm.ClosedEvent) })
	if counted(b, "event_rq_empty") != 1 || counted(b, "event_srq_empty") != 0 {
		t.Errorf("%q", eventsOf(b))
	}
}
