package ib

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func TestHeader(t *testing.T) {
	h := Header{BaseVersion: 1, Class: ClassSubnDirected, ClassVersion: 1, Method: MethodGet, TID: 0x1122334455667788,
		Attr: AttrPortInfo, Modifier: 1, MKey: 0xa1}
	mad := h.Append(nil, []byte{0xee})
	const want = "01810101" + "00000000" + "1122334455667788" + "00150000" + "00000001" + "00000000000000a1"
	if got := hex.EncodeToString(mad[:32]); got != want || len(mad) != MADLen || mad[64] != 0xee {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got, data, err := Parse(mad)
	if err != nil || got != h || len(data) != DataLen || data[0] != 0xee {
		t.Errorf("%+v, %v", got, err)
	}
	for _, n := range []int{0, 24, 255, 257} {
		if _, _, err := Parse(make([]byte, n)); !errors.Is(err, ErrTruncated) {
			t.Errorf("%d octets: %v", n, err)
		}
	}
}

func TestResponse(t *testing.T) {
	for class, status := range map[uint8]uint16{ClassSubnLID: StatusBadField, ClassSubnDirected: 0x8000 | StatusBadField} {
		h := Header{BaseVersion: 1, Class: class, Method: MethodSet, TID: 5, Attr: AttrPKeyTable}
		request := h.Append(nil, []byte{1, 2, 3})
		kept, data, err := Parse(Response(nil, request, StatusBadField, nil))
		if err != nil || kept.Method != MethodGetResp || kept.Status != status || kept.TID != 5 || data[2] != 3 {
			t.Errorf("class %#x: %+v, %v", class, kept, err)
		}
		if _, data, _ := Parse(Response(nil, request, StatusOK, []byte{9})); data[0] != 9 || data[2] != 0 {
			t.Errorf("class %#x: data %v", class, data[:4])
		}
	}
}

// The offsets are those of the architecture's tables.
func TestAttributes(t *testing.T) {
	n := NodeInfo{Type: NodeCA, Ports: 1, SystemGUID: [8]byte{1}, NodeGUID: [8]byte{2}, PortGUID: [8]byte{3},
		PartitionCap: 32, DeviceID: 0x1234, Revision: 7, LocalPort: 1, VendorID: 0x544150}
	b := n.Append(nil)
	const node = "01010101" + "0100000000000000" + "0200000000000000" + "0300000000000000" + "0020" + "1234" + "00000007" + "01544150"
	if got := hex.EncodeToString(b); got != node {
		t.Errorf("NodeInfo\ngot  %s\nwant %s", got, node)
	}
	if got := ParseNodeInfo(append(b, make([]byte, 24)...)); got != n {
		t.Errorf("NodeInfo %+v", got)
	}
	p := PortInfo{MKey: 1, GIDPrefix: 2, LID: 3, MasterSMLID: 4, CapMask: CapReregister, LocalPort: 1, State: 4, PhysState: 5,
		LMC: 2, NeighborMTU: 5, MTUCap: 5, MKeyErrors: 6, GUIDCap: 8, Reregister: true, SubnetTimeout: 18}
	b = p.Append(nil)
	const port = "0000000000000001" + "0000000000000002" + "0003" + "0004" + "02000000" + "00000000" +
		"01020202" + "14520211" + "50100000" + "00050010" + "0006" + "00000000" + "08" + "92" + "00000000"
	if got := hex.EncodeToString(b); got != port {
		t.Errorf("PortInfo\ngot  %s\nwant %s", got, port)
	}
	if got := ParsePortInfo(append(b, make([]byte, 8)...)); got != p {
		t.Errorf("PortInfo %+v", got)
	}
}

func TestTables(t *testing.T) {
	guids := [GUIDsPerBlock][8]byte{{1}, {2}, 7: {8, 7: 9}}
	keys := [PKeysPerBlock]uint16{0: 0xffff, 31: 0x8001}
	if b := AppendGUIDs(nil, guids); len(b) != DataLen || ParseGUIDs(b) != guids {
		t.Error("GUIDs")
	}
	if b := AppendPKeys(nil, keys); len(b) != DataLen || ParsePKeys(b) != keys || !strings.HasSuffix(hex.EncodeToString(b), "8001") {
		t.Error("PKeys")
	}
	for octets, code := range map[int]uint8{100: 1, 256: 1, 512: 2, 1500: 3, 2048: 4, 4095: 4, 4096: 5, 9000: 5} {
		if got := MTUCode(octets); got != code {
			t.Errorf("MTU %d: code %d, want %d", octets, got, code)
		}
	}
}

func FuzzParse(f *testing.F) {
	h := Header{BaseVersion: 1, Class: ClassSubnDirected, ClassVersion: 1, Method: MethodGet, Attr: AttrPortInfo}
	f.Add(h.Append(nil, []byte{1, 2, 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, data, err := Parse(b)
		if err != nil {
			return
		}
		if again, _, err := Parse(h.Append(nil, data)); err != nil || again != h {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
		node, port, guids, keys := ParseNodeInfo(data), ParsePortInfo(data), ParseGUIDs(data), ParsePKeys(data)
		for _, again := range [][]byte{AppendGUIDs(nil, guids), AppendPKeys(nil, keys)} {
			if !bytes.Equal(again, data) {
				t.Fatalf("re-encoded % x, was % x", again, data)
			}
		}
		if got := ParseNodeInfo(node.Append(nil)); got != node {
			t.Fatalf("%+v became %+v", node, got)
		}
		if got := ParsePortInfo(port.Append(nil)); got != port {
			t.Fatalf("%+v became %+v", port, got)
		}
		if answer := Response(nil, b, StatusBadField, data); len(answer) != MADLen {
			t.Fatalf("an answer of %d octets", len(answer))
		}
	})
}
