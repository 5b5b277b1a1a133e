package transport

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"tapir/ptp/msg"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

var (
	mac  = ether.Addr{2, 0, 0, 0, 0, 1}
	hop  = ether.Addr{2, 0, 0, 0, 0, 2}
	v4   = Port{Kind: UDPv4, MAC: mac, IP: netip.MustParseAddr("10.0.0.1")}
	v6   = Port{Kind: UDPv6, MAC: mac, IP: netip.MustParseAddr("fe80::1")}
	l2   = Port{MAC: mac}
	gptp = Port{MAC: mac, Local: true}
)

func message(t msg.Type) []byte {
	m := msg.Message{Header: msg.Header{Type: t, Source: msg.PortIdentity{Clock: msg.IdentityOf(mac), Port: 1}, Sequence: 0xfffe}}
	return m.Append(nil)
}

// The frame of a Sync over UDPv4, by hand but for the two checksums, which are
// checked by their definition.
func TestFrameUDPv4(t *testing.T) {
	body := message(msg.Sync)
	got := v4.Append([]byte{0xee}, body, Addr{}, ether.Addr{})[1:]
	head, _ := hex.DecodeString("01005e000181" + "020000000001" + "0800" +
		"4500004800004000" + "0111" + "8e23" + "0a000001" + "e0000181" + "013f" + "013f" + "0034")
	if want := len(head) + 2 + len(body); len(got) != want || len(got) != v4.Len(body) {
		t.Fatalf("%d octets, want %d; Len says %d", len(got), want, v4.Len(body))
	}
	if !bytes.Equal(got[:len(head)], head) || !bytes.Equal(got[len(head)+2:], body) {
		t.Errorf("%x\nwant %x", got, head)
	}
	if ip.Checksum(got[14:34], 0) != 0 {
		t.Error("IP checksum")
	}
	if ip.Checksum(got[34:], ip.PseudoSum(v4.IP, netip.MustParseAddr("224.0.1.129"), ip.ProtoUDP, len(got)-34)) != 0 {
		t.Error("UDP checksum")
	}
}

func TestGroups(t *testing.T) {
	scoped := v6
	scoped.Scope = 5
	for _, c := range []struct {
		port           Port
		t              msg.Type
		group, mac     string
		ttl, otherwise uint8 // of the default, and with a TTL of 9
	}{
		{l2, msg.Sync, "01:1b:19:00:00:00", "01:1b:19:00:00:00", 0, 0},
		{l2, msg.PdelayReq, "01:80:c2:00:00:0e", "01:80:c2:00:00:0e", 0, 0},
		{gptp, msg.Announce, "01:80:c2:00:00:0e", "01:80:c2:00:00:0e", 0, 0},
		{v4, msg.Management, "224.0.1.129", "01:00:5e:00:01:81", 1, 9},
		{v4, msg.PdelayRespFollowUp, "224.0.0.107", "01:00:5e:00:00:6b", 1, 1},
		{v6, msg.DelayReq, "ff0e::181", "33:33:00:00:01:81", 1, 9},
		{scoped, msg.FollowUp, "ff05::181", "33:33:00:00:01:81", 1, 9},
		{scoped, msg.PdelayResp, "ff02::6b", "33:33:00:00:00:6b", 1, 1},
	} {
		g := c.port.Group(c.t)
		if g.String() != c.group || g.GroupMAC().String() != c.mac || !g.IsMulticast() {
			t.Errorf("%v %v: %v, %v", c.port.Kind, c.t, g, g.GroupMAC())
		}
		if groups := c.port.Groups(); groups[0] != g && groups[1] != g {
			t.Errorf("%v is not among the groups to join: %v", g, groups)
		}
		for _, ttl := range []uint8{0, 9} {
			c.port.TTL = ttl
			b := c.port.Append(nil, message(c.t), Addr{}, ether.Addr{})
			h, n, err := ether.Parse(b)
			if err != nil || h.Dst.String() != c.mac {
				t.Fatalf("%v: %v, %v", c.t, h.Dst, err)
			}
			if c.port.Kind == Ethernet {
				continue
			}
			i, _, err := ip.Parse(b[n:])
			want := c.ttl
			if ttl != 0 {
				want = c.otherwise
			}
			if err != nil || i.TTL != want {
				t.Errorf("%v, TTL %d: %d, %v", c.t, ttl, i.TTL, err)
			}
		}
	}
}

