package ring

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// words builds an element as a C program would, from its 32-bit words.
func words(n int, at map[int]uint32) []byte {
	b := make([]byte, n)
	for off, v := range at {
		host.PutUint32(b[off:], v)
	}
	return b
}

// The offsets are those of struct rxe_send_wqe, rxe_recv_wqe and ib_uverbs_wc,
// written out here as numbers.
func TestElements(t *testing.T) {
	f := newFixture(t)
	f.post(verbs.SendWR{ID: 0x1122334455667788, Opcode: verbs.OpWriteImm, Flags: verbs.Signaled | verbs.Solicited | verbs.Fence,
		SGEs:       []verbs.SGE{{Addr: 0xa1a2a3a4a5a6a7a8, Length: 7, LKey: 0xb1}, {Addr: 1, Length: 2, LKey: 3}},
		RemoteAddr: 0xc1c2c3c4c5c6c7c8, RKey: 0xd1d2d3d4, Imm: 0x01020304})
	want := words(240, map[int]uint32{0: 0x55667788, 4: 0x11223344, 8: 2, 12: 1, 16: 7, 24: 0xc5c6c7c8, 28: 0xc1c2c3c4, 32: 0xd1d2d3d4,
		152: 0xc5c6c7c8, 156: 0xc1c2c3c4, 184: 9, 188: 9, 196: 2, 208: 0xa5a6a7a8, 212: 0xa1a2a3a4, 216: 7, 220: 0xb1, 224: 1, 232: 2, 236: 3})
	copy(want[20:], []byte{1, 2, 3, 4})
	if got := f.sq.ring.elem(0)[:240]; !bytes.Equal(got, want) {
		t.Errorf("send request\n%s, want\n%s", hex.Dump(got), hex.Dump(want))
	}
	f.post(verbs.SendWR{ID: 1, Opcode: verbs.OpCompSwap, SGEs: []verbs.SGE{{Addr: 1, Length: 8, LKey: 3}},
		RemoteAddr: 8, RKey: 9, Atomic: verbs.Operands{CompareAdd: 0x1_0000_0002, Swap: 0x3_0000_0004}})
	want = words(224, map[int]uint32{0: 1, 8: 1, 12: 5, 24: 8, 32: 2, 36: 1, 40: 4, 44: 3, 48: 9, 152: 8, 184: 8, 188: 8, 196: 1, 208: 1, 216: 8, 220: 3})
	if got := f.sq.ring.elem(1)[:224]; !bytes.Equal(got, want) {
		t.Errorf("atomic\n%s, want\n%s", hex.Dump(got), hex.Dump(want))
	}
	if err := f.recv.Post(&verbs.RecvWR{ID: 5, SGEs: []verbs.SGE{{Addr: 6, Length: 7, LKey: 8}, {Addr: 9, Length: 10, LKey: 11}}}); err != nil {
		t.Fatal(err)
	}
	want = words(72, map[int]uint32{0: 5, 8: 2, 16: 17, 20: 17, 28: 2, 40: 6, 48: 7, 52: 8, 56: 9, 64: 10, 68: 11})
	if got := f.rq.ring.elem(0)[:72]; !bytes.Equal(got, want) {
		t.Errorf("receive request\n%s, want\n%s", hex.Dump(got), hex.Dump(want))
	}
	f.comp.Push(&verbs.WC{ID: 0x1_0000_0002, QP: f.qp, ByteLen: 3, Status: 4, Opcode: verbs.WCRecvWrite, WithImm: true, Imm: 0x05060708})
	want = words(64, map[int]uint32{0: 2, 4: 1, 8: 4, 12: 129, 20: 3, 28: f.qp.Num(), 36: 2})
	copy(want[24:], []byte{5, 6, 7, 8})
	want[46] = 1
	if got := f.comp.ring.elem(0); !bytes.Equal(got, want) {
		t.Errorf("completion\n%s, want\n%s", hex.Dump(got), hex.Dump(want))
	}
	mem := f.comp.piece.mem
	if host.Uint32(mem[0:]) != 6 || host.Uint32(mem[4:]) != 63 || host.Uint32(mem[128:]) != 1 || host.Uint32(mem[256:]) != 0 {
		t.Errorf("header %x %x", mem[:8], mem[128:260])
	}
}

