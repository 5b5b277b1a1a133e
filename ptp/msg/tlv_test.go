package msg

import (
	"bytes"
	"reflect"
	"testing"
)

type parser interface{ Parse(v []byte) error }

// tlvs has an encoded TLV of each kind with its value. Its lengths are the
// first that Parse must refuse: one octet pair less, or what else the kind
// cannot be.
var tlvs = []struct {
	name  string
	value parser // a pointer
	wire  string
	bad   []int // lengths of the value, in octets, that are wrong
}{
	{name: "REQUEST_UNICAST", value: &RequestUnicast{Announce, -3, 300}, wire: "0004 0006 b0 fd 0000012c", bad: []int{0, 4, 8}},
	{name: "GRANT_UNICAST", value: &GrantUnicast{Sync, -4, 0x01020304, true}, wire: "0005 0008 00 fc 01020304 00 01", bad: []int{0, 6, 10}},
	{name: "CANCEL_UNICAST", value: &CancelUnicast{DelayResp, true, false}, wire: "0006 0002 91 00", bad: []int{0, 4}},
	{name: "ACK_CANCEL_UNICAST", value: &CancelUnicast{PdelayResp, false, true}, wire: "0007 0002 32 00", bad: []int{0, 4}},
	{name: "ALTERNATE_TIME_OFFSET", value: &AlternateTimeOffset{3, -3600, 7200, 0x010203040506, []byte("CET")},
		wire: "0009 0014 03 fffff1f0 00001c20 010203040506 03 434554 00", bad: []int{0, 14, 16, 18, 22}},
	{name: "ALTERNATE_TIME_OFFSET without padding", value: &AlternateTimeOffset{Name: []byte("EDST")},
		wire: "0009 0014 00 00000000 00000000 000000000000 04 45445354", bad: []int{18, 22}},
	{name: "L1_SYNC", value: &L1Sync{Flags: 5, State: 2}, wire: "8001 0002 05 02", bad: []int{0, 4, 38, 42}},
	{name: "L1_SYNC, extended", value: &L1Sync{Flags: 8, State: 7, Extended: true, Optional: 6, Phase: -2, PhaseAt: stamp, Frequency: 0x10000, FreqAt: Timestamp{1, 2}},
		wire: "8001 0028 08 07 06 fffffffffffffffe 0102030405060708090a 0000000000010000 00000000000100000002 00", bad: []int{38, 42}},
	{name: "PORT_COMMUNICATION_AVAILABILITY", value: &PortAvailability{1, 6}, wire: "8002 0002 01 06", bad: []int{0, 4}},
	{name: "PROTOCOL_ADDRESS", value: &PortAddress{NetworkUDPv4, []byte{10, 0, 0, 1}}, wire: "8003 0008 0001 0004 0a000001", bad: []int{0, 2, 6, 10}},
	{name: "PROTOCOL_ADDRESS with padding", value: &PortAddress{NetworkEthernet, []byte{1, 2, 3}}, wire: "8003 0008 0003 0003 010203 00", bad: []int{6, 10}},
	{name: "SLAVE_RX_SYNC_TIMING_DATA", value: &SlaveRxSyncTiming{portB, []RxSyncTiming{{0x1234, stamp, -1, -2, Timestamp{1, 2}}, {Sequence: 1}}},
		wire: "8004 004e 020000fffe00000b0102 1234 0102030405060708090a ffffffffffffffff fffffffe 00000000000100000002" +
			"0001 00000000000000000000 0000000000000000 00000000 00000000000000000000", bad: []int{0, 8, 12, 76, 80}},
	{name: "SLAVE_RX_SYNC_COMPUTED_DATA", value: &SlaveRxSyncComputed{portB, true, false, true, []RxSyncComputed{{0x1234, -65536, 0x20000, -3}}},
		wire: "8005 0022 020000fffe00000b0102 05 00 1234 ffffffffffff0000 0000000000020000 fffffffd", bad: []int{0, 10, 32, 36}},
	{name: "SLAVE_TX_EVENT_TIMESTAMPS", value: &SlaveTxEvents{portA, DelayReq, []TxEvent{{7, stamp}}},
		wire: "8006 0018 020000fffe00000a0001 01 00 0007 0102030405060708090a", bad: []int{0, 10, 22, 26}},
	{name: "CUMULATIVE_RATE_RATIO", value: ref(CumulativeRateRatio(-2)), wire: "8007 0004 fffffffe", bad: []int{0, 2, 6}},
	{name: "AUTHENTICATION", value: &Authentication{1, 2, 0x01020304, []byte{0xca, 0xfe}}, wire: "8009 0008 01 02 01020304 cafe", bad: []int{0, 4}},
	{name: "ORGANIZATION_EXTENSION", value: &Organization{[3]byte{1, 2, 3}, [3]byte{4, 5, 6}, []byte{7, 8}}, wire: "4000 0008 010203 040506 0708", bad: []int{0, 4}},
	{name: "Follow_Up information", value: &FollowUpInfo{-5, 0x102, ScaledNs{0xfffe, 0x0102030405060708, 0x8000}, 6},
		wire: "0003 001c 0080c2 000001 fffffffb 0102 fffe 0102030405060708 8000 00000006", bad: []int{26, 30}},
	{name: "message interval request", value: &IntervalRequest{IntervalStop, -3, IntervalUnchanged, false, true},
		wire: "0003 000c 0080c2 000002 7f fd 80 02 0000", bad: []int{10, 14}},
	{name: "gPTP capable", value: &GPTPCapable{-1, 4}, wire: "8000 000c 0080c2 000004 ff 04 00000000", bad: []int{10, 14}},
	{name: "C37.238-2011", value: &Power{2011, 0xfe, 50, 200, 0}, wire: "0003 0012 1c129d 000001 00fe 00000032 000000c8 0000", bad: []int{16, 20}},
	{name: "C37.238-2017", value: &Power{2017, 3, 0, 0, 250}, wire: "0003 0012 1c129d 000002 0003 00000000 000000fa 0000", bad: []int{16, 20}},
	{name: "interface rate", value: &InterfaceRate{1_000_000_000, 0x102, 0x304}, wire: "0003 0012 0019a7 000002 000000003b9aca00 0102 0304", bad: []int{16, 20}},
	{name: "MANAGEMENT_ERROR_STATUS", value: &ErrorStatus{ErrorWrongLength, IDPriority1, ""}, wire: "0002 0008 0003 2005 00000000", bad: []int{0, 6}},
	{name: "MANAGEMENT_ERROR_STATUS with text", value: &ErrorStatus{ErrorGeneral, 0x1234, "why"}, wire: "0002 000c fffe 1234 00000000 03 776879", bad: []int{10, 14}},
}

