package script

import (
	"net/netip"
	"strings"
	"testing"

	"tapir/nic/buf"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// TestUnaskedChecks hands the runner packets that no NIC may send: each is
// refused although no script says a word about it.
func TestUnaskedChecks(t *testing.T) {
	for _, c := range []struct {
		name, broken string
		n            int
		spoil        func(h *ip.Header, seg []byte, off *frame.Offload)
		after        func(packet []byte)
	}{
		{name: "sound", n: 100},
		{name: "checksum", broken: "checksum", n: 100, after: func(b []byte) { b[36] ^= 1 }},
		{name: "IP checksum", broken: "ip: header checksum wrong", n: 100, after: func(b []byte) { b[10] ^= 1 }},
		{name: "partial checksum", broken: "checksum", n: 100, spoil: func(_ *ip.Header, _ []byte, off *frame.Offload) { off.NeedsCsum = true }},
		{name: "options", broken: "tcp: impossible header field", n: 100, spoil: func(_ *ip.Header, seg []byte, _ *frame.Offload) { seg[12] = 1 << 4 }},
		{name: "length", broken: "packet: longer than the MTU", n: 1461},
		{name: "super-frame of one", broken: "super-frame: it holds only one segment", n: 100, spoil: func(_ *ip.Header, _ []byte, off *frame.Offload) {
			off.GSO, off.GSOSize = frame.GSOTCPv4, 100
		}},
		{name: "payload", broken: "payload: octet 7 of the stream is wrong", n: 100, spoil: func(_ *ip.Header, seg []byte, _ *frame.Offload) { seg[20+7] ^= 1 }},
		{name: "address", broken: "to no connection of the script: 10.0.0.3:40000", n: 100, spoil: func(h *ip.Header, _ []byte, _ *frame.Offload) {
			h.Dst = netip.MustParseAddr("10.0.0.3")
		}},
	} {
		s, err := Parse("x", "0 listen")
		if err != nil {
			t.Fatal(err)
		}
		r := s.runner(nil)
		p := r.peer(1)
		th := tcp.Header{SrcPort: p.local.Port(), DstPort: p.remote.Port(), Seq: 1, Flags: tcp.ACK | tcp.PSH}
		h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, Src: p.local.Addr(), Dst: p.remote.Addr(), PayloadLen: tcp.HeaderLen + c.n}
		f := buf.NewPool(1, 0).Get(h.HeaderLen() + h.PayloadLen)
		b := f.Extend(h.HeaderLen() + h.PayloadLen)
		seg := b[h.HeaderLen():]
		th.Put(seg)
		pattern(seg[tcp.HeaderLen:], nicSalt, 0)
		if c.spoil != nil {
			c.spoil(&h, seg, &f.Offload)
		}
		h.Put(b)
		putChecksum(seg, h.Src, h.Dst)
		if c.after != nil {
			c.after(b)
		}
		r.Transmit(f, h.Dst, 0)
		if len(r.queue) != 1 || r.queue[0].broken != c.broken {
			t.Errorf("%s: %q, want %q", c.name, r.queue[0].broken, c.broken)
		}
		m, err := Parse("x", "0 > P. 1:101(100) ack *")
		if err != nil {
			t.Fatal(err)
		}
		st := m.steps[0]
		e := st.act.do(r, st)
		if (e != nil) != (c.broken != "") || e != nil && !strings.Contains(e.Error(), c.broken) {
			t.Errorf("%s: the step says %v", c.name, e)
		}
	}
}

// TestUnaskedChecksOfRDMA spoils what every run of iWARP checks without being
// asked.
func TestUnaskedChecksOfRDMA(t *testing.T) {
	s, err := Parse("x", "protocol iwarp\n0 mr buf 100\n0.1 establish passive\n+0 < read-request buf size 5")
	if err != nil {
		t.Fatal(err)
	}
	r := s.runner(nil)
	r.pool = buf.NewPool(100, 0)
	if r.world, err = newVirtual(r); err != nil {
		t.Fatal(err)
	}
	for _, st := range s.steps {
		if err := r.step(st, false); err != nil {
			t.Fatal(err)
		}
	}
	w, e := r.world, r.peers[1].end
	if len(r.queue) != 1 || r.queue[0].broken != "" || w.changed() != "" {
		t.Fatalf("a sound run: %+v, %s", r.queue, w.changed())
	}
	g := w.find("buf")
	g.all[guard+100] ^= 1
	if have := w.changed(); have != "memory changed: buf+100 len 1, which lies outside of it" {
		t.Errorf("behind the region: %q", have)
	}
	fpdu := e.in[e.startIn:]
	for _, c := range []struct {
		broken string
		octet  int // from the end
	}{{"mpa: CRC error", 1}, {"mpa: CRC error", 5}} {
		bad := append([]byte(nil), fpdu...)
		bad[len(bad)-c.octet] ^= 1
		e.read = e.startIn
		if u, n := e.fpdu(bad); n != len(bad) || u.broken != c.broken {
			t.Errorf("octet %d from the end: %q, want %q", c.octet, u.broken, c.broken)
		}
	}
	e.mine.CRC, e.theirs.CRC, e.read = false, false, e.startIn
	if u, _ := e.fpdu(fpdu); u.broken != "FPDU: its CRC field is not zero although CRCs are off" {
		t.Errorf("a CRC where there is none: %q", u.broken)
	}
	bad := append([]byte(nil), fpdu...)
	bad[len(bad)-5] = 1
	if u, _ := e.fpdu(bad); u.broken != "FPDU: its pad is not zero" {
		t.Errorf("pad: %q", u.broken)
	}
}

// TestDeliveryIsChecked gives an application wrong octets.
func TestDeliveryIsChecked(t *testing.T) {
	a := &app{}
	data := make([]byte, 10)
	pattern(data, peerSalt, 0)
	if a.Receive(nil, data, 0); a.broken != "" {
		t.Errorf("the right octets: %s", a.broken)
	}
	if a.Receive(nil, data, 0); a.broken != "octet 10 of the stream was delivered wrong" {
		t.Errorf("wrong octets: %q", a.broken)
	}
	if a.Render(5, data); !strings.HasPrefix(a.broken, "rendered octets 5 to 15") {
		t.Errorf("rendered what was never cut: %q", a.broken)
	}
}
