package nic

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/toe"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// quiet is a connection without data.
type quiet struct{ toe.Handler }

func (*quiet) Closed(*toe.Conn, error, frame.Time) {}

func TestRedirect(t *testing.T) {
	for _, c := range []struct {
		name          string
		gateway, next string
		far, own      netip.Addr
	}{
		{"IPv4", "10.0.0.2", "10.0.0.3", netip.MustParseAddr("192.0.2.7"), nic4},
		{"IPv6", "fe80::2", "fe80::3", netip.MustParseAddr("2001:db8::7"), nic6},
	} {
		t.Run(c.name, func(t *testing.T) {
			gateway, next := netip.MustParseAddr(c.gateway), netip.MustParseAddr(c.next)
			w, n, s := pair(t, Config{Gateways: []netip.Addr{gateway}})
			other := w.station("02:00:00:00:00:33", c.next)
			if _, err := n.dev.TCP().Connect(netip.AddrPortFrom(c.own, 0), netip.AddrPortFrom(c.far, 7), &quiet{}, w.now); err != nil {
				t.Fatal(err)
			}
			w.run(10 * time.Millisecond)
			syn := s.take()
			if len(syn) != 1 || syn[0].ip.Dst != c.far {
				t.Fatalf("%d frames to the gateway", len(syn))
			}
			say := func(from netip.Addr, r icmp.Redirect, ttl uint8) {
				m := r.Message(nil)
				s.ip(n.dev.cfg.MAC, ip.Header{TTL: ttl, Proto: protoICMP(c.own), Src: from, Dst: c.own}, icmpBytes(m, from, c.own))
				w.run(time.Millisecond)
			}
			quote := packet(syn[0].ip, syn[0].body)
			foreign := append([]byte(nil), quote...)
			foreign[len(foreign)-len(syn[0].body)+1]++ // another source port
			good := icmp.Redirect{Hop: next, Dst: c.far, Packet: quote}
			say(next, good, 255) // not the first hop
			say(gateway, icmp.Redirect{Hop: next, Dst: c.far, Packet: foreign}, 255)
			say(gateway, icmp.Redirect{Hop: c.own, Dst: c.far, Packet: quote}, 255)
			if n.dev.IP.NextHop(c.far) != gateway {
				t.Fatal("believed what it should not")
			}
			say(gateway, good, 255)
			w.run(1500 * time.Millisecond) // the SYN again
			if old, got := segments(s), segments(other); old != 0 || got == 0 {
				t.Errorf("%d segments to the old first hop, %d to the new one", old, got)
			}
			other.mute = true
			other.mac = ether.Addr{2, 0, 0, 0, 0, 0x34}
			w.run(3 * time.Minute)
			if n.dev.IP.NextHop(c.far) != gateway {
				t.Error("a silent first hop is kept")
			}
		})
	}
}

// segments counts the TCP segments that s has got.
func segments(s *station) (n int) {
	for _, r := range s.take() {
		if r.ip.Proto == ip.ProtoTCP {
			n++
		}
	}
	return n
}

// With a host TAP the operating system gets redirects as well.
func TestHostGetsRedirects(t *testing.T) {
	w, n, h, s := hostPair(t)
	n.dev.IP.Gateways = []netip.Addr{peer4}
	far := netip.MustParseAddr("192.0.2.7")
	if _, err := n.dev.TCP().Connect(netip.AddrPortFrom(nic4, 0), netip.AddrPortFrom(far, 7), &quiet{}, w.now); err != nil {
		t.Fatal(err)
	}
	w.run(10 * time.Millisecond)
	syn := s.take()
	if len(syn) != 1 {
		t.Fatalf("%d frames", len(syn))
	}
	h.got = nil
	r := icmp.Redirect{Hop: netip.MustParseAddr("10.0.0.3"), Dst: far, Packet: packet(syn[0].ip, syn[0].body)}
	s.ip(n.dev.cfg.MAC, ip.Header{Proto: ip.ProtoICMP, Src: peer4, Dst: nic4}, icmpBytes(r.Message(nil), peer4, nic4))
	w.run(time.Millisecond)
	if len(h.got) != 1 || n.dev.IP.NextHop(far) != r.Hop {
		t.Errorf("%d frames to the host, first hop %v", len(h.got), n.dev.IP.NextHop(far))
	}
}
