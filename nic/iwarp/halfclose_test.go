package iwarp

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	segments "tapir/nic/toe/packet"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// carrier takes over what node a sends behind its handshake: a test decides how
// the octets and the FIN travel.
type carrier struct {
	w      *world
	p      *scripted
	header tcp.Header
	base   tcp.Seq // of the stream
	dst    netip.Addr
}

// carry begins with the octets from now on.
func carry(w *world, p *scripted) *carrier {
	c := &carrier{w: w, p: p, dst: w.b.addr}
	w.a.out.drop = func(_ int, f *frame.Frame) bool {
		h, seg, err := ip.Parse(f.Bytes())
		if err != nil {
			w.t.Fatal(err)
		}
		th, data, err := tcp.Parse(seg)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(data) == 0 && !th.Flags.Has(tcp.FIN) {
			return false
		}
		if c.header.SrcPort == 0 {
			c.header, c.base, c.dst = th, th.Seq, h.Dst
		}
		return true
	}
	return c
}

// segment puts octets [from, to) of what was taken over on the wire, with the
// FIN or without.
func (c *carrier) segment(data []byte, from, to int, fin bool) {
	h := c.header
	h.Seq, h.Flags = c.base.Add(from), tcp.ACK
	if fin {
		h.Flags |= tcp.FIN
	}
	pw := segments.Writer{Pool: c.w.pool, TTL: 64}
	f := pw.New(c.w.a.addr, c.dst, &h, to-from, 1, 0)
	f.Append(data[from:to])
	pw.Seal(f, c.w.a.addr, c.dst, 0)
	c.w.a.out.enqueue(f)
}

// later lets the NIC do what it has to.
func (c *carrier) later() {
	c.w.quiet(2 * time.Millisecond)
}

// ways of data and FIN, cut at k.
var ways = map[string]func(c *carrier, data []byte, k int){
	"together": func(c *carrier, data []byte, k int) {
		c.segment(data, 0, k, false)
		c.segment(data, k, len(data), true)
	},
	"FIN alone": func(c *carrier, data []byte, k int) {
		c.segment(data, 0, k, false)
		c.segment(data, k, len(data), false)
		c.segment(data, len(data), len(data), true)
	},
	"a batch each": func(c *carrier, data []byte, k int) {
		c.segment(data, 0, k, false)
		c.later()
		c.segment(data, k, len(data), false)
		c.later()
		c.segment(data, len(data), len(data), true)
	},
	"two batches": func(c *carrier, data []byte, k int) {
		c.segment(data, 0, k, false)
		c.later()
		c.segment(data, k, len(data), true)
	},
	"out of order": func(c *carrier, data []byte, k int) {
		c.segment(data, len(data), len(data), true)
		c.segment(data, k, len(data), false)
		c.segment(data, 0, k, false)
	},
	"late": func(c *carrier, data []byte, k int) {
		c.segment(data, k, len(data), true)
		c.later()
		c.segment(data, 0, k, false)
	},
	"twice": func(c *carrier, data []byte, k int) {
		c.segment(data, 0, k, false)
		c.segment(data, 0, len(data), true)
		c.later()
		c.segment(data, 0, len(data), true)
	},
}

// answering is a server that answers each Send in its completion handler.
func answering(t *testing.T, s *end) {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.qp.Destroy())
	var err error
	s.cq, err = s.n.dev.CreateCQ(64, func(cq *verbs.CQ, _ frame.Time) {
		var wcs [8]verbs.WC
		n := cq.Poll(wcs[:])
		for _, wc := range wcs[:n] {
			if s.wcs = append(s.wcs, wc); wc.Opcode == verbs.WCRecv && wc.Status == verbs.StatusSuccess {
				s.post(t, verbs.SendWR{ID: 9, SGEs: s.sge(0, int(wc.ByteLen))})
			}
		}
		cq.ReqNotify(false)
	})
	must(err)
	s.cq.ReqNotify(false)
	s.qp, err = s.pd.CreateQP(verbs.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, MaxSend: 16, MaxRecv: 16})
	must(err)
	must(s.qp.Modify(verbs.Init))
	for i := range 2 {
		s.recv(t, verbs.RecvWR{ID: uint64(i), SGEs: s.sge(64*i, 64)})
	}
}

