package toe

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/nic/toe/packet"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

func TestOutOfOrderIsHeldAndReported(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(0)
	p.listen(a)
	p.opts = tcp.Options{SACKPermitted: true}
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	p.opts = tcp.Options{}
	p.in(tcp.ACK, 1, 1, "")
	p.in(tcp.ACK, 3, 1, "cd")
	p.expect("ACK 1 ack 1 sack 3-5")
	p.in(tcp.ACK, 7, 1, "gh")
	p.expect("ACK 1 ack 1 sack 7-9 sack 3-5")
	p.in(tcp.ACK, 4, 1, "def") // joins both sides partly
	p.expect("ACK 1 ack 1 sack 3-9")
	p.in(tcp.ACK, 4, 1, "de") // a duplicate (RFC 2883)
	p.expect("ACK 1 ack 1 sack 4-6 sack 3-9")
	p.in(tcp.ACK, 1, 1, "ab")
	p.expect("ACK 1 ack 9")
	p.in(tcp.ACK, 1, 1, "ab")
	p.expect("ACK 1 ack 9 sack 1-3")
	if a.received != 8 || p.conn.rcv.Held.Octets() != 0 || p.pool.out != 0 {
		t.Fatalf("received %d, held %d, frames %d", a.received, p.conn.rcv.Held.Octets(), p.pool.out)
	}
}

func TestManyRangesInOneBatchAreAllReported(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.listen(quietApp(0))
	p.opts = tcp.Options{SACKPermitted: true}
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	p.opts = tcp.Options{}
	p.in(tcp.ACK, 1, 1, "")
	for i := range 6 {
		p.in(tcp.ACK, 11+10*i, 1, "x")
	}
	p.expect("ACK 1 ack 1 sack 61-62 sack 51-52 sack 41-42 sack 31-32; ACK 1 ack 1 sack 21-22 sack 11-12 sack 61-62 sack 51-52")
}

func TestDuplicateAcksWithoutSACK(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.establish(quietApp(0))
	for range 3 {
		p.in(tcp.ACK, 5, 1, "x")
	}
	p.expect("ACK 1 ack 1; ACK 1 ack 1; ACK 1 ack 1")
}

func TestDelayedAck(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.establish(quietApp(0))
	p.in(tcp.ACK, 1, 1, "a")
	p.expect("")
	if got := p.wait(39 * time.Millisecond); got != "" {
		t.Fatalf("sent %q too early", got)
	}
	if got := p.wait(2 * time.Millisecond); got != "ACK 1 ack 2" {
		t.Fatalf("sent %q", got)
	}
	p.in(pa, 2, 1, "b") // PSH: at once
	p.expect("ACK 1 ack 3")
	p.in(tcp.ACK, 3, 1, "c")
	p.conn.AckNow()
	p.expect("ACK 1 ack 4")
	p.conn.AckNow() // nothing new
	p.expect("")
	full := strings.Repeat("x", 1000)
	p.in(tcp.ACK, 4, 1, full)
	p.expect("")
	p.in(tcp.ACK, 1004, 1, full) // the second full segment
	p.expect("ACK 1 ack 2004")
}

// Several super-frames are acknowledged as one, but not late and no less often
// than each quarter of the window.
func TestStretchedAck(t *testing.T) {
	for _, c := range []struct{ wnd, each int }{{1 << 20, 7}, {256 << 10, 2}, {64 << 10, 1}} {
		p := newRawPeer(t, Config{RcvWnd: c.wnd})
		p.establish(quietApp(0))
		seq, super := 1, strings.Repeat("x", 40_000)
		arrive := func(flags tcp.Flags, data, want string) {
			t.Helper()
			p.in(flags, seq, 1, data)
			seq += len(data)
			if want == "ACK" {
				want = fmt.Sprintf("ACK 1 ack %d", seq)
			}
			p.expect(want)
		}
		for range 3 {
			for range c.each - 1 {
				arrive(tcp.ACK, super, "")
			}
			arrive(tcp.ACK, super, "ACK")
		}
		if c.each == 1 {
			continue
		}
		arrive(pa, super, "ACK")
		arrive(tcp.ACK, super, "")
		if got := p.wait(50*time.Microsecond - 1); got != "" {
			t.Errorf("window %d: sent %q too early", c.wnd, got)
		}
		if got, want := p.wait(1), fmt.Sprintf("ACK 1 ack %d", seq); got != want {
			t.Errorf("window %d: sent %q, want %q", c.wnd, got, want)
		}
		arrive(tcp.ACK, super, "")
		arrive(tcp.ACK, super[:3000], "ACK") // no super-frame
	}
}

