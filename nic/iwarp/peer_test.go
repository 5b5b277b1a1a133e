package iwarp

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// scripted is a peer that speaks plain TCP: a test writes its stream octet by
// octet.
type scripted struct {
	conn  *toe.Conn
	out   []byte
	piece int   // octets per segment, 0 = as many as fit
	ends  []int // where segments end, if they must
	in    []byte
	up    bool
	fin   bool
	ended bool
	err   error
}

func (s *scripted) Next(off uint64, limit int) int {
	n := min(limit, len(s.out)-int(off))
	if s.piece > 0 {
		n = min(n, s.piece)
	}
	for _, end := range s.ends {
		if end > int(off) {
			n = min(n, end-int(off))
		}
	}
	return n
}

func (s *scripted) Render(off uint64, p []byte)                 { copy(p, s.out[off:]) }
func (s *scripted) Established(*toe.Conn, frame.Time)           { s.up = true }
func (s *scripted) Receive(_ *toe.Conn, b []byte, _ frame.Time) { s.in = append(s.in, b...) }
func (s *scripted) Acked(*toe.Conn, uint64, frame.Time)         {}
func (s *scripted) PeerClosed(*toe.Conn, frame.Time)            { s.fin = true }
func (s *scripted) Closed(_ *toe.Conn, err error, _ frame.Time) {
	s.ended, s.err = true, err
}

func (s *scripted) write(b []byte) {
	s.out = append(s.out, b...)
	s.conn.Kick()
}

// fpdus takes what was received behind the start-up frame apart.
func (s *scripted) fpdus(t *testing.T, l mpa.Layout) (out [][]byte) {
	t.Helper()
	_, n, err := mpa.ParseFrame(s.in, mpa.Reply)
	if err != nil || n == 0 {
		t.Fatalf("no reply in %q: %v", s.in, err)
	}
	b := s.in[n:]
	for pos := uint64(0); ; {
		u, n, err := l.ParseFPDU(b, pos, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return out
		}
		out, b, pos = append(out, u), b[n:], pos+uint64(n)
	}
}

var crcOn = mpa.Layout{CRC: true}

// fpdu frames one ULPDU, without markers.
func fpdu(ulpdu []byte) []byte {
	b := make([]byte, crcOn.FPDULen(0, len(ulpdu)))
	return b[:crcOn.Put(b, 0, ulpdu)]
}

func segment(h ddp.Header, payload []byte) []byte { return fpdu(append(h.AppendTo(nil), payload...)) }

func send(msn uint32, payload string) []byte {
	return segment(rdmap.UntaggedHeader(rdmap.Send, true, 0, msn, 0), []byte(payload))
}

func request(cfg mpa.Config) []byte {
	i, err := mpa.NewInitiator(cfg)
	if err != nil {
		panic(err)
	}
	return i.AppendRequest(nil)
}

func reply(e mpa.Enhanced) []byte {
	f := mpa.Frame{Kind: mpa.Reply, CRC: true, Enhanced: true, Rev: 2, PrivateData: e.AppendTo(nil)}
	return f.AppendTo(nil)
}

// rawClient lets a scripted initiator (on node a) meet a server on node b
// whose application accepts after calling onRequest.
func rawClient(t testing.TB, cfg Config, onRequest func(*end)) (*world, *scripted, *end) {
	t.Helper()
	return rawClientOf(t, cfg, cm.Params{}, onRequest)
}

// rawClientOf is rawClient with what the application accepts with.
func rawClientOf(t testing.TB, cfg Config, accept cm.Params, onRequest func(*end)) (*world, *scripted, *end) {
	t.Helper()
	w := newWorld(t, toe.Config{}, cfg)
	s := newEnd(t, w.b, 4096)
	_, err := w.b.cm.Listen(netip.AddrPortFrom(w.b.addr, port), 8, func(ev cm.Event, now frame.Time) {
		s.handle(ev, now)
		if ev.Type == cm.ConnectRequest {
			s.id = ev.ID
			accept.QP = s.qp
			if err := ev.ID.Accept(accept, now); err != nil {
				t.Error(err)
			}
			onRequest(s)
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &scripted{}
	if p.conn, err = w.a.tcp.Connect(netip.AddrPortFrom(w.a.addr, 0), netip.AddrPortFrom(w.b.addr, port), p, w.now); err != nil {
		t.Fatal(err)
	}
	w.must("TCP connection", func() bool { return p.up })
	return w, p, s
}

// rawServer lets a scripted responder (on node b) meet a client on node a.
func rawServer(t testing.TB, cfg Config) (*world, *scripted, *end) {
	t.Helper()
	w := newWorld(t, toe.Config{}, cfg)
	p := &scripted{}
	if _, err := w.b.tcp.Listen(netip.AddrPortFrom(w.b.addr, port), 1, func(c *toe.Conn, _ frame.Time) toe.Handler {
		p.conn, p.up = c, true
		return p
	}); err != nil {
		t.Fatal(err)
	}
	c := newEnd(t, w.a, 4096)
	c.id = w.a.cm.NewID(c.handle, nil)
	if err := c.id.Connect(netip.AddrPortFrom(w.b.addr, port), cm.Params{QP: c.qp}, w.now); err != nil {
		t.Fatal(err)
	}
	w.must("MPA request", func() bool { return len(p.in) > 0 })
	return w, p, c
}

func TestOctetByOctet(t *testing.T) {
	w, p, s := rawClient(t, Config{}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)}) })
	p.piece = 1
	p.write(request(mpa.DefaultConfig()))
	w.must("passive completion", func() bool { return s.got(cm.PassiveComplete) })
	p.write(send(1, "hello"))
	p.write(segment(rdmap.TaggedHeader(rdmap.Write, true, s.mr.RKey(), s.mr.Addr()+100), []byte("written")))
	w.must("octets", func() bool { return string(s.mem[100:107]) == "written" })
	if len(s.poll()) != 1 || string(s.mem[:5]) != "hello" {
		t.Errorf("%s %q", wcString(s.wcs), s.mem[:5])
	}
}

