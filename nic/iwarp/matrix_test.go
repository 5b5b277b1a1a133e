package iwarp

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// matrixSeeds is how many worlds TestFaultMatrix plays through.
const matrixSeeds = 10_000

// TestFaultMatrix lets two NICs post random work to each other over a bad
// cable: loss, duplication, reordering, corruption, and in every third world
// one side or the cable fails in the middle. Every work request completes
// exactly once and in order, or is flushed; what has completed is right; what
// has not is the old octet or the new one; nothing is left in the end. The
// seed of a world that fails plays the same trace again.
func TestFaultMatrix(t *testing.T) {
	const parts = 8
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < matrixSeeds && !t.Failed(); seed += parts {
				newMatrix(t, seed).play()
			}
		})
	}
}

// TestFaultMatrixReplays plays some worlds twice.
func TestFaultMatrixReplays(t *testing.T) {
	for seed := uint64(0); seed < matrixSeeds; seed += matrixSeeds / 40 {
		if newMatrix(t, seed).play() != newMatrix(t, seed).play() {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}

// The memory of each side: what others read and we send, where the peer
// writes, where our Reads go, and where Sends go.
const (
	mxSource  = 64 << 10
	mxWritten = mxSource
	mxRead    = mxWritten + 160<<10
	mxRecv    = mxRead + 160<<10
	mxLongest = 12_000
	mxSize    = mxRecv + 14*mxLongest
	mxMost    = 12 // requests of each side
)

// matrix is the world of one seed.
type matrix struct {
	*pair
	t     *testing.T
	r     *rand.Rand
	seed  uint64
	sides [2]*actor
	trace hash.Hash
	fails bool // a failure is part of the plan
	cut   bool
}

// actor is one side with its plan.
type actor struct {
	*end
	peer   *actor
	plan   []deed
	posted int
	recvs  int    // receives posted
	heard  []deed // the peer's requests that use up a receive, as posted
	want   []byte // the memory when all is done
	wrote  int    // places given away: of the peer's memory for our Writes,
	read   int    // of ours for our Reads and atomics
	count  []byte // what the peer adds to
	adds   *verbs.MR
	sums   []uint64 // the values it takes
}

// deed is a request and what comes of it.
type deed struct {
	wr     verbs.SendWR
	src    int // of the data, in the memory of whoever it comes from
	dst, n int // where it ends up
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func newMatrix(t *testing.T, seed uint64) *matrix {
	m := &matrix{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 5)), trace: sha256.New()}
	r := m.r
	cfg := Config{
		Markers: r.IntN(3) == 0, InOrder: r.IntN(4) == 0, NoZeroCopy: r.IntN(3) == 0,
		PeerToPeer: r.IntN(4) == 0, CRC: pick(r, mpa.CRCRequired, mpa.CRCRequired, mpa.CRCOptional),
		IRD: pick[uint16](r, 1, 2, 8), ORD: pick[uint16](r, 1, 2, 8),
		RequestTimeout: time.Hour, ReplyTimeout: time.Hour, CloseTimeout: time.Hour,
	}
	tcp := toe.Config{
		MTU: pick(r, 576, 1500, 9000), MaxSegs: pick(r, 1, 1, 8, 45), RcvWnd: pick(r, 64<<10, 1<<20),
		Retries: 40, SynRetries: 20, TimeWait: time.Second,
		Params: toe.Params{Congestion: pick(r, toe.Cubic, toe.Reno, toe.DCTCP), Nagle: r.IntN(6) == 0},
	}
	w := newWorld(t, tcp, cfg)
	m.faults(w, tcp.MaxSegs)
	m.pair = dial(t, w, mxSize, cm.Params{}, acceptAll(cm.Params{}))
	if err := m.s.qp.Modify(verbs.Init); err != nil { // to take receives
		t.Fatal(err)
	}
	a, b := &actor{end: m.c}, &actor{end: m.s}
	a.peer, b.peer = b, a
	m.sides = [2]*actor{a, b}
	for i, s := range m.sides {
		fill(s.mem[:mxSource], int(seed)*2+i)
		s.want = bytes.Clone(s.mem)
		s.count, s.sums = make([]byte, verbs.AtomicLen), []uint64{0}
		var err error
		if s.adds, err = s.pd.RegMR(s.count, verbs.LocalWrite|verbs.RemoteAtomic); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range m.sides {
		least := 0
		if i == 0 && !cfg.PeerToPeer {
			least = 1 // the responder may not speak first
		}
		for range max(least, r.IntN(mxMost)) {
			s.plan = append(s.plan, m.deed(s))
		}
	}
	for _, s := range m.sides {
		for range 1 + r.IntN(2) {
			m.recv(s) // more than needed: to be flushed
		}
	}
	m.fails = r.IntN(3) == 0
	return m
}

// faults spoils both directions of the cable.
func (m *matrix) faults(w *world, segs int) {
	r := m.r
	loss, dup, corrupt := pick(r, 0, 10, 50, 150), pick(r, 0, 0, 30), pick(r, 0, 0, 20)
	jitter := pick(r, 0, 0, 100, 1000)
	if segs > 1 {
		corrupt = 0 // a super-frame has no checksum before it is cut
	}
	for _, n := range []*node{w.a, w.b} {
		n.out.drop = func(_ int, f *frame.Frame) bool {
			b := f.Bytes()
			m.note(b)
			if r.IntN(1000) < corrupt {
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			}
			return m.cut || r.IntN(1000) < loss
		}
		n.out.twice = func() bool { return r.IntN(1000) < dup }
		if jitter > 0 {
			n.out.jitter = func() time.Duration { return time.Duration(r.IntN(jitter)) * time.Microsecond }
		}
	}
}

// note adds to the trace what is on the wire and when.
func (m *matrix) note(b []byte) {
	var at [8]byte
	if m.pair != nil {
		binary.BigEndian.PutUint64(at[:], uint64(m.now))
	}
	m.trace.Write(at[:])
	m.trace.Write(b)
}

// deed plans a request of s.
func (m *matrix) deed(s *actor) deed {
	r := m.r
	n := pick(r, 0, 1, 8, r.IntN(300), r.IntN(mxLongest), mxLongest)
	d := deed{n: n, src: r.IntN(mxSource - n + 1)}
	d.wr = verbs.SendWR{Flags: pick(r, verbs.Signaled, verbs.Signaled, 0), SGEs: s.split(r, d.src, n)}
	d.wr.Flags |= pick(r, 0, 0, 0, verbs.Fence, verbs.LocalFence)
	if n <= 256 && r.IntN(2) == 0 {
		d.wr.SGEs, d.wr.Inline = nil, s.mem[d.src:d.src+n]
		d.wr.Flags |= verbs.Inline
	}
	d.wr.Opcode = pick(r, verbs.OpWrite, verbs.OpWrite, verbs.OpSend, verbs.OpSend, verbs.OpRead, verbs.OpRead,
		verbs.OpWriteImm, verbs.OpSendImm, verbs.OpFetchAdd)
	switch d.wr.Opcode {
	case verbs.OpFetchAdd:
		m.fetchAdd(s, &d)
	case verbs.OpSendImm:
		d.wr.SGEs, d.wr.Inline, d.n, d.wr.Imm = nil, nil, 0, r.Uint64()
		d.wr.Flags &^= verbs.Inline
		m.recv(s.peer)
		s.peer.heard = append(s.peer.heard, d)
	case verbs.OpRead:
		d.wr.Flags &^= verbs.Inline
		d.wr.Inline = nil
		d.dst = mxRead + s.read
		s.read += n
		d.wr.SGEs = s.sge(d.dst, n)
		d.wr.RemoteAddr, d.wr.RKey = s.peer.mr.Addr()+uint64(d.src), s.peer.mr.RKey()
		copy(s.want[d.dst:], s.peer.mem[d.src:d.src+n])
	case verbs.OpWrite, verbs.OpWriteImm:
		d.dst = mxWritten + s.wrote
		s.wrote += n
		d.wr.RemoteAddr, d.wr.RKey = s.peer.mr.Addr()+uint64(d.dst), s.peer.mr.RKey()
		copy(s.peer.want[d.dst:], s.mem[d.src:d.src+n])
		if d.wr.Opcode == verbs.OpWriteImm {
			d.wr.Imm = r.Uint64()
			m.recv(s.peer)
			s.peer.heard = append(s.peer.heard, d)
		}
	default:
		d.wr.Flags |= pick(r, 0, verbs.Solicited)
		d.dst = m.recv(s.peer)
		s.peer.heard = append(s.peer.heard, d)
		copy(s.peer.want[d.dst:], s.mem[d.src:d.src+n])
	}
	return d
}

// fetchAdd makes d add something to the peer's counter. To do it twice would
// show.
func (m *matrix) fetchAdd(s *actor, d *deed) {
	p := s.peer
	old := p.sums[len(p.sums)-1]
	add := m.r.Uint64()
	p.sums = append(p.sums, old+add)
	d.n, d.dst = verbs.AtomicLen, mxRead+s.read
	s.read += verbs.AtomicLen
	d.wr.Flags &^= verbs.Inline
	d.wr.SGEs, d.wr.Inline, d.wr.Atomic.CompareAdd = s.sge(d.dst, verbs.AtomicLen), nil, add
	d.wr.RemoteAddr, d.wr.RKey = p.adds.Addr(), p.adds.RKey()
	binary.NativeEndian.PutUint64(s.want[d.dst:], old)
}

// recv posts a receive of s and returns where it puts its message.
func (m *matrix) recv(s *actor) int {
	at := mxRecv + s.recvs*mxLongest
	s.end.recv(m.t, verbs.RecvWR{ID: uint64(s.recvs), SGEs: s.split(m.r, at, mxLongest)})
	s.recvs++
	return at
}

// split names n octets at off in up to three elements.
func (s *actor) split(r *rand.Rand, off, n int) (list []verbs.SGE) {
	for range r.IntN(3) {
		part := r.IntN(n + 1)
		list = append(list, s.sge(off, part)...)
		off, n = off+part, n-part
	}
	return append(list, s.sge(off, n)...)
}

// play runs the world to its end and returns the hash of its trace.
func (m *matrix) play() (sum [32]byte) {
	defer func() {
		if m.t.Failed() {
			m.t.Logf("the world of seed %d", m.seed)
		}
	}()
	if !m.long(func() bool { return m.c.got(cm.ActiveComplete) && m.s.got(cm.PassiveComplete) }) {
		m.t.Fatalf("no connection: %s, %s", m.c.names(), m.s.names())
	}
	breakAt := -1
	if m.fails {
		breakAt = m.r.IntN(12)
	}
	for round := 0; !m.over(); round++ {
		if round == breakAt {
			m.breakIt()
		}
		if m.fails && round > 100 {
			m.giveUp()
		}
		if round > 20_000 {
			m.t.Fatalf("stuck: %s, %s", m.c.names(), m.s.names())
		}
		for _, s := range m.sides {
			m.post(s)
		}
		m.until(time.Duration(m.r.IntN(3000)) * time.Microsecond)
		if !m.fails && m.done() {
			m.close()
		}
	}
	m.until(5 * time.Second)
	m.cut = false
	for _, s := range m.sides {
		m.check(s)
	}
	m.releaseIdle()
	copy(sum[:], m.trace.Sum(nil))
	return sum
}

// long runs until done for as long as an hour.
func (m *matrix) long(done func() bool) bool {
	for range 60 {
		if m.run(done) {
			return true
		}
	}
	return false
}

// post posts some of what s has planned.
func (m *matrix) post(s *actor) {
	for n := m.r.IntN(4); n > 0 && s.posted < len(s.plan) && s.qp.State() == verbs.RTS; n-- {
		wr := s.plan[s.posted].wr
		wr.ID = uint64(s.posted)
		s.end.post(m.t, wr)
		s.posted++
	}
}

// done tells whether all that was planned has come to its end.
func (m *matrix) done() bool {
	for _, s := range m.sides {
		if s.posted < len(s.plan) || s.qp.SendsPending() > 0 || len(s.received()) < len(s.heard) ||
			!bytes.Equal(s.mem[mxWritten:mxRead], s.want[mxWritten:mxRead]) {
			return false
		}
	}
	return true
}

func (m *matrix) over() bool { return m.c.got(cm.ClosedEvent) && m.s.got(cm.ClosedEvent) }

// close ends the connection in order, from either side or both.
func (m *matrix) close() {
	for i, s := range m.sides {
		if which := m.r.IntN(3); which == 2 || which == i {
			_ = s.id.Disconnect(false, m.now) // the peer may have been first
		}
	}
}

// breakIt is the failure in the middle.
func (m *matrix) breakIt() {
	s := pick(m.r, m.sides[0], m.sides[1])
	switch m.r.IntN(5) {
	case 0:
		_ = s.id.Disconnect(true, m.now)
	case 1:
		if c := endpointOf(s.qp).conn; c != nil {
			c.tcp.Abort()
		}
	case 2:
		if err := s.qp.Modify(verbs.Err); err != nil {
			m.t.Error(err)
		}
	case 3: // protection errors from now on; nothing may come, so end it
		if err := s.mr.Dereg(); err != nil {
			m.t.Error(err)
		}
		m.until(time.Duration(m.r.IntN(3000)) * time.Microsecond)
		_ = s.peer.id.Disconnect(m.r.IntN(2) == 0, m.now)
	default: // the cable is cut: each side finds out by itself
		m.cut = true
		for _, s := range m.sides {
			m.until(time.Duration(m.r.IntN(3000)) * time.Microsecond)
			_ = s.id.Disconnect(true, m.now)
		}
	}
}

// giveUp resets what is left of a connection whose other side is gone: a
// reset that was lost is not repeated.
func (m *matrix) giveUp() {
	for _, s := range m.sides {
		if s.peer.got(cm.ClosedEvent) && !s.got(cm.ClosedEvent) {
			_ = s.id.Disconnect(true, m.now)
		}
	}
}

func isRecv(wc *verbs.WC) bool { return wc.Opcode == verbs.WCRecv || wc.Opcode == verbs.WCRecvWrite }

// received are the completions of receives so far that are no flushes.
func (s *actor) received() (list []verbs.WC) {
	for _, wc := range s.poll() {
		if isRecv(&wc) && wc.Status == verbs.StatusSuccess {
			list = append(list, wc)
		}
	}
	return list
}

// check compares what s has seen with what was posted.
func (m *matrix) check(s *actor) {
	var next [2]int // of the send and the receive queue: what completes next
	var failed [2]bool
	for _, wc := range s.poll() {
		q := 0
		if isRecv(&wc) {
			q = 1
		}
		id, ok := int(wc.ID), wc.Status == verbs.StatusSuccess
		for q == 0 && next[0] < id && !failed[0] && s.plan[next[0]].wr.Flags&verbs.Signaled == 0 {
			next[0]++ // done without a word
		}
		if id != next[q] {
			m.t.Fatalf("queue %d: %d completes, want %d: %s", q, id, next[q], wcString(s.wcs))
		}
		if failed[q] && ok || !ok && !m.fails && q == 0 {
			m.t.Fatalf("queue %d: %s", q, wcString(s.wcs))
		}
		next[q]++
		failed[q] = failed[q] || !ok
		if ok {
			m.completed(s, q, id, &wc)
		}
	}
	for !failed[0] && next[0] < s.posted && s.plan[next[0]].wr.Flags&verbs.Signaled == 0 {
		next[0]++
	}
	if next != [2]int{s.posted, s.recvs} || !m.fails && s.posted != len(s.plan) {
		m.t.Fatalf("%v of %d and %d requests completed, %d planned: %s", next, s.posted, s.recvs, len(s.plan), wcString(s.wcs))
	}
	for i, v := range s.mem {
		if v != s.want[i] && (!m.fails || v != 0) {
			m.t.Fatalf("octet %d is %#x, want %#x", i, v, s.want[i])
		}
	}
	sum := binary.NativeEndian.Uint64(s.count)
	if last := s.sums[len(s.sums)-1]; sum != last && !(m.fails && slices.Contains(s.sums, sum)) {
		m.t.Fatalf("the sum is %d: %v", sum, s.sums)
	}
}

// completed checks the data of a request that has succeeded.
func (m *matrix) completed(s *actor, queue, id int, wc *verbs.WC) {
	d := deed{}
	switch {
	case queue == 1 && id < len(s.heard):
		d = s.heard[id]
		// On the wire Immediate Data behind a Write is a Write with immediate.
		same := wc.ByteLen == uint32(d.n) && (wc.Opcode == verbs.WCRecvWrite) == (d.wr.Opcode == verbs.OpWriteImm)
		if wc.Imm != d.wr.Imm || d.wr.Opcode != verbs.OpSendImm && !same {
			m.t.Fatalf("receive %d: %+v, want %d octets", id, *wc, d.n)
		}
	case queue == 1:
		m.t.Fatalf("receive %d has no message", id)
	case s.plan[id].wr.Opcode.Reads():
		d = s.plan[id]
	}
	if !bytes.Equal(s.mem[d.dst:d.dst+d.n], s.want[d.dst:d.dst+d.n]) {
		m.t.Fatalf("queue %d, request %d: wrong data", queue, id)
	}
}

// rest checks that nothing is left.
func (m *matrix) releaseIdle() {
	m.run(nil)
	for _, n := range []*node{m.a, m.b} {
		if st := n.tcp.Stats(); !n.e.Idle() || st.Open != 0 || n.dev.Pending() {
			m.t.Fatalf("left: %d connections of TCP, iWARP idle %v", st.Open, n.e.Idle())
		}
	}
	if n := m.pool.Lent(); n != 0 {
		m.t.Fatalf("%d frames are left", n)
	}
}