func TestDataCarriesTheAck(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(0)
	p.establish(a)
	p.in(pa, 1, 1, "abc")
	a.total = 10
	p.conn.Kick()
	p.expect("PSH,ACK 1 ack 4 len 10")
	if got := p.wait(100 * time.Millisecond); got != "" {
		t.Fatalf("a second acknowledgement: %q", got)
	}
}

func TestZeroWindowIsProbed(t *testing.T) {
	p := newRawPeer(t, Config{Retries: 4})
	a := quietApp(100)
	p.listen(a)
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	p.segment(tcp.ACK, 1, 1, 0, "") // window 0
	p.expect("")
	if got := p.wait(700 * time.Millisecond); got != "ACK 0 ack 1; ACK 0 ack 1" {
		t.Fatalf("probes: %q", got)
	}
	for range 20 { // a peer that answers is never given up
		p.segment(tcp.ACK, 1, 1, 0, "")
		p.wait(30 * time.Second)
	}
	p.segment(tcp.ACK, 1, 1, 200, "")
	p.expect("PSH,ACK 1 ack 1 len 100")
	if a.closed {
		t.Fatal(a.err)
	}
}

func TestSilentZeroWindowPeerIsGivenUp(t *testing.T) {
	p := newRawPeer(t, Config{Retries: 4, MaxRTO: time.Second})
	a := quietApp(100)
	p.listen(a)
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	p.segment(tcp.ACK, 1, 1, 0, "")
	p.wait(time.Minute)
	if !errors.Is(a.err, &Error{Kind: Timeout}) {
		t.Fatalf("error %v", a.err)
	}
}

func TestSmallWindowIsNotFilledSillily(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(3000)
	p.listen(a)
	p.opts = tcp.Options{MSS: 1000}
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	p.opts = tcp.Options{}
	p.segment(tcp.ACK, 1, 1, 1300, "")
	p.expect("ACK 1 ack 1 len 1000")
	p.segment(tcp.ACK, 1, 1001, 300, "") // 300 octets of window: not worth it
	p.expect("")
	if got := p.wait(300 * time.Millisecond); got != "ACK 1001 ack 1 len 300" {
		t.Fatalf("sent %q", got)
	}
}

func TestRetransmissionTimeout(t *testing.T) {
	p := newRawPeer(t, Config{Retries: 3})
	a := quietApp(100)
	p.establish(a)
	p.expect("PSH,ACK 1 ack 1 len 100")
	if got := p.wait(1000 * time.Millisecond); got != "PSH,ACK 1 ack 1 len 100; PSH,ACK 1 ack 1 len 100" {
		t.Fatalf("sent %q", got)
	}
	if i := p.conn.Info(); i.Timeouts != 2 || i.Retransmits != 2 || i.Cwnd != uint64(i.MSS) {
		t.Fatalf("%+v", i)
	}
	p.e.Unreachable(p.local, p.remote, p.engISN+1, true, 0, p.now)
	p.wait(time.Minute)
	if !errors.Is(a.err, &Error{Kind: Unreachable}) {
		t.Fatalf("error %v", a.err)
	}
	if got := a.err.Error(); strings.Contains(got, "\n") || !strings.Contains(got, "10.0.0.2:9999") {
		t.Fatalf("message %q", got)
	}
}