func TestResponderIsSilentUntilTheFirstFPDU(t *testing.T) {
	w, p, s := rawClient(t, Config{}, func(s *end) {
		s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)})
		s.post(t, verbs.SendWR{ID: 2, Flags: verbs.Signaled, SGEs: s.sge(64, 8)})
	})
	p.write(request(mpa.DefaultConfig()))
	limit := w.now.Add(2 * time.Second)
	w.run(func() bool { return w.now > limit })
	if got := p.fpdus(t, crcOn); len(got) != 0 || !s.got(cm.PassiveComplete) {
		t.Fatalf("%d FPDUs before the initiator's first", len(got))
	}
	p.write(send(1, "go"))
	w.must("answer", func() bool { return len(p.fpdus(t, crcOn)) == 1 && len(s.poll()) == 2 })
}

func TestFPDURightBehindTheReply(t *testing.T) {
	for _, piece := range []int{0, 7} {
		w, p, c := rawServer(t, Config{})
		c.recv(t, verbs.RecvWR{ID: 4, SGEs: c.sge(0, 64)})
		p.piece = piece
		p.write(append(reply(mpa.Enhanced{IRD: 1, ORD: 1}), send(1, "early")...))
		w.must("receive", func() bool { return len(c.poll()) == 1 })
		if c.wcs[0].ByteLen != 5 || string(c.mem[:5]) != "early" || c.id.ORD() != 1 {
			t.Errorf("%s", wcString(c.wcs))
		}
	}
}

func TestBadStartup(t *testing.T) {
	for name, in := range map[string][]byte{
		"garbage":         []byte("GET / HTTP/1.1\r\n\r\n"),
		"FPDU behind":     append(request(mpa.DefaultConfig()), send(1, "too early")...),
		"revision 3":      {'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q', ' ', 'F', 'r', 'a', 'm', 'e', 0, 3, 0, 0},
		"a reply":         reply(mpa.Enhanced{}),
		"half, then FIN":  request(mpa.DefaultConfig())[:10],
		"half, then none": request(mpa.DefaultConfig())[:11],
	} {
		w, p, s := rawClient(t, Config{}, func(*end) { t.Error("request reported") })
		start := w.now
		p.write(in)
		if name == "half, then FIN" {
			p.conn.Close()
		}
		w.must(name+": end", func() bool { return p.ended })
		if len(s.events) != 0 || !w.b.e.Idle() || p.err == nil {
			t.Errorf("%s: %s, ended by %v", name, s.names(), p.err)
		}
		if d := w.now.Sub(start); name == "half, then none" && (d < 5*time.Second || d > 6*time.Second) {
			t.Errorf("%s: gave up after %v", name, d)
		}
	}
}

func TestBadReplies(t *testing.T) {
	reject := mpa.Frame{Kind: mpa.Reply, Reject: true, Rev: 2}
	for _, c := range []struct {
		name string
		in   []byte
		typ  cm.EventType
		err  error
	}{
		{"wrong key", []byte("HTTP/1.1 400 Bad Request"), cm.Failed, &mpa.Error{Code: mpa.Startup}},
		{"too many Reads", reply(mpa.Enhanced{IRD: 1, ORD: 129}), cm.Failed, &mpa.Error{Code: mpa.InsufficientIRD}},
		{"bare reject", reject.AppendTo(nil), cm.Rejected, cm.ErrRejected},
	} {
		w, p, client := rawServer(t, Config{})
		p.write(c.in)
		p.conn.Close()
		w.must(c.name+": end", func() bool { return client.got(cm.ClosedEvent) })
		if ev := client.events[0]; len(client.events) != 2 || ev.Type != c.typ || !errors.Is(ev.Err, c.err) {
			t.Errorf("%s: %s %v", c.name, client.names(), ev.Err)
		}
		if client.qp.State() == verbs.RTS {
			t.Errorf("%s: QP in RTS", c.name)
		}
		term := []byte{0x20, 6, 0, 0}
		if has := bytes.Contains(p.in, term); has != (c.name == "too many Reads") {
			t.Errorf("%s: Terminate sent: %v", c.name, has)
		}
	}
}

