package mad

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"tapir/opa"
	"tapir/wire/ether"
)

// at builds an attribute of n octets from the hexadecimal fields given by
// offset; all others are zero.
func at(t *testing.T, n int, fields map[int]string) []byte {
	t.Helper()
	b := make([]byte, n)
	for off, text := range fields {
		v, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		copy(b[off:], v)
	}
	return b
}

// vectors are attributes with every field set to a value of its own, written
// down by the offsets of the layouts.
var vectors = []struct {
	name   string
	n      int
	fields map[int]string
	value  any
	recode func([]byte) (any, func([]byte))
}{
	{"ClassPortInfo", ClassPortInfoLen,
		map[int]string{0: "8080", 2: "ff01", 4: "00000032", 8: "fe80000000000000", 60: "00000007", 68: "80010000", 72: "7fff", 76: "2b0102"},
		nil,
		func(b []byte) (any, func([]byte)) { c := ParseClassPortInfo(b); return c, c.Put }},
	{"VESWPortInfo", VESWPortInfoLen,
		map[int]string{
			0: "0301", 2: "0abc", 4: "a1a2a3a4a5a6", 10: "8001", 12: "a7a8", 14: "8123", 16: "b1b2b3b4", 20: "00f00abc",
			24: "00000005", 84: "00123456", 88: "07654321", 92: "c1", 147: "c2", 148: "2800", 150: "c3c4",
			152: "00000901", 156: "01", 157: "d1d2d3", 160: "062c00050000", 166: "03", 167: "01", 168: "0800", 170: "0100",
			172: "deadbeef", 176: "d4d5d6d7", 180: "00000009", 184: "0001020304050607", 192: "1011121314151617",
			200: "2021222324252627", 208: "3031323334353637", 216: "41424344", 220: "e1", 267: "e2", 268: "0102", 270: "0304", 272: "f1f2f3f4f5f6f7f8",
		},
		func() VESWPortInfo {
			p := VESWPortInfo{
				Fabric: 0x301, VESW: 0xabc, DefPortMask: 0x8001, PKey: 0x8123, McastDLID: 0xf00abc, RC: 0x07654321, EthMTU: 10240,
				PortNum: 0x901, LinkStatus: EthLinkUp, BaseMAC: ether.Addr{0x06, 0x2c, 0, 5, 0, 0}, ConfigState: Forwarding, OperState: DropAll,
				MaxMACs: 2048, MaxSourceMAC: 256, Digest: 0xdeadbeef, EncapSLID: 9, UcastGen: 0x102, McastGen: 0x304,
				QoS: opa.QoS{
					Unicast: opa.Lanes{
						SC: [8]uint8{0, 1, 2, 3, 4, 5, 6, 7}, VL: [8]uint8{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17},
						UntaggedSC: 0x41, UntaggedVL: 0x42,
					},
					Multicast: opa.Lanes{
						SC: [8]uint8{0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27}, VL: [8]uint8{0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37},
						UntaggedSC: 0x43, UntaggedVL: 0x44,
					},
				},
			}
			p.UcastDLID[0], p.UcastDLID[15] = 5, 0x123456
			copy(p.Rsvd[:], "\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xb1\xb2\xb3\xb4\xc1")
			copy(p.Rsvd[67:], "\xc2\xc3\xc4\xd1\xd2\xd3\xd4\xd5\xd6\xd7\xe1")
			copy(p.Rsvd[124:], "\xe2\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8")
			return p
		}(),
		func(b []byte) (any, func([]byte)) { p := ParseVESWPortInfo(b); return p, p.Put }},
	{"SummaryCounters", SummaryCountersLen,
		map[int]string{
			0: "0003", 2: "0abc", 4: "00000901", 8: "01", 15: "02", 23: "03", 31: "04", 39: "05", 47: "06", 55: "07", 63: "08", 71: "09", 79: "0a", 87: "0b",
			95: "0c", 103: "0d", 111: "0e", 119: "0f", 127: "10", 135: "11", 143: "12", 151: "13", 159: "14", 167: "15", 175: "16",
			183: "17", 191: "18", 199: "19", 207: "1a", 215: "1b", 223: "1c", 231: "1d",
		},
		SummaryCounters{
			CounterHead: CounterHead{3, 0xabc, 0x901}, TxErrors: 1<<56 | 2, RxErrors: 3, TxPackets: 4, RxPackets: 5, TxBytes: 6, RxBytes: 7,
			Tx: Frames{8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, Rx: Frames{19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29},
		},
		func(b []byte) (any, func([]byte)) { c := ParseSummaryCounters(b); return c, c.Put }},
	{"ErrorCounters", ErrorCountersLen,
		map[int]string{
			0: "0003", 2: "0abc", 4: "00000901", 15: "01", 23: "02", 39: "03", 71: "04", 87: "05", 103: "06",
			111: "07", 127: "08", 135: "09", 151: "0a", 159: "0b", 167: "0c",
		},
		ErrorCounters{
			CounterHead: CounterHead{3, 0xabc, 0x901}, TxErrors: 1, RxErrors: 2, TxSourceMAC: 3, TxDLIDZero: 4, TxLogic: 5, TxDropState: 6,
			RxBadVESW: 7, RxRunt: 8, RxOversize: 9, RxEthDown: 10, RxDropState: 11, RxLogic: 12,
		},
		func(b []byte) (any, func([]byte)) { c := ParseErrorCounters(b); return c, c.Put }},
	{"Notice", NoticeLen,
		map[int]string{0: "0800066a", 8: "00123456", 32: "0301", 34: "0abc", 36: "00000901", 40: "0001", 42: "03", 43: "02"},
		Notice{IssuerLID: 0x123456, Fabric: 0x301, VESW: 0xabc, PortNum: 0x901, OPAPort: 1, VPort: 3, Opcode: TrapMulticastMACs},
		func(b []byte) (any, func([]byte)) { n := ParseNotice(b); return n, n.Put }},
	{"NodeInfo", NodeInfoLen,
		map[int]string{0: "80800101", 8: "0011750000000001", 16: "0011750000000002", 24: "0011750000000003", 32: "0010", 34: "24f0", 36: "00000011", 40: "01001175"},
		NodeInfo{
			Type: NodeHFI, Ports: 1, SystemGUID: 0x0011750000000001, NodeGUID: 0x0011750000000002, PortGUID: 0x0011750000000003,
			PartitionCap: 16, DeviceID: 0x24f0, Revision: 0x11, LocalPort: 1, VendorID: 0x1175,
		},
		func(b []byte) (any, func([]byte)) { n := ParseNodeInfo(b); return n, n.Put }},
	{"PortInfo", PortInfoLen,
		map[int]string{0: "00000009", 19: "54", 23: "1f", 108: "00000001", 222: "2000", 237: "07", 239: "01"},
		PortInfo{LID: 9, State: PortActive, PhysState: PhysLinkUp, SMSL: 31, SMLID: 1, MTUCap: 7, CapMask3: CapEthOnFabric, LocalPort: 1},
		func(b []byte) (any, func([]byte)) { p := ParsePortInfo(b); return p, p.Put }},
	{"SMInfo", SMInfoLen,
		map[int]string{0: "0011750000000003", 8: "0102030405060708", 16: "00000102", 20: "00000304", 24: "f" + "f" + "f3"},
		SMInfo{PortGUID: 0x0011750000000003, Key: 0x0102030405060708, ActCount: 0x102, Elapsed: 0x304, Priority: 15, State: SMMaster},
		func(b []byte) (any, func([]byte)) { s := ParseSMInfo(b); return s, s.Put }},
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		want := at(t, v.n, v.fields)
		got, put := v.recode(want)
		if v.value != nil && !reflect.DeepEqual(got, v.value) {
			t.Errorf("%s: parsed %+v\nwant %+v", v.name, got, v.value)
		}
		again := bytes.Repeat([]byte{0xff}, v.n)
		put(again)
		if !bytes.Equal(again, want) {
			t.Errorf("%s: written\n%x\nwant\n%x", v.name, again, want)
		}
		if _, put := v.recode(want[:v.n/3]); put != nil {
			put(again)
			if !bytes.Equal(again[:v.n/4], want[:v.n/4]) {
				t.Errorf("%s: a third of it is read as something else", v.name)
			}
		}
	}
}

