package msg

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// datasets has the data of each management id, laid out by hand.
var datasets = []struct {
	id   ManagementID
	data any
	wire string
}{
	{IDNullManagement, &Empty{}, ""},
	{IDClockDescription, &ClockDescription{ClockBoundary, "IEEE 802.3", []byte{2, 0, 0, 0, 0, 1}, PortAddress{NetworkUDPv4, []byte{10, 0, 0, 1}}, [3]byte{1, 2, 3}, "m;d;1", "h;f;s", "nic0", [6]byte{0, 0x1b, 0x19, 0, 1, 0}},
		"4000 0a 49454545203830322e33 0006 020000000001 0001 0004 0a000001 010203 00 05 6d3b643b31 05 683b663b73 04 6e696330 001b19000100"},
	{IDUserDescription, &UserDescription{"lab;1"}, "05 6c61623b31"},
	{IDDefaultDataSet, &DefaultDataSet{Flags: DefaultTwoStep | DefaultSlaveOnly, NumberPorts: 0x102, Priority1: 127, Quality: ClockQuality{6, 0x21, 0x4e5d}, Priority2: 126, Identity: clockA, Domain: 24},
		"03 00 0102 7f 06 21 4e5d 7e 020000fffe00000a 18 00"},
	{IDCurrentDataSet, &CurrentDataSet{1, -65536, 0x20000}, "0001 ffffffffffff0000 0000000000020000"},
	{IDParentDataSet, &ParentDataSet{Parent: portB, Stats: 1, ObservedVariance: 0xfffe, ObservedPhaseChangeRate: -2, GrandmasterPriority1: 1, GrandmasterQuality: ClockQuality{248, 0xfe, 0xffff}, GrandmasterPriority2: 2, GrandmasterIdentity: clockA},
		"020000fffe00000b0102 01 00 fffe fffffffe 01 f8 fe ffff 02 020000fffe00000a"},
	{IDTimeProperties, &TimeProperties{-37, 0x3f, SourceGNSS}, "ffdb 3f 20"},
	{IDPortDataSet, &PortDataSet{portA, StateSlave, -3, 0x30000, 1, 3, -4, DelayP2P, -1, 2}, "020000fffe00000a0001 09 fd 0000000000030000 01 03 fc 02 ff 02"},
	{IDPriority1, &Octet{Value: 128}, "80 00"},
	{IDPriority2, &Octet{Value: 129}, "81 00"},
	{IDDomain, &Octet{Value: 24}, "18 00"},
	{IDSlaveOnly, &Octet{Value: 1}, "01 00"},
	{IDLogAnnounceInterval, &Octet{Value: 0xfd}, "fd 00"},
	{IDAnnounceReceiptTimeout, &Octet{Value: 3}, "03 00"},
	{IDLogSyncInterval, &Octet{Value: 0xfc}, "fc 00"},
	{IDVersionNumber, &Octet{Value: 2}, "02 00"},
	{IDEnablePort, &Empty{}, ""},
	{IDDisablePort, &Empty{}, ""},
	{IDClockAccuracy, &Octet{Value: 0xfe}, "fe 00"},
	{IDTraceability, &Octet{Value: 0x30}, "30 00"},
	{IDTimescale, &Octet{Value: 8}, "08 00"},
	{IDDelayMechanism, &Octet{Value: 0xfe}, "fe 00"},
	{IDLogMinPdelayReqInterval, &Octet{Value: 0}, "00 00"},
	{IDTimeStatus, &TimeStatus{-1, 0x0102030405060708, -2, 3, 0x102, ScaledNs{1, 2, 3}, 1, clockB},
		"ffffffffffffffff 0102030405060708 fffffffe 00000003 0102 0001 0000000000000002 0003 00000001 020000fffe00000b"},
	{IDGrandmasterSettings, &GrandmasterSettings{ClockQuality{248, 0xfe, 0xffff}, 37, 4, SourceInternalOscillator}, "f8 fe ffff 0025 04 a0"},
	{IDPortDataSetNP, &PortDataSetNP{800, 1}, "00000320 00000001"},
	{IDSubscribeEvents, &SubscribeEvents{300, [64]uint8{0: 5, 63: 0x80}}, "012c 05" + strings.Repeat("00", 62) + "80"},
	{IDPortProperties, &PortProperties{portA, StateMaster, TimestampingHardware, "eth0"}, "020000fffe00000a0001 06 01 04 65746830 00"},
	{IDPortStats, &PortStats{portA, [16]uint64{0: 1, 15: 0x0102030405060708}, [16]uint64{0xb: 0x1000}},
		"020000fffe00000a0001 0100000000000000" + strings.Repeat("00", 14*8) + "0807060504030201" + strings.Repeat("00", 11*8) + "0010000000000000" + strings.Repeat("00", 4*8)},
	{IDSynchronizationUncertain, &Octet{Value: 0xff}, "ff 00"},
	{IDPortServiceStats, &PortServiceStats{portA, [NumServiceStats]uint64{0: 1, 9: 258}}, "020000fffe00000a0001 0100000000000000" + strings.Repeat("00", 8*8) + "0201000000000000"},
	{IDUnicastMasterTable, &UnicastMasterTable{[]UnicastMaster{
		{portB, ClockQuality{6, 0x21, 0x4e5d}, true, 3, 128, 127, PortAddress{NetworkUDPv4, []byte{10, 0, 0, 2}}},
		{Address: PortAddress{NetworkEthernet, []byte{2, 0, 0, 0, 0, 2}}}}},
		"0002 020000fffe00000b0102 06 21 4e5d 01 03 80 7f 0001 0004 0a000002" + "00000000000000000000 00000000 00 00 00 00 0003 0006 020000000002"},
	{IDPortHWClock, &PortHWClock{Identity: portA, PHCIndex: -1, Flags: 1}, "020000fffe00000a0001 ffffffff 01 00"},
}