func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		l         layout
		elem, cap int
	}{
		{sendLayout(1, 1, 0), 256, 3}, {sendLayout(16, 6, 256), 512, 31}, {sendLayout(14, 3, 48), 256, 15},
		{sendLayout(15, 3, 49), 512, 31}, {recvLayout(30, 1), 64, 31}, {recvLayout(31, 2), 128, 63}, {cqLayout(100), 64, 127},
	} {
		if c.l.cap() != c.cap || 1<<c.l.log2Size != c.elem || c.l.size() != 384+(c.cap+1)*c.elem {
			t.Errorf("%+v: %d elements of %d octets, want %d of %d", c.l, c.l.cap(), 1<<c.l.log2Size, c.cap, c.elem)
		}
	}
}

// Everything that a program can post arrives as it was, from memory and
// inline.
func TestSendRequests(t *testing.T) {
	f := newFixture(t)
	wrs := []verbs.SendWR{
		{ID: 1, Opcode: verbs.OpSend, Flags: verbs.Signaled | verbs.Solicited, SGEs: []verbs.SGE{f.sge(0, 4), f.sge(100, 5), f.sge(200, 0)}},
		{ID: 2, Opcode: verbs.OpSend, Flags: verbs.Inline, Inline: []byte("hello")},
		{ID: 3, Opcode: verbs.OpSendInv, Invalidate: 77},
		{ID: 4, Opcode: verbs.OpSendImm, Imm: 0xfffffffe},
		{ID: 5, Opcode: verbs.OpWrite, SGEs: []verbs.SGE{f.sge(0, 4)}, RemoteAddr: 1 << 40, RKey: 9},
		{ID: 6, Opcode: verbs.OpRead, Flags: verbs.Fence, SGEs: []verbs.SGE{f.sge(0, 4)}, RemoteAddr: 1 << 40, RKey: 9},
		{ID: 7, Opcode: verbs.OpFetchAdd, SGEs: []verbs.SGE{f.sge(0, 8)}, RemoteAddr: 8, RKey: 9, Atomic: verbs.Operands{CompareAdd: 5}},
		{ID: 8, Opcode: verbs.OpReadInv, SGEs: []verbs.SGE{f.sge(0, 4)}, RemoteAddr: 8, RKey: 9},
	}
	for _, wr := range wrs[:7] {
		f.post(wr)
	}
	f.doorbell()
	for i, w := range f.work() {
		want := wrs[i]
		if w.ID != want.ID || w.Opcode != want.Opcode || w.Flags != want.Flags || w.RemoteAddr != want.RemoteAddr || w.RKey != want.RKey ||
			w.Invalidate != want.Invalidate || w.Imm != want.Imm || w.Atomic.CompareAdd != want.Atomic.CompareAdd ||
			!slices.Equal(w.SGEs, want.SGEs) && len(want.SGEs) > 0 || !bytes.Equal(w.Inline, want.Inline) {
			t.Errorf("posted %+v, found %+v", want, w.SendWR)
		}
	}
	got := f.completions()
	if len(got) != 1 || got[0] != (Completion{ID: 1, QPN: f.qp.Num(), ByteLen: 9, Opcode: verbs.WCSend}) {
		t.Errorf("%+v", got)
	}
}

// What librxe writes without saying so: inline data without the flag, elements
// of an Immediate Data that are empty, atomics into more than eight octets.
func TestLenient(t *testing.T) {
	f := newFixture(t)
	f.post(verbs.SendWR{ID: 1, Flags: verbs.Inline, Inline: []byte("data")})
	host.PutUint32(f.sq.ring.elem(0)[sendFlags:], 0)
	f.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSendImm, Flags: verbs.Inline})
	f.post(verbs.SendWR{ID: 3, Opcode: verbs.OpSendImm, SGEs: []verbs.SGE{f.sge(0, 0)}})
	f.post(verbs.SendWR{ID: 4, Opcode: verbs.OpFetchAdd, SGEs: []verbs.SGE{f.sge(0, 16)}})
	f.doorbell()
	done := f.work()
	if len(done) != 4 || string(done[0].Inline) != "data" || done[3].Length != 8 || f.qp.State() != verbs.RTS {
		t.Errorf("%+v", done)
	}
}

