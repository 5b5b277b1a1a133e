package opa

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"testing"
)

// An Ethernet frame is built from the outside in; each part is a function so
// that it can be reversed.

type flowFrame struct {
	dst, src byte // last octet of the MAC addresses
	tags     []uint16
	typ      uint16
	l3       []byte
}

func (f flowFrame) octets() []byte {
	b := []byte{2, 0, 0, 0, 0, f.dst, 2, 0, 0, 0, 0, f.src}
	for _, tci := range f.tags {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, 0x8100), tci)
	}
	return append(binary.BigEndian.AppendUint16(b, f.typ), f.l3...)
}

func v4(src, dst, proto byte, frag uint16, l4 ...byte) []byte {
	b := []byte{0x45, 0, 0, byte(20 + len(l4)), 0, 0, byte(frag >> 8), byte(frag), 64, proto, 0, 0, 10, 0, 0, src, 10, 0, 0, dst}
	return append(b, l4...)
}

func v6(src, dst, next byte, rest ...byte) []byte {
	b := make([]byte, 40)
	b[0], b[5], b[6], b[7], b[23], b[39] = 0x60, byte(len(rest)), next, 64, src, dst
	return append(b, rest...)
}

func l4(src, dst byte) []byte { return []byte{0, src, 0, dst, 0, 0, 0, 0} }

func TestFlow(t *testing.T) {
	hopByHop := func(next byte, rest []byte) []byte { return append([]byte{next, 0, 0, 0, 0, 0, 0, 0}, rest...) }
	first := func(next byte, rest []byte) []byte { return append([]byte{next, 0, 0, 1, 0, 0, 0, 9}, rest...) }
	later := func(next byte, rest []byte) []byte { return append([]byte{next, 0, 1, 1, 0, 0, 0, 9}, rest...) }
	tcp6 := func(s, d, sp, dp byte) []byte { return v6(s, d, 6, l4(sp, dp)...) }
	v := func(s, d byte, l3 []byte, typ uint16, tags ...uint16) flowFrame {
		return flowFrame{d, s, tags, typ, l3}
	}
	for _, c := range []struct {
		name          string
		there, back   flowFrame
		want          Flow
		like, notLike []flowFrame // of the same hash, and of others
	}{
		{name: "TCP over IPv4", there: v(1, 2, v4(1, 2, 6, 0, l4(10, 20)...), 0x800), back: v(2, 1, v4(2, 1, 6, 0, l4(20, 10)...), 0x800),
			want: Flow{Proto: ProtoIPv4TCP},
			like: []flowFrame{v(7, 8, v4(1, 2, 6, 0x4000, l4(10, 20)...), 0x800)}, // other stations, DF
			notLike: []flowFrame{v(1, 2, v4(1, 2, 6, 0, l4(20, 10)...), 0x800), v(1, 2, v4(1, 2, 17, 0, l4(10, 20)...), 0x800),
				v(1, 2, v4(1, 3, 6, 0, l4(10, 20)...), 0x800), v(1, 2, v4(1, 2, 6, 0, l4(10, 20)...), 0x800, 5)}},
		{name: "tagged UDP", there: v(1, 2, v4(1, 2, 17, 0, l4(1, 2)...), 0x800, 0xa005), back: v(2, 1, v4(2, 1, 17, 0, l4(2, 1)...), 0x800, 0x0005),
			want: Flow{Tagged: true, PCP: 5, Proto: ProtoIPv4UDP}, notLike: []flowFrame{v(1, 2, v4(1, 2, 17, 0, l4(1, 2)...), 0x800, 0xa006)}},
		{name: "two tags", there: v(1, 2, v4(1, 2, 1, 0), 0x800, 0x6005, 0xe006), back: v(2, 1, v4(2, 1, 1, 0), 0x800, 5, 6),
			want: Flow{Tagged: true, PCP: 3, Proto: ProtoIPv4}, notLike: []flowFrame{v(1, 2, v4(1, 2, 1, 0), 0x800, 6, 5)}},
		{name: "fragments", there: v(1, 2, v4(1, 2, 17, 0x2000, l4(1, 2)...), 0x800), back: v(2, 1, v4(2, 1, 17, 0x2000, l4(9, 9)...), 0x800),
			want: Flow{Proto: ProtoIPv4UDP}, like: []flowFrame{v(1, 2, v4(1, 2, 17, 0x0010, 1, 2, 3, 4), 0x800)}},
		{name: "TCP over IPv6", there: v(1, 2, tcp6(1, 2, 10, 20), 0x86dd), back: v(2, 1, tcp6(2, 1, 20, 10), 0x86dd), want: Flow{Proto: ProtoIPv6TCP},
			like: []flowFrame{v(1, 2, v6(1, 2, 0, hopByHop(60, hopByHop(6, l4(10, 20)))...), 0x86dd),
				v(1, 2, v6(1, 2, 51, append([]byte{6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, l4(10, 20)...)...), 0x86dd)},
			notLike: []flowFrame{v(1, 2, tcp6(1, 2, 10, 21), 0x86dd), v(1, 2, tcp6(1, 3, 10, 20), 0x86dd)}},
		{name: "fragments over IPv6", there: v(1, 2, v6(1, 2, 44, first(17, l4(1, 2))...), 0x86dd), back: v(2, 1, v6(2, 1, 44, first(17, l4(7, 7))...), 0x86dd),
			want: Flow{Proto: ProtoIPv6UDP}, like: []flowFrame{v(1, 2, v6(1, 2, 44, later(17, []byte{1, 2, 3, 4})...), 0x86dd)}},
		{name: "ARP", there: v(1, 2, make([]byte, 28), 0x806), back: v(2, 1, make([]byte, 28), 0x806), notLike: []flowFrame{v(1, 3, make([]byte, 28), 0x806)}},
		{name: "IPv4 cut short", there: v(1, 2, v4(1, 2, 6, 0)[:19], 0x800), back: v(2, 1, v4(2, 1, 6, 0)[:19], 0x800)},
	} {
		there, back := ParseFlow(c.there.octets()), ParseFlow(c.back.octets())
		c.want.Hash = back.Hash
		if there != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, there, c.want)
		}
		for i, f := range c.like {
			if got := ParseFlow(f.octets()).Hash; got != there.Hash {
				t.Errorf("%s: like %d: %#x, not %#x", c.name, i, got, there.Hash)
			}
		}
		for i, f := range c.notLike {
			if got := ParseFlow(f.octets()).Hash; got == there.Hash {
				t.Errorf("%s: not like %d: %#x too", c.name, i, got)
			}
		}
	}
	if f := ParseFlow(flowFrame{typ: 0x806}.octets()); f.Group {
		t.Error("unicast is a group")
	}
	if f := ParseFlow(slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, make([]byte, 8))); !f.Group {
		t.Error("broadcast is no group")
	}
}

