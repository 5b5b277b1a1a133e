package arp

import (
	"bytes"
	"net/netip"
	"testing"

	"tapir/wire/ether"
	"tapir/wire/wiretest"
)

func TestCapturedPackets(t *testing.T) {
	a, b := ether.Addr{2, 0, 0, 0, 0, 10}, ether.Addr{2, 0, 0, 0, 0, 11}
	ipA, ipB := netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")
	for _, c := range []struct {
		name string
		want Packet
	}{
		{"arp-request", Packet{Request, a, ipA, ether.Addr{}, ipB}},
		{"arp-reply", Packet{Reply, b, ipB, a, ipA}},
	} {
		wire := wiretest.Get(c.name)[14:]
		got, err := Parse(append(wire[:len(wire):len(wire)], make([]byte, 18)...))
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
		if enc := got.AppendTo(nil); !bytes.Equal(enc, wire) {
			t.Errorf("%s: encoded % x, want % x", c.name, enc, wire)
		}
	}
}

func TestBadPackets(t *testing.T) {
	good := wiretest.Get("arp-request")[14:]
	for i := range Len {
		if _, err := Parse(good[:i]); err != ErrTruncated {
			t.Errorf("cut to %d: %v", i, err)
		}
	}
	for i := range 6 { // hardware, protocol and both address lengths
		b := bytes.Clone(good)
		b[i] ^= 1
		if _, err := Parse(b); err != ErrMalformed {
			t.Errorf("octet %d changed: %v", i, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(wiretest.Get("arp-request")[14:])
	f.Add(wiretest.Get("arp-reply")[14:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := Parse(b); err == nil && !bytes.Equal(p.AppendTo(nil), b[:Len]) {
			t.Fatalf("re-encoded % x, was % x", p.AppendTo(nil), b[:Len])
		}
	})
}

func TestNoAllocation(t *testing.T) {
	b, buf := wiretest.Get("arp-reply")[14:], make([]byte, Len)
	if n := testing.AllocsPerRun(100, func() {
		p, _ := Parse(b)
		p.Put(buf)
	}); n != 0 {
		t.Fatalf("%v allocations per packet", n)
	}
}

func BenchmarkParsePut(b *testing.B) {
	wire, buf := wiretest.Get("arp-reply")[14:], make([]byte, Len)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := Parse(wire)
		p.Put(buf)
	}
}
