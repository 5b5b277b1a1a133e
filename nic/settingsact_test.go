package nic

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/pause"
	"tapir/wire/tcp"
)

// tried is two NICs with settings, which a scenario measures.
type tried struct {
	*world
	a, b *node
	set  string
}

// tcpOf is the TCP segment that a frame holds; false: none.
func tcpOf(b []byte) (h tcp.Header, data []byte, ok bool) {
	_, n, err := ether.Parse(b)
	if err != nil {
		return h, nil, false
	}
	ih, body, err := ip.Parse(b[n:])
	if err != nil || ih.Proto != ip.ProtoTCP {
		return h, nil, false
	}
	h, data, err = tcp.Parse(body)
	return h, data, err == nil
}

// dial connects both NICs.
func (x *tried) dial() (client, server *rdmaEnd) { return dial(x.world, x.a, x.b, peer4, 1<<20) }

// cut loses all from now on, and shows what a sends.
func (x *tried) cut(see func(h tcp.Header, data []byte)) {
	x.lose = func(from *node, b []byte) bool {
		if h, data, ok := tcpOf(b); ok && from == x.a && see != nil {
			see(h, data)
		}
		return true
	}
}

// took is how long it takes until something, at most an hour.
func (x *tried) took(step time.Duration, until func() bool) time.Duration {
	start := x.now
	for !until() && x.now.Sub(start) < time.Hour {
		x.run(step)
	}
	return x.now.Sub(start)
}

// gone is how long it takes until a NIC has no connection any more.
func (x *tried) gone(n *node) time.Duration {
	return x.took(20*time.Millisecond, func() bool { return n.dev.TCPEngine.Stats().Open == 0 })
}

// silence is how long a NIC bears a peer that is silent while nothing is to be sent.
func silence(x *tried) float64 {
	x.dial()
	x.run(100 * time.Millisecond)
	x.cut(nil)
	return x.gone(x.a).Seconds()
}

// neighbor is another NIC of the world.
func (x *tried) neighbor(name, addr string) *node {
	n := x.nic(Config{Name: name, Addrs: prefixes(addr)})
	n.dev.LinkUp(x.now)
	return n
}

// connect opens connections from a NIC to b.
func (x *tried) connect(from *node, n int) (e *rdmaEnd) {
	for range n {
		e = newEnd(x.t, from, 64)
		if err := from.dev.CM.NewID(e.handle, nil).Connect(netip.AddrPortFrom(peer4, rdmaPort), cm.Params{QP: e.qp}, x.now); err != nil {
			x.t.Fatal(err)
		}
	}
	return e
}

// silent has the MPA requests of other NICs lost.
func (x *tried) silent(of ...*node) {
	x.lose = func(from *node, b []byte) bool {
		_, data, ok := tcpOf(b)
		return ok && slices.Contains(of, from) && len(data) > 0
	}
}

// listen has b accept connections, or leave them waiting.
func (x *tried) listen(backlog int, accept bool) {
	s := newEnd(x.t, x.b, 64)
	handle := func(ev cm.Event, now frame.Time) {
		if accept {
			s.handle(ev, now)
		}
	}
	if _, err := x.b.dev.CM.Listen(netip.AddrPortFrom(peer4, rdmaPort), backlog, handle, nil); err != nil {
		x.t.Fatal(err)
	}
}