// TestFastRetransmit loses the second of ten segments, with and without SACK.
func TestFastRetransmit(t *testing.T) {
	for _, sack := range []bool{false, true} {
		w := newWorld(t, 1, Config{}, Config{}, faults{delay: time.Millisecond}, false)
		a, b := newApp(10*1448, 1), newApp(0, 2)
		w.connect(a, b)
		lost, sent := false, 0
		w.block = func(from *node, th *tcp.Header, data []byte) bool {
			if th.Flags.Has(tcp.SYN) && !sack {
				th.Opts.SACKPermitted = false
			}
			if from == w.a && len(data) > 0 {
				sent++
				if sent == 2 {
					lost = true
					return true
				}
			}
			return false
		}
		if !sack {
			w.a.e.head.snd.SACK = false
		}
		w.run(time.Second, func() bool { return b.received == a.total })
		i := a.conn.Info()
		if !lost || i.SACK != sack || i.Retransmits != 1 || i.FastRecovers != 1 || i.Timeouts != 0 {
			t.Fatalf("sack %v: %+v", sack, i)
		}
		if took := time.Duration(w.now); took > 8*time.Millisecond {
			t.Fatalf("took %v", took)
		}
	}
}

// TestTailLossProbe loses the last two of twenty segments, or only what
// acknowledges them.
func TestTailLossProbe(t *testing.T) {
	for _, spurious := range []bool{false, true} {
		w := newWorld(t, 1, Config{}, Config{}, faults{delay: time.Millisecond}, false)
		a, b := newApp(20*1448, 1), newApp(0, 2)
		w.connect(a, b)
		sent := 0
		w.block = func(from *node, th *tcp.Header, data []byte) bool {
			if from == w.a && len(data) > 0 {
				sent++
				return !spurious && (sent == 19 || sent == 20)
			}
			return spurious && from == w.b && b.received == a.total && w.a.e.Stats().TailProbes == 0
		}
		w.run(time.Second, func() bool { return a.acked == a.total })
		i := a.conn.Info()
		if i.Timeouts != 0 || i.Retransmits == 0 || w.a.e.Stats().TailProbes != 1 {
			t.Fatalf("spurious %v: %+v", spurious, i)
		}
		if halved := i.Ssthresh < 1<<30; halved == spurious {
			t.Fatalf("spurious %v: ssthresh %d", spurious, i.Ssthresh)
		}
		if took := time.Duration(w.now); took > 20*time.Millisecond {
			t.Fatalf("took %v", took)
		}
	}
}

func TestPAWS(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(0)
	p.listen(a)
	p.opts = tcp.Options{HasTS: true, TSVal: 1000}
	p.in(tcp.SYN, 0, 0, "")
	p.expect("SYN,ACK 0 ack 1")
	if !p.last.Opts.HasTS || p.last.Opts.TSEcr != 1000 {
		t.Fatalf("options %+v", p.last.Opts)
	}
	p.opts.TSEcr = p.last.Opts.TSVal
	p.in(tcp.ACK, 1, 1, "")
	p.opts.TSVal = 2000
	p.in(pa, 1, 1, "abc")
	p.expect("ACK 1 ack 4")
	if p.last.Opts.TSEcr != 2000 {
		t.Fatalf("echo %d", p.last.Opts.TSEcr)
	}
	p.opts.TSVal = 1999 // from before: dropped, acknowledged
	p.in(pa, 4, 1, "old")
	p.expect("ACK 1 ack 4")
	p.opts = tcp.Options{} // without timestamps: dropped
	p.in(pa, 4, 1, "old")
	p.expect("")
	if a.received != 3 {
		t.Fatalf("received %d", a.received)
	}
}

