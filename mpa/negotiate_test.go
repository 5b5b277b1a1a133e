package mpa

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFrameTable(t *testing.T) {
	for _, c := range []struct {
		name string
		f    Frame
		want string
	}{
		{"plain request", Frame{Kind: Request, Rev: 1}, "MPA ID Req Frame\x00\x01\x00\x00"},
		{"reply with all flags", Frame{Kind: Reply, Markers: true, CRC: true, Reject: true, Enhanced: true, Reserved: 15, Rev: 2, PrivateData: []byte("hello")},
			"MPA ID Rep Frame\xff\x02\x00\x05hello"},
		{"CRC only", Frame{Kind: Request, CRC: true, Rev: 1}, "MPA ID Req Frame\x40\x01\x00\x00"},
		{"longest", Frame{Kind: Request, Rev: 1, PrivateData: make([]byte, 512)}, "MPA ID Req Frame\x00\x01\x02\x00" + strings.Repeat("\x00", 512)},
	} {
		b := c.f.AppendTo(nil)
		if string(b) != c.want || len(b) != c.f.Len() {
			t.Errorf("%s: encoded %q", c.name, b)
		}
		for i := range b {
			if _, n, err := ParseFrame(b[:i], c.f.Kind); n != 0 || err != nil {
				t.Fatalf("%s cut to %d: %d, %v", c.name, i, n, err)
			}
		}
		f, n, err := ParseFrame(append(b, "more"...), c.f.Kind)
		if err != nil || n != len(b) || string(f.AppendTo(nil)) != c.want {
			t.Errorf("%s: parsed %+v, %d, %v", c.name, f, n, err)
		}
	}
}