// Each setting has a running NIC do something else: what a scenario measures is, for
// each value, within a tenth of what it should be.
func TestSettingsAct(t *testing.T) {
	for _, c := range []struct {
		set  string // on both NICs
		do   func(x *tried) float64
		want float64
	}{
		{"keepalive=4s ka_interval=1s ka_max_probe_cnt=3", silence, 7},
		{"keepalive=4s ka_interval=1s ka_max_probe_cnt=9", silence, 13},
		{"keepalive=4s ka_interval=3s ka_max_probe_cnt=3", silence, 13},
		{"keepalive=9s ka_interval=1s ka_max_probe_cnt=3", silence, 12},
		{"user_timeout=3s", unacknowledged, 3},
		{"user_timeout=20s", unacknowledged, 20},
		{"close_timeout=1h max_fin_rt=2", fins, 3},
		{"close_timeout=1h max_fin_rt=5", fins, 6},
		{"close_timeout=2s", closing, 4}, // for the data, then for the FIN
		{"close_timeout=9s", closing, 18},
		{"time_wait=2s", timeWait, 2},
		{"time_wait=30s", timeWait, 30},
		{"ecn=ask", synFlags, 1},
		{"ecn=off", synFlags, 0},
		{"tos=184", synTOS, 184},
		{"tos=8", synTOS, 8},
		{"congestion=reno", afterLoss, 0.5 / 3}, // a third is in flight
		{"congestion=cubic", afterLoss, 0.7 / 3},
		{"congestion=dctcp", synFlags, 1},
		{"partner_forced=0 partner_speeds=10G", pausesObeyed, 1},
		{"partner_forced=1 partner_speeds=10G", pausesObeyed, 0}, // nothing is agreed on
		{"iwarp_rcv_wnd_size=65536", inFlight, 65536},
		{"iwarp_rcv_wnd_size=262144", inFlight, 262144},
		{"mpa_request_timeout=2s", noRequest, 3}, // and a second to close
		{"mpa_request_timeout=8s", noRequest, 9},
		{"", noReply, 120}, // a program may fill 2 GiB before it accepts
		{"mpa_reply_timeout=2s", noReply, 2},
		{"mpa_reply_timeout=8s", noReply, 8},
		{"mpa_silent_share=25 mpa_request_timeout=10m mpa_reply_timeout=10m", crowded, 1},
		{"mpa_silent_share=100 mpa_request_timeout=10m mpa_reply_timeout=10m", crowded, 0},
		{"first_delay=300ms", firstFPDU, 0.3},
		{"first_delay=900ms", firstFPDU, 0.9},
		{"nudge=50ms", nudgedAfter, 0.05},
		{"nudge=500ms", nudgedAfter, 0.5},
		{"ord=2", func(x *tried) float64 { return reads(x, x.a) }, 2},
		{"ord=7", func(x *tried) float64 { return reads(x, x.a) }, 7},
		{"ird=2", func(x *tried) float64 { return reads(x, x.b) }, 2},
		{"ird=7", func(x *tried) float64 { return reads(x, x.b) }, 7},
		{"send_first=100ms", sentFirst, 0.1},
		{"send_first=700ms", sentFirst, 0.7},
		{"mpa_crc_required=0 zcopy_tx=1", unacknowledgedWrite, 0},
		{"mpa_crc_required=0 zcopy_tx=0", unacknowledgedWrite, 1},
	} {
		cfg := Config{Hardware: &fastlinq.Config{}}
		for s := range strings.FieldsSeq(c.set) {
			name, v, _ := strings.Cut(s, "=")
			if err := cfg.Param(name).Set(v); err != nil {
				t.Fatal(err)
			}
		}
		x := &tried{set: c.set}
		x.world, x.a, x.b = twoNICs(t, cfg)
		if got := c.do(x); got < c.want*0.9-0.001 || got > c.want*1.1+0.03 {
			t.Errorf("%s: %v, want %v", c.set, got, c.want)
		}
	}
}

// unacknowledged is how long a NIC bears a peer that does not answer what it sends.
func unacknowledged(x *tried) float64 {
	c, s := x.dial()
	x.cut(nil)
	c.post(verbs.OpWrite, 100, s)
	return x.gone(x.a).Seconds()
}

// fins counts those that a NIC sends to a peer that is silent.
func fins(x *tried) (n float64) {
	c, _ := x.dial()
	x.run(time.Second)
	x.cut(func(h tcp.Header, _ []byte) {
		if h.Flags.Has(tcp.FIN) {
			n++
		}
	})
	if err := c.id.Disconnect(false, x.now); err != nil {
		x.t.Fatal(err)
	}
	x.gone(x.a)
	return n
}