// halfClosed has a peer send requests and its FIN on one way, and returns what
// the NIC answers. The server's application gives the queue pair back as soon as
// it hears of the end; if lossy, answers have then been lost.
func halfClosed(t *testing.T, way func(*carrier, []byte, int), k func(n int) int, lossy bool) [][]byte {
	t.Helper()
	w := newWorld(t, toe.Config{}, Config{})
	s := newEnd(t, w.b, 1<<14)
	fill(s.mem, 1)
	answering(t, s)
	_, err := w.b.cm.Listen(netip.AddrPortFrom(w.b.addr, port), 8, func(ev cm.Event, now frame.Time) {
		s.handle(ev, now)
		switch ev.Type {
		case cm.ConnectRequest:
			s.id = ev.ID
			if err := ev.ID.Accept(cm.Params{QP: s.qp}, now); err != nil {
				t.Error(err)
			}
		case cm.Disconnected:
			w.b.dev.Defer(func(frame.Time) {
				if err := s.qp.Destroy(); err != nil {
					t.Error(err)
				}
			})
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
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 })
	c := carry(w, p)
	read := func(msn uint32, off, n int) []byte {
		r := rdmap.ReadRequest{SinkSTag: 7, SinkTO: uint64(off), Size: uint32(n), SourceSTag: s.mr.RKey(), SourceTO: s.mr.Addr() + uint64(off)}
		return segment(rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, msn, 0), r.AppendTo(nil))
	}
	data := slices.Concat(read(1, 1000, 10), write(s, 512, "placed"), send(1, "question"), read(2, 2000, 6000), send(2, "another one"))
	before := len(p.out)
	p.write(data)
	p.conn.Close()
	w.must("data", func() bool { return c.header.SrcPort != 0 })
	lost := 0
	w.b.out.drop = func(_ int, f *frame.Frame) bool {
		if lossy && f.Len() > 100 {
			lost++
		}
		return lossy && f.Len() > 100 && lost <= 3
	}
	way(c, p.out[before:], k(len(data)))
	w.must("FIN", func() bool { return p.fin && s.got(cm.ClosedEvent) })
	if string(s.mem[512:518]) != "placed" || s.names() != "connect request; passive complete; disconnected; closed; " {
		t.Errorf("%q, %s", s.mem[512:518], s.names())
	}
	answers := p.fpdus(t, crcOn)
	slices.SortFunc(answers, bytes.Compare)
	return answers
}

// What comes in front of a FIN is answered, however octets and FIN travel
// (RFC 5041 section 6.2.1).
func TestAnswersBeforeTheFIN(t *testing.T) {
	want := halfClosed(t, ways["a batch each"], func(n int) int { return n / 2 }, false)
	if len(want) < 2+5+1 { // Sends, and Read Responses of one and of several segments
		t.Fatalf("%d FPDUs", len(want))
	}
	for name, way := range ways {
		n := 0
		for k := 0; ; k += 5 {
			got := halfClosed(t, way, func(all int) int { n = all; return min(k, all) }, k%2 == 1)
			if !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("%s, cut at %d of %d: %d FPDUs instead of %d", name, k, n, len(got), len(want))
			}
			if k >= n {
				break
			}
		}
	}
}

// A request and the FIN: the reply still goes out, whatever the application
// decides.
func TestReplyBeforeTheFIN(t *testing.T) {
	for name, way := range ways {
		for k := range 6 {
			for _, accept := range []bool{true, false} {
				t.Run(fmt.Sprint(name, k, accept), func(t *testing.T) {
					w := newWorld(t, toe.Config{}, Config{})
					s := newEnd(t, w.b, 64)
					_, err := w.b.cm.Listen(netip.AddrPortFrom(w.b.addr, port), 8, func(ev cm.Event, now frame.Time) {
						s.handle(ev, now)
					}, nil)
					if err != nil {
						t.Fatal(err)
					}
					p := &scripted{}
					if p.conn, err = w.a.tcp.Connect(netip.AddrPortFrom(w.a.addr, 0), netip.AddrPortFrom(w.b.addr, port), p, w.now); err != nil {
						t.Fatal(err)
					}
					w.must("TCP connection", func() bool { return p.up })
					c := carry(w, p)
					p.write(request(mpa.DefaultConfig()))
					p.conn.Close()
					w.must("data", func() bool { return c.header.SrcPort != 0 })
					way(c, p.out, 4*k)
					w.must("request", func() bool { return s.got(cm.ConnectRequest) })
					c.later()
					if id := s.events[0].ID; accept {
						err = id.Accept(cm.Params{QP: s.qp}, w.now)
					} else {
						err = id.Reject(nil, w.now)
					}
					if err != nil {
						t.Fatal(err)
					}
					w.must("FIN", func() bool { return p.fin && s.got(cm.ClosedEvent) })
					f, n, err := mpa.ParseFrame(p.in, mpa.Reply)
					if err != nil || n != len(p.in) || f.Reject == accept {
						t.Errorf("%+v, %d of %d octets, %v", f, n, len(p.in), err)
					}
				})
			}
		}
	}
}
