package iwarp

import (
	"testing"
	"time"

	"tapir/nic/toe"
	"tapir/nic/verbs"
)

// step lets one batch of packets pass each way.
func (x *pair) step() {
	x.now = x.now.Add(wireDelay)
	x.deliver(x.a, x.b.out)
	x.a.turn(x.now)
	x.deliver(x.b, x.a.out)
	x.b.turn(x.now)
}

// streamer keeps work requests of n octets in flight.
func streamer(t testing.TB, x *pair, op verbs.Opcode, n, depth int) (turn func() int) {
	wr := verbs.SendWR{Opcode: op, Flags: verbs.Signaled, SGEs: x.c.sge(0, n), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()}
	recv := verbs.RecvWR{SGEs: x.s.sge(0, n)}
	var wcs [64]verbs.WC
	inFlight, posted := 0, 0
	return func() int {
		if op == verbs.OpSend {
			posted -= x.s.cq.Poll(wcs[:])
			for ; posted < 2*depth; posted++ {
				x.s.qp.PostRecv(recv)
			}
		}
		for ; inFlight < depth; inFlight++ {
			if _, err := x.c.qp.PostSend(wr); err != nil {
				t.Fatal(err)
			}
		}
		x.step()
		done := x.c.cq.Poll(wcs[:])
		for _, wc := range wcs[:done] {
			if wc.Status != verbs.StatusSuccess {
				t.Fatal(wc.Status)
			}
		}
		inFlight -= done
		return done
	}
}

func TestNoAllocationPerFPDU(t *testing.T) {
	for _, c := range []struct {
		name string
		op   verbs.Opcode
		n    int
	}{
		{"Write 64 KiB", verbs.OpWrite, 64 << 10}, {"Write 8 B", verbs.OpWrite, 8},
		{"Send 4 KiB", verbs.OpSend, 4 << 10}, {"Read 64 KiB", verbs.OpRead, 64 << 10},
	} {
		x := connect(t, toe.Config{}, Config{}, 1<<20)
		turn := streamer(t, x, c.op, c.n, 16)
		for range 400 {
			turn()
		}
		before := x.a.e.Totals()
		allocs := testing.AllocsPerRun(200, func() { turn() })
		after := x.a.e.Totals()
		fpdus := after.TxFPDUs + after.RxFPDUs - before.TxFPDUs - before.RxFPDUs
		if fpdus < 400 {
			t.Fatalf("%s: only %d FPDUs moved", c.name, fpdus)
		}
		if allocs != 0 {
			t.Errorf("%s: %v allocations per turn", c.name, allocs)
		}
	}
}

func TestIdleConnectionIsSmall(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<20)
	turn := streamer(t, x, verbs.OpWrite, 64<<10, 16)
	for range 400 {
		turn()
	}
	x.run(nil)
	c := endpointOf(x.c.qp).conn
	if c.log.len() != 0 || len(c.log.ring) > smallLog || c.retain.cur != nil {
		t.Errorf("log %d of %d, chunk %v", c.log.len(), len(c.log.ring), c.retain.cur)
	}
}

// A large Write must not wait for a delayed acknowledgement.
func TestLargeWriteWaitsForNoTimer(t *testing.T) {
	x := connect(t, toe.Config{DelayedAck: time.Second}, Config{}, 1<<20)
	for range 3 {
		x.c.wcs = nil
		start := x.now
		x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: x.c.sge(0, 1<<20), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
		x.must("write", func() bool { return len(x.c.poll()) == 1 })
		if d := x.now.Sub(start); d > 100*time.Millisecond {
			t.Errorf("took %v", d)
		}
	}
}

func benchmark(b *testing.B, op verbs.Opcode, n, depth, segs int) {
	x := connect(b, toe.Config{MaxSegs: segs}, Config{}, 1<<20)
	turn := streamer(b, x, op, n, depth)
	for range 200 {
		turn()
	}
	b.SetBytes(int64(n))
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		done += turn()
	}
}

func BenchmarkWrite1M(b *testing.B)      { benchmark(b, verbs.OpWrite, 1<<20, 8, 1) }
func BenchmarkWrite1MSuper(b *testing.B) { benchmark(b, verbs.OpWrite, 1<<20, 8, 44) }
func BenchmarkRead1M(b *testing.B)       { benchmark(b, verbs.OpRead, 1<<20, 8, 1) }
func BenchmarkWrite8(b *testing.B)       { benchmark(b, verbs.OpWrite, 8, 64, 1) }
func BenchmarkSend4K(b *testing.B)       { benchmark(b, verbs.OpSend, 4<<10, 32, 1) }
