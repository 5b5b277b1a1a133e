package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// counters is a region of the server for atomic operations.
func (x *pair) counters(t testing.TB, n int) ([]byte, *verbs.MR) {
	t.Helper()
	mem := make([]byte, n)
	mr, err := x.s.pd.RegMR(mem, verbs.LocalWrite|verbs.RemoteAtomic|verbs.RemoteRead|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	return mem, mr
}

func word(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

// bad makes every path lose, repeat (by retransmission) and reorder packets.
func (x *pair) bad(seed uint64, perMille int) {
	r := rand.New(rand.NewPCG(seed, 11))
	for _, n := range []*node{x.a, x.b} {
		n.out.drop = func(int, *frame.Frame) bool { return r.IntN(1000) < perMille }
		n.out.jitter = func() time.Duration { return time.Duration(r.IntN(3)) * 40 * time.Microsecond }
	}
}

func TestAtomicOperationsOfVerbs(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 4096)
	mem, mr := x.counters(t, 64)
	binary.NativeEndian.PutUint64(mem[8:], 100)
	type wr = verbs.SendWR
	for i, c := range []struct {
		op          verbs.Opcode
		v           verbs.Operands
		found, left uint64
		wc          verbs.WCOpcode
	}{
		{verbs.OpFetchAdd, verbs.Operands{CompareAdd: 11}, 100, 111, verbs.WCFetchAdd},
		{verbs.OpFetchAdd, verbs.Operands{CompareAdd: ^uint64(0)}, 111, 110, verbs.WCFetchAdd},
		{verbs.OpCompSwap, verbs.Operands{CompareAdd: 110, Swap: 5}, 110, 5, verbs.WCCompSwap},
		{verbs.OpCompSwap, verbs.Operands{CompareAdd: 110, Swap: 6}, 5, 5, verbs.WCCompSwap},
		{verbs.OpSwap, verbs.Operands{Swap: 0xff00ff}, 5, 0xff00ff, verbs.WCSwap},
		{verbs.OpMaskedCompSwap, verbs.Operands{CompareAdd: 0xff, CompareAddMask: 0xff, Swap: 0x1200, SwapMask: 0xff00},
			0xff00ff, 0xff12ff, verbs.WCMaskedCompSwap},
		{verbs.OpMaskedFetchAdd, verbs.Operands{CompareAdd: 0x0101, CompareAddMask: 0x8080}, 0xff12ff, 0xff1300, verbs.WCMaskedFetchAdd},
	} {
		x.c.wcs = nil
		x.c.post(t, wr{ID: uint64(i), Opcode: c.op, Flags: verbs.Signaled, Atomic: c.v, SGEs: x.c.sge(16, 8),
			RemoteAddr: mr.Addr() + 8, RKey: mr.RKey()})
		x.must(c.op.String(), func() bool { return len(x.c.poll()) == 1 })
		if wc := x.c.wcs[0]; wc.Status != verbs.StatusSuccess || wc.Opcode != c.wc || wc.ByteLen != 8 {
			t.Errorf("%v: %s", c.op, wcString(x.c.wcs))
		}
		if got := word(x.c.mem[16:]); got != c.found || word(mem[8:]) != c.left {
			t.Errorf("%v: found %#x, left %#x", c.op, got, word(mem[8:]))
		}
	}
	if !bytes.Equal(mem[:8], make([]byte, 8)) || !bytes.Equal(mem[16:], make([]byte, 48)) {
		t.Error("octets beside the value were touched")
	}
	if n := x.a.e.Totals(); n.TxMessages[rdmap.AtomicRequestOp] != 7 || n.RxMessages[rdmap.AtomicResponseOp] != 7 {
		t.Errorf("totals %+v", n)
	}
}

// TestAtomicsHappenOnce counts over bad cables, from both ends: each operation
// is done exactly once, and each finds what the one before has left.
func TestAtomicsHappenOnce(t *testing.T) {
	for seed := range uint64(20) {
		x := connect(t, toe.Config{}, Config{IRD: 4, ORD: 4}, 64<<10)
		mem, mr := x.counters(t, 64)
		x.bad(seed, 80)
		const n = 60
		for i := range uint64(n) {
			x.c.post(t, verbs.SendWR{ID: i, Opcode: verbs.OpFetchAdd, Flags: verbs.Signaled, Atomic: verbs.Operands{CompareAdd: 1},
				SGEs: x.c.sge(8*int(i), 8), RemoteAddr: mr.Addr(), RKey: mr.RKey()})
			if i%3 == 0 { // Reads take slots too
				x.c.post(t, verbs.SendWR{ID: i, Opcode: verbs.OpRead, SGEs: x.c.sge(8192, 3000), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
			}
		}
		most := 0
		x.must("all", func() bool {
			if c := endpointOf(x.c.qp).conn; c != nil {
				most = max(most, c.stream.Reads())
			}
			return len(x.c.poll()) == n
		})
		for i, wc := range x.c.wcs {
			if wc.ID != uint64(i) || wc.Status != verbs.StatusSuccess || word(x.c.mem[8*i:]) != uint64(i) {
				t.Fatalf("seed %d, %d found %d: %s", seed, i, word(x.c.mem[8*i:]), wcString(x.c.wcs[i:i+1]))
			}
		}
		if word(mem) != n || most != 4 {
			t.Fatalf("seed %d: left %d, %d at a time", seed, word(mem), most)
		}
	}
}

func TestAtomicErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		target func(x *pair, mr *verbs.MR) (key uint32, addr uint64)
		want   rdmap.Error
		status verbs.Status
		event  verbs.EventType
	}{
		{"unknown STag", func(x *pair, mr *verbs.MR) (uint32, uint64) { return mr.RKey() ^ 0x100, mr.Addr() },
			rdmap.Error{Type: 1, Code: 0}, verbs.StatusRemoteAccess, verbs.EventQPAccessError},
		{"no right", func(x *pair, mr *verbs.MR) (uint32, uint64) { return x.s.mr.RKey(), x.s.mr.Addr() },
			rdmap.Error{Type: 1, Code: 2}, verbs.StatusRemoteAccess, verbs.EventQPAccessError},
		{"out of bounds", func(x *pair, mr *verbs.MR) (uint32, uint64) { return mr.RKey(), mr.Addr() + 64 },
			rdmap.Error{Type: 1, Code: 1}, verbs.StatusRemoteAccess, verbs.EventQPAccessError},
		{"not aligned", func(x *pair, mr *verbs.MR) (uint32, uint64) { return mr.RKey(), mr.Addr() + 4 },
			rdmap.Error{Type: 2, Code: 7}, verbs.StatusRemoteOperation, verbs.EventQPRequestError},
		{"other PD", func(x *pair, mr *verbs.MR) (uint32, uint64) {
			pd, _ := x.b.dev.AllocPD()
			other, _ := pd.RegMR(make([]byte, 64), verbs.LocalWrite|verbs.RemoteAtomic)
			return other.RKey(), other.Addr()
		}, rdmap.Error{Type: 1, Code: 3}, verbs.StatusRemoteAccess, verbs.EventQPAccessError},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := connect(t, toe.Config{}, Config{}, 4096)
			mem, mr := x.counters(t, 64)
			key, addr := c.target(x, mr)
			good := verbs.SendWR{ID: 1, Opcode: verbs.OpFetchAdd, Atomic: verbs.Operands{CompareAdd: 1}, SGEs: x.c.sge(0, 8), RKey: mr.RKey(), RemoteAddr: mr.Addr()}
			bad := good
			bad.ID, bad.RKey, bad.RemoteAddr = 2, key, addr
			x.c.post(t, good)
			x.c.post(t, bad)
			good.ID = 3
			x.c.post(t, good)
			x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
			if got := remoteErr(x.a); got == nil || !errors.Is(got, &c.want) {
				t.Errorf("Terminate %v", got)
			}
			if len(x.b.async) != 1 || x.b.async[0].Type != c.event || !errors.Is(x.b.async[0].Err, &c.want) {
				t.Errorf("server's events %v", x.b.async)
			}
			// The first may be answered before the error, or flushed with it.
			wcs := x.c.poll()
			if len(wcs) > 1 && wcs[0].ID == 1 {
				wcs = wcs[1:]
			}
			if len(wcs) != 2 || wcs[0].ID != 2 || wcs[0].Status != c.status || wcs[1].Status != verbs.StatusFlushed {
				t.Errorf("completions %s", wcString(x.c.wcs))
			}
			if word(mem) != 1 || !bytes.Equal(mem[8:], make([]byte, 56)) {
				t.Errorf("memory %x", mem)
			}
		})
	}
}

