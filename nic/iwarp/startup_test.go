package iwarp

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// meet connects a client with settings cc to a server with settings sc.
func meet(t testing.TB, cc, sc Config, p cm.Params) *pair {
	t.Helper()
	w := newWorld(t, toe.Config{}, Config{})
	cc.Source, sc.Source = w.a.e.cfg.Source, w.b.e.cfg.Source
	w.a.e.Configure(cc)
	w.b.e.Configure(sc)
	return dial(t, w, 1<<16, p, func(s *end, ev cm.Event, now frame.Time) {
		_ = ev.ID.Accept(cm.Params{QP: s.qp}, now) // strict settings refuse, and say so in an event
	})
}

// Every pair of settings ends in one of the outcomes of RFC 5044 section 7.1
// and RFC 6581 section 9, and where it is a connection, data passes both ways.
func TestEveryNegotiation(t *testing.T) {
	policies := []mpa.CRCPolicy{mpa.CRCRequired, mpa.CRCOptional, mpa.CRCRefused}
	count := map[string]int{}
	for i := range 2 * 2 * 3 * 3 * 2 * 2 * 2 {
		pick := func(n int) int { k := i % n; i /= n; return k }
		cc, sc := Config{}, Config{}
		cc.Revision, sc.Revision = uint8(1+pick(2)), uint8(1+pick(2))
		cc.CRC, sc.CRC = policies[pick(3)], policies[pick(3)]
		cc.Markers, sc.Markers = pick(2) == 1, pick(2) == 1
		cc.PeerToPeer = pick(2) == 1
		if cc.Validate() != nil {
			continue
		}
		name := fmt.Sprintf("rev %d/%d crc %d/%d markers %v/%v p2p %v", cc.Revision, sc.Revision, cc.CRC, sc.CRC, cc.Markers, sc.Markers, cc.PeerToPeer)
		x := meet(t, cc, sc, cm.Params{})
		outcome := "connected"
		switch {
		case cc.Revision > sc.Revision:
			outcome = "failed" // the responder closes
		case cc.CRC == mpa.CRCRequired && sc.CRC == mpa.CRCRefused:
			outcome = "rejected"
		case sc.CRC == mpa.CRCRequired && cc.CRC == mpa.CRCRefused:
			outcome = "failed"
		}
		count[outcome]++
		x.must(name+": outcome", func() bool { return len(x.c.events) > 0 })
		if first := x.c.events[0].Type.String(); outcome != "connected" {
			if first != outcome {
				t.Errorf("%s: %s, want %s", name, first, outcome)
			}
			continue
		}
		x.must(name+": connection", func() bool { return x.c.got(cm.ActiveComplete) && x.s.got(cm.PassiveComplete) })
		transferAll(t, x, 3000)
		c := x.a.e.conns.All()[0].result
		wantCRC := cc.CRC == mpa.CRCRequired || sc.CRC == mpa.CRCRequired
		if c.CRC != wantCRC || c.MarkersTx != sc.Markers || c.MarkersRx != cc.Markers || c.PeerToPeer != cc.PeerToPeer || c.Revision != cc.Revision {
			t.Errorf("%s: agreed on %+v", name, c)
		}
	}
	if count["connected"] < 50 || count["rejected"] < 10 || count["failed"] < 30 {
		t.Errorf("outcomes %v", count)
	}
}

