package toe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tapir/nic/toe/recovery"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// audit recomputes what a connection keeps as running sums.
func audit(c *Conn) error {
	if c.gone {
		return nil
	}
	var sums recovery.Sums
	off, first := c.snd.Una(), -1
	for i := range c.snd.Segs() {
		s := c.snd.Seg(i)
		if s.N == 0 || i > 0 && s.Off != off || s.Off > off {
			return fmt.Errorf("segment %d at %d+%d, expected %d", i, s.Off, s.N, off)
		}
		off = s.End()
		switch {
		case s.Flags&recovery.Sacked != 0:
			sums.Sacked += uint64(s.N)
			sums.SackedSegs++
			if s.Flags&recovery.Lost != 0 {
				return fmt.Errorf("segment %d is both SACKed and lost", i)
			}
		case s.Flags&recovery.Lost != 0:
			if sums.Lost += uint64(s.N); first < 0 {
				first = i
			}
		case s.Flags&recovery.Resent != 0:
			sums.ResentSegs++
		}
	}
	if off != c.snd.Nxt() {
		return fmt.Errorf("segments end at %d, nxt %d, una %d", off, c.snd.Nxt(), c.snd.Una())
	}
	if sums != c.snd.Sums {
		return fmt.Errorf("sums %+v, counted %+v", c.snd.Sums, sums)
	}
	if first >= 0 && c.snd.NextLost() != first {
		return fmt.Errorf("segment %d is to be sent next, but %d is lost", c.snd.NextLost(), first)
	}
	if n := c.rcv.Held.Octets(); n > int(c.rcvWindow()) {
		return fmt.Errorf("reassembly holds %d, more than the window", n)
	}
	if c.snd.Segs() > 0 && c.rtoAt == frame.Never {
		return fmt.Errorf("segments are in flight but no timer runs")
	}
	return nil
}

// fuzzSegment turns 8 octets into one segment near the connection's windows.
func (p *rawPeer) fuzzSegment(b []byte, seq, ack int) {
	near := func(v byte) int {
		switch {
		case v < 64:
			return int(v) - 8
		case v < 128:
			return (int(v) - 64) * 700
		case v < 192:
			return 1 << (v % 32)
		}
		return -(1 << (v % 32))
	}
	p.opts = tcp.Options{}
	if b[5]&1 != 0 {
		p.opts.HasTS, p.opts.TSVal, p.opts.TSEcr = true, uint32(int(b[6])<<(b[5]>>4)), uint32(b[7])
	}
	if b[5]&2 != 0 {
		p.opts.NSACK = int(b[5]>>2) & 3
		for i := range p.opts.NSACK {
			left := p.engISN + uint32(ack+near(b[6]+byte(i*17)))
			p.opts.SACK[i] = tcp.SACKBlock{Left: tcp.Seq(left), Right: tcp.Seq(left + uint32(near(b[7])))}
		}
	}
	if b[5]&128 != 0 {
		p.opts.MSS, p.opts.HasWS, p.opts.WS, p.opts.SACKPermitted = uint16(b[6]), true, b[7], b[6]&1 != 0
	}
	p.segment(tcp.Flags(b[0]&0x3f), seq+near(b[1]), ack+near(b[2]), int(b[3])<<(b[3]&7), string(make([]byte, int(b[4])*6)))
}

// FuzzSegment throws segments, time, ICMP and calls at a connection in every
// state, with data in flight both ways.
func FuzzSegment(f *testing.F) {
	f.Add(byte(1), []byte{0x10, 8, 8, 200, 9, 0, 0, 0, 0x18, 40, 9, 200, 9, 2, 20, 70})
	f.Add(byte(4), []byte{0x11, 9, 9, 200, 0, 0, 0, 0, 0x14, 8, 8, 0, 0, 0, 0, 0})
	f.Add(byte(0x81), []byte{0x10, 8, 70, 200, 0, 6, 80, 90, 0xc1, 20, 0, 0, 0, 0, 0, 0, 0x10, 8, 8, 0, 0, 0, 0, 0})
	f.Fuzz(attack)
}

// TestRandomAttacks is what FuzzSegment does, with 3000 seeded inputs.
func TestRandomAttacks(t *testing.T) {
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		ops := make([]byte, 8*(1+rnd.IntN(60)))
		for i := range ops {
			ops[i] = byte(rnd.Uint32())
		}
		attack(t, byte(seed), ops)
	}
}

func attack(t *testing.T, start byte, ops []byte) {
	p, seq, ack := inState(t, reach[int(start&0x7f)%len(reach)].state)
	p.app.total = 1 << 20
	p.app.closeOnFin = start&0x80 != 0
	p.conn.Kick()
	p.poll()
	for n := 0; len(ops) >= 8 && n < 200; n, ops = n+1, ops[8:] {
		b := ops[:8]
		switch {
		case b[0] < 0xc0:
			p.fuzzSegment(b, seq, ack)
		case b[0] < 0xd8:
			p.now = p.now.Add(time.Duration(b[1]) << (b[2] % 32))
		case b[0] < 0xe0:
			p.e.Unreachable(p.local, p.remote, p.engISN+uint32(ack)+uint32(b[1]), b[2]&1 != 0, int(b[3])*8, p.now)
		case b[0] < 0xf0:
			seq, ack = int(p.conn.rcv.Next())+1, int(p.conn.snd.Una())+1
		case b[0] < 0xf4:
			p.conn.Close()
		case b[0] == 0xff:
			p.conn.Abort()
		}
		p.poll()
		for c := range p.e.Conns {
			if err := audit(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for c := range p.e.Conns {
		c.Abort()
	}
	p.wait(p.e.cfg.TimeWait)
	if p.e.Stats().Open != 0 || p.pool.out != 0 || p.e.timers.Len() != 0 {
		t.Fatalf("left: %d connections, %d frames, %d timers", p.e.Stats().Open, p.pool.out, p.e.timers.Len())
	}
}

// TestOutOfOrderFloodIsBounded sends every other octet of the window.
func TestOutOfOrderFloodIsBounded(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.establish(quietApp(0))
	for i := range 20_000 {
		p.in(tcp.ACK, 3+2*i, 1, "x")
		if i%64 == 0 {
			p.poll()
		}
	}
	limit := 2*p.e.cfg.RcvWnd + 4096
	if p.conn.rcv.Held.Memory() > limit || p.pool.out*smallFrame > limit {
		t.Fatalf("%d octets held in %d", p.conn.rcv.Held.Octets(), p.conn.rcv.Held.Memory())
	}
	if p.e.Stats().Drops[drop.Reassembly] == 0 {
		t.Fatal("nothing was refused")
	}
	if err := audit(p.conn); err != nil {
		t.Fatal(err)
	}
}
