package tlv

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
)

// structures are those of this package by their names in ../testdata/vf.py.
var structures = map[string]struct {
	typ Type
	of  any
}{
	"request ACQUIRE": {Acquire, &AcquireRequest{}}, "request VPORT_START": {VportStart, &VportStartRequest{}},
	"request VPORT_UPDATE": {VportUpdate, &First{}}, "request VPORT_TEARDOWN": {VportTeardown, &First{}},
	"request START_RXQ": {StartRxq, &StartRxqRequest{}}, "request START_TXQ": {StartTxq, &StartTxqRequest{}},
	"request STOP_RXQS": {StopRxqs, &StopRxqsRequest{}}, "request STOP_TXQS": {StopTxqs, &StopTxqsRequest{}},
	"request UPDATE_RXQ": {UpdateRxq, &UpdateRxqRequest{}}, "request INT_CLEANUP": {IntCleanup, &First{}},
	"request CLOSE": {Close, &First{}}, "request RELEASE": {Release, &First{}}, "request LIST_END": {ListEnd, &End{}},
	"request UCAST_FILTER": {UcastFilter, &UcastRequest{}}, "request ACTIVATE": {UpdateActivate, &Activate{}},
	"request TX_SWITCH": {UpdateTxSwitch, &Flag{}}, "request VLAN_STRIP": {UpdateVLANStrip, &Flag{}},
	"request MCAST": {UpdateMcast, &Mcast{}}, "request ACCEPT_PARAM": {UpdateAcceptParam, &AcceptParam{}},
	"request RSS": {UpdateRSS, &RSS{}}, "request ACCEPT_ANY_VLAN": {UpdateAcceptAnyVLAN, &AcceptAnyVLAN{}},
	"request SGE_TPA": {UpdateSGETPA, &SGETPA{}}, "request UPDATE_TUNN_PARAM": {UpdateTunnParam, &TunnRequest{}},
	"request COALESCE_UPDATE": {CoalesceUpdate, &CoalesceRequest{}}, "request QID": {QID, &QueueID{}},
	"request COALESCE_READ":       {CoalesceRead, &CoalesceReadRequest{}},
	"request BULLETIN_UPDATE_MAC": {BulletinUpdateMAC, &MACRequest{}}, "request UPDATE_MTU": {UpdateMTU, &MTURequest{}},
	"request SOFT_FLR": {SoftFLR, &SoftFLRRequest{}},
	"reply DEFAULT":    {VportUpdate, &Reply{}}, "reply ACQUIRE": {Acquire, &AcquireReply{}},
	"reply START_RXQ": {StartRxq, &StartReply{}}, "reply UPDATE_TUNN_PARAM": {UpdateTunnParam, &TunnReply{}},
	"reply COALESCE_READ": {CoalesceRead, &CoalesceReadReply{}}, "bulletin -": {None, &Bulletin{}},
}

// number gives field n of a structure n times 0x0102..., as much of it as fits. The
// header gets type and length; pads stay zero.
func number(v reflect.Value, n *uint64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Header" && !strings.HasPrefix(name, "Pad") {
				number(v.Field(i), n)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			number(v.Index(i), n)
		}
	default:
		*n++
		v.SetUint(*n * 0x0102030405060708 & (1<<v.Type().Bits() - 1))
	}
}

// header is where a structure has its header.
func header(v reflect.Value) *Header {
	for ; v.Type() != reflect.TypeFor[Header](); v = v.Field(0) {
		if v.Kind() != reflect.Struct {
			return nil
		}
	}
	return v.Addr().Interface().(*Header)
}

// Each structure has the octets that a builder in Python makes of the table of fields,
// those kept in testdata as well as those it makes now; and comes back from them.
//
// IO-09 IO-19
func TestGolden(t *testing.T) {
	kept, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("python3", "../testdata/vf.py", "golden").Output(); err != nil {
		t.Error(err)
	} else if !bytes.Equal(out, kept) {
		t.Error("testdata/golden.txt is not what ../testdata/vf.py makes")
	}
	seen := 0
	crcs := map[string]string{}
	for line := range strings.Lines(string(kept)) {
		f := strings.Fields(line)
		if f[0] == "crc" {
			crcs[f[1]] = f[2]
			continue
		}
		s, ok := structures[f[0]+" "+f[1]]
		if !ok {
			t.Errorf("no structure for %s %s", f[0], f[1])
			continue
		}
		seen++
		v := reflect.ValueOf(s.of).Elem()
		n := uint64(0)
		number(v, &n)
		if h := header(v); h != nil {
			*h = Header{s.typ, uint16(Size(s.of))}
		}
		b := Append(nil, s.of)
		if got := hex.EncodeToString(b); got != f[2] {
			t.Errorf("%s %s\n got %s\nwant %s", f[0], f[1], got, f[2])
		}
		back := reflect.New(v.Type())
		if err := Decode(b, back.Interface()); err != nil || !reflect.DeepEqual(back.Interface(), s.of) {
			t.Errorf("%s %s: %v, %+v", f[0], f[1], err, back)
		}
		if Decode(b[:len(b)-1], back.Interface()) == nil {
			t.Errorf("%s %s: one octet less is read", f[0], f[1])
		}
	}
	if seen != len(structures) {
		t.Errorf("%d structures of %d", seen, len(structures))
	}
	bulletins(t, crcs)
}