// everyPort has each kind with and without a tag.
func everyPort() (all []Port) {
	for _, p := range []Port{l2, gptp, v4, v6} {
		all = append(all, p)
		p.Tag, p.Tagged, p.DSCP = ether.Tag{TPID: ether.TypeVLAN, TCI: 7<<13 | 100}, true, 46
		all = append(all, p)
	}
	return all
}

var everyType = []msg.Type{msg.Sync, msg.DelayReq, msg.PdelayReq, msg.PdelayResp, msg.FollowUp, msg.DelayResp, msg.PdelayRespFollowUp, msg.Announce, msg.Signaling, msg.Management}

func TestRoundTrip(t *testing.T) {
	unicast := map[Kind]Addr{Ethernet: {MAC: hop}, UDPv4: {IP: netip.MustParseAddr("10.0.0.2")}, UDPv6: {IP: netip.MustParseAddr("fe80::2")}}
	for _, port := range everyPort() {
		for _, typ := range everyType {
			for _, dst := range []Addr{{}, unicast[port.Kind]} {
				body := message(typ)
				b := port.Append(nil, body, dst, hop)
				if len(b) != port.Len(body) {
					t.Errorf("%d octets, Len says %d", len(b), port.Len(body))
				}
				p, err := Decapsulate(b)
				if err != nil {
					t.Fatalf("%v %v: %v", port.Kind, typ, err)
				}
				src := Addr{IP: port.IP}
				if port.Kind == Ethernet {
					src = Addr{MAC: mac}
				}
				want := dst
				if dst == (Addr{}) {
					want = port.Group(typ)
				} else if p.Header.Dst != hop {
					t.Errorf("to %v by way of %v", dst, p.Header.Dst)
				}
				var m msg.Message
				if p.Kind != port.Kind || p.Src != src || p.Dst != want || p.Event != typ.Event() || (p.Header.NTags == 1) != port.Tagged ||
					m.Parse(p.Body) != nil || m.Type != typ {
					t.Errorf("%v %v: %+v", port.Kind, typ, p)
				}
				if extra := len(p.Body) - len(body); (port.Kind == UDPv6) != (extra == 2) {
					t.Errorf("%d octets behind a %v over %v", extra, typ, port.Kind)
				}
			}
		}
	}
}

func TestNotPTP(t *testing.T) {
	tcp := v4.Append(nil, message(msg.Sync), Addr{}, hop)
	tcp[23] = ip.ProtoTCP
	fixIP(tcp)
	fragment := v4.Append(nil, message(msg.Sync), Addr{}, hop)
	fragment[20] = 0x20
	fixIP(fragment)
	port := v4.Append(nil, message(msg.Sync), Addr{}, hop)
	binary.BigEndian.PutUint16(port[36:], 321)
	lying := v6.Append(nil, message(msg.Sync), Addr{}, hop)
	lying[12], lying[13] = 8, 0 // IPv6 under the EtherType of IPv4
	empty := l2.Append(nil, message(msg.Sync), Addr{}, hop)[:14]
	arp := bytes.Clone(empty)
	arp[12], arp[13] = 8, 6
	for i, b := range [][]byte{tcp, fragment, port, lying, empty, arp} {
		if _, err := Decapsulate(b); err != ErrNotPTP {
			t.Errorf("%d: %v", i, err)
		}
		if _, ok := Find(b); ok {
			t.Errorf("%d found", i)
		}
	}
}

func fixIP(b []byte) {
	b[24], b[25] = 0, 0
	binary.BigEndian.PutUint16(b[24:], ip.Checksum(b[14:34], 0))
}