// More than the send queue holds: the rest follows as others complete, and the
// transport is told.
func TestSendQueueLimit(t *testing.T) {
	f := newFixture(t)
	for i := range f.sq.ring.cap() {
		f.post(verbs.SendWR{ID: uint64(i), Flags: verbs.Signaled})
	}
	if err := f.send.Post(&verbs.SendWR{}); !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("post to a full ring: %v", err)
	}
	f.doorbell()
	if n := f.qp.SendsPending(); n != 15 || f.sq.Len() != 15-fixtureWR {
		t.Errorf("%d pending, %d left in the ring", n, f.sq.Len())
	}
	var begun []uint64
	for w := f.qp.NextSend(); w != nil; w = f.qp.NextSend() {
		begun = append(begun, w.Seq)
		f.qp.BeginSend()
	}
	before := f.tr.posted
	if len(begun) != fixtureWR {
		t.Fatalf("%d begun", len(begun))
	}
	f.qp.FinishSend(begun[0], verbs.StatusSuccess)
	if f.tr.posted == before || f.qp.NextSend() == nil {
		t.Error("room was made and nobody was told")
	}
	for _, seq := range begun[1:] {
		f.qp.FinishSend(seq, verbs.StatusSuccess)
	}
	f.work()
	for i, c := range f.completions() {
		if c.ID != uint64(i) || c.Status != verbs.StatusSuccess {
			t.Errorf("completion %d: %+v", i, c)
		}
	}
	if f.cq.Total() != 15 || f.qp.SendsPending() != 0 {
		t.Errorf("%d completions, %d pending", f.cq.Total(), f.qp.SendsPending())
	}
}

// What was rung for before a graceful close is sent, however many requests the
// queue pair takes at a time; what comes later is not.
func TestGracefulClose(t *testing.T) {
	f := newFixture(t)
	for i := range 12 {
		f.post(verbs.SendWR{ID: uint64(i), Flags: verbs.Signaled})
	}
	f.doorbell()
	if err := f.qp.Modify(verbs.SQD); err != nil {
		t.Fatal(err)
	}
	f.post(verbs.SendWR{ID: 99})
	if err := f.qp.Doorbell(); !errors.Is(err, verbs.ErrState) {
		t.Errorf("doorbell in SQD: %v", err)
	}
	f.work()
	f.dev.Dispatch(0)
	got := f.completions()
	if len(got) != 12 || got[11].ID != 11 || got[11].Status != verbs.StatusSuccess || f.qp.State() != verbs.SQD || f.qp.SendsPending() != 0 {
		t.Errorf("%+v in state %v, %d pending", got, f.qp.State(), f.qp.SendsPending())
	}
}

