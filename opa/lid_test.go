package opa

import (
	"testing"

	"tapir/wire/ether"
)

func TestLIDSpaces(t *testing.T) {
	for _, c := range []struct {
		lid  LID
		kind Kind
		nine uint16 // 0: none
	}{
		{0, KindInvalid, 0}, {1, KindUnicast, 1}, {0xbfff, KindUnicast, 0xbfff}, {0xc000, KindUnicast, 0},
		{0xefffff, KindUnicast, 0}, {0xf00000, KindMulticast, 0xc000}, {0xf03ffe, KindMulticast, 0xfffe},
		{0xf03fff, KindMulticast, 0}, {0xf7ffff, KindMulticast, 0}, {0xf80000, KindCollective, 0},
		{0xfffffe, KindCollective, 0}, {0xffffff, KindPermissive, 0xffff}, {0x1000000, KindInvalid, 0},
	} {
		nine, ok := c.lid.To9B()
		if c.lid.Kind() != c.kind || nine != c.nine || ok != (c.nine != 0) ||
			c.lid.IsUnicast() != (c.kind == KindUnicast) || c.lid.IsMulticast() != (c.kind == KindMulticast) {
			t.Errorf("%v: %v, 9B %#x %v", c.lid, c.lid.Kind(), nine, ok)
		}
		if ok && From9B(nine) != c.lid {
			t.Errorf("%#x is %v, want %v", nine, From9B(nine), c.lid)
		}
	}
	if s := LID(5).String(); s != "0x000005" {
		t.Error(s)
	}
}

func TestPKeyRule(t *testing.T) {
	for _, c := range []struct {
		a, b uint16
		want bool
	}{
		{0x8001, 0x8001, true}, {0x8001, 0x0001, true}, {0x0001, 0x8001, true}, {0x0001, 0x0001, false},
		{0x8001, 0x8002, false}, {0x8000, 0x8000, false}, {0x8000, 0, false}, {0xffff, 0x7fff, true},
	} {
		if PKeyMatch(c.a, c.b) != c.want {
			t.Errorf("%#x and %#x: %v", c.a, c.b, !c.want)
		}
	}
	table := []uint16{0x8001, 0x7fff}
	for _, c := range []struct {
		pkey uint16
		sc   uint8
		want bool
	}{{0x0001, 0, true}, {0x0001, 15, false}, {0xffff, 15, true}, {0x7fff, 15, false}, {0x8002, 0, false}, {0xffff, 0, true}} {
		if PKeyAllowed(table, c.pkey, c.sc) != c.want {
			t.Errorf("%#x on SC %d: %v", c.pkey, c.sc, !c.want)
		}
	}
}

// The first two are of the Ethernet Manager's own generator.
func TestLMAC(t *testing.T) {
	for _, c := range []struct {
		m    LMAC
		addr string
	}{
		{LMAC{Fabric: 0x301, VESW: 2, LID: 5}, "06:2c:00:05:00:00"},
		{LMAC{Fabric: 0x301, VESW: 0xabc, LID: 0x123456}, "06:cc:ab:56:34:12"},
		{LMAC{Fabric: MaxFabric, VESW: MaxVESW, LID: 0xf00001, Group: true}, "ff:ff:ff:01:00:f0"},
	} {
		if got := c.m.Addr().String(); got != c.addr {
			t.Errorf("%+v: %s, want %s", c.m, got, c.addr)
		}
		a, err := ether.ParseAddr(c.addr)
		if m, local := ParseLMAC(a); err != nil || !local || m != c.m {
			t.Errorf("%s: %+v %v %v", c.addr, m, local, err)
		}
	}
	if _, local := ParseLMAC(ether.Addr{0x00, 0x2c, 0, 5}); local {
		t.Error("a global address is local")
	}
	m := LMAC{Fabric: 0x301, VESW: 2, LID: 5}
	for _, c := range []struct {
		with func(m *LMAC)
		want bool
	}{
		{func(*LMAC) {}, true}, {func(m *LMAC) { m.Fabric++ }, false}, {func(m *LMAC) { m.VESW = 258 }, false},
		{func(m *LMAC) { m.LID = 0 }, false}, {func(m *LMAC) { m.LID = FirstMulticast }, false}, {func(m *LMAC) { m.Group = true }, false},
	} {
		n := m
		c.with(&n)
		if n.Names(0x301, 2) != c.want {
			t.Errorf("%+v: %v", n, !c.want)
		}
	}
}
