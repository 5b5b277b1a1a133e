package l2

import (
	"encoding/binary"
	"testing"

	"tapir/nic/buf"
	"tapir/nic/fastlinq/status"
	"tapir/nic/pacing"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// world is a function with a pool that knows what it has lent.
type world struct {
	t interface {
		Helper()
		Fatalf(string, ...any)
	}
	*Function
	tree    pacing.Tree
	pool    *buf.Pool
	asserts []string
	fired   int
	dropped []frame.DropReason // on the way out
}

func newWorld(t testing.TB, cfg Config) *world {
	w := &world{t: t, pool: buf.NewPool(1<<16, 70000)}
	cfg.Pool, cfg.PF = w.pool, w.tree.Port().Child(false)
	cfg.Assert = func(s string) { w.asserts = append(w.asserts, s) }
	cfg.Fire = func(uint16, uint8) { w.fired++ }
	cfg.Drop = func(side Sides, _ *frame.Frame, r frame.DropReason) {
		if side == Tx {
			w.dropped = append(w.dropped, r)
		}
	}
	w.Function = New(cfg)
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// want fails unless err has the status.
func (w *world) want(code status.Code, err error) {
	w.t.Helper()
	if status.Of(err) != code {
		w.t.Fatalf("%v, want %v", err, code)
	}
}

// start starts a vport with queues that have the ids given, all buffers posted.
func (w *world) start(p StartParams, queues ...int) (list []*RxQueue) {
	w.t.Helper()
	if p.MTU == 0 {
		p.MTU = 1500
	}
	w.ok(w.VportStart(p))
	for _, id := range queues {
		list = append(list, w.rxq(p.Vport, id))
	}
	return list
}

func (w *world) rxq(vport, id int) *RxQueue {
	w.t.Helper()
	q, err := w.RxQueueStart(QueueParams{Vport: vport, Stats: vport, Queue: id, Size: 1023}, 2048)
	w.ok(err)
	w.ok(q.Post(1023))
	return q
}

func (w *world) txq(vport, id int) *TxQueue {
	w.t.Helper()
	q, err := w.TxQueueStart(QueueParams{Vport: vport, Stats: vport, Queue: id, Size: 1023}, 0)
	w.ok(err)
	return q
}

// run activates a vport and lets it accept.
func (w *world) run(vport int, a Accept) {
	w.t.Helper()
	on := true
	w.ok(w.VportUpdate(UpdateParams{Vport: vport, RxActive: &on, TxActive: &on,
		Accept: &AcceptParams{UpdateRx: true, UpdateTx: true, Rx: a, Tx: a}}))
}

func (w *world) frame(b []byte) *frame.Frame {
	f := w.pool.Get(len(b))
	f.Append(b)
	return f
}

// receive offers a frame to the port and takes it back if nobody wants it.
func (w *world) receive(b []byte) frame.DropReason {
	f := w.frame(b)
	r := w.Receive(f)
	if r != frame.DropNone {
		f.Release()
	}
	return r
}

// take is what waits in a queue; the buffers are posted again.
func take(q *RxQueue) (list [][]byte, cqes []CQE) {
	for f, cqe := q.Next(); f != nil; f, cqe = q.Next() {
		list, cqes = append(list, append([]byte(nil), f.Bytes()...)), append(cqes, cqe)
		f.Release()
	}
	_ = q.Post(1023 - q.Posted())
	return list, cqes
}

// link is a port that keeps what it is given.
type link struct {
	room   int
	frames []*frame.Frame
}

func (l *link) Room() int               { return l.room - len(l.frames) }
func (l *link) Transmit(f *frame.Frame) { l.frames = append(l.frames, f) }

func (l *link) release() (n int) {
	for _, f := range l.frames {
		f.Release()
	}
	n = len(l.frames)
	l.frames = nil
	return n
}

func addr(n int) ether.Addr { return ether.Addr{2, 0, 0, 0, byte(n >> 8), byte(n)} }

var outside = ether.Addr{2, 0xff, 0, 0, 0, 1}

// eth is a frame with n octets of payload.
func eth(dst, src ether.Addr, n int, tags ...uint16) []byte {
	h := ether.Header{Dst: dst, Src: src, Type: 0x88b5, NTags: len(tags)}
	for i, v := range tags {
		h.Tags[i] = ether.Tag{TPID: ether.TypeVLAN, TCI: v}
	}
	return append(h.AppendTo(nil), make([]byte, n)...)
}

// packet4 is an IPv4 packet in a frame; the last octet of src and both ports
// make the flow.
func packet4(dst ether.Addr, proto uint8, src byte, sport, dport uint16, payload int) []byte {
	b := ether.Header{Dst: dst, Src: outside, Type: ether.TypeIPv4}.AppendTo(nil)
	l4 := make([]byte, max(20, 8)+payload)
	binary.BigEndian.PutUint16(l4, sport)
	binary.BigEndian.PutUint16(l4[2:], dport)
	if proto == ip.ProtoTCP {
		l4[12] = 5 << 4
	}
	h := make([]byte, 20)
	h[0], h[8], h[9] = 0x45, 64, proto
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(l4)))
	copy(h[12:], []byte{10, 0, 0, src, 10, 0, 0, 200})
	binary.BigEndian.PutUint16(h[10:], ip.Checksum(h, 0))
	return append(append(b, h...), l4...)
}

func (w *world) idle() {
	w.t.Helper()
	if n := w.pool.Lent(); n != 0 {
		w.t.Fatalf("%d frames are lost", n)
	}
}