// A siw peer-to-peer initiator may close before its RTR frame; siw's own
// responder crashes then.
func TestPeerToPeerClosesBeforeRTR(t *testing.T) {
	w, p, s := rawClient(t, Config{}, func(*end) {})
	cfg := mpa.DefaultConfig()
	cfg.PeerToPeer = true
	p.write(request(cfg))
	w.must("reply", func() bool { return len(p.in) > 0 })
	p.conn.Close()
	w.must("end", func() bool { return s.got(cm.ClosedEvent) })
	if s.names() != "connect request; failed; closed; " {
		t.Errorf("%s", s.names())
	}
}

func TestPeerClosesInsideFPDU(t *testing.T) {
	w, p, s := rawClient(t, Config{}, func(s *end) { s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)}) })
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 })
	p.write(send(1, "never whole")[:20])
	p.conn.Close()
	w.must("end", func() bool { return s.got(cm.ClosedEvent) })
	var r *rdmap.Error
	if ev := s.events[2]; ev.Type != cm.Disconnected || !errors.As(ev.Err, &r) || r.Layer != rdmap.LayerLLP || r.Code != 1 {
		t.Errorf("%s %v", s.names(), ev.Err)
	}
	if wcs := s.poll(); len(wcs) != 1 || wcs[0].Status != verbs.StatusFlushed {
		t.Errorf("%s", wcString(wcs))
	}
}

func TestSiwTerminate(t *testing.T) {
	w, p, s := rawClient(t, Config{}, func(*end) {})
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 })
	h := rdmap.UntaggedHeader(rdmap.TerminateOp, true, 0, 1, 0)
	term := rdmap.Terminate{Layer: rdmap.LayerDDP, Type: 1, Code: 1, Order: rdmap.OrderSiw}.
		WithSegment(rdmap.TaggedHeader(rdmap.Write, true, 1, 2), 10)
	p.write(segment(h, term.AppendTo(nil)))
	w.must("end", func() bool { return p.fin && s.got(cm.Disconnected) })
	if r := remoteErr(w.b); r == nil || !errors.Is(r, &rdmap.Error{Layer: rdmap.LayerDDP, Type: 1, Code: 1}) {
		t.Errorf("learnt %v", r)
	}
	if got := p.fpdus(t, crcOn); len(got) != 0 {
		t.Errorf("a Terminate was answered: %x", got)
	}
}

func TestTerminateOnTheWire(t *testing.T) {
	w, p, s := rawClient(t, Config{}, func(*end) {})
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 })
	bad := rdmap.TaggedHeader(rdmap.Write, true, s.mr.RKey(), s.mr.Addr()+4090)
	p.write(segment(bad, make([]byte, 7)))
	w.must("FIN", func() bool { return p.fin })
	got := p.fpdus(t, crcOn)
	want := []byte{0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x11, 1, 0xc0, 0, 0, 21}
	want = bad.AppendTo(want)
	if len(got) != 1 || !bytes.Equal(got[0], want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

// fenced is a server whose region lies between guard octets.
func fenced(t testing.TB) (*world, *scripted, *end, []byte, *verbs.MR) {
	w, p, s := rawClient(t, Config{}, func(s *end) {
		s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(0, 64)})
	})
	all := make([]byte, 4096)
	mr, err := s.pd.RegMR(all[1024:3072], verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 })
	return w, p, s, all, mr
}

func FuzzLiveConnection(f *testing.F) {
	w := rdmap.TaggedHeader(rdmap.Write, true, 0, 0)
	r := rdmap.ReadRequest{Size: 10}
	q := rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, 1, 0)
	f.Add(append(w.AppendTo(nil), "data"...), true, uint16(0), byte(0))
	f.Add(r.AppendTo(q.AppendTo(nil)), true, uint16(2040), byte(3))
	f.Add(send(1, "hi"), false, uint16(0), byte(1))
	f.Fuzz(func(t *testing.T, b []byte, framed bool, off uint16, piece byte) {
		if len(b) > 4000 {
			return
		}
		w, p, s, all, mr := fenced(t)
		if framed {
			// Make the keys right, so that the checks behind them are reached.
			if h, payload, err := ddp.Parse(b); err == nil && h.Tagged {
				h.STag, h.TO = mr.RKey(), mr.Addr()-16+uint64(off)
				b = append(h.AppendTo(nil), payload...)
			}
			b = fpdu(b)
		}
		p.piece = int(piece)
		p.write(b)
		p.conn.Close()
		w.must("end", func() bool { return s.got(cm.ClosedEvent) })
		zero := make([]byte, 1024)
		if !bytes.Equal(all[:1024], zero) || !bytes.Equal(all[3072:], zero) || !bytes.Equal(s.mem[64:], make([]byte, len(s.mem)-64)) {
			t.Fatal("memory outside the region was written")
		}
		if len(s.poll()) != 1 {
			t.Fatalf("completions %s", wcString(s.wcs))
		}
	})
}