// A request that cannot be posted ends in its turn, and the queue pair with
// it; what is behind it is flushed.
func TestBadSendRequests(t *testing.T) {
	mw := func(f *fixture, kind verbs.MWKind) uint32 { return must(f.pd.AllocMW(kind))(f.t).RKey() }
	put := func(off int, v uint32) func(*fixture) {
		return func(f *fixture) {
			f.post(verbs.SendWR{ID: 2, SGEs: []verbs.SGE{f.sge(0, 4)}})
			host.PutUint32(f.sq.ring.elem(1)[off:], v)
		}
	}
	bind := func(change func(f *fixture, b *BindKeys)) func(*fixture) {
		return func(f *fixture) {
			k := mw(f, verbs.MWType2B)
			b := BindKeys{RKey: k, NewRKey: k ^ 1, LKey: f.mr.LKey(), Addr: f.mr.Addr(), Length: 100, Access: verbs.RemoteWrite}
			change(f, &b)
			if err := f.send.PostBind(2, 0, b); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name string
		post func(*fixture)
		want verbs.Status
	}{
		{"opcode 10", put(sendOpcode, 10), verbs.StatusLocalQPOp},
		{"opcode 2^32-1", put(sendOpcode, 1<<32-1), verbs.StatusLocalQPOp},
		{"too many elements", put(sendDMASGE, fixtureSGE+1), verbs.StatusLocalQPOp},
		{"2^32-1 elements", put(sendDMASGE, 1<<32-1), verbs.StatusLocalQPOp},
		{"too much inline", func(f *fixture) {
			put(sendFlags, FlagsNumber(verbs.Inline))(f)
			put(sendLength, fixtureInline+1)(f)
			host.PutUint32(f.sq.ring.elem(1)[sendLength:], fixtureInline+1)
		}, verbs.StatusLocalQPOp},
		{"inline Read", func(f *fixture) {
			put(sendFlags, FlagsNumber(verbs.Inline))(f)
			host.PutUint32(f.sq.ring.elem(1)[sendOpcode:], 4)
		}, verbs.StatusLocalQPOp},
		{"atomic of four octets", func(f *fixture) { put(sendOpcode, 5)(f) }, verbs.StatusLocalQPOp},
		{"Immediate Data with payload", put(sendOpcode, 3), verbs.StatusLocalQPOp},
		{"no such STag", func(f *fixture) { f.post(verbs.SendWR{ID: 2, Opcode: verbs.OpLocalInv, Invalidate: 1}) }, verbs.StatusMWBind},
		{"bind of no window", bind(func(f *fixture, b *BindKeys) { b.RKey, b.NewRKey = f.mr.RKey(), f.mr.RKey() }), verbs.StatusMWBind},
		{"bind with another index", bind(func(_ *fixture, b *BindKeys) { b.NewRKey ^= 1 << 8 }), verbs.StatusMWBind},
		{"bind to no region", bind(func(_ *fixture, b *BindKeys) { b.LKey ^= 1 << 30 }), verbs.StatusMWBind},
		{"bind outside of the region", bind(func(_ *fixture, b *BindKeys) { b.Length = 1 << 40 }), verbs.StatusMWBind},
		{"unbind of type 2", bind(func(_ *fixture, b *BindKeys) { b.Length = 0 }), verbs.StatusMWBind},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.post(verbs.SendWR{ID: 1})
			c.post(f)
			f.post(verbs.SendWR{ID: 3})
			f.doorbell()
			if done := f.work(); len(done) != 1 {
				t.Errorf("%d requests reached the transport", len(done))
			}
			f.dev.Dispatch(0)
			got := f.completions()
			if len(got) < 2 || got[0].ID != 2 || got[0].Status != c.want || got[len(got)-1].ID != 3 || got[len(got)-1].Status != verbs.StatusFlushed {
				t.Errorf("%+v", got)
			}
			if f.qp.State() != verbs.Err {
				t.Errorf("state %v", f.qp.State())
			}
		})
	}
}

func TestBind(t *testing.T) {
	for _, kind := range []verbs.MWKind{verbs.MWType1, verbs.MWType2B} {
		f := newFixture(t)
		w := must(f.pd.AllocMW(kind))(t)
		was := w.RKey()
		is := was&^0xff | uint32(uint8(was)+1)
		b := BindKeys{RKey: was, NewRKey: is, LKey: f.mr.LKey(), Addr: f.mr.Addr() + 8, Length: 100, Access: verbs.RemoteWrite}
		if err := f.send.PostBind(1, verbs.Signaled, b); err != nil {
			t.Fatal(err)
		}
		f.doorbell()
		f.work()
		if r := f.dev.Lookup(is); w.RKey() != is || w.Bound() != f.mr || r == nil || r.Addr() != b.Addr || r.Len() != 100 || r.Access() != verbs.RemoteWrite {
			t.Errorf("type %v: STag %#x, want %#x, %+v", kind, w.RKey(), is, r)
		}
		f.post(verbs.SendWR{ID: 2, Opcode: verbs.OpLocalInv, Flags: verbs.Inline, Invalidate: is})
		if kind == verbs.MWType1 {
			if err := f.send.PostBind(2, 0, BindKeys{RKey: is, NewRKey: is + 1}); err != nil {
				t.Fatal(err)
			}
			host.PutUint32(f.sq.ring.elem(1)[sendOpcode:], 2) // type 1 cannot be invalidated
		}
		f.doorbell()
		f.work()
		if w.Bound() != nil {
			t.Errorf("type %v is still bound", kind)
		}
		if got := f.completions(); len(got) != 1 || got[0].Opcode != verbs.WCBindMW {
			t.Errorf("%+v", got)
		}
	}
}

