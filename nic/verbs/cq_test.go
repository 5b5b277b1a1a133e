package verbs

import (
	"errors"
	"fmt"
	"testing"

	"tapir/wire/frame"
)

// fill queues n completions with rising IDs from first.
func (f *fixture) fill(first, n int) {
	for i := range n {
		f.qp.PostRecv(RecvWR{ID: uint64(first + i)})
		f.qp.NextRecv()
		f.qp.FinishRecv(RecvDone{})
	}
}

func TestCQResize(t *testing.T) {
	f := newFixture(t, QPConfig{})
	for _, size := range []int{200, 5, 64, 1 << 12, 30} {
		f.fill(0, 3) // so that the ring does not begin at its start
		f.cq.Poll(make([]WC, 3))
		f.fill(0, 5)
		if err := f.cq.Resize(size); err != nil || f.cq.Cap() != size || f.cq.Len() != 5 {
			t.Fatalf("to %d: %v, %d of %d", size, err, f.cq.Len(), f.cq.Cap())
		}
		f.fill(5, f.cq.Free())
		wcs := make([]WC, size+1)
		if n := f.cq.Poll(wcs); n != size || f.cq.Failed() {
			t.Fatalf("resized to %d, held %d, failed %v", size, n, f.cq.Failed())
		}
		for i := range size {
			if wcs[i].ID != uint64(i) {
				t.Fatalf("size %d: completion %d has ID %d", size, i, wcs[i].ID)
			}
		}
	}
	f.fill(0, 4)
	for _, size := range []int{0, 3, f.dev.Limits().MaxCQE + 1} {
		if err := f.cq.Resize(size); !errors.Is(err, ErrInvalid) || f.cq.Cap() != 30 {
			t.Errorf("to %d: %v", size, err)
		}
	}
}

func TestCompChannel(t *testing.T) {
	f := newFixture(t, QPConfig{})
	woken := 0
	ch := f.dev.CreateCompChannel(func(frame.Time) { woken++ })
	cq2, _ := f.dev.CreateCQ(4, nil)
	qp2, _ := f.pd.CreateQP(QPConfig{SendCQ: cq2, RecvCQ: cq2})
	qp2.Modify(Init)
	ok(t, f.cq.SetChannel(ch), cq2.SetChannel(ch))
	complete := func(q *QP) {
		q.PostRecv(RecvWR{})
		q.NextRecv()
		q.FinishRecv(RecvDone{})
		f.dev.Dispatch(0)
	}
	complete(f.qp)
	if ch.Len() != 0 {
		t.Error("notified without being armed")
	}
	if !f.cq.ReqNotify(false) {
		t.Error("missed completion not reported")
	}
	complete(f.qp)
	cq2.ReqNotify(false)
	complete(qp2)
	f.cq.ReqNotify(false)
	complete(f.qp)
	if ch.Len() != 3 || woken != 3 || len(f.tape) != 0 {
		t.Fatalf("%d notifications, woken %d times, handler ran %d times", ch.Len(), woken, len(f.tape))
	}
	for i, want := range []*CQ{f.cq, cq2, f.cq, nil} {
		if got := ch.Get(); got != want {
			t.Errorf("notification %d: %v", i, got)
		}
	}
	if err := ch.Destroy(); !errors.Is(err, ErrBusy) {
		t.Errorf("channel in use: %v", err)
	}
	ok(t, qp2.Destroy())
	if err := cq2.Destroy(); !errors.Is(err, ErrBusy) {
		t.Errorf("destroy before acknowledging: %v", err)
	}
	if err := cq2.SetChannel(nil); !errors.Is(err, ErrBusy) {
		t.Errorf("leave before acknowledging: %v", err)
	}
	if err := cq2.AckEvents(2); !errors.Is(err, ErrInvalid) {
		t.Errorf("acknowledge too many: %v", err)
	}
	ok(t, cq2.AckEvents(1), cq2.Destroy(), f.cq.AckEvents(1), f.cq.AckEvents(1))
	f.cq.ReqNotify(false)
	complete(f.qp)
	ok(t, f.cq.SetChannel(nil))
	if ch.Len() != 0 {
		t.Error("notification of a queue that left")
	}
	f.cq.ReqNotify(false)
	complete(f.qp)
	if len(f.tape) != 1 {
		t.Errorf("handler ran %d times after the channel", len(f.tape))
	}
	ok(t, ch.Destroy())
	if err := f.cq.SetChannel(ch); !errors.Is(err, ErrDestroyed) {
		t.Errorf("channel gone: %v", err)
	}
}

// Overflow takes the queue's own pairs down and no others (RFC 5040 section
// 8.1.1).
func TestOverflowSparesOthers(t *testing.T) {
	f := newFixture(t, QPConfig{MaxRecv: 100})
	f.up(t)
	cq2, _ := f.dev.CreateCQ(8, nil)
	other, _ := f.pd.CreateQP(QPConfig{SendCQ: cq2, RecvCQ: cq2})
	sender, _ := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: cq2})
	for _, q := range []*QP{other, sender} {
		q.Modify(Init)
		q.Transition(RTS)
	}
	f.fill(0, f.cq.Cap()+1)
	f.dev.Dispatch(0)
	if got := fmt.Sprint(f.qp.State(), sender.State(), other.State()); got != "ERR ERR RTS" {
		t.Error(got)
	}
	if f.cq.Len() != f.cq.Cap() {
		t.Errorf("completions before the overflow: %d", f.cq.Len())
	}
}

func TestStatusNumbers(t *testing.T) {
	// ibv_wc_status, in order.
	for i, want := range []Status{
		StatusSuccess, StatusLocalLength, StatusLocalQPOp, StatusLocalEEC, StatusLocalProtection,
		StatusFlushed, StatusMWBind, StatusBadResponse, StatusLocalAccess, StatusRemoteInvalid,
		StatusRemoteAccess, StatusRemoteOperation, StatusRetryExceeded, StatusRNRExceeded,
		StatusLocalRDDViolation, StatusRemoteInvalidRD, StatusRemoteAborted, StatusInvalidEECN,
		StatusInvalidEECState, StatusFatal, StatusResponseTimeout, StatusGeneral, StatusTM,
	} {
		if int(want) != i || want.String() == "" {
			t.Errorf("%v has number %d, want %d", want, want, i)
		}
	}
	for op, want := range map[Opcode]WCOpcode{
		OpSend: 0, OpSendInv: 0, OpSendImm: 0, OpWrite: 1, OpWriteImm: 1, OpRead: 2, OpReadInv: 2, OpCompSwap: 3,
		OpFetchAdd: 4, OpBindMW: 5, OpLocalInv: 6, OpRegMR: 10, OpMaskedCompSwap: 11, OpMaskedFetchAdd: 12, OpSwap: 13,
	} {
		if got := opcodes[op].wc; got != want {
			t.Errorf("%v completes as %d, want %d", op, got, want)
		}
	}
}
