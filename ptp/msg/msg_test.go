package msg

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"tapir/wire/frame"
)

// octets reads hexadecimal digits with spaces between fields.
func octets(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	clockA = ClockIdentity{0x02, 0, 0, 0xff, 0xfe, 0, 0, 0x0a}
	clockB = ClockIdentity{0x02, 0, 0, 0xff, 0xfe, 0, 0, 0x0b}
	portA  = PortIdentity{clockA, 1}
	portB  = PortIdentity{clockB, 0x102}
	stamp  = Timestamp{0x010203040506, 0x0708090a}
)

// vectors are messages as the tables of section 13 lay them out.
var vectors = []struct {
	name string
	m    Message
	wire string
}{
	{"one-step Sync with the largest values",
		Message{Header: Header{Type: Sync, SdoID: 0x1a5, MinorVersion: 1, Domain: 0xfe, Flags: 0x657f, Correction: 0x0123456789abcdef, TypeSpecific: 0xa1b2c3d4, Source: portB, Sequence: 0xfffe, LogInterval: -4}, Timestamp: stamp},
		"10 12 002c fe a5 657f 0123456789abcdef a1b2c3d4 020000fffe00000b 0102 fffe 00 fc 010203040506 0708090a"},
	{"Delay_Req", Message{Header: Header{Type: DelayReq, Source: portA, Sequence: 7, Control: 1, LogInterval: IntervalUnspecified}},
		"01 02 002c 00 00 0000 0000000000000000 00000000 020000fffe00000a 0001 0007 01 7f 000000000000 00000000"},
	{"Pdelay_Req of gPTP", Message{Header: Header{Type: PdelayReq, SdoID: 0x100, Source: portA, Control: 5}},
		"12 02 0036 00 00 0000 0000000000000000 00000000 020000fffe00000a 0001 0000 05 00 000000000000 00000000 00000000000000000000"},
	{"Pdelay_Resp", Message{Header: Header{Type: PdelayResp, Flags: FlagTwoStep, Correction: -1, Source: portB, Control: 5}, Timestamp: stamp, Port: portA},
		"03 02 0036 00 00 0200 ffffffffffffffff 00000000 020000fffe00000b 0102 0000 05 00 010203040506 0708090a 020000fffe00000a 0001"},
	{"Follow_Up", Message{Header: Header{Type: FollowUp, Correction: 0x18000, Source: portA, Sequence: 1, Control: 2, LogInterval: 1}, Timestamp: Timestamp{37, 999_999_999}},
		"08 02 002c 00 00 0000 0000000000018000 00000000 020000fffe00000a 0001 0001 02 01 000000000025 3b9ac9ff"},
	{"Delay_Resp", Message{Header: Header{Type: DelayResp, Source: portA, Control: 3}, Timestamp: stamp, Port: portB},
		"09 02 0036 00 00 0000 0000000000000000 00000000 020000fffe00000a 0001 0000 03 00 010203040506 0708090a 020000fffe00000b 0102"},
	{"Pdelay_Resp_Follow_Up", Message{Header: Header{Type: PdelayRespFollowUp, Source: portB, Control: 5}, Timestamp: stamp, Port: portA},
		"0a 02 0036 00 00 0000 0000000000000000 00000000 020000fffe00000b 0102 0000 05 00 010203040506 0708090a 020000fffe00000a 0001"},
	{"Announce with a path", Message{Header: Header{Type: Announce, Flags: FlagUTCOffsetValid | FlagPTPTimescale | FlagLeap59, Source: portA, Control: 5},
		Timestamp: stamp, Grandmaster: Grandmaster{UTCOffset: -37, Priority1: 1, Quality: ClockQuality{6, 0x21, 0x4e5d}, Priority2: 2, Identity: clockB, StepsRemoved: 0x102, TimeSource: SourceGNSS},
		TLVs: TLVs{0, 8, 0, 8, 2, 0, 0, 0xff, 0xfe, 0, 0, 0xb}},
		"0b 02 004c 00 00 000e 0000000000000000 00000000 020000fffe00000a 0001 0000 05 00 010203040506 0708090a ffdb 00 01 06 21 4e5d 02 020000fffe00000b 0102 20 0008 0008 020000fffe00000b"},
	{"Signaling to everyone, with padding", Message{Header: Header{Type: Signaling, Source: portA, Control: 5}, Port: AllPorts, TLVs: TLVs{0x80, 8, 0, 2, 0, 0}},
		"0c 02 0032 00 00 0000 0000000000000000 00000000 020000fffe00000a 0001 0000 05 00 ffffffffffffffff ffff 8008 0002 0000"},
	{"Management GET", Message{Header: Header{Type: Management, Source: portA, Control: 4}, Port: portB, StartingBoundaryHops: 3, BoundaryHops: 2, Action: Acknowledge, TLVs: TLVs{0, 1, 0, 2, 0x20, 0}},
		"0d 02 0036 00 00 0000 0000000000000000 00000000 020000fffe00000a 0001 0000 04 00 020000fffe00000b 0102 03 02 04 00 0001 0002 2000"},
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		want := octets(t, v.wire)
		if got := v.m.Append([]byte{0xee}); !bytes.Equal(got[1:], want) || got[0] != 0xee {
			t.Errorf("%s: encoded\n%x\nwant\n%x", v.name, got[1:], want)
		}
		var m Message
		if err := m.Parse(append(want, 0xaa, 0xbb)); err != nil { // padding of the frame
			t.Errorf("%s: %v", v.name, err)
		}
		if len(m.TLVs) == 0 {
			m.TLVs = nil
		}
		if !reflect.DeepEqual(m, v.m) {
			t.Errorf("%s: decoded\n%+v\nwant\n%+v", v.name, m, v.m)
		}
	}
}

