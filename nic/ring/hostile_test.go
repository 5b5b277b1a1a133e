package ring

import (
	"testing"

	"tapir/nic/verbs"
)

// FuzzHostile lets a program write anything anywhere in its rings: script says
// what, three octets for each write, and when it rings. Nothing may fail but
// its own queue pair; each call looks at a bounded number of requests.
func FuzzHostile(f *testing.F) {
	f.Add([]byte{0, 128, 5, 3, 0, 0}, []byte("\x02\x00\x00\x00"))
	f.Add([]byte{0, 128, 255, 1, 128, 255, 3, 0, 0, 2, 129, 255, 3, 1, 0}, []byte{8, 0, 0, 0, 15, 0, 0, 0})
	f.Add([]byte{0, 200, 196, 0, 128, 7, 3, 0, 0, 3, 1, 1}, []byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, script, data []byte) {
		x := newFixture(t)
		rings := [][]byte{x.sq.piece.mem, x.rq.piece.mem, x.comp.piece.mem}
		window := must(x.pd.AllocMW(verbs.MWType2B))(t)
		fill := append([]byte{byte(window.RKey() >> 8), byte(window.RKey() >> 16)}, data...)
		for i, mem := range rings {
			for at := headerLen; at < len(mem); at += len(fill) + i {
				copy(mem[at:], fill)
			}
		}
		for ; len(script) >= 3; script = script[3:] {
			if script[0] < 3 {
				// The second octet reaches the header or, in steps of 16, the elements.
				mem, at := rings[script[0]], int(script[1])
				if at > 128 {
					at = (at - 120) * 32
				}
				mem[at%len(mem)] = script[2]
				continue
			}
			before := x.cq.Total()
			_ = x.qp.Doorbell() // ErrState once the queue pair is reset
			x.work()
			if w, fault := x.qp.NextRecv(); w != nil && (fault != verbs.FaultNone || w.Place([]byte("12345678"), 0) == nil) {
				x.qp.FinishRecv(verbs.RecvDone{})
			}
			if script[1] == 1 {
				x.qp.Transition(verbs.Err)
			}
			x.dev.Dispatch(0)
			if n := x.cq.Total() - before; n > uint64(x.sq.ring.cap()+x.rq.ring.cap()+fixtureWR+1) {
				t.Fatalf("%d completions at once", n)
			}
		}
		if x.mr.Valid() && len(x.mr.Memory().(verbs.Bytes)) != 8192 {
			t.Fatal("region changed")
		}
		_ = x.qp.Destroy()
		x.sq.Free()
		x.rq.Free()
	})
}

// A program that fills its ring as fast as the device empties it gets no more
// than one ring's worth of its time at once.
func TestDoorbellIsBounded(t *testing.T) {
	f := newFixture(t)
	taken := 0
	f.qp.SetSendSource(endless{f.sq, &taken})
	f.doorbell()
	f.work()
	if taken != f.sq.ring.cap() {
		t.Errorf("%d requests taken for one doorbell", taken)
	}
	taken = 0
	if f.qp.Transition(verbs.Err); taken != f.sq.ring.cap() {
		t.Errorf("%d requests flushed at once", taken)
	}
}

// endless is a send queue that is always full.
type endless struct {
	*SendQueue
	taken *int
}

func (e endless) Len() int { return e.ring.cap() }

func (e endless) Next(wr *verbs.SendWR) (verbs.Status, bool) {
	*e.taken++
	wr.Opcode = verbs.OpSend
	return verbs.StatusSuccess, true
}

// round is a Send and a receive from posting to polling.
func (f *fixture) round(send *verbs.SendWR, recv *verbs.RecvWR, list []Completion) {
	if f.send.Post(send) != nil || f.recv.Post(recv) != nil || f.qp.Doorbell() != nil {
		f.t.Fatal("not posted")
	}
	w := f.qp.NextSend()
	f.qp.BeginSend()
	f.qp.FinishSend(w.Seq, verbs.StatusSuccess)
	if w, _ := f.qp.NextRecv(); w == nil {
		f.t.Fatal("no receive")
	}
	f.qp.FinishRecv(verbs.RecvDone{ByteLen: 4})
	if f.poll.Poll(list) != 2 {
		f.t.Fatal("not two completions")
	}
}

func TestPathAllocatesNothing(t *testing.T) {
	f := newFixture(t)
	sges := []verbs.SGE{f.sge(0, 4), f.sge(8, 4)}
	sends := []*verbs.SendWR{
		{Flags: verbs.Signaled, SGEs: sges},
		{Flags: verbs.Signaled | verbs.Inline, Inline: make([]byte, fixtureInline)},
	}
	recv := &verbs.RecvWR{SGEs: sges}
	list := make([]Completion, 4)
	for _, wr := range sends {
		f.round(wr, recv, list)
		if n := testing.AllocsPerRun(100, func() { f.round(wr, recv, list) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func BenchmarkRound(b *testing.B) {
	f := newFixture(b)
	sges := []verbs.SGE{f.sge(0, 4)}
	send, recv := &verbs.SendWR{Flags: verbs.Signaled, SGEs: sges}, &verbs.RecvWR{SGEs: sges}
	list := make([]Completion, 4)
	b.ReportAllocs()
	for b.Loop() {
		f.round(send, recv, list)
	}
}
