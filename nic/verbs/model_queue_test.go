package verbs

import (
	"testing"

	"pgregory.net/rapid"
)

// modelSend is what the rules say of one request in the send queue.
type modelSend struct {
	seq, id     uint64
	op          Opcode
	flags       SendFlags
	fails       bool // local operation that cannot succeed
	begun, done bool
	status      Status
}

type modelWC struct {
	id     uint64
	op     WCOpcode
	status Status
}

// queueModel drives one queue pair with random calls of its owner and of its
// transport and keeps a second account of both queues.
type queueModel struct {
	f      *fixture
	mw     *MW
	sq     []modelSend // not completed, oldest first
	rq     []uint64    // IDs
	want   []modelWC   // completions not polled
	seq    uint64
	id     uint64
	halted bool
	failed bool // nothing counts as done behind a failure
}

const modelDepth = 6

func newQueueModel(t *rapid.T, tb testing.TB) *queueModel {
	m := &queueModel{f: newFixture(tb, QPConfig{MaxSend: modelDepth, MaxRecv: modelDepth})}
	m.f.cq.Resize(1 << 12)
	m.mw, _ = m.f.pd.AllocMW(MWType1)
	m.f.up(tb)
	return m
}

func (m *queueModel) complete(w *modelSend) {
	if w.status != StatusSuccess {
		m.failed = true
	} else if m.failed {
		w.status = StatusFlushed
	}
	if w.status != StatusSuccess || w.flags&Signaled != 0 {
		m.want = append(m.want, modelWC{w.id, opcodes[w.op].wc, w.status})
	}
}

// retire completes what is finished at the head of the send queue.
func (m *queueModel) retire() {
	for len(m.sq) > 0 && m.sq[0].done {
		m.complete(&m.sq[0])
		m.sq = m.sq[1:]
	}
}

func (m *queueModel) flush() {
	for i := range m.sq {
		if w := &m.sq[i]; !w.done {
			w.status, w.done = StatusFlushed, true
		}
	}
	m.retire()
	for _, id := range m.rq {
		m.want = append(m.want, modelWC{id, WCRecv, StatusFlushed})
	}
	m.rq, m.halted, m.failed = nil, false, false
}

// next does the local operations whose turn it is and returns the request
// that may begin, or nil.
func (m *queueModel) next() *modelSend {
	for i := 0; i < len(m.sq) && !m.halted; i++ {
		w := &m.sq[i]
		if w.begun {
			continue
		}
		for _, before := range m.sq[:i] {
			open := !before.done
			if open && w.flags&LocalFence != 0 || open && before.op.Reads() && w.flags&(Fence|ReadFence) != 0 {
				return nil
			}
		}
		if !w.op.Local() {
			return w
		}
		w.begun, w.done = true, true
		if w.fails {
			w.status, m.halted = StatusMWBind, true
		}
		m.retire()
		i = -1
	}
	return nil
}

func (m *queueModel) request(t *rapid.T) (SendWR, modelSend, bool) {
	m.id++
	op := rapid.SampledFrom([]Opcode{OpSend, OpSendImm, OpWrite, OpRead, OpFetchAdd, OpLocalInv}).Draw(t, "opcode")
	flags := SendFlags(0)
	for _, f := range []SendFlags{Signaled, Fence, ReadFence, LocalFence} {
		if rapid.Bool().Draw(t, "flag") {
			flags |= f
		}
	}
	wr := SendWR{ID: m.id, Opcode: op, Flags: flags}
	w := modelSend{id: m.id, op: op, flags: flags, fails: op == OpLocalInv}
	bad := rapid.IntRange(0, 9).Draw(t, "bad") == 0
	switch {
	case bad:
		wr.SGEs = make([]SGE, 2)
	case op == OpFetchAdd:
		wr.SGEs = m.f.sge(0, AtomicLen)
	}
	return wr, w, bad
}

func (m *queueModel) post(t *rapid.T) {
	var wrs []SendWR
	wantBad := -1
	state := m.f.qp.State()
	room := modelDepth - len(m.sq)
	for i := range rapid.IntRange(1, 4).Draw(t, "batch") {
		wr, w, bad := m.request(t)
		wrs = append(wrs, wr)
		if wantBad >= 0 {
			continue
		}
		if bad || room == 0 || state != RTS && state != Err {
			wantBad = i
			continue
		}
		room--
		w.seq = m.seq
		m.seq++
		m.sq = append(m.sq, w)
	}
	if state == Err {
		m.flush()
	}
	bad, err := m.f.qp.PostSend(wrs...)
	if wantBad < 0 {
		wantBad = len(wrs)
	}
	if bad != wantBad || (err != nil) != (bad < len(wrs)) {
		t.Fatalf("posted %d of %d: %v; the rules say %d", bad, len(wrs), err, wantBad)
	}
}

