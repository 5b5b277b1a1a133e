package toe

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

func TestKeepAlive(t *testing.T) {
	p := newRawPeer(t, Config{Params: Params{KeepAlive: 10 * time.Second, KeepAliveProbes: 3}})
	a := quietApp(0)
	p.establish(a)
	if got := p.wait(11 * time.Second); got != "ACK 0 ack 1" {
		t.Fatalf("sent %q", got)
	}
	p.in(tcp.ACK, 1, 1, "")
	if got := p.wait(9 * time.Second); got != "" {
		t.Fatalf("sent %q", got)
	}
	p.wait(time.Minute)
	if !errors.Is(a.err, &Error{Kind: Timeout}) {
		t.Fatalf("error %v", a.err)
	}
}

// Who has closed one half waits for the other as long as it takes.
func TestHalfCloseIsPatient(t *testing.T) {
	p, seq, ack := inState(t, StateFinWait2)
	if got := p.wait(24 * time.Hour); got != "" {
		t.Fatalf("sent %q", got)
	}
	p.in(pa, seq, ack, "abc")
	p.expect(fmt.Sprintf("ACK %d ack %d", ack, seq+3))
	p.state(StateFinWait2)
	p.in(fa, seq+3, ack, "")
	if p.poll(); !p.app.closed || p.app.err != nil || p.app.received != 3 {
		t.Errorf("closed %v: %v, %d octets", p.app.closed, p.app.err, p.app.received)
	}
}

// Keep-alive finds a peer that is gone there, too.
func TestHalfCloseIsKeptAlive(t *testing.T) {
	p := newRawPeer(t, Config{Params: Params{KeepAlive: time.Minute, KeepAliveProbes: 2}})
	p.establish(quietApp(0))
	p.conn.Close()
	p.expect("FIN,ACK 1 ack 1")
	p.in(tcp.ACK, 1, 2, "")
	p.state(StateFinWait2)
	if got := p.wait(61 * time.Second); got != "ACK 1 ack 1" {
		t.Fatalf("probe %q", got)
	}
	p.wait(time.Minute)
	if !errors.Is(p.app.err, &Error{Kind: Timeout}) {
		t.Errorf("error %v", p.app.err)
	}
}

func TestFinWait2IsNotForEver(t *testing.T) {
	p, seq, ack := inState(t, StateFinWait2)
	p.wait(time.Hour)
	p.in(tcp.ACK, seq, ack, "") // a sign of life
	p.wait(30 * time.Second)
	p.conn.CloseBoth()
	p.wait(29 * time.Second)
	p.in(tcp.ACK, seq, ack, "")
	p.wait(50 * time.Second)
	p.state(StateFinWait2)
	p.wait(11 * time.Second)
	if !errors.Is(p.app.err, &Error{Kind: Timeout}) || p.e.Stats().Open != 0 {
		t.Fatalf("error %v", p.app.err)
	}
}

func TestTimeWaitEnds(t *testing.T) {
	p, _, _ := inState(t, StateTimeWait)
	if !p.app.closed || p.app.err != nil {
		t.Fatalf("closed %v: %v", p.app.closed, p.app.err)
	}
	if !p.e.Owns(p.local, p.remote) {
		t.Fatal("not owned in TIME-WAIT")
	}
	p.wait(61 * time.Second)
	if p.e.Stats().Open != 0 || p.e.Poll(p.now) != frame.Never {
		t.Fatal("TIME-WAIT does not end")
	}
}