// bulletins compares the CRCs of bulletins of agreed sizes.
func bulletins(t *testing.T, crcs map[string]string) {
	t.Helper()
	if got := fmt.Sprintf("%08x", BulletinCRC([]byte("123456789"))); got != crcs["check"] || got != "2dfd2d88" {
		t.Errorf("CRC %s, want %s", got, crcs["check"])
	}
	p := *structures["bulletin -"].of.(*Bulletin)
	for _, size := range []int{64, 80, 96} {
		b := AppendBulletin(nil, &p, size)
		q, err := DecodeBulletin(b)
		if want := crcs[fmt.Sprint(size)]; err != nil || len(b) != size || fmt.Sprintf("%08x", q.CRC) != want {
			t.Errorf("bulletin of %d octets: %v, CRC %08x, want %s", size, err, q.CRC, want)
		}
		for bit := range 8 * len(b) {
			b[bit/8] ^= 1 << (bit % 8)
			if _, err := DecodeBulletin(b); err == nil {
				t.Fatalf("bulletin of %d octets: bit %d is wrong and nobody sees", size, bit)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// The offsets that the interface's table names, by hand.
func TestOffsets(t *testing.T) {
	for _, c := range []struct {
		v    any
		at   int
		want string
	}{
		{&AcquireRequest{VF: VFInfo{Capabilities: 0x11}}, 16, "11"},
		{&AcquireRequest{VF: VFInfo{FWEngineer: 0x12}}, 27, "12"},
		{&AcquireRequest{VF: VFInfo{OpaqueFID: 0x1314}}, 32, "1413"},
		{&AcquireRequest{VF: VFInfo{HSIMajor: 3, HSIMinor: 11}}, 35, "030b"},
		{&AcquireRequest{Want: Resources{RxQueues: 1, CIDs: 7}}, 40, "01000000000007"},
		{&AcquireRequest{BulletinAddr: 0x15, BulletinSize: 0x50}, 48, "150000000000000050000000"},
		{&StartRxqRequest{RxqAddr: 0x21}, 16, "21"}, {&StartRxqRequest{Index: 0x22}, 52, "22"},
		{&StartTxqRequest{PBLAddr: 0x23}, 16, "23"}, {&StartTxqRequest{Flags: 0x24}, 32, "24"},
		{&VportStartRequest{TPAMode: 0x25}, 144, "25"}, {&VportStartRequest{Vport: 0x26}, 152, "26"},
		{&Activate{UpdateRx: 1, Tx: 4}, 4, "01000004"}, {&RSS{Key: [40]byte{0x27}}, 264, "27"},
		{&UcastRequest{Op: 3, Type: 1, VLAN: 0x28}, 16, "03010000000000002800"},
		{&StopRxqsRequest{Queue: 0x29, Num: 1}, 16, "290001"}, {&CoalesceRequest{Queue: 0x30}, 20, "30"},
		{&AcquireReply{PF: PFInfo{HSIMajor: 3}}, 78, "03"}, {&AcquireReply{BulletinSize: 0x31}, 248, "31"},
		{&Bulletin{PVID: 0x32}, 76, "32"}, {&Bulletin{Speed: 0x33}, 64, "33"}, {&Bulletin{VXLANPort: 0x34}, 58, "34"},
		{&Bulletin{LinkState: LinkState{Up: 1}}, 48, "01"}, {&Bulletin{OnlyUntagged: 1}, 22, "01"},
	} {
		b := Append(nil, c.v)
		want, _ := hex.DecodeString(c.want)
		if !bytes.HasPrefix(b[c.at:], want) {
			t.Errorf("%T: % x at octet %d, want %s", c.v, b[c.at:c.at+len(want)], c.at, c.want)
		}
	}
}

// Lists of TLVs: what ends one, and what makes it wrong.
func TestList(t *testing.T) {
	b := Request(VportUpdate, 0x1000, &First{}, &Flag{Header: Header{UpdateTxSwitch, 8}, On: 1})
	list, err := List(append(b, 1, 2, 3))
	if err != nil || len(list) != 2 || TypeOf(list[1]) != UpdateTxSwitch || TypeOf(list[0]) != VportUpdate {
		t.Errorf("%v, %x", err, list)
	}
	for name, b := range map[string][]byte{
		"empty": {}, "no end": b[:24], "half an end": b[:27], "length 0": append(b[:18:18], 0, 0, 13, 0),
		"length 3": append(b[:16:16], 16, 0, 3, 0), "beyond": append(b[:16:16], 16, 0, 0xff, 3),
		"too long": append(bytes.Clone(b), make([]byte, 1024)...),
	} {
		if list, err := List(b); err == nil {
			t.Errorf("%s: %x", name, list)
		}
	}
	for typ := range MaxType + 2 {
		if typ.String() == "" {
			t.Errorf("type %d has no name", typ)
		}
	}
}