// Every length from nothing to one octet too few, for every type.
func TestTruncated(t *testing.T) {
	for _, v := range vectors {
		b := octets(t, v.wire)
		for n := range b {
			if err := new(Message).Parse(b[:n]); err != ErrTruncated {
				t.Errorf("%s cut to %d of %d octets: %v", v.name, n, len(b), err)
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		name string
		base int // vector
		edit func(b []byte) []byte
		want error
	}{
		{"version 1", 0, func(b []byte) []byte { b[1] = 0x01; return b }, ErrVersion},
		{"version 3", 0, func(b []byte) []byte { b[1] = 0x13; return b }, ErrVersion},
		{"minor version 15", 0, func(b []byte) []byte { b[1] = 0xf2; return b }, nil},
		{"type 4", 0, func(b []byte) []byte { b[0] = 0x04; return b }, ErrType},
		{"type 14", 0, func(b []byte) []byte { b[0] = 0x0e; return b }, ErrType},
		{"length of another type", 7, func(b []byte) []byte { b[3] = 63; return b }, ErrLength},
		{"length 0", 0, func(b []byte) []byte { b[3] = 0; return b }, ErrLength},
		{"nanoseconds", 4, func(b []byte) []byte { b[42], b[43] = 0xca, 0; return b }, ErrNanoseconds},
		{"nanoseconds of a two-step Sync", 0, func(b []byte) []byte { b[6] |= 2; b[40] = 0xff; return b }, nil},
		{"nanoseconds of a one-step Sync", 0, func(b []byte) []byte { b[6] &^= 2; b[40] = 0xff; return b }, ErrNanoseconds},
		{"nanoseconds of a Pdelay_Req", 2, func(b []byte) []byte { b[40] = 0xff; return b }, nil},
		{"nanoseconds of a Delay_Resp", 5, func(b []byte) []byte { b[40] = 0xff; return b }, ErrNanoseconds},
		{"half a TLV header", 0, func(b []byte) []byte { b[3] += 2; return append(b, 0, 3) }, ErrTLV},
		{"a TLV longer than the message", 8, func(b []byte) []byte { b[47] = 4; return append(b, 0, 0) }, ErrTLV},
		{"a TLV of odd length", 8, func(b []byte) []byte { b[47] = 1; return b }, ErrTLVLength},
		{"something behind the last TLV", 8, func(b []byte) []byte { b[47] = 0; return b }, ErrTLV},
	} {
		if err := new(Message).Parse(c.edit(octets(t, vectors[c.base].wire))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestReservedFieldsAreIgnored(t *testing.T) {
	b := octets(t, vectors[7].wire)
	b[46] = 0xff // behind currentUtcOffset
	var m Message
	if err := m.Parse(b); err != nil || m.Grandmaster != vectors[7].m.Grandmaster {
		t.Errorf("%v, %+v", err, m.Grandmaster)
	}
	b = octets(t, vectors[9].wire)
	b[46], b[47] = 0xf4, 0xff // around actionField
	if err := m.Parse(b); err != nil || m.Action != Acknowledge {
		t.Errorf("%v, action %d", err, m.Action)
	}
}

func TestTypes(t *testing.T) {
	for i := range Type(16) {
		if i.Event() != (i < 8) || (i.Len() == 0) != (i.String() == "reserved") {
			t.Errorf("%d: %v, event %v, %d octets", i, i, i.Event(), i.Len())
		}
	}
	if Management.Control() != 4 || PdelayRespFollowUp.Control() != 5 {
		t.Error("control field")
	}
}

func TestTLVs(t *testing.T) {
	b := AppendTLV(nil, TLVPathTrace, []byte{1, 2})
	b = AppendTLV(b, 0x7fff, []byte{3})
	ts := TLVs(AppendTLV(b, TLVPad, nil))
	if want := octets(t, "0008 0002 0102 7fff 0002 0300 8008 0000"); !bytes.Equal(ts, want) {
		t.Fatalf("%x, want %x", []byte(ts), want)
	}
	var types []TLVType
	for tlv := range ts.All() {
		if types = append(types, tlv.Type); tlv.Type == 0x7fff {
			break
		}
	}
	if want := []TLVType{TLVPathTrace, 0x7fff}; !reflect.DeepEqual(types, want) {
		t.Errorf("types %v, want %v", types, want)
	}
	if v, ok := ts.Find(0x7fff); !ok || !bytes.Equal(v, []byte{3, 0}) {
		t.Errorf("found %v %v", v, ok)
	}
	if _, ok := ts.Find(TLVManagement); ok {
		t.Error("found what is not there")
	}
	for _, typ := range []TLVType{0x3fff, 0x8000} {
		if typ.Propagates() {
			t.Errorf("%x propagates", typ)
		}
	}
	if !TLVOrganizationPropagate.Propagates() || !TLVType(0x7fff).Propagates() {
		t.Error("0x4000 to 0x7fff must propagate")
	}
}

func TestTimestamp(t *testing.T) {
	for _, c := range []struct {
		s frame.Stamp
		t Timestamp
	}{{0, Timestamp{}}, {999_999_999, Timestamp{0, 999_999_999}}, {1_700_000_000_000_000_001, Timestamp{1_700_000_000, 1}}} {
		if got := TimestampOf(c.s); got != c.t {
			t.Errorf("%d: %v, want %v", c.s, got, c.t)
		}
		if s, ok := c.t.Stamp(); s != c.s || !ok {
			t.Errorf("%v: %v %v", c.t, s, ok)
		}
	}
	if got := TimestampOf(-1); got != (Timestamp{}) {
		t.Errorf("before the epoch: %v", got)
	}
	if _, ok := (Timestamp{MaxSeconds, 0}).Stamp(); ok {
		t.Error("the last second of the wire format fits a Stamp")
	}
	if s := (Timestamp{12, 345}).String(); s != "12.000000345" {
		t.Error(s)
	}
}

func TestTimeInterval(t *testing.T) {
	if i := IntervalOf(-3); i != -3<<16 || i.Duration() != -3 {
		t.Error(i)
	}
	if d := TimeInterval(-1).Duration(); d != -1 { // down, not to zero
		t.Error(d)
	}
	if i := IntervalOf(40 * time.Hour); i != MaxInterval {
		t.Error(i)
	}
	if i := IntervalOf(-40 * time.Hour); i != MinInterval {
		t.Error(i)
	}
	for _, c := range [][3]TimeInterval{{5, -7, -2}, {MaxInterval, -1, MaxInterval}, {MinInterval, 1, MinInterval},
		{MaxInterval - 1, 2, MaxInterval}, {MinInterval + 1, -2, MinInterval}} {
		if got := c[0].Add(c[1]); got != c[2] {
			t.Errorf("%d+%d = %d, want %d", int64(c[0]), int64(c[1]), int64(got), int64(c[2]))
		}
	}
	if s := TimeInterval(0x18000).String(); s != "1.5ns" {
		t.Error(s)
	}
}

func TestIdentities(t *testing.T) {
	c := IdentityOf([6]byte{0x0a, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f})
	p := PortIdentity{c, 0xffff}
	if s := p.String(); s != "0a1b2c.fffe.3d4e5f-65535" {
		t.Error(s)
	}
	var q PortIdentity
	if err := q.UnmarshalText([]byte(p.String())); err != nil || q != p {
		t.Error(q, err)
	}
	var d ClockIdentity
	if err := d.UnmarshalText([]byte(c.String())); err != nil || d != c {
		t.Error(d, err)
	}
	for _, s := range []string{"", "0a1b2c.fffe.3d4e5f", "0a1b2c.fffe.3d4e5f-", "0a1b2c.fffe.3d4e5f-65536", "0a1b2c-fffe-3d4e5f-1", "0a1b2g.fffe.3d4e5f-1"} {
		if _, err := ParsePortIdentity(s); err == nil {
			t.Errorf("%q accepted", s)
		}
	}
	if portA.Compare(portB) >= 0 || portB.Compare(portA) <= 0 || portA.Compare(portA) != 0 {
		t.Error("order by clock")
	}
	if portA.Compare(PortIdentity{clockA, 2}) >= 0 {
		t.Error("order by port")
	}
	if StateSlave.String() != "SLAVE" || PortState(11).String() != "PortState(11)" {
		t.Error("names of states")
	}
}

func TestNoAllocations(t *testing.T) {
	var m Message
	buf := make([]byte, 0, 128)
	for _, v := range vectors {
		b := octets(t, v.wire)
		if n := testing.AllocsPerRun(100, func() {
			if m.Parse(b) != nil {
				t.Fatal(v.name)
			}
			buf = m.Append(buf[:0])
			m.TLVs.Find(0xffff)
		}); n != 0 {
			t.Errorf("%s: %v allocations", v.name, n)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, v := range vectors {
		b.Run(v.m.Type.String(), func(b *testing.B) {
			w := octets(b, v.wire)
			var m Message
			b.ReportAllocs()
			for b.Loop() {
				if err := m.Parse(w); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, v := range vectors {
		b.Run(v.m.Type.String(), func(b *testing.B) {
			buf := make([]byte, 0, 128)
			b.ReportAllocs()
			for b.Loop() {
				buf = v.m.Append(buf[:0])
			}
		})
	}
}

// Whatever Parse accepts is encoded again to the same octets, but for the
// reserved ones.
func FuzzParse(f *testing.F) {
	for _, v := range vectors {
		f.Add(octets(f, v.wire))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Message
		if m.Parse(b) != nil {
			return
		}
		if m.Len() > len(b) {
			t.Fatalf("%d octets out of %d", m.Len(), len(b))
		}
		b = bytes.Clone(b[:m.Len()])
		clearReserved(b, m.Type)
		if got := m.Append(nil); !bytes.Equal(got, b) {
			t.Errorf("encoded again\n%x\nwas\n%x", got, b)
		}
	})
}

func clearReserved(b []byte, t Type) {
	switch t {
	case PdelayReq:
		clear(b[44:54])
	case Announce:
		b[46] = 0
	case Management:
		b[46] &= 15
		b[47] = 0
	}
}
