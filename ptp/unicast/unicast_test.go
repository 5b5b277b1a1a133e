package unicast

import (
	"net/netip"
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// signal is one Signaling message on its way.
type signal struct {
	dst    transport.Addr
	target msg.PortIdentity
	tlvs   msg.TLVs
}

// mailbox keeps what was sent.
type mailbox struct{ sent []signal }

func (m *mailbox) Signal(dst transport.Addr, target msg.PortIdentity, tlvs msg.TLVs) {
	m.sent = append(m.sent, signal{dst, target, append(msg.TLVs(nil), tlvs...)})
}

// take empties the mailbox.
func (m *mailbox) take() []signal {
	s := m.sent
	m.sent = nil
	return s
}

// one is the only message.
func (m *mailbox) one(t *testing.T) signal {
	t.Helper()
	s := m.take()
	if len(s) != 1 {
		t.Fatalf("%d Signaling messages: %+v", len(s), s)
	}
	return s[0]
}

func identity(n uint8) msg.PortIdentity {
	return msg.PortIdentity{Clock: msg.ClockIdentity{2, 0, 0, 0xff, 0xfe, 0, 0, n}, Port: 1}
}

func address(n int) transport.Addr {
	return transport.Addr{IP: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)})}
}

func at(d time.Duration) frame.Time { return frame.Time(d) }

// world is a requester and a grantor with a wire between them.
type world struct {
	t        *testing.T
	r        *Requester
	g        *Grantor
	out, in  mailbox // of requester and grantor
	now      frame.Time
	lose     bool // what the requester says
	messages map[msg.Type]int
}

var theMaster, theSlave = address(1), address(2)

func newWorld(t *testing.T, limits Limits) *world {
	w := &world{t: t, messages: map[msg.Type]int{}}
	var err error
	if w.r, err = NewRequester(RequesterConfig{Masters: []transport.Addr{theMaster}, Duration: 60, Log: [numServices]int8{1, 0, 0, 0}}, &w.out); err != nil {
		t.Fatal(err)
	}
	if w.g, err = NewGrantor(limits, Announce|Sync|DelayResp|PdelayResp, &w.in); err != nil {
		t.Fatal(err)
	}
	return w
}

// step brings both to the present and returns the next deadline.
func (w *world) step() frame.Time {
	next := w.r.Poll(w.now)
	for _, s := range w.out.take() {
		if s.dst != theMaster {
			w.t.Fatalf("to %v", s.dst)
		}
		if !w.lose {
			w.g.Signaling(theSlave, identity(2), s.tlvs, w.now)
		}
	}
	for {
		to, typ, _, ok := w.g.Due(w.now)
		if !ok {
			break
		}
		if to != (Client{theSlave, identity(2)}) {
			w.t.Fatalf("%v for %v", typ, to)
		}
		w.messages[typ]++
	}
	next = min(next, w.g.Poll(w.now))
	for _, s := range w.in.take() {
		w.r.Signaling(theMaster, identity(1), s.tlvs, w.now)
		next = min(next, w.r.Poll(w.now))
	}
	return next
}

// run goes on for d.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for steps := 0; ; steps++ {
		next := w.step()
		if steps > 100_000 {
			w.t.Fatal("it does not come to rest")
		}
		if next <= w.now {
			next = w.now + 1
		}
		if next >= end {
			w.now = end
			return
		}
		w.now = next
	}
}

func TestGrantRenewCancel(t *testing.T) {
	w := newWorld(t, DefaultLimits())
	w.run(time.Second)
	if got := w.r.Granted(0); got != Announce {
		t.Fatalf("granted %v", got)
	}
	w.r.Want(0, Announce|Sync|DelayResp)
	w.run(299 * time.Second)
	if got := w.r.Granted(0); got != Announce|Sync|DelayResp {
		t.Fatalf("granted %v", got)
	}
	st := w.r.Stats()
	if st.Grants != 3 || st.Renewals < 15 || st.Expired+st.Cancelled != 0 || w.g.Stats().Renewed != st.Renewals {
		t.Errorf("%+v, %+v", st, w.g.Stats())
	}
	if a, s := w.messages[msg.Announce], w.messages[msg.Sync]; a < 149 || a > 152 || s < 298 || s > 301 {
		t.Errorf("%d Announces and %d Syncs in 300 s", a, s)
	}
	m := w.r.Masters()[0]
	if m.Identity != identity(1) || m.Granted != m.Wanted || m.Granted.String() != "Announce,Sync,Delay_Resp" {
		t.Errorf("%+v", m)
	}
	if log, ok := w.r.Interval(0, Announce); !ok || log != 1 {
		t.Errorf("Announce interval %d, %v", log, ok)
	}
	if !w.r.Accepts(theMaster, msg.FollowUp) || w.r.Accepts(theMaster, msg.PdelayResp) || w.r.Accepts(theSlave, msg.Sync) {
		t.Error("accepts the wrong messages")
	}
	w.r.Cancel()
	w.run(time.Second)
	if got := w.r.Granted(0); got != 0 || w.g.Clients() != 0 || w.g.Stats().Cancelled != 3 {
		t.Errorf("still granted %v, %d clients, %+v", got, w.g.Clients(), w.g.Stats())
	}
	before := w.messages[msg.Sync]
	w.run(10 * time.Second)
	if w.messages[msg.Sync] != before {
		t.Error("Syncs after the cancellation")
	}
}