func ref[T any](v T) *T { return &v }

// encode appends v as a TLV of type t.
func encode(v parser, t TLVType, b []byte) []byte {
	switch v := v.(type) {
	case interface{ Append([]byte) []byte }:
		return v.Append(b)
	case interface {
		Append([]byte, TLVType) []byte
	}:
		return v.Append(b, t)
	}
	panic("not a TLV")
}

func TestTLVVectors(t *testing.T) {
	for _, c := range tlvs {
		want := octets(t, c.wire)
		tlv, _, ok := TLVs(want).Next()
		if !ok || len(want) != TLVHeaderLen+len(tlv.Value) {
			t.Fatalf("%s: the vector is no TLV", c.name)
		}
		if got := encode(c.value, tlv.Type, []byte{0xee}); !bytes.Equal(got[1:], want) {
			t.Errorf("%s: encoded\n%x\nwant\n%x", c.name, got[1:], want)
		}
		got := reflect.New(reflect.TypeOf(c.value).Elem()).Interface().(parser)
		if err := got.Parse(tlv.Value); err != nil || !reflect.DeepEqual(got, c.value) {
			t.Errorf("%s: decoded %+v, %v, want %+v", c.name, got, err, c.value)
		}
		for _, n := range c.bad {
			if err := got.Parse(append(bytes.Clone(tlv.Value), make([]byte, 64)...)[:n]); err != ErrValueLength {
				t.Errorf("%s with %d octets: %v", c.name, n, err)
			}
		}
	}
}