func TestClassPortInfo(t *testing.T) {
	c := ParseClassPortInfo(at(t, ClassPortInfoLen, vectors[0].fields))
	if c.CapMask != 0xff01 || c.CapMask2 != 1 || c.RespTime != 18 || c.TrapLID != 7 || c.TrapSL != 5 {
		t.Errorf("%+v", c)
	}
}

func TestVEMAHeader(t *testing.T) {
	b := bytes.Repeat([]byte{0xff}, VEMAHeaderLen+4)
	PutVEMA(b, MethodSet, 0x1122334455667788, AttrMACEntries, 0xfe)
	const want = "80348002" + "00000000" + "1122334455667788" + "00120000" + "000000fe" + "000000000000000000000000" + "0000066a"
	if got := hex.EncodeToString(b[:VEMAHeaderLen]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	h, data, err := ParseVEMA(b)
	if err != nil || h.Method != MethodSet || h.TID != 0x1122334455667788 || h.Attr != AttrMACEntries || h.Modifier != 0xfe || len(data) != 4 {
		t.Errorf("%+v, %d octets, %v", h, len(data), err)
	}
	if n := testing.AllocsPerRun(100, func() { h, data, err = ParseVEMA(b) }); n != 0 {
		t.Errorf("parsing allocates %v times", n)
	}
}

func TestBadHeaders(t *testing.T) {
	good := make([]byte, MaxLen)
	PutVEMA(good, MethodGet, 1, AttrVESWPortInfo, 1)
	smp := SMP{Header: Header{BaseVersion: BaseVersion, Class: ClassSubnDirected}, GUID: 1}
	directed := make([]byte, DirectedHeaderLen)
	smp.Put(directed)
	vema := func(b []byte) error { _, _, err := ParseVEMA(b); return err }
	subnet := func(b []byte) error { _, _, err := ParseSMP(b); return err }
	for _, c := range []struct {
		name  string
		from  []byte
		n     int
		off   int
		octet byte
		parse func([]byte) error
		want  error
	}{
		{"no header", good, 23, 0, 0x80, vema, ErrTruncated},
		{"no OUI", good, 39, 0, 0x80, vema, ErrTruncated},
		{"InfiniBand's version", good, MaxLen, 0, 1, vema, ErrVersion},
		{"class of subnet management", good, MaxLen, 1, 0x81, vema, ErrClass},
		{"another vendor", good, MaxLen, 39, 0x6b, vema, ErrOUI},
		{"class of VEMA", directed, len(directed), 1, 0x34, subnet, ErrClass},
		{"half a route", directed, 175, 0, 0x80, subnet, ErrTruncated},
		{"three hops", directed, len(directed), 7, 3, subnet, ErrRoute},
		{"LID routed, half a key", directed, 31, 1, 1, subnet, ErrTruncated},
	} {
		b := bytes.Clone(c.from[:c.n])
		b[c.off] = c.octet
		if err := c.parse(b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if err := vema(append(good, 0)); !errors.Is(err, ErrTooLong) {
		t.Errorf("2049 octets: %v", err)
	}
}

func TestSMP(t *testing.T) {
	for _, c := range []struct {
		s    SMP
		want map[int]string
	}{
		{SMP{Header: Header{Class: ClassSubnLID, Method: MethodSet, TID: 5, Attr: AttrPortInfo, Modifier: OnePort}, MKey: 0xa1},
			map[int]string{0: "80018002", 15: "05", 16: "0015", 20: "01000001", 31: "a1"}},
		{SMP{Header: Header{Class: ClassSubnDirected, Method: MethodGet, Attr: AttrPKeyTable, Modifier: PKeyBlock(2)}, GUID: 0x0011750000000003},
			map[int]string{0: "80818001", 7: "08", 16: "0016", 20: "01010002", 32: "ffffffffffffffff", 40: "000011750000000003"}},
		{SMP{Header: Header{Class: ClassSubnDirected, Method: MethodGetResp, Status: StatusBadValue | StatusDirection, Attr: AttrNodeInfo}},
			map[int]string{0: "80818081", 4: "801c", 16: "0011", 32: "ffffffffffffffff"}},
	} {
		c.s.BaseVersion, c.s.ClassVersion = BaseVersion, BaseVersion
		b := bytes.Repeat([]byte{0xee}, c.s.Len()+1)
		c.s.Put(b)
		if want := at(t, c.s.Len(), c.want); !bytes.Equal(b[:c.s.Len()], want) {
			t.Errorf("got\n%x\nwant\n%x", b, want)
		}
		got, data, err := ParseSMP(b)
		got.Specific = 0
		if err != nil || got != c.s || len(data) != 1 || data[0] != 0xee {
			t.Errorf("%+v, want %+v: %v", got, c.s, err)
		}
	}
}

func TestMACEntries(t *testing.T) {
	if MaxMACEntriesIn != 125 || MaxMACsIn != 333 {
		t.Fatalf("%d entries and %d addresses in a MAD", MaxMACEntriesIn, MaxMACsIn)
	}
	m := make(MACEntries, MACEntriesLen(2))
	m.PutHead(0x102, 2, 0xdeadbeef)
	e := MACEntry{MAC: ether.Addr{2, 0, 0, 0, 0, 1}, Mask: ether.Broadcast, DLID: 0x123456, Flags: SourceMAC}
	m.SetEntry(1, e)
	const want = "01020002deadbeef" + "00000000000000000000000000000000" + "020000000001ffffffffffff12345620"
	if got := hex.EncodeToString(m); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if off, n, digest := m.Head(); off != 0x102 || n != 2 || digest != 0xdeadbeef {
		t.Errorf("head %#x %d %#x", off, n, digest)
	}
	if m.Entry(1) != e || m.Entry(0) != (MACEntry{}) || m.Entry(124) != (MACEntry{}) {
		t.Errorf("entries %+v %+v %+v", m.Entry(0), m.Entry(1), m.Entry(124))
	}
}

func TestIfaceMACs(t *testing.T) {
	m := make(IfaceMACs, IfaceMACsLen(2))
	h := IfaceHead{Start: 0x14d, Num: 2, Total: 0x14f, Gen: 0x708}
	m.PutHead(h)
	m.SetMAC(1, ether.Addr{0x33, 0x33, 0, 0, 0, 1})
	const want = "014d0002014f0708" + "000000000000" + "333300000001"
	if got := hex.EncodeToString(m); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if m.Head() != h || m.MAC(1) != (ether.Addr{0x33, 0x33, 0, 0, 0, 1}) || m.MAC(332) != (ether.Addr{}) {
		t.Errorf("%+v %v %v", m.Head(), m.MAC(1), m.MAC(332))
	}
}

func TestTablesAndNames(t *testing.T) {
	var keys [PKeysPerBlock]uint16
	keys[0], keys[31] = 0x7fff, 0x8123
	b := make([]byte, PKeyBlockLen)
	PutPKeys(b, keys)
	if !bytes.Equal(b, at(t, PKeyBlockLen, map[int]string{0: "7fff", 62: "8123"})) || ParsePKeys(b) != keys {
		t.Errorf("%x", b)
	}
	if ParsePKeys(b[:3]) != [PKeysPerBlock]uint16{0x7fff} {
		t.Error("a cut table")
	}
	d := make([]byte, NodeDescriptionLen)
	for text, want := range map[string]string{"": "", "node7 hfi1_0": "node7 hfi1_0", string(bytes.Repeat([]byte("x"), 70)): string(bytes.Repeat([]byte("x"), 63))} {
		PutNodeDescription(d, text)
		if got := ParseNodeDescription(d); got != want || d[63] != 0 {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, s := range []string{DropAll.String(), Forwarding.String(), PortActive.String(), SMMaster.String(), TrapLinkStatus.String(), TrapUnicastMACs.String(), TrapMulticastMACs.String()} {
		if s == "unknown" || s == "" {
			t.Error("a name is missing")
		}
	}
	if State(2).String() != "unknown" || PortState(9).String() != "unknown" || SMState(0).String() != "unknown" || TrapOpcode(9).String() != "unknown" {
		t.Error("a name for nothing")
	}
}

func TestMTUCode(t *testing.T) {
	for octets, want := range map[int]uint8{0: 1, 256: 1, 511: 1, 512: 2, 4096: 5, 8191: 5, 8192: 6, 10239: 6, 10240: 7, 1 << 20: 7} {
		if got := MTUCode(octets); got != want {
			t.Errorf("%d octets: code %d, want %d", octets, got, want)
		}
	}
	if MTU(1) != 256 || MTU(6) != 8192 || MTU(7) != 10240 {
		t.Error("MTU of a code")
	}
}

// Whatever octets an attribute has, reserved ones included, it is echoed.
func TestEcho(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), VESWPortInfoLen, VESWPortInfoLen).Draw(t, "octets")
		p := ParseVESWPortInfo(b)
		again := make([]byte, VESWPortInfoLen)
		if p.Put(again); !bytes.Equal(again, b) {
			t.Fatalf("VESWPortInfo %x became %x", b, again)
		}
		c := ParseClassPortInfo(b)
		if c.Put(again); !bytes.Equal(again[:ClassPortInfoLen], b[:ClassPortInfoLen]) {
			t.Fatalf("ClassPortInfo %x became %x", b[:ClassPortInfoLen], again[:ClassPortInfoLen])
		}
	})
}

// No octets whatever make a parser fail or read outside of them.
func FuzzParse(f *testing.F) {
	b := make([]byte, MaxLen)
	PutVEMA(b, MethodGet, 1, AttrMACEntries, 1)
	f.Add(b)
	smp := SMP{Header: Header{BaseVersion: BaseVersion, Class: ClassSubnDirected}, GUID: 7}
	smp.Put(b)
	f.Add(b[:200])
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, data, err := ParseSMP(b); err == nil {
			again := bytes.Clone(b)
			s.Put(again)
			if back, _, err := ParseSMP(again); err != nil || back.GUID != s.GUID || back.TID != s.TID || back.Attr != s.Attr {
				t.Fatalf("%+v became %+v, %v", s, back, err)
			}
			ParseNodeInfo(data)
			ParsePortInfo(data)
			ParsePKeys(data)
			ParseSMInfo(data)
			ParseNodeDescription(data)
		}
		_, data, err := ParseVEMA(b)
		if err != nil {
			return
		}
		for _, v := range vectors {
			v.recode(data)
		}
		m, l := MACEntries(data), IfaceMACs(data)
		for i := range MaxMACEntriesIn {
			m.Entry(i)
		}
		for i := range MaxMACsIn {
			l.MAC(i)
		}
		m.Head()
		l.Head()
	})
}
