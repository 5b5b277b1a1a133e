package toe

import (
	"errors"
	"testing"
	"time"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

const fa, pa = tcp.FIN | tcp.ACK, tcp.PSH | tcp.ACK

// reach brings a fresh connection into each synchronized state. Afterwards
// the peer's next sequence number is seq, and ack is what it acknowledges.
var reach = []struct {
	state    State
	seq, ack int
	to       func(p *rawPeer)
}{
	{StateSynReceived, 1, 0, func(p *rawPeer) {
		p.listen(quietApp(0))
		p.in(tcp.SYN, 0, 0, "")
		p.poll()
		p.conn = p.e.head
	}},
	{StateEstablished, 1, 1, func(p *rawPeer) { p.establish(quietApp(0)) }},
	{StateFinWait1, 1, 1, func(p *rawPeer) {
		p.establish(quietApp(0))
		p.conn.Close()
		p.expect("FIN,ACK 1 ack 1")
	}},
	{StateFinWait2, 1, 2, func(p *rawPeer) {
		p.establish(quietApp(0))
		p.conn.Close()
		p.poll()
		p.in(tcp.ACK, 1, 2, "")
		p.poll()
	}},
	{StateCloseWait, 2, 1, func(p *rawPeer) {
		p.establish(quietApp(0))
		p.in(fa, 1, 1, "")
		p.expect("ACK 1 ack 2")
	}},
	{StateClosing, 2, 1, func(p *rawPeer) {
		p.establish(quietApp(0))
		p.conn.Close()
		p.poll()
		p.in(fa, 1, 1, "")
		p.expect("ACK 2 ack 2")
	}},
	{StateLastAck, 2, 1, func(p *rawPeer) {
		p.establish(quietApp(0))
		p.in(fa, 1, 1, "")
		p.conn.Close()
		p.expect("FIN,ACK 1 ack 2")
	}},
	{StateTimeWait, 2, 2, func(p *rawPeer) {
		p.establish(quietApp(0))
		p.conn.Close()
		p.poll()
		p.in(fa, 1, 2, "")
		p.expect("ACK 2 ack 2")
	}},
}

func inState(t *testing.T, state State) (p *rawPeer, seq, ack int) {
	t.Helper()
	for _, r := range reach {
		if r.state == state {
			p = newRawPeer(t, Config{})
			r.to(p)
			p.state(state)
			return p, r.seq, r.ack
		}
	}
	t.Fatalf("no way to %v", state)
	return nil, 0, 0
}

// TestEveryStateAndEvent is the table of RFC 9293 section 3.10.7.4 with the
// changes of RFC 5961.
func TestEveryStateAndEvent(t *testing.T) {
	const gone = StateClosed
	type row struct {
		state State
		event string
		do    func(p *rawPeer, seq, ack int)
		sent  string
		next  State
	}
	rst := func(p *rawPeer, seq, ack int) { p.in(tcp.RST, seq, 0, "") }
	rstFar := func(p *rawPeer, seq, ack int) { p.in(tcp.RST, seq+1000, 0, "") }
	rstOut := func(p *rawPeer, seq, ack int) { p.in(tcp.RST, seq+1<<21, 0, "") }
	syn := func(p *rawPeer, seq, ack int) { p.in(tcp.SYN, seq+100, 0, "") }
	noAck := func(p *rawPeer, seq, ack int) { p.in(0, seq, 0, "x") }
	future := func(p *rawPeer, seq, ack int) { p.in(tcp.ACK, seq, ack+5000, "") }
	old := func(p *rawPeer, seq, ack int) { p.in(tcp.ACK, seq-1, ack, "x") }
	beyond := func(p *rawPeer, seq, ack int) { p.in(tcp.ACK, seq+1<<21, ack, "x") }
	fin := func(p *rawPeer, seq, ack int) { p.in(fa, seq, ack, "") }
	ackFin := func(p *rawPeer, seq, ack int) { p.in(tcp.ACK, seq, 2, "") }
	data := func(p *rawPeer, seq, ack int) { p.in(pa, seq, ack, "abc") }
	abort := func(p *rawPeer, seq, ack int) { p.conn.Abort() }
	closing := func(p *rawPeer, seq, ack int) { p.conn.Close() }

	rows := []row{
		{StateSynReceived, "rst", rst, "", gone},
		{StateSynReceived, "rst not exact", rstFar, "ACK 1 ack 1", StateSynReceived},
		{StateSynReceived, "ack of nothing sent", future, "RST 5000", StateSynReceived},
		{StateSynReceived, "syn again", func(p *rawPeer, _, _ int) { p.in(tcp.SYN, 0, 0, "") }, "SYN,ACK 0 ack 1", StateSynReceived},
		{StateSynReceived, "ack with data", func(p *rawPeer, _, _ int) { p.in(pa, 1, 1, "abc") }, "ACK 1 ack 4", StateEstablished},
		{StateSynReceived, "ack with fin", func(p *rawPeer, _, _ int) { p.in(fa, 1, 1, "") }, "ACK 1 ack 2", StateCloseWait},

		{StateEstablished, "data", data, "ACK 1 ack 4", StateEstablished},
		{StateEstablished, "fin", fin, "ACK 1 ack 2", StateCloseWait},
		{StateEstablished, "data and fin", func(p *rawPeer, s, a int) { p.in(fa, s, a, "abc") }, "ACK 1 ack 5", StateCloseWait},
		{StateEstablished, "close", closing, "FIN,ACK 1 ack 1", StateFinWait1},
		{StateFinWait1, "ack of fin", ackFin, "", StateFinWait2},
		{StateFinWait1, "fin", fin, "ACK 2 ack 2", StateClosing},
		{StateFinWait1, "fin with ack of fin", func(p *rawPeer, s, a int) { p.in(fa, s, 2, "") }, "ACK 2 ack 2", StateTimeWait},
		{StateFinWait1, "data", data, "ACK 2 ack 4", StateFinWait1},
		{StateFinWait2, "data", data, "ACK 2 ack 4", StateFinWait2},
		{StateFinWait2, "fin", fin, "ACK 2 ack 2", StateTimeWait},
		{StateCloseWait, "data after fin", data, "", StateCloseWait},
		{StateCloseWait, "close", closing, "FIN,ACK 1 ack 2", StateLastAck},
		{StateClosing, "ack of fin", ackFin, "", StateTimeWait},
		{StateLastAck, "ack of fin", ackFin, "", gone},
		{StateTimeWait, "fin again", func(p *rawPeer, s, a int) { p.in(fa, s-1, a, "") }, "ACK 2 ack 2", StateTimeWait},
		{StateTimeWait, "abort", abort, "", gone},
		{StateTimeWait, "syn of a new connection", func(p *rawPeer, s, a int) { p.in(tcp.SYN, s+100, 0, ""); p.engKnown = false }, "SYN,ACK 0 ack 103", gone},
	}
	for _, s := range []State{StateEstablished, StateFinWait1, StateFinWait2, StateCloseWait, StateClosing, StateLastAck, StateTimeWait} {
		p, seq, _ := inState(t, s)
		mine := "ACK " + map[bool]string{true: "2", false: "1"}[p.conn.snd.Nxt() == 1] + " ack " + map[int]string{1: "1", 2: "2"}[seq]
		rows = append(rows,
			row{s, "rst", rst, "", gone},
			row{s, "rst not exact", rstFar, mine, s},
			row{s, "rst outside", rstOut, "", s},
			row{s, "no ack", noAck, "", s},
			row{s, "ack from the future", future, mine, s},
			row{s, "old data", old, mine, s},
			row{s, "data beyond the window", beyond, mine, s},
		)
		if s != StateTimeWait {
			rows = append(rows,
				row{s, "syn", syn, mine, s},
				row{s, "abort", abort, "RST," + mine, gone})
		}
	}
	for _, r := range rows {
		t.Run(r.state.String()+"/"+r.event, func(t *testing.T) {
			p, seq, ack := inState(t, r.state)
			r.do(p, seq, ack)
			p.expect(r.sent)
			p.state(r.next)
			if r.next == gone && r.event != "syn of a new connection" && p.e.Stats().Open != 0 {
				t.Error("the connection is still known")
			}
			if p.pool.out != 0 {
				t.Errorf("%d frames leaked", p.pool.out)
			}
		})
	}
}

func TestSynSent(t *testing.T) {
	const sa = tcp.SYN | tcp.ACK
	for _, r := range []struct {
		event string
		do    func(p *rawPeer)
		sent  string
		next  State
		err   Kind
	}{
		{"syn-ack", func(p *rawPeer) { p.in(sa, 0, 1, "") }, "ACK 1 ack 1", StateEstablished, 0},
		{"syn-ack of something else", func(p *rawPeer) { p.in(sa, 0, 7, "") }, "RST 7", StateSynSent, 0},
		{"rst", func(p *rawPeer) { p.in(tcp.RST|tcp.ACK, 0, 1, "") }, "", StateClosed, Refused},
		{"rst that acks something else", func(p *rawPeer) { p.in(tcp.RST|tcp.ACK, 0, 7, "") }, "", StateSynSent, 0},
		{"rst without ack", func(p *rawPeer) { p.in(tcp.RST, 0, 0, "") }, "", StateSynSent, 0},
		{"ack alone", func(p *rawPeer) { p.in(tcp.ACK, 0, 1, "") }, "", StateSynSent, 0},
		{"simultaneous syn", func(p *rawPeer) { p.in(tcp.SYN, 0, 0, "") }, "SYN,ACK 0 ack 1", StateSynReceived, 0},
		{"close", func(p *rawPeer) { p.conn.Close() }, "", StateClosed, Aborted},
		{"abort", func(p *rawPeer) { p.conn.Abort() }, "", StateClosed, Aborted},
		{"hard icmp", func(p *rawPeer) { p.e.Unreachable(p.local, p.remote, p.engISN, true, 0, p.now) }, "", StateClosed, Unreachable},
		{"soft icmp", func(p *rawPeer) { p.e.Unreachable(p.local, p.remote, p.engISN, false, 0, p.now) }, "", StateSynSent, 0},
		{"icmp about another segment", func(p *rawPeer) { p.e.Unreachable(p.local, p.remote, p.engISN+9, true, 0, p.now) }, "", StateSynSent, 0},
	} {
		t.Run(r.event, func(t *testing.T) {
			p := newRawPeer(t, Config{})
			p.connect(quietApp(0))
			r.do(p)
			p.expect(r.sent)
			p.state(r.next)
			if r.err == 0 {
				if p.app.closed {
					t.Errorf("closed: %v", p.app.err)
				}
				return
			}
			if !errors.Is(p.app.err, &Error{Kind: r.err}) {
				t.Errorf("error %v, want %v", p.app.err, r.err)
			}
		})
	}
}

func TestSimultaneousOpen(t *testing.T) {
	w := newWorld(t, 3, Config{}, Config{}, faults{delay: time.Millisecond}, false)
	a, b := newApp(100_000, 1), newApp(50_000, 2)
	ap, bp := addrPort(w.a, 1111), addrPort(w.b, 2222)
	if _, err := w.a.e.Connect(ap, bp, a, w.now); err != nil {
		t.Fatal(err)
	}
	if _, err := w.b.e.Connect(bp, ap, b, w.now); err != nil {
		t.Fatal(err)
	}
	a.closeAtEnd, b.closeAtEnd = true, true
	if !w.run(time.Minute, func() bool { return a.closed && b.closed }) {
		t.Fatal("stuck")
	}
	b.check(t, a)
	a.check(t, b)
	w.rest()
}

func TestSynIsRetransmittedAndGivenUp(t *testing.T) {
	p := newRawPeer(t, Config{SynRetries: 3})
	p.connect(quietApp(0))
	// 1 s, 3 s, 7 s, and the end at 15 s.
	if got := p.wait(8 * time.Second); got != "SYN 0; SYN 0; SYN 0" {
		t.Fatalf("sent %q", got)
	}
	p.wait(8 * time.Second)
	if !errors.Is(p.app.err, &Error{Kind: Timeout}) || p.e.Poll(p.now) != frame.Never {
		t.Fatalf("error %v", p.app.err)
	}
}

func TestSynAckIsGivenUpAndFreesTheBacklog(t *testing.T) {
	p := newRawPeer(t, Config{SynRetries: 2, NoSynCookies: true})
	l := p.listen(quietApp(0))
	for port := uint16(1); port <= 6; port++ {
		p.remote = addrPortOf("10.0.0.2", port)
		p.in(tcp.SYN, 0, 0, "")
	}
	if l.backlog.Half != 4 || p.e.Stats().Drops[drop.Backlog] != 2 {
		t.Fatalf("pending %d, drops %d", l.backlog.Half, p.e.Stats().Drops[drop.Backlog])
	}
	p.wait(time.Minute)
	if l.backlog.Half != 0 || p.e.Stats().Open != 0 {
		t.Fatalf("pending %d, open %d", l.backlog.Half, p.e.Stats().Open)
	}
}

func TestRefusedByAccept(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.listen(nil)
	p.in(tcp.SYN, 0, 0, "")
	p.expect("SYN,ACK 0 ack 1")
	p.in(tcp.ACK, 1, 1, "")
	p.expect("RST,ACK 1 ack 1")
	if p.e.Stats().Open != 0 {
		t.Fatal("still open")
	}
}

func TestUnownedSegments(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.engKnown = true
	if p.in(tcp.SYN, 0, 0, "") {
		t.Fatal("owned")
	}
	p.expect("RST,ACK 0 ack 1")
	p.in(tcp.ACK, 5, 77, "abc")
	p.expect("RST 77")
	p.in(tcp.RST, 5, 0, "")
	p.expect("")
	p.listen(quietApp(0))
	if !p.in(tcp.ACK, 5, 77, "") {
		t.Fatal("a listener's segment is not owned")
	}
	p.expect("RST 77")
}

func TestListenerClose(t *testing.T) {
	p := newRawPeer(t, Config{})
	l := p.listen(quietApp(0))
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	l.Close()
	l.Close()
	p.expect("RST,ACK 1 ack 1")
	if p.e.Owns(p.local, p.remote) {
		t.Fatal("still owned")
	}
}