// Write with immediate: one completion here, one there, in order behind the
// data, whatever becomes of the packets.
func TestWriteWithImmediate(t *testing.T) {
	for seed := range uint64(12) {
		x := connect(t, toe.Config{MaxSegs: []int{1, 8}[seed%2]}, Config{}, 256<<10)
		fill(x.c.mem, int(seed))
		x.bad(seed, int(seed)*8)
		const n = 30
		size := func(i int) int { return []int{0, 1, 8, 3000, 4096, 4097, 20000}[i%7] }
		for i := range n {
			x.s.recv(t, verbs.RecvWR{ID: uint64(i)})
			wr := verbs.SendWR{ID: uint64(i), Opcode: verbs.OpWriteImm, Flags: verbs.Signaled, SGEs: x.c.sge(i*1000, size(i)), Imm: 1<<63 + uint64(i),
				RemoteAddr: x.s.mr.Addr() + uint64(i*5000), RKey: x.s.mr.RKey()}
			if i%5 == 4 {
				wr = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSendImm, Flags: verbs.Signaled | verbs.Solicited, Imm: uint64(i)}
			}
			x.c.post(t, wr)
		}
		seen := 0
		x.must("completions", func() bool {
			for _, wc := range x.s.poll()[seen:] {
				i := seen
				seen++
				want := verbs.WC{ID: uint64(i), QP: x.s.qp, Opcode: verbs.WCRecvWrite, WithImm: true, Imm: 1<<63 + uint64(i), ByteLen: uint32(size(i))}
				if i%5 == 4 {
					want = verbs.WC{ID: uint64(i), QP: x.s.qp, Opcode: verbs.WCRecv, WithImm: true, Imm: uint64(i), Solicited: true}
				}
				if wc != want {
					t.Fatalf("receive %d: %+v", i, wc)
				}
				if at := i * 5000; i%5 != 4 && size(i) <= 5000 && !bytes.Equal(x.s.mem[at:at+size(i)], x.c.mem[i*1000:i*1000+size(i)]) && i+1 < n && size(max(0, i-1)) <= 5000 {
					t.Fatalf("receive %d before its data", i)
				}
			}
			return len(x.c.poll()) == n && seen == n
		})
		for i, wc := range x.c.wcs {
			op, length := verbs.WCWrite, uint32(size(i))
			if i%5 == 4 {
				op, length = verbs.WCSend, 0
			}
			if wc.ID != uint64(i) || wc.Status != verbs.StatusSuccess || wc.Opcode != op || wc.ByteLen != length {
				t.Fatalf("completion %d: %s", i, wcString(x.c.wcs[i:i+1]))
			}
		}
	}
}

// Immediate Data without a receive ends the stream; the Write in front of it
// is in place.
func TestImmediateWithoutReceive(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 4096)
	fill(x.c.mem, 3)
	x.c.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWriteImm, Flags: verbs.Signaled, SGEs: x.c.sge(0, 100), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
	x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	want := rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: 2}
	if got := remoteErr(x.a); got == nil || !errors.Is(got, &want) {
		t.Errorf("Terminate %v", got)
	}
	if !bytes.Equal(x.s.mem[:100], x.c.mem[:100]) {
		t.Error("the Write is not in place")
	}
}
