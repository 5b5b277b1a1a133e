package umode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/verbs"
)

// side is a program with one queue pair and some memory.
type side struct {
	t   *testing.T
	nic *far
	ctx *Context
	pd  *PD
	ch  *CompChannel
	cq  *CQ
	qp  *QP
	mr  *MR
	id  *ID

	reads uint16 // IRD and ORD
}

const allRights = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind

func newSide(t *testing.T, c *Context, srq bool) *side {
	t.Helper()
	s := &side{t: t, ctx: c, pd: must[*PD](t)(c.AllocPD()), ch: must[*CompChannel](t)(c.CreateCompChannel())}
	s.cq = must[*CQ](t)(c.CreateCQ(256, s.ch))
	s.mr = must[*MR](t)(s.pd.RegMR(must[[]byte](t)(c.Alloc(8192)), allRights))
	cfg := QPConfig{SendCQ: s.cq, RecvCQ: s.cq, MaxSend: 200, MaxRecv: 200, MaxSGE: 2, MaxInline: 64, Context: s}
	if srq {
		cfg.SRQ = must[*SRQ](t)(s.pd.CreateSRQ(64, 2))
	}
	s.qp = must[*QP](t)(s.pd.CreateQP(cfg))
	return s
}

// connect joins two sides; the passive one listens at the address of b.
func connect(t *testing.T, a, b *side) {
	t.Helper()
	ctx, at := soon(t), netip.MustParseAddrPort("10.0.0.2:7471")
	l := must[*Listener](t)(b.ctx.Listen(at, 4))
	accepted := make(chan error, 1)
	go func() {
		id, err := l.Request(ctx)
		if err == nil {
			b.id = id
			err = id.Accept(ctx, Params{QP: b.qp, IRD: b.reads, ORD: b.reads, PrivateData: []byte("welcome")})
		}
		accepted <- err
	}()
	a.id = must[*ID](t)(a.ctx.NewID())
	if err := a.id.Connect(ctx, at, Params{QP: a.qp, IRD: a.reads, ORD: a.reads,
		PrivateData: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	// Over RoCE zeros follow, up to the room that there is.
	told := bytes.ReplaceAll(append(bytes.Clone(a.id.PrivateData()), b.id.PrivateData()...), []byte{0}, nil)
	if got := string(told); got != "welcomehello" {
		t.Errorf("private data %q", got)
	}
	if a.id.Remote() != at || b.id.Local() != at || a.id.Local() != b.id.Remote() {
		t.Errorf("addresses %v->%v and %v->%v", a.id.Local(), a.id.Remote(), b.id.Local(), b.id.Remote())
	}
	if s := a.id.State(); s != cm.Connected || b.id.State() != cm.Connected {
		t.Errorf("states %v and %v", s, b.id.State())
	}
}

// pair is two connected programs on two NICs.
func pair(t *testing.T, p verbs.Personality, o Options, srq bool) (a, b *side) {
	t.Helper()
	one, two := nics(t, p)
	a, b = newSide(t, one.open(t, o), false), newSide(t, two.open(t, o), srq)
	a.nic, b.nic = one, two
	connect(t, a, b)
	return a, b
}

func (s *side) send(wrs ...verbs.SendWR) {
	s.t.Helper()
	if n, err := s.qp.PostSend(wrs...); err != nil || n != len(wrs) {
		s.t.Fatalf("posted %d of %d sends: %v", n, len(wrs), err)
	}
}

func (s *side) recv(wrs ...verbs.RecvWR) {
	s.t.Helper()
	post := s.qp.PostRecv
	if q := s.qp.Config().SRQ; q != nil {
		post = q.PostRecv
	}
	if n, err := post(wrs...); err != nil || n != len(wrs) {
		s.t.Fatalf("posted %d of %d receives: %v", n, len(wrs), err)
	}
}

// next waits for a completion that must be of request id.
func (s *side) next(id uint64, status verbs.Status) WC {
	s.t.Helper()
	wc, err := s.cq.Next(soon(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	if wc.ID != id || wc.Status != status || wc.QP != s.qp {
		s.t.Fatalf("completion of WR %d: %v, want WR %d: %v", wc.ID, wc.Status, id, status)
	}
	return wc
}

// over runs a test on NICs of iWARP and on NICs of RoCE.
func over(t *testing.T, test func(t *testing.T, p verbs.Personality)) {
	for _, p := range []verbs.Personality{verbs.IWARP, verbs.RoCE} {
		t.Run(p.String(), func(t *testing.T) { test(t, p) })
	}
}

// both is over, each with the library and with the proxy alone.
func both(t *testing.T, test func(t *testing.T, p verbs.Personality, o Options)) {
	over(t, func(t *testing.T, p verbs.Personality) {
		for name, o := range map[string]Options{"library": {}, "proxy": {NoLibrary: true}} {
			t.Run(name, func(t *testing.T) { test(t, p, o) })
		}
	})
}

func TestOperations(t *testing.T) {
	both(t, func(t *testing.T, p verbs.Personality, o Options) {
		a, b := pair(t, p, o, false)
		mem, far := a.mr.Bytes(), b.mr.Bytes()

		b.recv(verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{b.mr.SGE(100, 3), b.mr.SGE(200, 100)}})
		copy(mem, "in two pieces")
		a.send(verbs.SendWR{ID: 2, Flags: verbs.Signaled | verbs.Solicited,
			SGEs: []verbs.SGE{a.mr.SGE(0, 6), a.mr.SGE(6, 7)}})
		a.next(2, verbs.StatusSuccess)
		if wc := b.next(1, verbs.StatusSuccess); wc.ByteLen != 13 ||
			string(far[100:103])+string(far[200:210]) != "in two pieces" {
			t.Errorf("%d octets: %q %q", wc.ByteLen, far[100:103], far[200:210])
		}

		b.recv(verbs.RecvWR{ID: 3, SGEs: []verbs.SGE{b.mr.SGE(0, 64)}})
		inline := []byte("small")
		a.send(verbs.SendWR{ID: 4, Flags: verbs.Inline | verbs.Signaled, Inline: inline})
		copy(inline, "SMALL")
		a.next(4, verbs.StatusSuccess)
		if wc := b.next(3, verbs.StatusSuccess); string(far[:wc.ByteLen]) != "small" {
			t.Errorf("inline: %q", far[:wc.ByteLen])
		}

		copy(mem, "written")
		a.send(verbs.SendWR{ID: 5, Opcode: verbs.OpWrite, SGEs: []verbs.SGE{a.mr.SGE(0, 7)}, RKey: b.mr.RKey(),
			RemoteAddr: b.mr.Addr() + 1000},
			verbs.SendWR{ID: 6, Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(500, 7)},
				RKey: b.mr.RKey(), RemoteAddr: b.mr.Addr() + 1000})
		if wc := a.next(6, verbs.StatusSuccess); wc.Opcode != verbs.WCRead || string(mem[500:507]) != "written" {
			t.Errorf("%v: %q", wc.Opcode, mem[500:507])
		}

		b.recv(verbs.RecvWR{ID: 7})
		a.send(verbs.SendWR{ID: 8, Opcode: verbs.OpWriteImm, Imm: 0xabcdef01, SGEs: []verbs.SGE{a.mr.SGE(0, 7)},
			RKey: b.mr.RKey(), RemoteAddr: b.mr.Addr()})
		if wc := b.next(7, verbs.StatusSuccess); !wc.WithImm || wc.Imm != 0xabcdef01 || wc.Opcode != verbs.WCRecvWrite {
			t.Errorf("immediate data: %+v", wc.WC)
		}

		binary.NativeEndian.PutUint64(far[8:], 41)
		target := verbs.SendWR{Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(0, 8)}, RKey: b.mr.RKey(),
			RemoteAddr: b.mr.Addr() + 8}
		add, swap := target, target
		add.ID, add.Opcode, add.Atomic = 9, verbs.OpFetchAdd, verbs.Operands{CompareAdd: 1}
		swap.ID, swap.Opcode, swap.Atomic = 10, verbs.OpCompSwap, verbs.Operands{CompareAdd: 42, Swap: 7}
		a.send(add, swap)
		a.next(9, verbs.StatusSuccess)
		a.next(10, verbs.StatusSuccess)
		if found, left := binary.NativeEndian.Uint64(mem), binary.NativeEndian.Uint64(far[8:]); found != 42 || left != 7 {
			t.Errorf("found %d, left %d", found, left)
		}
	})
}

// More requests than a command carries go in batches, in order.
func TestBatches(t *testing.T) {
	both(t, func(t *testing.T, p verbs.Personality, o Options) {
		a, b := pair(t, p, o, false)
		var recvs []verbs.RecvWR
		var sends []verbs.SendWR
		for i := range uint64(180) {
			recvs = append(recvs, verbs.RecvWR{ID: i, SGEs: []verbs.SGE{b.mr.SGE(int(i)*8, 8)}})
			a.mr.Bytes()[i] = byte(i)
			sends = append(sends, verbs.SendWR{ID: i, SGEs: []verbs.SGE{a.mr.SGE(int(i), 1)}})
		}
		b.recv(recvs...)
		a.send(sends...)
		for i := range uint64(180) {
			if b.next(i, verbs.StatusSuccess); b.mr.Bytes()[i*8] != byte(i) {
				t.Fatalf("message %d: %d", i, b.mr.Bytes()[i*8])
			}
		}
		// What cannot be posted is refused, what stands before it is not.
		sends[3].SGEs = make([]verbs.SGE, 3)
		if n, err := a.qp.PostSend(sends[:10]...); n != 3 || err == nil {
			t.Errorf("%d requests before the one with too many elements: %v", n, err)
		}
		sends[1] = verbs.SendWR{Opcode: verbs.OpRegMR}
		if n, err := a.qp.PostSend(sends[:2]...); n != 1 || !errors.Is(err, verbs.ErrUnsupported) {
			t.Errorf("%d requests before a fast registration: %v", n, err)
		}
	})
}

// A shared receive queue, and its event.
func TestSharedReceiveQueue(t *testing.T) {
	both(t, func(t *testing.T, p verbs.Personality, o Options) {
		a, b := pair(t, p, o, true)
		srq := b.qp.Config().SRQ
		b.recv(verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{b.mr.SGE(0, 64)}},
			verbs.RecvWR{ID: 2, SGEs: []verbs.SGE{b.mr.SGE(64, 64)}})
		if err := srq.SetLimit(2); err != nil {
			t.Fatal(err)
		}
		if attr := must[verbs.SRQAttr](t)(srq.Query()); attr.Limit != 2 || attr.MaxWR < 64 || attr.MaxSGE < 2 {
			t.Errorf("attributes %+v", attr)
		}
		a.send(verbs.SendWR{Flags: verbs.Inline, Inline: []byte("shared")})
		if wc := b.next(1, verbs.StatusSuccess); string(b.mr.Bytes()[:wc.ByteLen]) != "shared" {
			t.Errorf("received %q", b.mr.Bytes()[:wc.ByteLen])
		}
		for ev := (Event{}); ev.Type != al.SRQLimitReached; {
			if ev = must[Event](t)(b.ctx.AsyncEvent(soon(t))); ev.Type == al.SRQLimitReached && ev.SRQ != srq {
				t.Errorf("event of %p, not %p", ev.SRQ, srq)
			}
		}
	})
}