// TestReneging has a peer that throws SACKed data away (RFC 2018 section 8).
func TestReneging(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(2000)
	p.listen(a)
	p.opts = tcp.Options{MSS: 500, SACKPermitted: true}
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	p.opts = tcp.Options{}
	p.in(tcp.ACK, 1, 1, "")
	p.poll()
	p.opts.NSACK = 1
	p.opts.SACK[0] = tcp.SACKBlock{Left: tcp.Seq(p.engISN + 501), Right: tcp.Seq(p.engISN + 2001)}
	p.in(tcp.ACK, 1, 1, "")
	p.expect("ACK 1 ack 1 len 500")
	p.opts = tcp.Options{}
	p.in(tcp.ACK, 1, 501, "") // the hole is filled, but nothing behind it is there
	if got := p.wait(time.Second); !strings.HasPrefix(got, "ACK 501 ack 1 len 500") {
		t.Fatalf("sent %q", got)
	}
	p.in(tcp.ACK, 1, 1001, "")
	p.expect("ACK 1001 ack 1 len 500; PSH,ACK 1501 ack 1 len 500")
	if err := audit(p.conn); err != nil {
		t.Fatal(err)
	}
}

// TestSequenceNumbersWrap sends through 2^32 in both directions.
func TestSequenceNumbersWrap(t *testing.T) {
	w := newWorld(t, 1, Config{}, Config{MaxSegs: 45}, faults{loss: 10, reorder: 20}, false)
	a, b := newApp(300_000, 1), newApp(300_000, 2)
	a.closeAtEnd = true
	w.connect(a, b).snd.ISS = 1<<32 - 70_000
	w.run(time.Second, func() bool { return w.b.e.head != nil })
	w.b.e.head.snd.ISS = 1<<32 - 100_000
	if !w.run(time.Minute, func() bool { return a.closed && b.closed }) || a.err != nil || b.err != nil {
		t.Fatal("not closed", a.err, b.err)
	}
	b.check(t, a)
	a.check(t, b)
	w.rest()
}

// TestNewReno loses two segments of one window without SACK: each partial
// acknowledgement repairs the next (RFC 6582).
func TestNewReno(t *testing.T) {
	w := newWorld(t, 1, Config{}, Config{}, faults{delay: time.Millisecond}, false)
	w.strip = func(o *tcp.Options) { o.SACKPermitted = false }
	a, b := newApp(10*1448, 1), newApp(0, 2)
	w.connect(a, b)
	sent := 0
	w.block = func(from *node, th *tcp.Header, data []byte) bool {
		if from == w.a && len(data) > 0 {
			sent++
		}
		return from == w.a && len(data) > 0 && (sent == 2 || sent == 5)
	}
	w.run(time.Second, func() bool { return a.acked == a.total })
	if i := a.conn.Info(); i.SACK || i.Retransmits != 2 || i.FastRecovers != 1 || i.Timeouts != 0 {
		t.Fatalf("%+v", i)
	}
	b.check(t, a)
}

// TestSmallReceiver has a peer whose whole window is smaller than a segment.
func TestSmallReceiver(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.listen(quietApp(1000))
	p.opts = tcp.Options{MSS: 1460}
	p.segment(tcp.SYN, 0, 0, 400, "")
	p.poll()
	p.opts = tcp.Options{}
	p.segment(tcp.ACK, 1, 1, 400, "")
	p.expect("ACK 1 ack 1 len 200; ACK 201 ack 1 len 200")
	p.segment(tcp.ACK, 1, 401, 400, "")
	p.expect("ACK 401 ack 1 len 200; ACK 601 ack 1 len 200")
}

func TestChallengeAcksAreLimited(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.establish(quietApp(0))
	for range 100 {
		p.in(tcp.SYN, 50, 0, "")
		p.poll()
	}
	if n := p.e.Stats().ChallengeAcks; n != 10 {
		t.Fatalf("%d challenge ACKs", n)
	}
	p.now = p.now.Add(time.Second)
	p.in(tcp.SYN, 50, 0, "")
	p.expect("ACK 1 ack 1")
}