// A client that falls silent is forgotten; it learns that its grants are over,
// and asks again at the query interval.
func TestExpiry(t *testing.T) {
	w := newWorld(t, DefaultLimits())
	w.r.Want(0, Announce|Sync)
	w.run(time.Second)
	w.lose = true
	w.run(70 * time.Second)
	if w.g.Clients() != 0 || w.g.Stats().Expired != 2 {
		t.Errorf("%d clients, %+v", w.g.Clients(), w.g.Stats())
	}
	if st := w.r.Stats(); st.Expired != 2 || w.r.Granted(0) != 0 {
		t.Errorf("%+v, still granted %v", st, w.r.Granted(0))
	}
	w.lose = false
	w.run(3 * time.Second)
	if w.r.Granted(0) != Announce|Sync {
		t.Errorf("granted %v", w.r.Granted(0))
	}
}

// A cancellation that nobody acknowledges is repeated, then given up.
func TestCancelIsRepeated(t *testing.T) {
	w := newWorld(t, DefaultLimits())
	w.run(time.Second)
	w.r.Cancel()
	cancels := 0
	for next := w.now; next != frame.Never; {
		next = w.r.Poll(next)
		for _, s := range w.out.take() {
			if tlv, _, _ := s.tlvs.Next(); tlv.Type == msg.TLVCancelUnicast {
				cancels++
			}
		}
	}
	if cancels != cancelTries {
		t.Errorf("%d cancellations", cancels)
	}
}

func TestGrantorCancels(t *testing.T) {
	w := newWorld(t, DefaultLimits())
	w.r.Want(0, Announce|Sync|DelayResp)
	w.run(time.Second)
	w.g.Offer(DelayResp)
	w.step()
	if w.r.Granted(0) != DelayResp || w.r.Stats().Cancelled != 2 {
		t.Fatalf("granted %v, %+v", w.r.Granted(0), w.r.Stats())
	}
	w.run(40 * time.Second)
	if st := w.r.Stats(); st.Denials < 2 || st.Denials > 14 {
		t.Errorf("%d denials in 40 s", st.Denials)
	}
	w.g.Offer(Announce | Sync | DelayResp)
	w.run(40 * time.Second)
	if w.r.Granted(0) != Announce|Sync|DelayResp {
		t.Errorf("granted %v", w.r.Granted(0))
	}
}

// request is what a client asks for.
func request(typ msg.Type, log int8, duration uint32) msg.TLVs {
	return (&msg.RequestUnicast{Type: typ, LogInterval: log, Duration: duration}).Append(nil)
}

// granted reads the one grant of a message.
func granted(t *testing.T, s signal) (g msg.GrantUnicast) {
	t.Helper()
	tlv, rest, ok := s.tlvs.Next()
	if !ok || tlv.Type != msg.TLVGrantUnicast || len(rest) > 0 || g.Parse(tlv.Value) != nil {
		t.Fatalf("no grant: %x", s.tlvs)
	}
	return g
}

func TestLimits(t *testing.T) {
	var box mailbox
	g, err := NewGrantor(Limits{Clients: 3, MaxDuration: 100, MinLog: -4, MaxLog: 2, Rate: 40}, Announce|Sync|DelayResp, &box)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		client   uint8
		typ      msg.Type
		log      int8
		duration uint32
		want     msg.GrantUnicast
	}{
		{1, msg.Sync, -4, 60, msg.GrantUnicast{Type: msg.Sync, LogInterval: -4, Duration: 60, Renewal: true}},
		{1, msg.Sync, -7, 600, msg.GrantUnicast{Type: msg.Sync, LogInterval: -4, Duration: 100, Renewal: true}}, // clamped
		{2, msg.Sync, -4, 60, msg.GrantUnicast{Type: msg.Sync, LogInterval: -4, Duration: 60, Renewal: true}},
		{3, msg.Sync, -4, 60, msg.GrantUnicast{Type: msg.Sync, LogInterval: -4}}, // 48 per second
		{3, msg.Sync, -3, 60, msg.GrantUnicast{Type: msg.Sync, LogInterval: -3, Duration: 60, Renewal: true}},
		{3, msg.Announce, 0, 60, msg.GrantUnicast{Type: msg.Announce}}, // 41
		{3, msg.DelayResp, -4, 60, msg.GrantUnicast{Type: msg.DelayResp, LogInterval: -4, Duration: 60, Renewal: true}},
		{4, msg.DelayResp, 0, 60, msg.GrantUnicast{Type: msg.DelayResp}},           // a fourth client
		{3, msg.PdelayResp, 0, 60, msg.GrantUnicast{Type: msg.PdelayResp}},         // not offered
		{3, msg.Sync, 3, 60, msg.GrantUnicast{Type: msg.Sync, LogInterval: 3}},     // too slow
		{3, msg.Management, 0, 60, msg.GrantUnicast{Type: msg.Management}},         // no such service
		{3, msg.Sync, -3, 0, msg.GrantUnicast{Type: msg.Sync, LogInterval: -3}},    // for no time
		{3, msg.Sync, 127, 60, msg.GrantUnicast{Type: msg.Sync, LogInterval: 127}}, // absurd
		{3, msg.DelayResp, -128, 60, msg.GrantUnicast{Type: msg.DelayResp, LogInterval: -4, Duration: 60, Renewal: true}},
	} {
		g.Signaling(address(int(c.client)), identity(c.client), request(c.typ, c.log, c.duration), 0)
		g.Poll(0)
		if got := granted(t, box.one(t)); got != c.want {
			t.Errorf("request %d: %+v, want %+v", i, got, c.want)
		}
	}
	if g.Granted(address(3), identity(3)) != Sync|DelayResp || g.Clients() != 3 {
		t.Errorf("client 3 has %v of %d", g.Granted(address(3), identity(3)), g.Clients())
	}
	// What ends makes room.
	g.Signaling(address(1), identity(1), (&msg.CancelUnicast{Type: msg.Sync}).Append(nil, msg.TLVCancelUnicast), 0)
	g.Signaling(address(4), identity(4), request(msg.Sync, -4, 60), 0)
	g.Poll(0)
	if s := box.take(); len(s) != 2 || granted(t, s[1]).Duration != 60 {
		t.Errorf("%+v", s)
	}
}