// TestEntropySpreads: connections of two stations that differ in one port use
// all values of entropy, no value more than four times its share.
func TestEntropySpreads(t *testing.T) {
	var count [256]int
	const flows = 16384
	for i := range flows {
		f := flowFrame{dst: 2, src: 1, typ: 0x800, l3: v4(1, 2, 6, 0, 0x80|byte(i>>8), byte(i), 0, 80)}
		count[Entropy(ParseFlow(f.octets()).Hash)]++
	}
	if most, least := slices.Max(count[:]), slices.Min(count[:]); most > flows/256*4 || least == 0 {
		t.Errorf("between %d and %d of %d flows have the same entropy", least, most, flows)
	}
}

func TestEntropyAndFlowID(t *testing.T) {
	for _, c := range []struct {
		hash    uint32
		entropy uint8
		flow    int
	}{{0, 0, 0}, {0x12345678, 0x12 ^ 0x34 ^ 0x56 ^ 0x78, 8}, {0xff, 0xff, 30}, {0xff000000, 0xff, 30}, {0x5a000000, 0x5a, 15}} {
		if e := Entropy(c.hash); e != c.entropy || FlowID(e) != c.flow {
			t.Errorf("%#x: entropy %#x, flow %d", c.hash, e, FlowID(e))
		}
	}
}

func TestSelect(t *testing.T) {
	q := QoS{Unicast: Lanes{UntaggedSC: 1, UntaggedVL: 2}, Multicast: Lanes{UntaggedSC: 3, UntaggedVL: 4}}
	for i := range uint8(8) {
		q.Unicast.SC[i], q.Unicast.VL[i], q.Multicast.SC[i], q.Multicast.VL[i] = 8+i, i, 16+i, 7-i
	}
	for _, c := range []struct {
		f      Flow
		sc, vl uint8
	}{
		{Flow{}, 1, 2}, {Flow{Group: true}, 3, 4}, {Flow{Tagged: true, PCP: 5}, 13, 5}, {Flow{Tagged: true, PCP: 5, Group: true}, 21, 2},
	} {
		if sc, vl := q.Select(&c.f); sc != c.sc || vl != c.vl {
			t.Errorf("%+v: SC %d VL %d", c.f, sc, vl)
		}
	}
	w := RCWord(0x7654321)
	for p, want := range map[Proto]uint8{ProtoOther: 1, ProtoIPv4: 2, ProtoIPv4UDP: 3, ProtoIPv4TCP: 4, ProtoIPv6: 5, ProtoIPv6TCP: 6, ProtoIPv6UDP: 7} {
		if got := w.Select(p); got != want {
			t.Errorf("class %d: RC %d, want %d", p, got, want)
		}
	}
}

// FuzzFlow: any octets have a flow, and the way back, if it can be made by
// exchanging the MAC addresses alone, is the same.
func FuzzFlow(f *testing.F) {
	f.Add(flowFrame{typ: 0x800, l3: v4(1, 2, 6, 0, l4(1, 2)...)}.octets())
	f.Add(flowFrame{typ: 0x86dd, tags: []uint16{1, 2}, l3: v6(1, 2, 44, make([]byte, 40)...)}.octets())
	f.Fuzz(func(t *testing.T, b []byte) {
		there := ParseFlow(b)
		if len(b) < 14 {
			return
		}
		back := slices.Concat(b[6:12], b[:6], b[12:])
		if got := ParseFlow(back); got.Hash != there.Hash || bits.LeadingZeros8(got.PCP) < 5 {
			t.Fatalf("%+v, back %+v", there, got)
		}
	})
}
