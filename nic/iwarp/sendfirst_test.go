package iwarp

import (
	"testing"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/verbs"
)

const silence = 200 * time.Millisecond

// greeter is a server that sends as soon as it has accepted, to an initiator
// that says nothing behind its request.
func greeter(t *testing.T, cfg Config, may bool) (*world, *scripted, *end) {
	w, p, s := rawClientOf(t, cfg, cm.Params{MaySendFirst: may}, func(s *end) {
		s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)})
		s.post(t, verbs.SendWR{ID: 2, Flags: verbs.Signaled, SGEs: s.sge(64, 8)})
	})
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 && s.got(cm.PassiveComplete) })
	return w, p, s
}

// A responder that may sends first when the initiator is silent, and only then.
func TestSendsFirst(t *testing.T) {
	for _, x := range []struct {
		what string
		wait time.Duration
		may  bool
		want int
	}{
		{"both say so", silence, true, 1},
		{"never", Never, true, 0},
		{"the application does not", silence, false, 0},
	} {
		w, p, _ := greeter(t, Config{SendFirst: x.wait}, x.may)
		w.quiet(silence - 5*time.Millisecond)
		if n := len(p.fpdus(t, crcOn)); n != 0 {
			t.Errorf("%s: %d FPDUs too early", x.what, n)
		}
		w.quiet(2 * time.Second)
		if n := len(p.fpdus(t, crcOn)); n != x.want {
			t.Errorf("%s: %d FPDUs, want %d", x.what, n, x.want)
		}
		p.write(send(1, "go"))
		w.must(x.what+": the initiator's first", func() bool { return len(p.fpdus(t, crcOn)) == 1 })
	}
}

// The wait ends with the initiator's first FPDU.
func TestInitiatorIsFirst(t *testing.T) {
	w, p, s := greeter(t, Config{SendFirst: silence}, true)
	w.quiet(silence / 2)
	p.write(send(1, "go"))
	w.must("both Sends", func() bool { return len(p.fpdus(t, crcOn)) == 1 && len(s.poll()) == 2 })
	w.quiet(2 * silence)
	if n := len(p.fpdus(t, crcOn)); n != 1 || p.ended || p.fin {
		t.Errorf("%d FPDUs, ended %v, FIN %v", n, p.ended, p.fin)
	}
}

// A graceful close sends what is queued when the wait is over, an abortive one
// sends no FPDU.
func TestCloseBeforeSendingFirst(t *testing.T) {
	for _, x := range []struct {
		abortive bool
		want     int
	}{{false, 1}, {true, 0}} {
		w, p, s := greeter(t, Config{SendFirst: silence, CloseTimeout: silence / 4}, true)
		if err := s.id.Disconnect(x.abortive, w.now); err != nil {
			t.Fatal(err)
		}
		w.must("end", func() bool { return p.fin || p.ended })
		if n := len(p.fpdus(t, crcOn)); n != x.want || p.ended != x.abortive {
			t.Errorf("abortive %v: %d FPDUs, reset %v", x.abortive, n, p.ended)
		}
	}
}