// Extensions of another organization or subtype are told from damaged ones.
func TestOtherOrganization(t *testing.T) {
	other := octets(t, "0080c3 000001 00000000000000000000000000000000000000000000")
	for _, p := range []parser{&FollowUpInfo{}, &IntervalRequest{}, &GPTPCapable{}, &Power{}, &InterfaceRate{}} {
		for _, v := range [][]byte{other, other[:5], nil} {
			if err := p.Parse(v); err != ErrOrganization {
				t.Errorf("%T of %d octets: %v", p, len(v), err)
			}
		}
	}
}

func TestPathTrace(t *testing.T) {
	b := AppendPathTrace(nil, []ClockIdentity{clockA}, clockB)
	if want := octets(t, "0008 0010 020000fffe00000a 020000fffe00000b"); !bytes.Equal(b, want) {
		t.Fatalf("%x, want %x", b, want)
	}
	p, err := ParsePathTrace(b[4:])
	if err != nil || p.Len() != 2 || p.At(0) != clockA || p.At(1) != clockB {
		t.Errorf("%x, %v", []byte(p), err)
	}
	if !p.Contains(clockB) || p.Contains(ClockIdentity{}) {
		t.Error("contains")
	}
	if _, err := ParsePathTrace(b[4:18]); err != ErrValueLength {
		t.Error(err)
	}
	if b := AppendPathTrace(nil, nil, ClockIdentity{}); !bytes.Equal(b, []byte{0, 8, 0, 0}) {
		t.Errorf("empty path: %x", b)
	}
}

func TestPad(t *testing.T) {
	for _, n := range []int{4, 6, 40} {
		b := AppendPad([]byte{1}, n)
		tlv, rest, ok := TLVs(b[1:]).Next()
		if len(b) != 1+n || !ok || len(rest) != 0 || tlv.Type != TLVPad {
			t.Errorf("padding of %d octets: %x", n, b)
		}
	}
}

// TLVs of time-critical messages cost no allocation either way.
func TestTLVsWithoutAllocations(t *testing.T) {
	buf := make([]byte, 0, 128)
	wire := (&FollowUpInfo{TimeBaseIndicator: 3}).Append(nil)
	path := []ClockIdentity{clockA, clockB}
	if n := testing.AllocsPerRun(100, func() {
		var f FollowUpInfo
		if f.Parse(wire[TLVHeaderLen:]) != nil {
			t.Fatal()
		}
		buf = f.Append(buf[:0])
		r := RequestUnicast{Sync, 0, 60}
		g := GrantUnicast{Sync, 0, 60, true}
		buf = g.Append(r.Append(buf))
		buf = AppendPathTrace(buf, path, clockA)
		for tlv := range TLVs(buf).All() {
			if tlv.Type == TLVGrantUnicast && g.Parse(tlv.Value) != nil {
				t.Fatal()
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever a TLV's Parse accepts comes out again: same length, same value.
func FuzzTLV(f *testing.F) {
	for i, c := range tlvs {
		b := octets(f, c.wire)
		f.Add(i, b[TLVHeaderLen:])
	}
	f.Fuzz(func(t *testing.T, i int, v []byte) {
		c := tlvs[uint(i)%uint(len(tlvs))]
		if len(v)%2 != 0 || len(v) > MaxLen-TLVHeaderLen {
			return // Message.Parse refuses such messages
		}
		first := reflect.New(reflect.TypeOf(c.value).Elem()).Interface().(parser)
		if first.Parse(v) != nil {
			return
		}
		b := encode(first, TLVCancelUnicast, nil)
		if e, isError := first.(*ErrorStatus); len(b) != TLVHeaderLen+len(v) && !(isError && e.Text == "") {
			t.Fatalf("%s: %x became %x", c.name, v, b)
		}
		second := reflect.New(reflect.TypeOf(c.value).Elem()).Interface().(parser)
		if err := second.Parse(b[TLVHeaderLen:]); err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("%s: %+v became %+v, %v", c.name, first, second, err)
		}
	})
}