func TestDamaged(t *testing.T) {
	for _, port := range []Port{v4, v6} {
		b := port.Append(nil, message(msg.Announce), Addr{}, hop)
		p, _ := Find(b)
		flipped := bytes.Clone(b)
		flipped[len(b)-1] ^= 1
		if _, err := Decapsulate(flipped); err != ErrChecksum {
			t.Errorf("%v: %v", port.Kind, err)
		}
		if _, ok := Find(flipped); !ok {
			t.Error("Find looks at the checksum")
		}
		none := bytes.Clone(b)
		none[p.udp+6], none[p.udp+7] = 0, 0
		if _, err := Decapsulate(none); (err == nil) != (port.Kind == UDPv4) {
			t.Errorf("%v without a checksum: %v", port.Kind, err)
		}
		for n, want := range map[int]error{13: ether.ErrTruncated, 20: ip.ErrTruncated, len(b) - 1: ip.ErrTruncated} {
			if _, err := Decapsulate(b[:n]); !errors.Is(err, want) {
				t.Errorf("%d octets: %v, want %v", n, err, want)
			}
		}
		long := bytes.Clone(b)
		binary.BigEndian.PutUint16(long[p.udp+4:], 2000)
		if _, err := Decapsulate(long); err != udp.ErrTruncated {
			t.Error(err)
		}
	}
}

// Edits of whatever message, any number of them, leave a frame that a receiver
// accepts, with nothing else changed.
func TestEdits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, port := range everyPort() {
		b := port.Append(nil, message(msg.Sync), Addr{}, hop)
		p, err := Decapsulate(b)
		if err != nil {
			t.Fatal(err)
		}
		var want msg.Message
		if err := want.Parse(p.Body); err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			by := msg.TimeInterval(rnd.Int64() >> rnd.IntN(64))
			flags := msg.Flags(1) << rnd.IntN(16)
			at := msg.Timestamp{Seconds: rnd.Uint64() & msg.MaxSeconds, Nanoseconds: rnd.Uint32N(1e9)}
			p.AddCorrection(by)
			p.AddFlags(flags)
			p.SetTimestamp(at)
			want.Correction, want.Flags, want.Timestamp = want.Correction.Add(by), want.Flags|flags, at
			q, err := Decapsulate(b)
			if err != nil {
				t.Fatalf("%v, edit %d: %v", port.Kind, i, err)
			}
			if w := want.Append(nil); !bytes.Equal(q.Body[:len(w)], w) {
				t.Fatalf("%v: %x, want %x", port.Kind, q.Body, w)
			}
			if i%10 == 0 {
				p.Body[8] = 0 // room for more
				p.AddCorrection(0)
				b = port.Append(b[:0], want.Append(nil), Addr{}, hop)
				p, _ = Find(b)
			}
		}
	}
}

// A datagram without checksum stays without one, and one with a wrong checksum
// stays wrong.
func TestEditsKeepWrongChecksums(t *testing.T) {
	b := v4.Append(nil, message(msg.Sync), Addr{}, hop)
	p, _ := Find(b)
	sum := b[p.udp+6 : p.udp+8]
	copy(sum, []byte{0, 0})
	p.AddCorrection(12345)
	if sum[0] != 0 || sum[1] != 0 {
		t.Errorf("checksum %x", sum)
	}
	b = v6.Append(nil, message(msg.Sync), Addr{}, hop)
	p, _ = Find(b)
	b[p.udp+6] ^= 1
	p.AddCorrection(12345)
	if _, err := Decapsulate(b); err != ErrChecksum {
		t.Error(err)
	}
}

func TestReply(t *testing.T) {
	up := msg.Message{Header: msg.Header{Type: msg.FollowUp, Sequence: 7}, Timestamp: msg.Timestamp{Seconds: 1}}
	for _, port := range everyPort() {
		b := port.Append(nil, message(msg.Sync), Addr{}, hop)
		b = append(b, make([]byte, 8)...) // padding of Ethernet
		p, err := Decapsulate(b)
		if err != nil {
			t.Fatal(err)
		}
		f := frame.New(make([]byte, 256), nil)
		p.Reply(f, &up)
		q, err := Decapsulate(f.Bytes())
		var m msg.Message
		if err != nil || m.Parse(q.Body) != nil || m.Type != msg.FollowUp || m.Sequence != 7 || len(q.Body) != up.Len() {
			t.Errorf("%v: %+v, %v", port.Kind, m, err)
		}
		if q.Event || q.Src != p.Src || q.Dst != p.Dst || q.Header != p.Header {
			t.Errorf("%v: %+v, was %+v", port.Kind, q, p)
		}
	}
}

