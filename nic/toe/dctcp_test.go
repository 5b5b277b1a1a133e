package toe

import (
	"math"
	"strings"
	"testing"
	"time"

	"tapir/nic/toe/ecn"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// dctcpPeer is ecnPeer for a connection with DCTCP.
func dctcpPeer(t *testing.T, total uint64) *rawPeer {
	p := ecnPeer(t, 0)
	p.conn.SetParams(Params{Congestion: DCTCP, TOS: 10 << 2})
	p.app.total = total
	p.conn.Kick()
	return p
}

// TestDCTCPAsks: DCTCP asks for ECN, unless that is off, and takes it from any peer that grants it.
func TestDCTCPAsks(t *testing.T) {
	for _, r := range []struct {
		a, b Params
		on   bool
	}{
		{Params{Congestion: DCTCP}, Params{}, true},
		{Params{Congestion: DCTCP}, Params{Congestion: DCTCP}, true},
		{Params{}, Params{Congestion: DCTCP}, false},
		{Params{ECN: ECNAsk}, Params{Congestion: DCTCP}, true},
		{Params{Congestion: DCTCP, ECN: ECNOff}, Params{Congestion: DCTCP}, false},
		{Params{Congestion: DCTCP}, Params{Congestion: DCTCP, ECN: ECNOff}, false},
	} {
		w := newWorld(t, 1, Config{Params: r.a}, Config{Params: r.b}, faults{}, false)
		a, b := newApp(10_000, 1), newApp(10_000, 2)
		w.connect(a, b)
		w.run(time.Second, func() bool { return a.received == b.total && b.received == a.total })
		if a.conn.Info().ECN != r.on || b.conn.Info().ECN != r.on {
			t.Errorf("%+v: %v and %v", r, a.conn.Info().ECN, b.conn.Info().ECN)
		}
	}
}

// TestDCTCPEcho is the receiver of RFC 8257 section 3.2: an acknowledgement has ECE as long as
// data has CE, whatever CWR says; when that changes, two acknowledgements leave at once.
func TestDCTCPEcho(t *testing.T) {
	p := dctcpPeer(t, 0)
	at := 1
	data := func(tos uint8, flags tcp.Flags) {
		p.tos = tos
		p.in(tcp.ACK|flags, at, 1, strings.Repeat("x", 600))
		at += 600
	}
	data(ecn.ECT0, 0)
	p.expect("") // its acknowledgement waits for a second segment
	data(ecn.CE, 0)
	p.expect("ACK 1 ack 601; ACK,ECE 1 ack 1201")
	if p.lastTOS != 10<<2 {
		t.Errorf("the acknowledgement has TOS %#x", p.lastTOS)
	}
	data(ecn.CE, 0)
	p.expect("")
	data(ecn.CE, tcp.CWR) // the sender's reaction does not end the echo of what is marked
	p.expect("ACK,ECE 1 ack 2401")
	data(ecn.CE, 0)
	data(ecn.ECT0, 0)
	p.expect("ACK,ECE 1 ack 3001; ACK 1 ack 3601")
	data(ecn.ECT0, 0)
	data(ecn.ECT0, 0)
	p.expect("ACK 1 ack 4801")
	data(ecn.CE, 0) // nothing before it waits
	p.expect("ACK,ECE 1 ack 5401")
	p.tos = 0 // an acknowledgement has no mark to echo, and ends none
	p.in(tcp.ACK, at, 1, "")
	data(ecn.CE, 0)
	data(ecn.CE, 0)
	p.expect("ACK,ECE 1 ack 6601")
	for range 3 { // in one round of the engine: each run is acknowledged by itself
		data(ecn.ECT0, 0)
		data(ecn.CE, 0)
	}
	p.expect("ACK 1 ack 7201; ACK,ECE 1 ack 7801; ACK 1 ack 8401; ACK,ECE 1 ack 9001; ACK 1 ack 9601; ACK,ECE 1 ack 10201")
	if n := p.e.Stats().CEMarks; n != 10 {
		t.Errorf("%d marks", n)
	}
}

// TestDCTCPReaction: the window falls by half of alpha, once in a window of data, and is told by
// CWR; a loss halves it.
func TestDCTCPReaction(t *testing.T) {
	p := dctcpPeer(t, 100_000)
	if got := p.poll(); strings.Count(got, "len 500") != 10 || p.lastTOS != 10<<2|ecn.ECT0 {
		t.Fatalf("sent %q with TOS %d", got, p.lastTOS)
	}
	alpha, acked := 1.0, 1
	info := p.conn.Info()
	for window := range 6 { // each is acknowledged as a whole: its share of marks is 0 or 1
		marked := window%2 == 1
		flags, share := tcp.ACK, 0.0
		if marked {
			flags, share = tcp.ACK|tcp.ECE, 1
		}
		before := float64(info.Cwnd)
		acked = int(info.SndNxt) + 1
		p.in(flags, 1, acked, "")
		alpha = alpha*15/16 + share/16
		info = p.conn.Info()
		if math.Abs(info.Alpha-alpha) > 1e-8 {
			t.Fatalf("window %d: alpha %v instead of %v", window, info.Alpha, alpha)
		}
		if want := before * (1 - alpha/2); marked && math.Abs(float64(info.Cwnd)-want) > 1 {
			t.Fatalf("window %d: %v octets became %d instead of %.0f", window, before, info.Cwnd, want)
		}
		got := p.poll()
		if strings.Contains(got, "CWR") != marked {
			t.Fatalf("window %d: sent %q", window, got)
		}
		info = p.conn.Info()
	}
	if n := p.e.Stats().ECNReductions; n != 3 {
		t.Errorf("%d reductions", n)
	}
	flight := info.SndNxt - info.SndUna
	for range 4 { // duplicates: a loss
		p.opts = tcp.Options{}
		p.in(tcp.ACK, 1, acked, "")
	}
	if got := p.conn.Info(); got.Ssthresh != max(flight/2, 1000) {
		t.Errorf("with %d octets in flight a loss leaves a window of %d", flight, got.Ssthresh)
	}
}

// TestDCTCPShare: acknowledgements with ECE cover just the octets that were marked, however the
// receiver delays them, and alpha is near their share although windows are short.
func TestDCTCPShare(t *testing.T) {
	cfg := Config{Params: Params{Congestion: DCTCP}}
	w := newWorld(t, 1, cfg, cfg, faults{delay: time.Millisecond}, false)
	a, b := newApp(1<<40, 1), newApp(0, 2)
	var sent, marked, acked, told float64
	last := tcp.Seq(0)
	n := 0
	w.tap = func(from *node, h *ip.Header, th *tcp.Header, data []byte) {
		switch {
		case from == w.a && len(data) > 0 && h.TOS&ecn.Mask != 0:
			h.TOS = ecn.ECT0 // another segment of the same super-frame may be marked
			if n++; n%4 == 0 {
				h.TOS = ecn.CE
				marked += float64(len(data))
			}
			sent += float64(len(data))
		case from == w.b && !th.Flags.Has(tcp.SYN):
			more := float64(th.Ack.Sub(last))
			acked += more
			if th.Flags.Has(tcp.ECE) {
				told += more
			}
			last = th.Ack
		case from == w.b:
			last = th.Ack
		}
	}
	w.connect(a, b)
	w.run(2*time.Second, func() bool { return false })
	if math.Abs(told/acked-marked/sent) > 0.002 || acked < 2_000_000 {
		t.Errorf("a share of %.4f was marked, acknowledgements of %.0f octets tell of %.4f", marked/sent, acked, told/acked)
	}
	if got := a.conn.Info().Alpha; math.Abs(got-marked/sent) > 0.15 {
		t.Errorf("a share of %.3f was marked, alpha is %.3f", marked/sent, got)
	}
}