// Windows are bound by their keys, and keys are invalidated by the peer.
func TestWindows(t *testing.T) { over(t, testWindows) }

func testWindows(t *testing.T, p verbs.Personality) {
	a, b := pair(t, p, Options{}, false)
	w := must[*MW](t)(b.pd.AllocMW(verbs.MWType2B))
	rkey := must[uint32](t)(b.qp.BindMW(1, verbs.Signaled, Bind{MW: w, MR: b.mr, Addr: b.mr.Addr() + 4096, Length: 100,
		Access: verbs.RemoteWrite}))
	if wc := b.next(1, verbs.StatusSuccess); wc.Opcode != verbs.WCBindMW || rkey != w.RKey() {
		t.Errorf("%v, keys %#x %#x", wc.Opcode, rkey, w.RKey())
	}
	b.recv(verbs.RecvWR{ID: 2})
	copy(a.mr.Bytes(), "through a window")
	a.send(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: []verbs.SGE{a.mr.SGE(0, 16)}, RKey: rkey,
		RemoteAddr: b.mr.Addr() + 4096},
		verbs.SendWR{Opcode: verbs.OpSendInv, Invalidate: rkey})
	if wc := b.next(2, verbs.StatusSuccess); !wc.WithInv || wc.Invalidated != rkey || !bytes.HasPrefix(b.mr.Bytes()[4096:],
		[]byte("through a window")) {
		t.Errorf("%+v, memory %q", wc.WC, b.mr.Bytes()[4096:4112])
	}
	a.send(verbs.SendWR{ID: 3, Opcode: verbs.OpRead, SGEs: []verbs.SGE{a.mr.SGE(0, 16)}, RKey: rkey,
		RemoteAddr: b.mr.Addr() + 4096})
	a.next(3, verbs.StatusRemoteAccess)
	if err := w.Dealloc(); err != nil {
		t.Error(err)
	}
}