// Each ready-to-receive indication is sent and understood, alone and chosen
// from a set; the accepting side may then send first.
func TestReadyToReceive(t *testing.T) {
	for _, c := range []struct {
		client, server mpa.RTR
		want           mpa.RTR // 0: nothing in common
	}{
		{mpa.RTRSend, mpa.RTRAny, mpa.RTRSend},
		{mpa.RTRWrite, mpa.RTRAny, mpa.RTRWrite},
		{mpa.RTRRead, mpa.RTRAny, mpa.RTRRead},
		{mpa.RTRAny, mpa.RTRSend, mpa.RTRSend},
		{mpa.RTRAny, mpa.RTRRead, mpa.RTRRead},
		{mpa.RTRAny, mpa.RTRAny, mpa.RTRWrite},
		{mpa.RTRSend | mpa.RTRRead, mpa.RTRAny, mpa.RTRRead},
		{mpa.RTRSend, mpa.RTRWrite, 0},
	} {
		for _, reads := range []uint16{0, cm.NoReads} {
			name := fmt.Sprintf("%v meets %v", c.client, c.server)
			x := meet(t, Config{RTR: c.client}, Config{RTR: c.server}, cm.Params{PeerToPeer: true, IRD: reads, ORD: reads})
			if c.want == 0 {
				x.must(name+": end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
				if !errors.Is(x.c.events[0].Err, &mpa.Error{Code: mpa.NoRTR}) || x.s.got(cm.PassiveComplete) {
					t.Errorf("%s: %v, server %s", name, x.c.events[0].Err, x.s.names())
				}
				continue
			}
			x.must(name, func() bool { return x.s.got(cm.PassiveComplete) })
			x.c.recv(t, verbs.RecvWR{ID: 1, SGEs: x.c.sge(0, 8)})
			x.s.post(t, verbs.SendWR{ID: 2, SGEs: x.s.sge(0, 8)})
			x.must(name+": the server's Send", func() bool { return len(x.c.poll()) == 1 })
			if got := x.a.e.conns.All()[0].result.RTR; got != c.want {
				t.Errorf("%s: chose %v, want %v", name, got, c.want)
			}
			if cep := x.a.e.CEPs()[0]; cep.RTR != c.want.String() {
				t.Errorf("%s: shown as %q", name, cep.RTR)
			}
		}
	}
}

// A peer of revision 1 closes on a request of revision 2; with Fallback the
// initiator tries again, once, with a request that it understands.
func TestFallback(t *testing.T) {
	for _, c := range []struct {
		name     string
		cc       Config
		p        cm.Params
		want     string
		revision uint8
	}{
		{"on", Config{Fallback: true}, cm.Params{PrivateData: []byte("hello")}, "active complete; ", 1},
		{"off", Config{}, cm.Params{}, "failed; closed; ", 0},
		{"peer to peer", Config{Fallback: true}, cm.Params{PeerToPeer: true}, "failed; closed; ", 0},
		{"asked for revision 1", Config{Fallback: true, Revision: 1}, cm.Params{}, "active complete; ", 1},
	} {
		x := meet(t, c.cc, Config{Revision: 1}, c.p)
		x.must(c.name, func() bool { return x.c.names() == c.want })
		if c.revision == 0 {
			continue
		}
		x.must(c.name, func() bool { return x.s.got(cm.PassiveComplete) })
		transferAll(t, x, 5000)
		if rev := x.a.e.CEPs()[0].Revision; rev != c.revision || string(x.s.events[0].PrivateData) != string(c.p.PrivateData) {
			t.Errorf("%s: revision %d, private data %q", c.name, rev, x.s.events[0].PrivateData)
		}
	}
}

// The second attempt is the last one, and an answer of any kind is no reason
// to try again.
func TestFallbackEnds(t *testing.T) {
	for _, answer := range []string{"", "MPA ID Rep", "HTTP/1.1 400 Bad Request"} {
		w := newWorld(t, toe.Config{}, Config{Fallback: true})
		calls := 0
		if _, err := w.b.tcp.Listen(netip.AddrPortFrom(w.b.addr, port), 1, func(c *toe.Conn, _ frame.Time) toe.Handler {
			calls++
			p := &scripted{conn: c, out: []byte(answer)}
			c.Close()
			return p
		}); err != nil {
			t.Fatal(err)
		}
		c := newEnd(t, w.a, 64)
		c.id = w.a.cm.NewID(c.handle, nil)
		if err := c.id.Connect(netip.AddrPortFrom(w.b.addr, port), cm.Params{QP: c.qp}, w.now); err != nil {
			t.Fatal(err)
		}
		w.must("end", func() bool { return c.got(cm.ClosedEvent) })
		want := 1
		if answer == "" {
			want = 2
		}
		if calls != want || c.names() != "failed; closed; " || !w.a.e.Idle() {
			t.Errorf("answer %q: %d connections, %s", answer, calls, c.names())
		}
	}
}

// With relaxed_ird_negotiation=0 a side that cannot have the Reads it wants
// ends the negotiation: the responder with a reject that says what it wants,
// the initiator with a Terminate.
func TestStrictReads(t *testing.T) {
	for _, c := range []struct {
		name   string
		cc, sc Config
		want   string
		err    error
	}{
		{"equal", Config{StrictReads: true, IRD: 4, ORD: 8}, Config{StrictReads: true, IRD: 8, ORD: 4}, "active complete; ", nil},
		{"the responder wants more", Config{IRD: 2}, Config{StrictReads: true, ORD: 3}, "rejected; closed; ", cm.ErrRejected},
		{"the responder serves less", Config{ORD: 9}, Config{StrictReads: true, IRD: 8}, "rejected; closed; ", cm.ErrRejected},
		{"the initiator wants more", Config{StrictReads: true, ORD: 9}, Config{IRD: 8}, "failed; closed; ", &mpa.Error{Code: mpa.InsufficientIRD}},
	} {
		x := meet(t, c.cc, c.sc, cm.Params{})
		x.must(c.name, func() bool { return x.c.names() == c.want })
		if !errors.Is(x.c.events[0].Err, c.err) {
			t.Errorf("%s: %v", c.name, x.c.events[0].Err)
		}
		if c.name == "the responder wants more" {
			if _, ord, ok := x.c.id.PeerReads(); !ok || ord != 3 {
				t.Errorf("the reject states ORD %d", ord)
			}
		}
	}
}

// try_gso: FPDUs of several segments if both sides offer them, else not.
func TestGSO(t *testing.T) {
	fpdus := func(client, server bool) uint64 {
		x := meet(t, Config{GSO: client}, Config{GSO: server}, cm.Params{})
		x.must("connection", func() bool { return x.c.got(cm.ActiveComplete) && x.s.got(cm.PassiveComplete) })
		transferAll(t, x, 60000)
		if x.a.e.CEPs()[0].GSO != (client && server) {
			t.Errorf("%v %v: shown wrongly", client, server)
		}
		return x.b.e.Totals().RxFPDUs
	}
	small := fpdus(false, false)
	if n := fpdus(true, false); n != small {
		t.Errorf("one side alone: %d FPDUs instead of %d", n, small)
	}
	if n := fpdus(true, true); n*5 > small {
		t.Errorf("both sides: %d FPDUs, without %d", n, small)
	}
}

// zcopy_tx acts only without CRC: then a long Write completes when it has been
// acknowledged, without it when its copy is handed to TCP.
func TestZeroCopy(t *testing.T) {
	for _, c := range []struct{ crc, noZeroCopy, copied bool }{
		{false, false, false}, {false, true, true}, {true, false, false}, {true, true, false},
	} {
		cfg := Config{NoZeroCopy: c.noZeroCopy, CRC: mpa.CRCOptional}
		if c.crc {
			cfg.CRC = mpa.CRCRequired
		}
		x := connect(t, toe.Config{}, cfg, 1<<14)
		x.c.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: x.c.sge(0, 8192), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
		x.a.turn(x.now) // sent, and not acknowledged
		if early := len(x.c.poll()) == 1; early != c.copied {
			t.Errorf("%+v: completed before the acknowledgement: %v", c, early)
		}
		x.must("completion", func() bool { return len(x.c.poll()) == 1 })
	}
}

// Frames with damage of every kind, at any split, end the connection without
// an answer and without an event, and leave nothing behind.
func TestGarbageAtStartup(t *testing.T) {
	good := request(mpa.DefaultConfig())
	change := func(at int, b ...byte) []byte {
		out := bytes.Clone(good)
		copy(out[at:], b)
		return out
	}
	for name, in := range map[string][]byte{
		"octets before":          append([]byte{0}, good...),
		"first octet":            change(0, 'm'),
		"last octet of the key":  change(15, 'E'),
		"revision 0":             change(17, 0),
		"revision 3":             change(17, 3),
		"513 octets announced":   change(18, 2, 1),
		"65535 octets announced": change(18, 255, 255),
		"enhanced, 3 octets":     change(18, 0, 3)[:23],
		"enhanced, no octets":    change(18, 0, 0)[:20],
		"one octet behind":       append(bytes.Clone(good), 'x'),
		"another request behind": append(bytes.Clone(good), good...),
	} {
		for _, piece := range []int{0, 1, 3} {
			w, p, s := rawClient(t, Config{}, func(*end) {})
			p.piece = piece
			p.write(in)
			w.must(name, func() bool { return p.ended })
			behind := strings.HasSuffix(name, "behind") && piece > 0 // the request was whole before
			if (len(s.events) != 0 && !behind) || !w.b.e.Idle() || len(p.in) != 0 && !behind {
				t.Errorf("%s by %d: %s, answered %q", name, piece, s.names(), p.in)
			}
		}
	}
	for name, in := range map[string][]byte{
		"a request":      good,
		"wrong key":      []byte("SSH-2.0-OpenSSH_9"),
		"513 octets":     append([]byte("MPA ID Rep Frame\x50\x02\x02\x01"), make([]byte, 600)...),
		"short enhanced": []byte("MPA ID Rep Frame\x50\x02\x00\x02ab"),
		"revision 1":     []byte("MPA ID Rep Frame\x40\x01\x00\x00"),
		"revision 9":     []byte("MPA ID Rep Frame\x50\x09\x00\x04\x00\x00\x00\x00"),
	} {
		for _, piece := range []int{0, 1} {
			w, p, c := rawServer(t, Config{})
			p.piece = piece
			p.write(in)
			w.must(name, func() bool { return c.got(cm.ClosedEvent) })
			if !errors.Is(c.events[0].Err, &mpa.Error{Code: mpa.Startup}) || c.names() != "failed; closed; " || !w.a.e.Idle() {
				t.Errorf("%s by %d: %s %v", name, piece, c.names(), c.events[0].Err)
			}
		}
	}
}
