package verbs

import (
	"errors"
	"slices"
	"testing"

	"tapir/wire/frame"
)

func TestSRQModify(t *testing.T) {
	f := newFixture(t, QPConfig{})
	srq, _ := f.pd.CreateSRQ(4, 1)
	var events []EventType
	f.dev.OnAsync(func(ev AsyncEvent, _ frame.Time) {
		if ev.SRQ != srq {
			t.Error("event without its SRQ")
		}
		events = append(events, ev.Type)
	})
	four := []RecvWR{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}}
	if bad, err := srq.PostRecv(append(four, RecvWR{})...); bad != 4 || !errors.Is(err, ErrQueueFull) {
		t.Errorf("overflow: bad %d, %v", bad, err)
	}
	if bad, err := srq.PostRecv(RecvWR{SGEs: make([]SGE, 2)}); bad != 0 || err == nil {
		t.Error("two elements of one")
	}
	ok(t, srq.SetLimit(4))
	f.dev.Dispatch(0)
	if len(events) != 0 || srq.Query() != (SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: 4, Waiting: 4}) {
		t.Errorf("events %v, %+v", events, srq.Query())
	}
	srq.take(&RecvWQE{})
	srq.take(&RecvWQE{})
	f.dev.Dispatch(0)
	if !slices.Equal(events, []EventType{EventSRQLimit}) || srq.Query().Limit != 0 {
		t.Errorf("events %v, %+v", events, srq.Query())
	}
	ok(t, srq.SetLimit(3)) // 2 wait: with the next one taken
	f.dev.Dispatch(0)
	if len(events) != 1 {
		t.Errorf("armed below the limit: events %v", events)
	}
	srq.take(&RecvWQE{})
	f.dev.Dispatch(0)
	if len(events) != 2 {
		t.Errorf("taken below the limit: events %v", events)
	}
	srq.PostRecv(RecvWR{ID: 3})
	for _, err := range []error{srq.SetLimit(5), srq.SetLimit(-1), srq.Resize(1), srq.Resize(1 << 30)} {
		if !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	}
	ok(t, srq.Resize(6))
	if bad, err := srq.PostRecv(four...); bad != 4 || err != nil {
		t.Errorf("after the resize: %d, %v", bad, err)
	}
	var ids []uint64
	for w := (RecvWQE{}); srq.take(&w); {
		ids = append(ids, w.ID)
	}
	if !slices.Equal(ids, []uint64{4, 3, 1, 2, 3, 4}) {
		t.Errorf("took %v", ids)
	}
	ok(t, srq.Destroy())
	if err := srq.Resize(4); !errors.Is(err, ErrDestroyed) {
		t.Errorf("gone: %v", err)
	}
}

// Last WQE reached comes with the state Err, once, and with no other state.
func TestLastWQE(t *testing.T) {
	f := newFixture(t, QPConfig{})
	srq, _ := f.pd.CreateSRQ(4, 1)
	qp, _ := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq, SRQ: srq})
	ok(t, qp.Modify(Init), qp.Modify(Reset), qp.Modify(Init))
	if n := f.dev.Raised(EventLastWQE); n != 0 {
		t.Errorf("%d events on the way to RESET", n)
	}
	qp.Transition(RTS)
	ok(t, qp.Modify(Err), qp.Modify(Err), qp.Modify(SQD))
	if n := f.dev.Raised(EventLastWQE); n != 1 {
		t.Errorf("%d events", n)
	}
}

// The elements of a shared receive belong to the SRQ's domain.
func TestSRQDomain(t *testing.T) {
	f := newFixture(t, QPConfig{})
	pd2, _ := f.dev.AllocPD()
	srq, _ := pd2.CreateSRQ(4, 1)
	mr2, _ := pd2.RegMR(f.mem, LocalWrite)
	qp, _ := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq, SRQ: srq})
	srq.PostRecv(RecvWR{SGEs: []SGE{{Addr: mr2.Addr(), Length: 8, LKey: mr2.LKey()}}}, RecvWR{SGEs: f.sge(0, 8)})
	if _, fault := qp.NextRecv(); fault != FaultNone {
		t.Error(fault)
	}
	qp.FinishRecv(RecvDone{})
	if _, fault := qp.NextRecv(); fault != FaultPD {
		t.Error(fault)
	}
}
