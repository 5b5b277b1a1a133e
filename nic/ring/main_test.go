package ring

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/verbs"
)

// transport is one that the test plays: it notes the doorbells.
type transport struct{ posted int }

func (t *transport) Opcodes() verbs.OpSet {
	return ^verbs.OpSet(0)
}
func (t *transport) NewEndpoint(*verbs.QP) verbs.Endpoint { return t }
func (t *transport) Reclaim(*verbs.MR)                    {}
func (t *transport) Posted()                              { t.posted++ }
func (t *transport) Modified(verbs.State)                 {}
func (t *transport) Destroyed()                           {}

// fixture is a queue pair whose queues a program has in its memory.
type fixture struct {
	t     testing.TB
	tr    *transport
	dev   *verbs.Device
	pd    *verbs.PD
	mr    *verbs.MR
	cq    *verbs.CQ
	qp    *verbs.QP
	arena *Arena
	sq    *SendQueue
	rq    *RecvQueue
	comp  *CompletionQueue
	send  *SendPoster
	recv  *RecvPoster
	poll  *Poller
	file  int // the program's
}

const (
	fixtureWR     = 8
	fixtureSGE    = 3
	fixtureInline = 64
	fixtureCQE    = 40
)

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, tr: &transport{}, dev: verbs.NewDevice(verbs.Limits{}, rand.NewPCG(0, 1))}
	f.dev.SetTransport(f.tr)
	f.pd = must(f.dev.AllocPD())(t)
	f.mr = must(f.pd.RegMR(make([]byte, 8192), verbs.LocalWrite|verbs.RemoteWrite|verbs.MWBind))(t)
	f.cq = must(f.dev.CreateCQ(fixtureCQE, nil))(t)
	f.qp = must(f.pd.CreateQP(verbs.QPConfig{
		SendCQ: f.cq, RecvCQ: f.cq, MaxSend: fixtureWR, MaxRecv: fixtureWR, MaxSGE: fixtureSGE, MaxInline: fixtureInline,
	}))(t)
	f.arena = must(NewArena())(t)
	t.Cleanup(f.arena.Close)
	f.file = must(f.arena.Program())(t)
	t.Cleanup(func() { _ = unix.Close(f.file) })
	f.sq = must(f.arena.NewSendQueue(f.dev, fixtureWR, fixtureSGE, fixtureInline))(t)
	f.rq = must(f.arena.NewRecvQueue(fixtureWR, fixtureSGE))(t)
	f.comp = must(f.arena.NewCompletionQueue(fixtureCQE))(t)
	f.qp.SetSendSource(f.sq)
	f.qp.SetRecvSource(f.rq)
	if err := f.cq.SetSink(f.comp); err != nil {
		t.Fatal(err)
	}
	f.send = must(OpenSendQueue(f.mapped(&f.sq.queue), fixtureSGE, fixtureInline))(t)
	f.recv = must(OpenRecvQueue(f.mapped(&f.rq.queue), fixtureSGE))(t)
	f.poll = must(OpenCompletionQueue(f.mapped(&f.comp.queue)))(t)
	if err := f.qp.Modify(verbs.Init); err != nil || !f.qp.Transition(verbs.RTS) {
		t.Fatal("not connected", err)
	}
	return f
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// mapped is what the program sees of q.
func (f *fixture) mapped(q *queue) []byte {
	f.t.Helper()
	mem, err := unix.Mmap(f.file, int64(q.Offset()), int(q.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

func (f *fixture) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: f.mr.Addr() + uint64(off), Length: uint32(n), LKey: f.mr.LKey()}
}

func (f *fixture) post(wr verbs.SendWR) {
	f.t.Helper()
	if err := f.send.Post(&wr); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) doorbell() {
	f.t.Helper()
	if err := f.qp.Doorbell(); err != nil {
		f.t.Fatal(err)
	}
}

// work begins all that can be begun, and finishes it, as a transport.
func (f *fixture) work() (done []verbs.SendWQE) {
	for w := f.qp.NextSend(); w != nil; w = f.qp.NextSend() {
		done = append(done, *w)
		f.qp.BeginSend()
		f.qp.FinishSend(w.Seq, verbs.StatusSuccess)
	}
	return done
}

// completions fetches all.
func (f *fixture) completions() []Completion {
	list := make([]Completion, 2*fixtureCQE)
	return list[:f.poll.Poll(list)]
}