func TestAddr(t *testing.T) {
	for _, s := range []string{"10.0.0.1", "fe80::1", "02:00:00:00:00:01"} {
		a, err := ParseAddr(s)
		if err != nil || a.String() != s || a.IsMulticast() {
			t.Errorf("%v, %v", a, err)
		}
		want := map[byte]struct {
			kind msg.NetworkProtocol
			n    int
		}{'1': {msg.NetworkUDPv4, 4}, 'f': {msg.NetworkUDPv6, 16}, '0': {msg.NetworkEthernet, 6}}[s[0]]
		if p := a.PortAddress(); p.Protocol != want.kind || len(p.Address) != want.n {
			t.Errorf("%s: %+v", s, p)
		}
	}
	for _, s := range []string{"", "nobody", "fe80::1%eth0", "02:00"} {
		if _, err := ParseAddr(s); err == nil {
			t.Errorf("%q accepted", s)
		}
	}
	if (Addr{}).String() != "multicast" || !(Addr{}).IsMulticast() {
		t.Error("the zero address")
	}
}

func TestKind(t *testing.T) {
	for k := Ethernet; k <= UDPv6; k++ {
		b, _ := k.MarshalText()
		var back Kind
		if err := back.UnmarshalText(b); err != nil || back != k {
			t.Errorf("%s: %v, %v", b, back, err)
		}
	}
	if err := new(Kind).UnmarshalText([]byte("l2")); err == nil {
		t.Error("l2 accepted")
	}
}

func TestValidate(t *testing.T) {
	for _, p := range everyPort() {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
	for want, p := range map[string]Port{
		"kind": {Kind: 3, MAC: mac}, "MAC": {}, "IPv4": {Kind: UDPv4, MAC: mac, IP: v6.IP}, "IPv6": {Kind: UDPv6, MAC: mac},
		"DSCP": {MAC: mac, DSCP: 64}, "scope": {MAC: mac, Scope: 16},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	buf := make([]byte, 0, 256)
	for _, port := range everyPort() {
		body := message(msg.Sync)
		if n := testing.AllocsPerRun(100, func() {
			buf = port.Append(buf[:0], body, Addr{}, hop)
			p, err := Decapsulate(buf)
			if err != nil {
				t.Fatal(err)
			}
			p.AddCorrection(1000)
			p.SetTimestamp(msg.Timestamp{Seconds: 1})
			p.AddFlags(msg.FlagUnicast)
		}); n != 0 {
			t.Errorf("%v: %v allocations", port.Kind, n)
		}
	}
}

func FuzzDecapsulate(f *testing.F) {
	for _, port := range everyPort() {
		f.Add(port.Append(nil, message(msg.Sync), Addr{}, hop))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decapsulate(b)
		var m msg.Message
		if err != nil || m.Parse(p.Body) != nil {
			return
		}
		p.AddCorrection(1 << 40)
		p.AddFlags(msg.FlagTwoStep)
		if _, err := Decapsulate(b); err != nil {
			t.Errorf("edited: %v", err)
		}
		g := frame.New(make([]byte, frame.DefaultHeadroom+len(b)), nil)
		p.Reply(g, &m)
		if q, err := Decapsulate(g.Bytes()); err != nil || q.Event && q.Kind != Ethernet {
			t.Errorf("reply: %v", err)
		}
	})
}

func BenchmarkEdit(b *testing.B) {
	for _, port := range []Port{l2, v4, v6} {
		b.Run(fmt.Sprint(port.Kind), func(b *testing.B) {
			w := port.Append(nil, message(msg.Sync), Addr{}, hop)
			b.ReportAllocs()
			for b.Loop() {
				p, _ := Find(w)
				p.AddCorrection(1)
			}
		})
	}
}
