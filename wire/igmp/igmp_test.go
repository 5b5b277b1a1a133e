package igmp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"tapir/wire/ip"
)

var (
	src6 = netip.MustParseAddr("fe80::1")
	dst6 = netip.MustParseAddr("ff02::16")
)

// sum4 sets the checksum of an IGMP message.
func sum4(b ...byte) []byte {
	b[2], b[3] = 0, 0
	binary.BigEndian.PutUint16(b[2:], ip.Checksum(b, 0))
	return b
}

func sum6(b ...byte) []byte {
	b[2], b[3] = 0, 0
	binary.BigEndian.PutUint16(b[2:], ip.Checksum(b, ip.PseudoSum(src6, dst6, ip.ProtoICMPv6, len(b))))
	return b
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func addr(s string) []byte { return netip.MustParseAddr(s).AsSlice() }

// record4 is a group record of IGMPv3.
func record4(typ byte, group string, sources ...string) []byte {
	b := join([]byte{typ, 0, 0, byte(len(sources))}, addr(group))
	for _, s := range sources {
		b = append(b, addr(s)...)
	}
	return b
}

func changes(m Message) (list []string) {
	for c, ok := m.Next(); ok; c, ok = m.Next() {
		sign := "-"
		if c.Join {
			sign = "+"
		}
		list = append(list, sign+c.Group.String())
	}
	return list
}

func TestMessages(t *testing.T) {
	v3 := func(n byte, records ...[]byte) []byte {
		return sum4(join(append([][]byte{{0x22, 0, 0, 0, 0, 0, 0, n}}, records...)...)...)
	}
	mld2 := sum6(join([]byte{143, 0, 0, 0, 0, 0, 0, 2}, []byte{4, 0, 0, 0}, addr("ff05::1:3"), []byte{3, 0, 0, 0}, addr("ff05::9"))...)
	for _, c := range []struct {
		name  string
		b     []byte
		six   bool
		query bool
		want  []string
	}{
		{"IGMPv1 report", sum4(join([]byte{0x12, 0, 0, 0}, addr("239.1.2.3"))...), false, false, []string{"+239.1.2.3"}},
		{"IGMPv2 report", sum4(join([]byte{0x16, 0, 0, 0}, addr("239.1.2.3"))...), false, false, []string{"+239.1.2.3"}},
		{"IGMPv2 leave", sum4(join([]byte{0x17, 0, 0, 0}, addr("239.1.2.3"))...), false, false, []string{"-239.1.2.3"}},
		{"report of no group", sum4(join([]byte{0x16, 0, 0, 0}, addr("10.0.0.1"))...), false, false, nil},
		{"IGMP query", sum4(0x11, 100, 0, 0, 0, 0, 0, 0), false, true, nil},
		{"IGMPv3 records", v3(6,
			record4(1, "232.0.0.1", "10.0.0.1"), record4(2, "232.0.0.2"), record4(3, "232.0.0.3"),
			record4(4, "232.0.0.4", "10.0.0.1", "10.0.0.2"), record4(6, "232.0.0.6", "10.0.0.1"), record4(5, "232.0.0.5", "10.0.0.1"),
		), false, false, []string{"+232.0.0.1", "+232.0.0.2", "-232.0.0.3", "+232.0.0.4", "+232.0.0.5"}},
		{"more records told than there", v3(9, record4(4, "232.0.0.1")), false, false, []string{"+232.0.0.1"}},
		{"record cut", v3(1, record4(4, "232.0.0.1", "10.0.0.1")[:10]), false, false, nil},
		{"unknown record", v3(2, record4(7, "232.0.0.1"), record4(4, "232.0.0.2")), false, false, nil},
		{"record with auxiliary data", v3(2, join([]byte{4, 1, 0, 0}, addr("232.0.0.1"), []byte{1, 2, 3, 4}), record4(4, "232.0.0.2")),
			false, false, []string{"+232.0.0.1", "+232.0.0.2"}},
		{"MLDv1 report", sum6(join([]byte{131, 0, 0, 0, 0, 0, 0, 0}, addr("ff05::1:3"))...), true, false, []string{"+ff05::1:3"}},
		{"MLDv1 done", sum6(join([]byte{132, 0, 0, 0, 0, 0, 0, 0}, addr("ff05::1:3"))...), true, false, []string{"-ff05::1:3"}},
		{"MLD query", sum6(join([]byte{130, 0, 0, 0, 0, 0, 0, 0}, addr("::"))...), true, true, nil},
		{"MLDv2 report", mld2, true, false, []string{"+ff05::1:3", "-ff05::9"}},
	} {
		m, err := Parse4(c.b)
		if c.six {
			m, err = Parse6(src6, dst6, c.b)
		}
		if err != nil || m.Query != c.query || !slices.Equal(changes(m), c.want) {
			t.Errorf("%s: query %v, %v, %v; want %v", c.name, m.Query, changes(m), err, c.want)
		}
	}
}

func TestBadMessages(t *testing.T) {
	good4, good6 := sum4(0x16, 0, 0, 0, 239, 0, 0, 1), sum6(join([]byte{131, 0, 0, 0, 0, 0, 0, 0}, addr("ff05::1"))...)
	flipped4, flipped6 := slices.Clone(good4), slices.Clone(good6)
	flipped4[7] ^= 1
	flipped6[9] ^= 1
	for _, c := range []struct {
		b    []byte
		six  bool
		want error
	}{
		{good4[:7], false, ErrTruncated}, {flipped4, false, ErrChecksum}, {sum4(0x13, 0, 0, 0, 0, 0, 0, 0), false, ErrType},
		{good6[:7], true, ErrTruncated}, {flipped6, true, ErrChecksum}, {sum6(128, 0, 0, 0, 0, 0, 0, 0), true, ErrType},
		{sum6(131, 0, 0, 0, 0, 0, 0, 0), true, ErrTruncated},
	} {
		_, err := Parse4(c.b)
		if c.six {
			_, err = Parse6(src6, dst6, c.b)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%x: %v, want %v", c.b, err, c.want)
		}
	}
}

// Whatever the octets, there are no more changes than octets, and all are of
// groups.
func FuzzNext(f *testing.F) {
	f.Add([]byte{0x22, 0, 0, 0, 0, 0, 0xff, 0xff, 4, 0, 0, 0, 239, 0, 0, 1}, false)
	f.Add([]byte{143, 0, 0, 0, 0, 0, 0, 1}, true)
	f.Fuzz(func(t *testing.T, b []byte, six bool) {
		if len(b) < 8 {
			return
		}
		parse := func() (Message, error) { return Parse4(sum4(b...)) }
		if six {
			parse = func() (Message, error) { return Parse6(src6, dst6, sum6(b...)) }
		}
		m, err := parse()
		if err != nil {
			return
		}
		n := 0
		for c, ok := m.Next(); ok; c, ok = m.Next() {
			if n++; n > len(b) || !c.Group.IsMulticast() {
				t.Fatalf("change %d of %x: %v", n, b, c)
			}
		}
	})
}