func TestPathMTUFalls(t *testing.T) {
	for _, segs := range []int{1, 45} {
		cfg := Config{MaxSegs: segs}
		w := newWorld(t, 1, cfg, cfg, faults{delay: 100 * time.Microsecond}, segs == 1)
		a, b := newApp(1<<20, 1), newApp(0, 2)
		a.closeAtEnd = true
		a.record = func(off uint64) int { return 300 + int(octet(9, off))*4 }
		w.connect(a, b)
		w.run(time.Second, func() bool { return b.received > 200_000 })
		w.mtu = 1300
		if !w.run(time.Minute, func() bool { return a.closed && b.closed }) {
			t.Fatalf("stuck: %+v", a.conn.Info())
		}
		b.check(t, a)
		if i := a.conn.Info(); i.Timeouts != 0 || i.MSS > 1300-52 || i.FastRecovers != 0 {
			t.Fatalf("%+v", i)
		}
		w.rest()
	}
}

// TestSegmentsBeginAtRecords asserts that every segment sent, first or again,
// begins at a record boundary and ends at one, under loss.
func TestSegmentsBeginAtRecords(t *testing.T) {
	for seed := range uint64(30) {
		for _, segs := range []int{1, 45} {
			cfg := Config{MaxSegs: segs}
			w := newWorld(t, seed, cfg, cfg, faults{loss: 20, reorder: 20, dup: 10, delay: 300 * time.Microsecond}, false)
			a, b := newApp(200<<10, seed), newApp(0, 2)
			a.closeAtEnd = true
			a.record = func(off uint64) int { return 20 + int(octet(seed, off))*5 }
			starts := map[uint64]bool{}
			for off := uint64(0); off < a.total; off += uint64(a.record(off)) {
				starts[off] = true
			}
			starts[a.total] = true
			segments := 0
			isn := uint32(0)
			w.tap = func(from *node, h *ip.Header, th *tcp.Header, data []byte) {
				switch {
				case from != w.a:
				case th.Flags.Has(tcp.SYN):
					isn = uint32(th.Seq)
				case len(data) > 0:
					segments++
					off := uint64(uint32(th.Seq) - isn - 1)
					if !starts[off] || !starts[off+uint64(len(data))] {
						t.Fatalf("seed %d: segment [%d,+%d) is not made of whole records", seed, off, len(data))
					}
				}
			}
			w.connect(a, b)
			if !w.run(time.Minute, func() bool { return a.closed && b.closed }) {
				t.Fatalf("seed %d: stuck", seed)
			}
			b.check(t, a)
			if segments < 140 {
				t.Fatalf("only %d segments seen", segments)
			}
		}
	}
}

func TestCorruptSegmentIsDropped(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.establish(quietApp(0))
	h := ip.Header{Version: 4, Proto: ip.ProtoTCP, Src: p.remote.Addr(), Dst: p.local.Addr()}
	th := tcp.Header{SrcPort: 9999, DstPort: 4420, Seq: peerISN + 1, Ack: tcp.Seq(p.engISN + 1), Flags: pa, Window: 1000}
	seg := make([]byte, 23)
	copy(seg[th.Put(seg):], "abc")
	packet.PutChecksum(seg, h.Src, h.Dst)
	seg[21] ^= 1
	if !p.e.Segment(&h, seg, frame.Offload{}, p.now) || p.e.Stats().Drops[drop.L4Checksum] != 1 {
		t.Fatal("not dropped for its checksum")
	}
	p.expect("")
	p.e.Segment(&h, seg, frame.Offload{DataValid: true}, p.now)
	p.expect("ACK 1 ack 4")
}