// Answers are given at the granted rate, with some slack for jitter.
func TestAnswerRate(t *testing.T) {
	var box mailbox
	g, err := NewGrantor(DefaultLimits(), DelayResp, &box)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := g.Answer(theSlave, identity(2), msg.DelayResp, 0); ok {
		t.Error("answers without a grant")
	}
	g.Signaling(theSlave, identity(2), request(msg.DelayResp, 0, 60), 0)
	asked, answered := 0, 0
	for now := at(0); now < at(30*time.Second); now = now.Add(100 * time.Millisecond) {
		asked++
		if log, ok := g.Answer(theSlave, identity(2), msg.DelayResp, now); ok {
			answered++
			if log != 0 {
				t.Fatalf("interval %d", log)
			}
		}
	}
	if answered < 55 || answered > 65 || int(g.Stats().TooFast) != asked-answered {
		t.Errorf("%d of %d answered, %+v", answered, asked, g.Stats())
	}
	if _, ok := g.Answer(theSlave, identity(3), msg.DelayResp, at(30*time.Second)); ok {
		t.Error("answers another port")
	}
	if _, ok := g.Answer(theSlave, identity(2), msg.DelayResp, at(61*time.Second)); ok {
		t.Error("answers after the end")
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []RequesterConfig{{Duration: 9}, {LogQuery: 7}, {Masters: []transport.Addr{theMaster, theMaster}}, {Masters: make([]transport.Addr, MaxMasters+1)}} {
		if _, err := NewRequester(c, nil); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	for _, change := range []func(*Limits){
		func(l *Limits) { l.Clients = 0 }, func(l *Limits) { l.MaxDuration = 0 }, func(l *Limits) { l.MinLog = -11 },
		func(l *Limits) { l.MaxLog = -8 }, func(l *Limits) { l.Rate = 0 },
	} {
		l := DefaultLimits()
		change(&l)
		if _, err := NewGrantor(l, Announce, nil); err == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
}

// What a hostile peer sends neither panics nor grows without bound.
func FuzzSignaling(f *testing.F) {
	f.Add([]byte(request(msg.Sync, -3, 300)))
	f.Add([]byte((&msg.GrantUnicast{Type: msg.Announce, Duration: 300}).Append(nil)))
	f.Add([]byte((&msg.CancelUnicast{Type: msg.Announce}).Append(nil, msg.TLVCancelUnicast)))
	f.Add([]byte((&msg.CancelUnicast{Type: msg.Announce}).Append(nil, msg.TLVAckCancelUnicast)))
	f.Fuzz(func(t *testing.T, tlvs []byte) {
		var a, b mailbox
		r, _ := NewRequester(RequesterConfig{Masters: []transport.Addr{theMaster}}, &a)
		g, _ := NewGrantor(Limits{Clients: 2, MaxDuration: 100, MinLog: -4, MaxLog: 2, Rate: 40}, Announce|Sync, &b)
		for i := range 4 {
			now := at(time.Duration(i) * time.Second)
			r.Signaling(theMaster, identity(uint8(i)), tlvs, now)
			g.Signaling(address(i), identity(uint8(i)), tlvs, now)
			for n := 0; ; n++ {
				if _, _, _, ok := g.Due(now); !ok {
					break
				}
				if n > 8 {
					t.Fatal("more is due than was granted")
				}
			}
			if next := g.Poll(now); next <= now {
				t.Fatalf("next deadline %v at %v", next, now)
			}
			r.Poll(now)
		}
		if g.Clients() > 2 || len(b.sent) > 4 || g.load > 40<<10 {
			t.Fatalf("%d clients, %d answers, load %d", g.Clients(), len(b.sent), g.load)
		}
	})
}