// closing is how long a NIC waits for a peer that does not close.
func closing(x *tried) float64 {
	c, _ := x.dial()
	x.run(time.Second)
	x.cut(nil)
	if err := c.id.Disconnect(false, x.now); err != nil {
		x.t.Fatal(err)
	}
	return x.gone(x.a).Seconds()
}

// timeWait is how long the record of a connection stays.
func timeWait(x *tried) float64 {
	x.dial()
	x.a.dev.Shutdown(x.now)
	x.until(10*time.Second, func() bool { return x.a.dev.Idle() && x.b.dev.Idle() })
	return max(x.gone(x.a), x.gone(x.b)).Seconds()
}

// synFlags tells whether the SYN asks for ECN.
func synFlags(x *tried) (asks float64) {
	x.lose = func(_ *node, b []byte) bool {
		if h, _, ok := tcpOf(b); ok && h.Flags.Has(tcp.SYN|tcp.ECE|tcp.CWR) {
			asks = 1
		}
		return false
	}
	x.dial()
	return asks
}

// synTOS is the type of service of the SYN.
func synTOS(x *tried) (tos float64) {
	x.lose = func(_ *node, b []byte) bool {
		if h, _, ok := tcpOf(b); ok && h.Flags == tcp.SYN {
			_, n, _ := ether.Parse(b)
			ih, _, _ := ip.Parse(b[n:])
			tos = float64(ih.TOS)
		}
		return false
	}
	x.dial()
	return tos
}

// afterLoss is the part of the congestion window that a loss leaves.
func afterLoss(x *tried) float64 {
	c, s := x.dial()
	exercise(x.world, c, s, 1<<20)
	segments, before, done := 0, 0.0, c.completions()+1
	x.lose = func(from *node, b []byte) bool {
		if _, data, ok := tcpOf(b); ok && from == x.a && len(data) > 1000 {
			segments++
		}
		if segments == 300 && before == 0 {
			before = float64(x.a.dev.TCPConn(c.id).Info().Cwnd)
			return true
		}
		return false
	}
	c.post(verbs.OpWrite, 1<<20, s)
	x.until(time.Minute, func() bool { return c.completions() == done })
	return float64(x.a.dev.TCPConn(c.id).Info().Ssthresh) / before
}

// pausesObeyed counts the PAUSE frames that a NIC obeys, of one that comes.
func pausesObeyed(x *tried) float64 {
	b := make([]byte, pause.Len)
	(&pause.Frame{Src: x.b.dev.cfg.MAC, Quanta: 100}).Put(b)
	x.send(x.b, b, frame.Offload{})
	x.run(time.Millisecond)
	return float64(x.a.counter("rx_pause_frames"))
}

// inFlight is how much a NIC sends at most without an acknowledgement, when congestion
// does not hold it back.
func inFlight(x *tried) float64 {
	c, s := x.dial()
	for range 8 {
		exercise(x.world, c, s, 1<<20)
	}
	first, last := tcp.Seq(0), tcp.Seq(0)
	x.lose = func(from *node, b []byte) bool {
		h, data, ok := tcpOf(b)
		if ok && from == x.a && len(data) > 0 {
			if first == 0 {
				first = h.Seq
			}
			if end := h.Seq + tcp.Seq(len(data)); int32(end-last) > 0 || last == 0 {
				last = end
			}
		}
		return ok && from == x.b
	}
	c.post(verbs.OpWrite, 1<<20, s)
	x.run(20 * time.Millisecond)
	return float64(last - first)
}

// noRequest is how long a NIC waits for an MPA request.
func noRequest(x *tried) float64 {
	x.listen(4, true)
	x.silent(x.a)
	x.connect(x.a, 1)
	x.run(10 * time.Millisecond)
	return x.gone(x.b).Seconds()
}

// noReply is how long a NIC waits for an MPA reply.
func noReply(x *tried) float64 {
	x.listen(4, false)
	c := x.connect(x.a, 1)
	return x.took(20*time.Millisecond, func() bool { return len(c.events) > 0 }).Seconds()
}