func TestReceives(t *testing.T) {
	f := newFixture(t)
	if w, _ := f.qp.NextRecv(); w != nil {
		t.Fatal("a receive out of nothing")
	}
	for i := range 3 {
		if err := f.recv.Post(&verbs.RecvWR{ID: uint64(i), SGEs: []verbs.SGE{f.sge(i*100, 10), f.sge(i*100+50, 10)}}); err != nil {
			t.Fatal(err)
		}
	}
	host.PutUint32(f.rq.ring.elem(1)[recvDMASGE:], fixtureSGE+1)
	if _, err := f.qp.PostRecv(verbs.RecvWR{ID: 9}); err != nil { // one that comes as a command
		t.Fatal(err)
	}
	if f.qp.RecvsPending() != 4 {
		t.Errorf("%d pending", f.qp.RecvsPending())
	}
	want := []Completion{
		{ID: 9, Opcode: verbs.WCRecv}, {ID: 0, Opcode: verbs.WCRecv, ByteLen: 12, WithInv: true, Invalidated: 7},
		{ID: 1, Opcode: verbs.WCRecv, Status: verbs.StatusLocalQPOp}, {ID: 2, Opcode: verbs.WCRecv, Status: verbs.StatusFlushed},
	}
	for i := range want {
		want[i].QPN = f.qp.Num()
	}
	if w, _ := f.qp.NextRecv(); w.ID != 9 {
		t.Fatalf("receive %d first", w.ID)
	}
	f.qp.FinishRecv(verbs.RecvDone{})
	w, fault := f.qp.NextRecv()
	if fault != verbs.FaultNone || w.Length != 20 || w.Place([]byte("abcdefghijkl"), 0) != nil {
		t.Fatalf("%+v, %v", w, fault)
	}
	if again, _ := f.qp.NextRecv(); again != w || f.qp.CurrentRecv() != w {
		t.Error("the request in hand changed")
	}
	f.qp.FinishRecv(verbs.RecvDone{ByteLen: 12, WithInv: true, Invalidated: 7})
	mem := f.mr.Memory().(verbs.Bytes)
	if string(mem[:10]) != "abcdefghij" || string(mem[50:52]) != "kl" {
		t.Errorf("placed %q %q", mem[:10], mem[50:52])
	}
	if w, fault := f.qp.NextRecv(); w == nil || fault != verbs.FaultMalformed {
		t.Errorf("too many elements: %v", fault)
	}
	f.qp.FinishRecv(verbs.RecvDone{Status: verbs.StatusLocalProtection})
	if err := f.qp.Modify(verbs.Err); err != nil {
		t.Fatal(err)
	}
	if got := f.completions(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// In state Err a doorbell flushes both queues, also what came without one.
func TestFlush(t *testing.T) {
	f := newFixture(t)
	f.post(verbs.SendWR{ID: 1})
	if err := f.recv.Post(&verbs.RecvWR{ID: 2}); err != nil {
		t.Fatal(err)
	}
	f.qp.Transition(verbs.Err)
	f.post(verbs.SendWR{ID: 3})
	host.PutUint32(f.sq.ring.elem(1)[sendOpcode:], 99)
	if err := f.recv.Post(&verbs.RecvWR{ID: 4}); err != nil {
		t.Fatal(err)
	}
	f.doorbell()
	var ids []uint64
	for _, c := range f.completions() {
		ids = append(ids, c.ID)
		if c.Status != verbs.StatusFlushed {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(ids, []uint64{1, 2, 3, 4}) {
		t.Errorf("completed %v", ids)
	}
	if err := f.qp.Modify(verbs.Reset); err != nil {
		t.Fatal(err)
	}
	f.post(verbs.SendWR{ID: 5})
	if err := f.qp.Doorbell(); !errors.Is(err, verbs.ErrState) || f.sq.Len() != 1 {
		t.Errorf("doorbell in Reset: %v, %d wait", err, f.sq.Len())
	}
}

// A CQ that overflows fails; one that has room notifies.
func TestCompletionQueue(t *testing.T) {
	f := newFixture(t)
	notified := 0
	f.cq.SetHandler(func(*verbs.CQ, frame.Time) { notified++ })
	if f.cq.Cap() != 63 || f.cq.ReqNotify(true) {
		t.Errorf("capacity %d", f.cq.Cap())
	}
	recv := func(n int, solicited bool) {
		for range n {
			if err := f.recv.Post(&verbs.RecvWR{}); err != nil {
				t.Fatal(err)
			}
			f.qp.NextRecv()
			f.qp.FinishRecv(verbs.RecvDone{Solicited: solicited})
		}
		f.dev.Dispatch(0)
	}
	recv(3, false)
	if recv(1, true); notified != 1 || f.cq.Len() != 4 || !f.cq.ReqNotify(false) {
		t.Errorf("%d notifications, %d wait", notified, f.cq.Len())
	}
	if n := f.poll.Poll(make([]Completion, 2)); n != 2 || f.cq.Free() != 61 {
		t.Errorf("%d polled, room for %d", n, f.cq.Free())
	}
	if recv(61, false); notified != 2 || f.cq.Failed() {
		t.Errorf("%d notifications, failed %v", notified, f.cq.Failed())
	}
	if recv(1, false); !f.cq.Failed() || f.qp.State() != verbs.Err || f.dev.Raised(verbs.EventCQError) != 1 {
		t.Errorf("overflow: failed %v, QP %v", f.cq.Failed(), f.qp.State())
	}
	if n := len(f.completions()); n != 63 {
		t.Errorf("%d completions left", n)
	}
}

func TestResize(t *testing.T) {
	f := newFixture(t)
	for i := range 20 {
		f.comp.Push(&verbs.WC{ID: uint64(i), QP: f.qp})
	}
	f.poll.Poll(make([]Completion, 5))
	if err := f.cq.Resize(10); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("15 completions in 10: %v", err)
	}
	was := f.comp.Offset()
	if err := f.cq.Resize(500); err != nil || f.cq.Cap() != 511 || f.comp.Offset() == was {
		t.Fatalf("%v, capacity %d at %d", err, f.cq.Cap(), f.comp.Offset())
	}
	f.comp.Push(&verbs.WC{ID: 20, QP: f.qp})
	f.poll = must(OpenCompletionQueue(f.mapped(&f.comp.queue)))(t)
	got := f.completions()
	if len(got) != 16 || got[0].ID != 5 || got[15].ID != 20 {
		t.Errorf("%+v", got)
	}
}

func TestSRQ(t *testing.T) {
	f := newFixture(t)
	srq := must(f.pd.CreateSRQ(10, 2))(t)
	rq := must(f.arena.NewRecvQueue(10, 2))(t)
	srq.SetRecvSource(rq)
	recv := must(OpenRecvQueue(f.mapped(&rq.queue), 2))(t)
	for i := range 6 {
		if err := recv.Post(&verbs.RecvWR{ID: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := srq.SetLimit(5); err != nil || srq.Len() != 6 {
		t.Fatal(err, srq.Len())
	}
	qp := must(f.pd.CreateQP(verbs.QPConfig{SendCQ: f.cq, RecvCQ: f.cq, SRQ: srq}))(t)
	take := func(want uint64) {
		t.Helper()
		if w, _ := qp.NextRecv(); w == nil || w.ID != want {
			t.Errorf("%+v, want %d", w, want)
		}
		qp.FinishRecv(verbs.RecvDone{})
	}
	if take(0); f.dev.Raised(verbs.EventSRQLimit) != 0 {
		t.Error("five are left, and the limit was said to be reached")
	}
	if take(1); f.dev.Raised(verbs.EventSRQLimit) != 1 {
		t.Error("four are left, and the limit was not said to be reached")
	}
	if err := srq.Resize(3); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("four in three: %v", err)
	}
	if err := srq.Resize(100); err != nil || srq.Query().MaxWR != 100 || rq.ring.cap() != 127 {
		t.Errorf("%v, %+v", err, srq.Query())
	}
	recv = must(OpenRecvQueue(f.mapped(&rq.queue), 2))(t)
	if err := recv.Post(&verbs.RecvWR{ID: 6}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		take(uint64(i + 2))
	}
	if w, _ := qp.NextRecv(); w != nil {
		t.Errorf("a receive out of nothing: %+v", w)
	}
}

func TestArena(t *testing.T) {
	a := must(NewArena())(t)
	file := must(a.Program())(t)
	defer unix.Close(file)
	if n, err := unix.Write(file, []byte("command")); !errors.Is(err, unix.EPERM) {
		t.Errorf("write that nobody served: %d, %v", n, err)
	}
	if err := unix.Ftruncate(file, 4096); !errors.Is(err, unix.EPERM) {
		t.Errorf("truncate: %v", err)
	}
	q := must(a.NewCompletionQueue(1000))(t)
	first := q.Offset()
	q.Push(&verbs.WC{ID: 1})
	var st unix.Stat_t
	if err := unix.Fstat(a.FD(), &st); err != nil || st.Blocks == 0 || st.Blocks > 64 {
		t.Errorf("%d blocks in use, %v", st.Blocks, err)
	}
	q.Free()
	q.Push(&verbs.WC{ID: 2}) // too late, and nothing happens
	if err := unix.Fstat(a.FD(), &st); err != nil || st.Blocks != 0 {
		t.Errorf("%d blocks in use, %v", st.Blocks, err)
	}
	if again := must(a.NewCompletionQueue(1000))(t); again.Offset() != first || again.Len() != 0 {
		t.Errorf("at %d, %d completions", again.Offset(), again.Len())
	}
	if other := must(a.NewRecvQueue(1, 1))(t); other.Offset() == first || other.Offset()%uint64(a.page) != 0 {
		t.Errorf("at %d", other.Offset())
	}
	a.used = a.size - 4096
	if _, err := a.NewSendQueue(nil, 100, 1, 0); !errors.Is(err, errArenaFull) {
		t.Errorf("no room: %v", err)
	}
	before := mappings(t)
	a.Close()
	if n := mappings(t); n >= before {
		t.Errorf("%d mappings, %d before", n, before)
	}
}

// However many rings a program has, the NIC's process has few mappings, of which
// the kernel gives it so many only; those of one length in the place of another
// come later than those given back.
func TestManyRings(t *testing.T) {
	a := must(NewArena())(t)
	defer a.Close()
	before := mappings(t)
	var list []*CompletionQueue
	for i := range 1000 {
		q := must(a.NewCompletionQueue(1 + i%100))(t)
		q.Push(&verbs.WC{ID: uint64(i)})
		list = append(list, q)
	}
	if n := mappings(t) - before; n != 1 {
		t.Errorf("%d mappings", n)
	}
	for i, q := range list {
		var b [cqeLen]byte
		if q.Len() != 1 || !q.Fetch(b[:]) || host.Uint64(b[cqeID:]) != uint64(i) {
			t.Fatalf("ring %d holds % x", i, b)
		}
	}
	a.used = chunkSize - uint64(a.page)
	over := must(a.NewCompletionQueue(1000))(t)
	if n := mappings(t) - before; over.Offset() != chunkSize || n != 2 {
		t.Errorf("behind the first chunk: at %#x, %d mappings", over.Offset(), n)
	}
	over.Push(&verbs.WC{ID: 1})
	if _, err := a.NewCompletionQueue(1 << 26); !errors.Is(err, verbs.ErrLimit) {
		t.Errorf("larger than a chunk: %v", err)
	}
}

// mappings counts this process's mappings of arenas.
func mappings(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(os.Getpid()), "maps"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("tapir-rings"))
}

func TestOpenRefuses(t *testing.T) {
	good := make([]byte, cqLayout(30).size())
	cqLayout(30).format(good)
	for _, c := range []struct {
		name  string
		spoil func([]byte) []byte
	}{
		{"too short for a header", func(b []byte) []byte { return b[:383] }},
		{"too short", func(b []byte) []byte { return b[:len(b)-1] }},
		{"elements too short", func(b []byte) []byte { b[0] = 5; return b }},
		{"huge elements", func(b []byte) []byte { b[0] = 63; return b }},
		{"mask", func(b []byte) []byte { b[4] = 30; return b }},
		{"no elements", func(b []byte) []byte { b[4] = 0; return b }},
	} {
		if _, err := OpenCompletionQueue(c.spoil(slices.Clone(good))); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := OpenCompletionQueue(good); err != nil {
		t.Error(err)
	}
}
