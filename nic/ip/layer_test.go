package ip

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tapir/nic/port"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

var (
	nic4  = netip.MustParseAddr("10.0.0.1")
	peer4 = netip.MustParseAddr("10.0.0.2")
)

// packet is an IPv4 packet.
func packet(h ip.Header, payload []byte) []byte {
	h.Version, h.TTL, h.PayloadLen = 4, 64, len(payload)
	b := make([]byte, h.HeaderLen(), h.HeaderLen()+len(payload))
	h.Put(b)
	return append(b, payload...)
}

func TestNextMTU(t *testing.T) {
	quote := packet(ip.Header{Proto: ip.ProtoTCP, Src: nic4, Dst: peer4}, make([]byte, 1480))
	for _, c := range []struct {
		told uint32
		body []byte
		want int
	}{
		{1400, quote, 1400},
		{0, quote[:28], 1492}, // an old router: the next plateau below 1500
		{0, packet(ip.Header{Proto: ip.ProtoTCP, Src: nic4, Dst: peer4}, make([]byte, 20)), MinMTU},
		{0, nil, MinMTU},
	} {
		m := icmp.Message{Type: icmp.Unreachable4, Code: icmp.FragmentationNeeded4, Rest: c.told, Body: c.body}
		if got := nextMTU(&m); got != c.want {
			t.Errorf("told %d about %d octets: %d, want %d", c.told, len(c.body), got, c.want)
		}
	}
}

func TestRedirectsAreBoundedAndEnd(t *testing.T) {
	l := New(Settings{MTU: 1500, Prefixes: []netip.Prefix{netip.PrefixFrom(nic4, 24)}, Gateways: []netip.Addr{peer4}},
		Env{Wire: port.New(new(port.Common), frame.Wire, nil, nil), IDs: rand.NewPCG(0, 1)})
	const now = frame.Time(time.Hour)
	hop, first := netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("192.0.2.0")
	for i, a := 0, first; i <= maxRedirects; i, a = i+1, a.Next() {
		l.setRedirect(redirect{a, hop, now.Add(time.Minute + time.Duration(i))})
	}
	if len(l.redirects) != maxRedirects || l.NextHop(first) != peer4 || l.NextHop(first.Next()) != hop {
		t.Fatalf("%d redirects", len(l.redirects))
	}
	l.Poll(now.Add(2 * time.Minute))
	if l.NextHop(first.Next()) != peer4 {
		t.Error("an old redirect is followed")
	}
}