func TestDataSets(t *testing.T) {
	var seen []ManagementID
	for _, c := range datasets {
		seen = append(seen, c.id)
		data := octets(t, c.wire)
		n := len(data) + 2
		want := append([]byte{0, 1, uint8(n >> 8), uint8(n), uint8(c.id >> 8), uint8(c.id)}, data...)
		if got := AppendManagement(nil, c.id, c.data); !bytes.Equal(got, want) {
			t.Errorf("%v: encoded\n%x\nwant\n%x", c.id, got, want)
		}
		id, value, err := ParseManagement(want[TLVHeaderLen:])
		if err != nil || id != c.id {
			t.Fatalf("%v: %v, %v", c.id, id, err)
		}
		if got, err := ParseData(id, value); err != nil || !reflect.DeepEqual(got, c.data) {
			t.Errorf("%v: decoded %+v, %v, want %+v", c.id, got, err, c.data)
		}
		for _, n := range []int{-2, 2} {
			if len(data)+n < 0 {
				continue
			}
			if _, err := ParseData(id, append(data, 0, 0)[:len(data)+n]); err != ErrDataLength {
				t.Errorf("%v with %d octets of %d: %v", c.id, len(data)+n, len(data), err)
			}
		}
	}
	if !slices.Equal(seen, ManagementIDs()) {
		t.Errorf("ids %v, tested %v", ManagementIDs(), seen)
	}
}

func TestManagementIDs(t *testing.T) {
	if _, _, err := ParseManagement([]byte{1}); err != ErrValueLength {
		t.Error(err)
	}
	if _, err := ParseData(0x1234, nil); err != ErrManagementID {
		t.Error(err)
	}
	for id, want := range map[ManagementID]string{IDTimeStatus: "TIME_STATUS_NP", 0x1234: "0x1234"} {
		if id.String() != want {
			t.Errorf("%v, want %s", id, want)
		}
	}
	if !IDPortDataSet.OfPort() || IDDefaultDataSet.OfPort() || ManagementID(0x1234).OfPort() {
		t.Error("who answers")
	}
	for e, want := range map[ManagementError]string{ErrorNotSupported: "NOT_SUPPORTED", ErrorGeneral: "GENERAL_ERROR", 0: "0x0", 7: "0x7"} {
		if e.String() != want {
			t.Errorf("%v, want %s", e, want)
		}
	}
	if b := AppendManagement(nil, IDPortStats, nil); !bytes.Equal(b, []byte{0, 1, 0, 2, 0xc0, 5}) {
		t.Errorf("a GET: %x", b)
	}
	var s SubscribeEvents
	s.Add(EventParentDataSet)
	s.Add(15)
	if !s.Has(EventParentDataSet) || s.Has(EventTimeSync) || s.Bitmask[1] != 0x80 {
		t.Errorf("%x", s.Bitmask)
	}
}

// Texts that do not end inside their TLV, and those too long for one.
func TestTexts(t *testing.T) {
	if _, err := ParseData(IDUserDescription, []byte{4, 'a', 'b', 'c'}); err != ErrDataLength {
		t.Error(err)
	}
	b := AppendManagement(nil, IDUserDescription, &UserDescription{strings.Repeat("x", 300)})
	if u, err := ParseData(IDUserDescription, b[6:]); err != nil || len(u.(*UserDescription).Text) != 255 {
		t.Errorf("%+v, %v", u, err)
	}
}

func FuzzData(f *testing.F) {
	for _, c := range datasets {
		f.Add(uint16(c.id), octets(f, c.wire))
	}
	f.Fuzz(func(t *testing.T, id uint16, b []byte) {
		first, err := ParseData(ManagementID(id), b)
		if err != nil || len(b)%2 != 0 {
			return
		}
		w := AppendManagement(nil, ManagementID(id), first)
		if len(w) != TLVHeaderLen+2+len(b) {
			t.Fatalf("%v: %x became %x", ManagementID(id), b, w)
		}
		if second, err := ParseData(ManagementID(id), w[TLVHeaderLen+2:]); err != nil || !reflect.DeepEqual(first, second) {
			t.Fatalf("%v: %+v became %+v, %v", ManagementID(id), first, second, err)
		}
	})
}
