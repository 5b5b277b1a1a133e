package pause

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"tapir/wire/ether"
)

var station = ether.Addr{2, 0, 0, 0, 0, 7}

// golden are frames as the standards have them, without padding.
var golden = []struct {
	f   Frame
	hex string
}{
	{Frame{Dst: Group, Src: station, Quanta: 0x1234}, "0180c2000001 020000000007 8808 0001 1234"},
	{Frame{Dst: station, Src: station, Quanta: 0}, "020000000007 020000000007 8808 0001 0000"},
	{Frame{Dst: Group, Src: station, PFC: true, Enabled: 0x88, Timers: [8]uint16{3: 0xffff, 7: 1}},
		"0180c2000001 020000000007 8808 0101 0088 0000 0000 0000 ffff 0000 0000 0000 0001"},
	{Frame{Dst: Group, Src: station, PFC: true, Enabled: 0xff}, "0180c2000001 020000000007 8808 0101 00ff 0000000000000000"},
}

func octets(t *testing.T, text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return append(b, make([]byte, Len-len(b))...)
}

func TestGolden(t *testing.T) {
	for _, c := range golden {
		want := octets(t, c.hex)
		b := make([]byte, Len)
		for i := range b {
			b[i] = 0xee
		}
		if c.f.Put(b); string(b) != string(want) {
			t.Errorf("%+v: % x", c.f, b)
		}
		if f, err := Parse(want); err != nil || f != c.f {
			t.Errorf("%s: %+v, %v", c.hex, f, err)
		}
	}
	b := make([]byte, Len)
	if (&Frame{Src: station}).Put(b); ether.Addr(b[:6]) != Group {
		t.Errorf("% x", b)
	}
}

func TestBadFrames(t *testing.T) {
	pfc := golden[2].hex
	for _, c := range []struct {
		b    []byte
		want error
	}{
		{nil, ErrTruncated},
		{octets(t, golden[0].hex)[:17], ErrTruncated},
		{octets(t, golden[0].hex)[:18], nil},
		{octets(t, pfc)[:33], ErrTruncated},
		{octets(t, pfc)[:34], nil},
		{octets(t, strings.Replace(pfc, "0101 0088", "0101 0188", 1)), ErrReserved},
		{octets(t, strings.Replace(pfc, "8808 0101", "8808 0102", 1)), ErrOpcode},
		{octets(t, strings.Replace(pfc, "0180c2000001", "0180c2000002", 1)), ErrDestination},
		{octets(t, strings.Replace(pfc, "0180c2000001", "020000000007", 1)), ErrDestination},
	} {
		if _, err := Parse(c.b); err != c.want {
			t.Errorf("% x: %v, want %v", c.b, err, c.want)
		}
	}
}

func TestDuration(t *testing.T) {
	for mbps, want := range map[int]time.Duration{1000: 512 * 1000, 10_000: 51200, 0: 512e6} {
		if got := Duration(1000, mbps); got != want {
			t.Errorf("%d Mb/s: %v, want %v", mbps, got, want)
		}
	}
}

// Whatever parses comes out of Put again, up to padding and timers that do not count.
func FuzzParse(f *testing.F) {
	for _, c := range golden {
		b := make([]byte, Len)
		c.f.Put(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := Parse(in)
		if err != nil || p.Dst.IsZero() {
			return
		}
		b := make([]byte, Len)
		p.Put(b)
		if again, err := Parse(b); err != nil || again != p {
			t.Fatalf("%+v became %+v, %v", p, again, err)
		}
	})
}