// crowded tells whether the oldest silent connection stays when another NIC has filled
// the rest of the backlog, and a third one connects.
func crowded(x *tried) float64 {
	x.listen(8, true)
	old, third := x.neighbor("nic2", "10.0.0.8/24"), x.neighbor("nic3", "10.0.0.9/24")
	x.silent(x.a, old)
	x.connect(old, 1)
	x.run(time.Second)
	x.connect(x.a, 7)
	x.run(5 * time.Second)
	e := x.connect(third, 1)
	x.run(3 * time.Second)
	if !e.saw(cm.ActiveComplete) {
		x.t.Errorf("%s: no room for the third NIC", x.set)
	}
	return float64(old.dev.TCPEngine.Stats().Open)
}

// sentFirst is how long a NIC that serves and may send first waits for a silent client.
func sentFirst(x *tried) float64 {
	s := newEnd(x.t, x.b, 64)
	if _, err := x.b.dev.CM.Listen(netip.AddrPortFrom(peer4, rdmaPort), 1, func(ev cm.Event, now frame.Time) {
		if s.events = append(s.events, ev); ev.Type == cm.ConnectRequest {
			_ = ev.ID.Accept(cm.Params{QP: s.qp, MaySendFirst: true}, now)
		}
	}, nil); err != nil {
		x.t.Fatal(err)
	}
	c := x.connect(x.a, 1)
	x.until(time.Second, func() bool { return c.saw(cm.ActiveComplete) && s.saw(cm.PassiveComplete) })
	s.post(verbs.OpWrite, 8, c)
	return x.took(time.Millisecond, func() bool { return x.a.dev.IWARP.Totals().RxMessages[rdmap.Write] > 0 }).Seconds()
}

// reads counts the Reads that a NIC issues at a time, on a connection that a opens and
// for which the application names no number; b's names 8.
func reads(x *tried, by *node) float64 {
	ends := map[*node]*rdmaEnd{x.a: newEnd(x.t, x.a, 64), x.b: newEnd(x.t, x.b, 64)}
	c, s := ends[x.a], ends[x.b]
	to := netip.AddrPortFrom(peer4, rdmaPort)
	if _, err := x.b.dev.CM.Listen(to, 1, s.handle, nil); err != nil {
		x.t.Fatal(err)
	}
	if err := x.a.dev.CM.NewID(c.handle, nil).Connect(to, cm.Params{QP: c.qp}, x.now); err != nil {
		x.t.Fatal(err)
	}
	x.until(time.Second, func() bool { return c.saw(cm.ActiveComplete) && s.saw(cm.PassiveComplete) })
	c.post(verbs.OpWrite, 8, s) // the initiator is first
	x.run(time.Second)
	peer := x.b
	if by == x.b {
		peer = x.a
	}
	x.silent(peer) // its Responses are lost
	for range 12 {
		ends[by].post(verbs.OpRead, 8, ends[peer])
	}
	x.run(time.Second)
	return float64(peer.dev.IWARP.Totals().RxMessages[rdmap.ReadRequestOp])
}

// firstFPDU is how long it takes to reach the peer.
func firstFPDU(x *tried) float64 {
	c, s := x.dial()
	if _, err := s.qp.PostRecv(verbs.RecvWR{}); err != nil {
		x.t.Fatal(err)
	}
	c.post(verbs.OpSend, 0, s)
	return x.took(time.Millisecond, func() bool { return s.completions() > 0 }).Seconds()
}

// nudged is how long a NIC waits for a silent peer before it nudges it.
func nudgedAfter(x *tried) float64 {
	firstFPDU(x)
	return x.took(time.Millisecond, func() bool { return x.b.dev.IWARP.Totals().RxMessages[rdmap.Write] > 0 }).Seconds()
}

// unacknowledgedWrite tells whether a long Write completes without an acknowledgement.
func unacknowledgedWrite(x *tried) float64 {
	c, s := x.dial()
	x.cut(nil)
	c.post(verbs.OpWrite, 8192, s)
	x.run(time.Millisecond)
	return float64(c.completions())
}
