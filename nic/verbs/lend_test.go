package verbs

import "testing"

// A region that goes asks the queue pairs that lend it, however many others
// there are, and those no more whose requests have completed.
func TestDeregisterAsksOnlyThoseThatLend(t *testing.T) {
	for _, others := range []int{10, 10_000} {
		f := newFixture(t, QPConfig{})
		f.up(t)
		mine, _ := f.pd.RegMR(make([]byte, 8192), 0)
		lend := func(q *QP, mr *MR) *SendWQE {
			t.Helper()
			sges := []SGE{{Addr: mr.Addr(), Length: 8192, LKey: mr.LKey()}}
			if _, err := q.PostSend(SendWR{Opcode: OpWrite, SGEs: sges}); err != nil {
				t.Fatal(err)
			}
			w := q.NextSend()
			if q.Resolve(w) != FaultNone {
				t.Fatal("not resolved")
			}
			q.BeginSend()
			q.Lend(w)
			q.Lend(w) // again: nothing
			return w
		}
		var qps []*QP
		for range others {
			q, err := f.pd.CreateQP(QPConfig{SendCQ: f.cq, RecvCQ: f.cq})
			if err != nil || q.Modify(Init) != nil || !q.Transition(RTS) {
				t.Fatal(err)
			}
			mr, _ := f.pd.RegMR(make([]byte, 8192), 0)
			lend(q, mr)
			qps = append(qps, q)
		}
		lend(f.qp, mine)
		lend(f.qp, mine)
		done := lend(qps[0], mine)
		gone := lend(qps[1], mine)
		back := lend(qps[2], mine)
		qps[0].FinishSend(done.Seq-1, StatusSuccess)
		qps[0].FinishSend(done.Seq, StatusSuccess)
		if err := qps[1].Destroy(); err != nil || gone.Valid() != true {
			t.Fatal(err)
		}
		back.EndLoan()
		if err := mine.Dereg(); err != nil {
			t.Fatal(err)
		}
		if f.tr.reclaimed != 2 {
			t.Errorf("beside %d queue pairs: %d were asked, want one for each of two requests", others, f.tr.reclaimed)
		}
		again, _ := f.pd.RegMR(make([]byte, 8192), 0)
		w := lend(qps[3], again)
		if n := testing.AllocsPerRun(10, func() { w.EndLoan(); qps[3].Lend(w) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		qps[3].Flush()
		if err := again.Dereg(); err != nil || f.tr.reclaimed != 2 {
			t.Errorf("%v, %d were asked after a flush", err, f.tr.reclaimed)
		}
	}
}

// What could not be placed when the last region went is still told.
func TestDeregisterTellsOfWritesThatFail(t *testing.T) {
	f := newFixture(t, QPConfig{})
	far := &distant{Bytes: make([]byte, 100)}
	mr, err := f.pd.RegMemory(far, 0, LocalWrite)
	if err != nil || f.mr.Dereg() != nil {
		t.Fatal(err)
	}
	f.dev.BatchWrites(true)
	if err := mr.Place([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	far.fail = true
	if err := mr.Dereg(); err != nil || f.dev.FlushWrites() == nil || f.dev.FlushWrites() != nil {
		t.Errorf("%v, or not told, or twice", err)
	}
}
