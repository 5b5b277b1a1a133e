package ptp

import (
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// copier is a lower half that keeps the last messages in fixed memory and
// stamps at once.
type copier struct {
	i     *Instance
	clock Clock
	now   frame.Time
	buf   [16][128]byte
	n     int
	len   [16]int
}

func (c *copier) Send(port int, out Outgoing) {
	if c.n < len(c.buf) {
		c.len[c.n] = copy(c.buf[c.n][:], out.Body)
		c.n++
	}
	if out.ID != 0 {
		c.i.TxStamp(port, out.ID, c.clock.At(c.now), nil, c.now)
	}
}

// TestNoAllocations: once they are set up, a master and a slave exchange
// Sync, Follow_Up, Announce and delay messages without allocating.
func TestNoAllocations(t *testing.T) {
	for _, p := range []Profile{DefaultE2E, DefaultP2P, GPTP} {
		var sides [2]*copier
		for n := range sides {
			cfg := fast(p, n+1, 1)
			cfg.Priority1 = uint8(n + 1)
			c := &copier{clock: ideal(t)}
			var err error
			if c.i, err = New(cfg, c.clock, c); err != nil {
				t.Fatal(err)
			}
			sides[n] = c
		}
		now := frame.Time(0)
		step := func() {
			now += frame.Time(10 * time.Millisecond)
			for range 4 {
				for n, c := range sides {
					c.now = now
					c.i.Poll(now)
					for k := range c.n {
						to := sides[1-n]
						to.i.Receive(0, c.buf[k][:c.len[k]], Meta{Src: transport.Addr{}, Stamp: to.clock.At(now) + 500, Stamped: true, Now: now})
					}
					c.n = 0
				}
			}
		}
		for range 1000 {
			step()
		}
		if !sides[1].i.Locked() {
			t.Fatalf("%v: the slave is %v", p, sides[1].i.State(0))
		}
		before := sides[1].i.Stats(0)
		if allocs := testing.AllocsPerRun(500, step); allocs != 0 {
			t.Errorf("%v: %v allocations for 10 ms", p, allocs)
		}
		after := sides[1].i.Stats(0)
		if after.Rx[msg.FollowUp]-before.Rx[msg.FollowUp] < 30 || after.Rx[msg.Announce]-before.Rx[msg.Announce] < 10 {
			t.Errorf("%v: too little happened: %v", p, after.Rx)
		}
	}
}

// TestDeterminism: the same world sends the same octets at the same times.
func TestDeterminism(t *testing.T) {
	for _, p := range []Profile{DefaultE2E, GPTP, G8275x1} {
		var hashes [2]uint64
		for i := range hashes {
			w, _ := chain(t, p, 2, nil)
			w.run(20 * time.Second)
			if hashes[i] = w.hash; w.frames < 1000 {
				t.Fatalf("%v: %d frames", p, w.frames)
			}
		}
		if hashes[0] != hashes[1] {
			t.Errorf("%v: %#x, then %#x", p, hashes[0], hashes[1])
		}
	}
}

// BenchmarkSync is a Sync with its Follow_Up at a slave, and a Delay_Resp.
func BenchmarkSync(b *testing.B) {
	w, master, slave := pair(b, nil)
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	m := msg.Message{Header: msg.Header{Type: msg.Sync, Source: msg.PortIdentity{Clock: id(1), Port: 1}, LogInterval: -3}}
	buf := make([]byte, 128)
	b.ReportAllocs()
	for b.Loop() {
		m.Sequence++
		m.Timestamp = msg.TimestampOf(epoch + frame.Stamp(w.now))
		slave.Receive(0, m.Append(buf[:0]), Meta{Stamp: epoch + frame.Stamp(w.now) + 500, Stamped: true, Now: w.now})
	}
}