func TestRoomAndPoolAreRespected(t *testing.T) {
	p := newRawPeer(t, Config{})
	a := quietApp(20_000)
	p.room = 0
	p.listen(a)
	p.in(tcp.SYN, 0, 0, "")
	p.expect("")
	p.room = 1 << 20
	p.expect("SYN,ACK 0 ack 1")
	p.in(tcp.ACK, 1, 1, "")
	p.pool.limit = 1
	held := p.pool.Get(1)
	if next := p.e.Poll(p.now); next != p.now.Add(starvedRetry) {
		t.Fatalf("next %v", next)
	}
	if p.e.Stats().Drops[drop.NoBuffer] == 0 {
		t.Fatal("not counted")
	}
	held.Release()
	p.pool.limit = 0
	if got := p.poll(); !strings.HasPrefix(got, "ACK 1 ack 1 len 536; ") {
		t.Fatalf("sent %q", got)
	}
}

func TestSavedContext(t *testing.T) {
	for _, segs := range []int{1, 45} {
		w := newWorld(t, 1, Config{MaxSegs: segs}, Config{MaxSegs: segs}, faults{merge: true}, segs > 1)
		a, b := newApp(200, 1), newApp(100, 2)
		w.connect(a, b)
		w.runFor(100 * time.Millisecond)
		for _, c := range []*Conn{a.conn, b.conn} {
			got := c.Context()
			if len(got) < 5 {
				t.Fatalf("%d packets", len(got))
			}
			for _, s := range got {
				h, seg, err := ip.Parse(s.Data)
				if err != nil || ip.Checksum(seg, ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(seg))) != 0 {
					t.Fatalf("saved packet: %v", err)
				}
				if (s.Dir == frame.Outbound) != (h.Src == c.Local().Addr()) {
					t.Fatal("wrong direction")
				}
			}
			if th, _, _ := tcp.Parse(got[0].Data[len(got[0].Data)-40:]); !th.Flags.Has(tcp.SYN) {
				t.Fatal("does not begin with the SYN")
			}
			c.SaveContext(false)
		}
		n := len(a.conn.Context())
		a.total += 100
		a.conn.Kick()
		w.runFor(time.Second)
		if len(a.conn.Context()) != n {
			t.Fatal("saved after it was switched off")
		}
	}
}

func TestAddresses(t *testing.T) {
	p := newRawPeer(t, Config{FirstPort: 50000, LastPort: 50003})
	ok := addrPortOf("10.0.0.1", 0)
	for _, r := range []struct {
		local, remote netip.AddrPort
		want          Kind
	}{
		{ok, addrPortOf("10.0.0.2", 0), BadAddr},
		{ok, addrPortOf("fd00::2", 1), BadAddr},
		{ok, addrPortOf("224.0.0.1", 1), BadAddr},
		{addrPortOf("0.0.0.0", 1), addrPortOf("10.0.0.2", 1), BadAddr},
	} {
		if _, err := p.e.Connect(r.local, r.remote, quietApp(0), 1); !errors.Is(err, &Error{Kind: r.want}) {
			t.Errorf("%v -> %v: %v", r.local, r.remote, err)
		}
	}
	seen := map[uint16]bool{}
	for range 4 {
		c, err := p.e.Connect(ok, addrPortOf("10.0.0.2", 1), quietApp(0), 1)
		if err != nil || seen[c.Local().Port()] || c.Local().Port() < 50000 || c.Local().Port() > 50003 {
			t.Fatal(err, c)
		}
		seen[c.Local().Port()] = true
	}
	if _, err := p.e.Connect(ok, addrPortOf("10.0.0.2", 1), quietApp(0), 1); !errors.Is(err, &Error{Kind: AddrInUse}) {
		t.Fatal(err)
	}
	p.listen(quietApp(0))
	if _, err := p.e.Listen(p.local, 1, nil); !errors.Is(err, &Error{Kind: AddrInUse}) {
		t.Fatal(err)
	}
	wild, err := p.e.Listen(addrPortOf("::", 7), 1, nil)
	if err != nil || !p.e.Owns(addrPortOf("10.0.0.1", 7), p.remote) || wild.Local().Port() != 7 {
		t.Fatal(err)
	}
}