func TestFrameErrors(t *testing.T) {
	for _, c := range []struct{ name, in, detail string }{
		{"first octet", "X", "wrong key"},
		{"last octet of the key", "MPA ID Req FramE", "wrong key"},
		{"peer is an initiator too", "MPA ID Rep Frame", "both sides"},
		{"513 octets", "MPA ID Req Frame\x00\x01\x02\x01", "512"},
	} {
		_, _, err := ParseFrame([]byte(c.in), Request)
		if !errors.Is(err, &Error{Code: Startup}) || !strings.Contains(err.Error(), c.detail) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestEnhancedTable(t *testing.T) {
	for _, c := range []struct {
		e    Enhanced
		want string
	}{
		{Enhanced{IRD: 128, ORD: 64}, "\x00\x80\x00\x40"},
		{Enhanced{IRD: NotNegotiated, ORD: NotNegotiated, P2P: true, RTRSend: true, RTRWrite: true, RTRRead: true}, "\xff\xff\xff\xff"},
		{Enhanced{P2P: true, RTRWrite: true}, "\x80\x00\x80\x00"},
		{Enhanced{P2P: true, RTRRead: true}, "\x80\x00\x40\x00"},
		{Enhanced{RTRSend: true}, "\x40\x00\x00\x00"},
	} {
		b := c.e.AppendTo(nil)
		e, rest, err := ParseEnhanced(append(b, 'x'))
		if string(b) != c.want || e != c.e || err != nil || string(rest) != "x" {
			t.Errorf("%+v: %x, back %+v, %v", c.e, b, e, err)
		}
	}
	if _, _, err := ParseEnhanced([]byte{1, 2, 3}); !errors.Is(err, &Error{Code: Startup}) {
		t.Errorf("short: %v", err)
	}
}

// negotiate lets two sides meet in pieces of one octet and returns both
// results; the responder's error comes first.
func negotiate(t *testing.T, ic, rc Config, private string) (ir, rr Result, err error) {
	t.Helper()
	i, err := NewInitiator(ic)
	if err != nil {
		return ir, rr, err
	}
	r := NewResponder(rc)
	done := false
	for _, b := range i.AppendRequest(nil) {
		if _, done, err = r.Receive([]byte{b}); err != nil {
			return ir, rr, err
		}
	}
	if !done {
		t.Fatal("request incomplete")
	}
	reply, err := r.AppendAccept(nil, []byte(private))
	if err != nil {
		return ir, rr, err
	}
	n, done, err := i.Receive(append(reply, "fpdu"...))
	if err != nil {
		return ir, rr, err
	}
	if !done || n != len(reply) {
		t.Fatalf("reply: %d of %d octets, done %v", n, len(reply), done)
	}
	return i.Result(), r.Result(), nil
}

func TestNegotiationOutcomes(t *testing.T) {
	with := func(change func(*Config)) Config {
		c := DefaultConfig()
		change(&c)
		return c
	}
	def := DefaultConfig()
	v1 := with(func(c *Config) { c.Revision = 1 })
	noCRC := with(func(c *Config) { c.CRC = CRCOptional })
	strict := with(func(c *Config) { c.CRC = CRCRefused })
	type outcome struct {
		rev                uint8
		crc, toResp, toIni bool // markers towards responder, initiator
		iORD, iIRD         uint16
		rORD, rIRD         uint16
		rtr                RTR // the initiator's choice
	}
	for _, c := range []struct {
		name   string
		ic, rc Config
		want   outcome
		err    error
	}{
		{"defaults", def, def, outcome{rev: 2, crc: true, iORD: 32, iIRD: 32, rORD: 32, rIRD: 32}, nil},
		{"revision 1", v1, def, outcome{rev: 1, crc: true, iORD: 32, iIRD: 32, rORD: 32, rIRD: 32}, nil},
		{"revision 2 meets 1", def, v1, outcome{}, &Error{Code: Startup}},
		{"no CRC", noCRC, noCRC, outcome{rev: 2, iORD: 32, iIRD: 32, rORD: 32, rIRD: 32}, nil},
		{"CRC for the initiator", def, noCRC, outcome{rev: 2, crc: true, iORD: 32, iIRD: 32, rORD: 32, rIRD: 32}, nil},
		{"CRC for the responder", noCRC, def, outcome{rev: 2, crc: true, iORD: 32, iIRD: 32, rORD: 32, rIRD: 32}, nil},
		{"responder refuses CRC", def, strict, outcome{}, &Error{Code: LocalCatastrophic}},
		{"initiator refuses CRC", strict, def, outcome{}, &Error{Code: LocalCatastrophic}},
		{"markers to the initiator", with(func(c *Config) { c.Markers = true }), def,
			outcome{rev: 2, crc: true, toIni: true, iORD: 32, iIRD: 32, rORD: 32, rIRD: 32}, nil},
		{"markers to the responder", def, with(func(c *Config) { c.Markers = true }),
			outcome{rev: 2, crc: true, toResp: true, iORD: 32, iIRD: 32, rORD: 32, rIRD: 32}, nil},
		{"clamping", with(func(c *Config) { c.IRD, c.ORD = 4, 100 }), with(func(c *Config) { c.IRD, c.ORD = 16, 8 }),
			outcome{rev: 2, crc: true, iORD: 16, iIRD: 4, rORD: 4, rIRD: 16}, nil},
		{"no Reads", with(func(c *Config) { c.IRD, c.ORD = 0, 0 }), def, outcome{rev: 2, crc: true}, nil},
		{"initiator leaves depths open", with(func(c *Config) { c.IRD, c.ORD = NotNegotiated, NotNegotiated }), def,
			outcome{rev: 2, crc: true, iORD: NotNegotiated, iIRD: NotNegotiated, rORD: 32, rIRD: 32}, nil},
		{"responder leaves depths open", def, with(func(c *Config) { c.IRD, c.ORD = NotNegotiated, NotNegotiated }),
			outcome{rev: 2, crc: true, iORD: 32, iIRD: 32, rORD: NotNegotiated, rIRD: NotNegotiated}, nil},
		{"peer to peer", with(func(c *Config) { c.PeerToPeer = true }), def,
			outcome{rev: 2, crc: true, iORD: 32, iIRD: 32, rORD: 32, rIRD: 32, rtr: RTRWrite}, nil},
		{"RTR by Read without Reads", with(func(c *Config) { c.PeerToPeer, c.RTR, c.IRD, c.ORD = true, RTRRead, 0, 0 }), def,
			outcome{rev: 2, crc: true, iORD: 1, rIRD: 1, rtr: RTRRead}, nil},
		{"RTR by Send", with(func(c *Config) { c.PeerToPeer = true }), with(func(c *Config) { c.RTR = RTRSend }),
			outcome{rev: 2, crc: true, iORD: 32, iIRD: 32, rORD: 32, rIRD: 32, rtr: RTRSend}, nil},
		{"no common RTR", with(func(c *Config) { c.PeerToPeer, c.RTR = true, RTRSend }), with(func(c *Config) { c.RTR = RTRRead }),
			outcome{}, &Error{Code: NoRTR}},
		{"private data too long", with(func(c *Config) { c.PrivateData = make([]byte, 509) }), def, outcome{}, &Error{Code: LocalCatastrophic}},
		{"revision 3", with(func(c *Config) { c.Revision = 3 }), def, outcome{}, &Error{Code: LocalCatastrophic}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ir, rr, err := negotiate(t, c.ic, c.rc, "welcome")
			if c.err != nil {
				if !errors.Is(err, c.err) {
					t.Fatalf("error %v, want %v", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := outcome{ir.Revision, ir.CRC, ir.MarkersTx, ir.MarkersRx, ir.ORD, ir.IRD, rr.ORD, rr.IRD, ir.RTR}
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if ir.Tx() != rr.Rx() || ir.Rx() != rr.Tx() || ir.Revision != rr.Revision {
				t.Errorf("the sides disagree: %+v, %+v", ir, rr)
			}
			if string(ir.PrivateData) != "welcome" || !bytes.Equal(rr.PrivateData, c.ic.PrivateData) {
				t.Errorf("private data %q, %q", ir.PrivateData, rr.PrivateData)
			}
			if ir.RTR&^rr.RTR != 0 || ir.PeerToPeer != rr.PeerToPeer {
				t.Errorf("RTR %v outside %v", ir.RTR, rr.RTR)
			}
		})
	}
}

func TestLongestPrivateData(t *testing.T) {
	for rev, room := range map[uint8]int{1: 512, 2: 508} {
		c := DefaultConfig()
		c.Revision, c.PrivateData = rev, bytes.Repeat([]byte{'p'}, room)
		ir, rr, err := negotiate(t, c, DefaultConfig(), strings.Repeat("q", room))
		if err != nil || len(ir.PrivateData) != room || len(rr.PrivateData) != room {
			t.Errorf("revision %d: %d, %d, %v", rev, len(ir.PrivateData), len(rr.PrivateData), err)
		}
		if _, _, err := negotiate(t, c, DefaultConfig(), strings.Repeat("q", room+1)); err == nil {
			t.Errorf("revision %d: reply of %d octets accepted", rev, room+1)
		}
	}
}

func TestReject(t *testing.T) {
	for _, rev := range []uint8{1, 2} {
		c := DefaultConfig()
		c.Revision = rev
		i, _ := NewInitiator(c)
		r := NewResponder(DefaultConfig())
		if _, done, err := r.Receive(i.AppendRequest(nil)); !done || err != nil {
			t.Fatal(done, err)
		}
		n, done, err := i.Receive(r.AppendReject(nil, []byte("go away")))
		var rejected *Rejected
		if done || n == 0 || !errors.As(err, &rejected) || string(rejected.PrivateData) != "go away" || rejected.Enhanced != (rev == 2) {
			t.Errorf("revision %d: %d, %v, %+v", rev, n, done, err)
		}
		if _, _, again := i.Receive([]byte("x")); again != err {
			t.Errorf("error is not sticky: %v", again)
		}
	}
}

func TestRefusalOfCRCIsARejectingReply(t *testing.T) {
	i, _ := NewInitiator(DefaultConfig())
	r := NewResponder(Config{Revision: 2, CRC: CRCRefused})
	if _, _, err := r.Receive(i.AppendRequest(nil)); err == nil {
		t.Fatal("accepted")
	}
	f, _, err := ParseFrame(r.Refusal(), Reply)
	if err != nil || !f.Reject || f.CRC || !f.Enhanced {
		t.Fatalf("%+v, %v", f, err)
	}
}

func TestRepliesThatEndTheConnection(t *testing.T) {
	data := func(e Enhanced) []byte { return e.AppendTo(nil) }
	p2p := DefaultConfig()
	p2p.PeerToPeer = true
	for _, c := range []struct {
		name string
		cfg  Config
		f    Frame
		code Code
	}{
		{"revision above ours", DefaultConfig(), Frame{Rev: 3, Enhanced: true, PrivateData: data(Enhanced{})}, Startup},
		{"not enhanced", DefaultConfig(), Frame{Rev: 2}, Startup},
		{"enhanced without data", DefaultConfig(), Frame{Rev: 2, Enhanced: true, PrivateData: []byte{1, 2}}, Startup},
		{"more Reads than served", DefaultConfig(), Frame{Rev: 2, Enhanced: true, PrivateData: data(Enhanced{IRD: 1, ORD: 33})}, InsufficientIRD},
		{"not peer to peer", p2p, Frame{Rev: 2, Enhanced: true, PrivateData: data(Enhanced{IRD: 1})}, NoRTR},
		{"request instead", DefaultConfig(), Frame{Kind: Request, Rev: 2}, Startup},
	} {
		i, err := NewInitiator(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if c.name != "request instead" {
			c.f.Kind = Reply
		}
		if _, done, err := i.Receive(c.f.AppendTo(nil)); done || !errors.Is(err, &Error{Code: c.code}) {
			t.Errorf("%s: done %v, %v", c.name, done, err)
		}
	}
}

func TestLimitLowersOnly(t *testing.T) {
	c := DefaultConfig()
	i, _ := NewInitiator(c)
	r := NewResponder(c)
	if _, _, err := r.Receive(i.AppendRequest(nil)); err != nil {
		t.Fatal(err)
	}
	r.Limit(3, 100)
	if res := r.Request(); res.IRD != 3 || res.ORD != 32 {
		t.Fatalf("%+v", res)
	}
	reply, _ := r.AppendAccept(nil, nil)
	if _, _, err := i.Receive(reply); err != nil || i.Result().ORD != 3 {
		t.Fatalf("%+v, %v", i.Result(), err)
	}
}

func TestAnySplitOfTheRequestLeavesTheStreamBehindIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultConfig()
		c.PrivateData = rapid.SliceOfN(rapid.Byte(), 0, 508).Draw(t, "private")
		i, err := NewInitiator(c)
		if err != nil {
			t.Fatal(err)
		}
		behind := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "behind")
		in := append(i.AppendRequest(nil), behind...)
		r := NewResponder(DefaultConfig())
		for done := false; !done; {
			piece := in[:rapid.IntRange(1, len(in)).Draw(t, "piece")]
			var n int
			if n, done, err = r.Receive(piece); err != nil || n > len(piece) || !done && n != len(piece) {
				t.Fatalf("took %d of %d, done %v, %v", n, len(piece), done, err)
			}
			in = in[n:]
		}
		if !bytes.Equal(in, behind) || !bytes.Equal(r.Request().PrivateData, c.PrivateData) {
			t.Fatal("stream or private data changed")
		}
	})
}