// unbind posts a local operation that succeeds.
func (m *queueModel) unbind(t *rapid.T) {
	m.id++
	_, err := m.f.qp.BindMW(m.id, Signaled, Bind{MW: m.mw})
	good := m.f.qp.State() == RTS && len(m.sq) < modelDepth || m.f.qp.State() == Err
	if (err == nil) != good {
		t.Fatalf("bind: %v", err)
	}
	if good {
		m.sq = append(m.sq, modelSend{seq: m.seq, id: m.id, op: OpBindMW, flags: Signaled})
		m.seq++
	}
	if m.f.qp.State() == Err {
		m.flush()
	}
}

func (m *queueModel) begin(t *rapid.T) {
	want := m.next()
	got := m.f.qp.NextSend()
	if (got == nil) != (want == nil) || got != nil && (got.ID != want.id || got.Seq != want.seq) {
		t.Fatalf("next is %+v, the rules say %+v", got, want)
	}
	if got != nil {
		m.f.qp.BeginSend()
		want.begun = true
	}
}

func (m *queueModel) finish(t *rapid.T) {
	var open []*modelSend
	for i := range m.sq {
		if m.sq[i].begun && !m.sq[i].done {
			open = append(open, &m.sq[i])
		}
	}
	if len(open) == 0 {
		t.Skip("nothing begun")
	}
	w := open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
	w.status = rapid.SampledFrom([]Status{StatusSuccess, StatusSuccess, StatusRemoteAccess}).Draw(t, "status")
	w.done = true
	m.f.qp.FinishSend(w.seq, w.status)
	m.f.qp.FinishSend(w.seq, StatusGeneral) // only the first report counts
	m.retire()
}

func (m *queueModel) postRecv(t *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(t, "batch")
	var wrs []RecvWR
	want := 0
	for range n {
		m.id++
		wrs = append(wrs, RecvWR{ID: m.id})
		if m.f.qp.State() != Reset && len(m.rq) < modelDepth {
			m.rq = append(m.rq, m.id)
			want++
		}
		if m.f.qp.State() == Err {
			m.flush()
		}
	}
	if bad, err := m.f.qp.PostRecv(wrs...); bad != want || (err != nil) != (want < n) {
		t.Fatalf("posted %d of %d receives: %v; the rules say %d", bad, n, err, want)
	}
}

func (m *queueModel) receive(t *rapid.T) {
	r, _ := m.f.qp.NextRecv()
	if (r == nil) != (len(m.rq) == 0) || r != nil && r.ID != m.rq[0] {
		t.Fatalf("next receive is %+v, of %v", r, m.rq)
	}
	if r != nil {
		m.f.qp.FinishRecv(RecvDone{WithImm: true, Write: true})
		m.want = append(m.want, modelWC{m.rq[0], WCRecvWrite, StatusSuccess})
		m.rq = m.rq[1:]
	}
}

// dispatch runs what a failed local operation has left to do.
func (m *queueModel) dispatch(*rapid.T) {
	m.f.dev.Dispatch(0)
	if m.halted && m.f.qp.State() == Err {
		m.flush()
	}
}

func (m *queueModel) fail(*rapid.T) {
	if m.f.qp.State() == RTS && m.f.qp.Transition(Err) {
		m.flush()
	}
}

func (m *queueModel) restart(t *rapid.T) {
	if m.f.qp.Modify(Reset) != nil {
		t.Fatal("no way to RESET")
	}
	m.flush()
	if m.f.qp.Modify(Init) != nil || !m.f.qp.Transition(RTS) {
		t.Fatal("no way back to RTS")
	}
}

func (m *queueModel) poll(t *rapid.T) {
	wcs := make([]WC, rapid.IntRange(0, 5).Draw(t, "entries"))
	n := m.f.cq.Poll(wcs)
	if n != min(len(wcs), len(m.want)) {
		t.Fatalf("%d completions, the rules say %d", n, len(m.want))
	}
	for i, wc := range wcs[:n] {
		if got := (modelWC{wc.ID, wc.Opcode, wc.Status}); got != m.want[i] {
			t.Fatalf("completion %+v, the rules say %+v", got, m.want[i])
		}
	}
	m.want = m.want[n:]
}

func (m *queueModel) check(t *rapid.T) {
	if m.f.cq.Len() != len(m.want) || m.f.qp.SendsPending() != len(m.sq) || m.f.qp.RecvsPending() != len(m.rq) {
		t.Fatalf("%d completions, %d sends, %d receives; the rules say %d, %d, %d",
			m.f.cq.Len(), m.f.qp.SendsPending(), m.f.qp.RecvsPending(), len(m.want), len(m.sq), len(m.rq))
	}
}

func TestQueuesAgainstModel(t *testing.T) {
	run := func(rt *rapid.T) {
		m := newQueueModel(rt, t)
		rt.Repeat(map[string]func(*rapid.T){
			"post": m.post, "bind": m.unbind, "begin": m.begin, "begin more": m.begin, "finish": m.finish,
			"finish more": m.finish, "post receive": m.postRecv, "receive": m.receive, "dispatch": m.dispatch,
			"fail": m.fail, "restart": m.restart, "poll": m.poll, "": m.check,
		})
	}
	for range 10 {
		rapid.Check(t, run)
	}
}
