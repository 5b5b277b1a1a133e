package tlv

import (
	"bytes"
	"testing"

	"tapir/nic/fastlinq/status"
)

// MF-39 The numbers are the firmware's, and each TLV that is filled has one
// group and a width that its room holds.
func TestTypes(t *testing.T) {
	for typ, name := range map[Type]string{2: "SCSI_TO", 9: "FEATURE_FLAGS", 13: "LSO_MAX_OFFLOAD_SIZE", 37: "TARGET_LLMNR_ENABLED",
		56: "RX_FRAMES_RECEIVED", 85: "CRC_ERROR_COUNT", 211: "RDMA_DRV_VERSION", 212: "TLV 212"} {
		if typ.String() != name {
			t.Errorf("%d is %v, want %s", typ, typ, name)
		}
	}
	count := map[Group]int{}
	for typ := range NumTypes {
		g := typ.Group()
		count[g]++
		if (g == 0) != (typ.Width() == 0) || len(Request(typ)) < 4+typ.Width() {
			t.Errorf("%v: group %v, width %d", typ, g, typ.Width())
		}
	}
	if count[Generic] != 10 || count[Eth] != 15 || count[ISCSI] != 15 || count[FCoE] < 100 {
		t.Errorf("%v", count)
	}
}

// MF-38 What is not set is not told, what does not fit is cut.
func TestFill(t *testing.T) {
	b := Request(LocalMAC, TxRing, RxFrames, SwitchName, RDMADriverVersion)
	list, err := Parse(b)
	if err != nil || Asked(list) != Generic|Eth|FCoE || Asked(list).String() != "GENERIC,ETH,FCOE" {
		t.Fatalf("%v, %v", err, Asked(list))
	}
	var v Values
	v.Set(TxRing, 0x123456)
	v.SetText(SwitchName, string(bytes.Repeat([]byte{'n'}, 99)))
	v.SetBytes(LocalMAC, []byte{1, 2, 3, 4, 5, 6})
	v.Set(250, 1) // of a type that there is not
	if n := Fill(list, Eth, &v); n != 1 || list[0].Filled() || !list[1].Filled() || list[1].Uint() != 0x3456 {
		t.Errorf("%d filled, %#x", n, list[1].Uint())
	}
	if n := Fill(list, FCoE, &v) + Fill(list, Generic, &v); n != 2 || list[2].Filled() || len(list[3].Value) != 32 || list[4].Filled() {
		t.Errorf("%d filled", n)
	}
	for n := range b {
		if n == 12 || n == 20 || n == 32 || n == 68 || n == 0 {
			continue // a TLV ends there
		}
		if _, err := Parse(b[:n]); status.Of(err) != status.Inval {
			t.Errorf("%d octets: %v", n, err)
		}
	}
	if _, err := Parse(make([]byte, MaxBuffer+4)); status.Of(err) != status.Inval {
		t.Errorf("too long: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Request(LocalMAC, TxRing, SwitchName))
	f.Add([]byte{255, 1, 0, 0, 9, 9, 9, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		was := bytes.Clone(b)
		list, err := Parse(b)
		if err != nil {
			return
		}
		var v Values
		for typ := range NumTypes {
			v.Set(typ, 1<<63+5)
		}
		n := 0
		for _, g := range Groups {
			n += Fill(list, g, &v)
		}
		again, err := Parse(b)
		if err != nil || len(again) != len(list) || len(b) != len(was) {
			t.Fatalf("filling changed the shape: %v", err)
		}
		for i := range again {
			_ = again[i].Uint()
			if again[i].Type.Group() != 0 && !again[i].Filled() {
				t.Fatalf("%v is not filled", again[i].Type)
			}
		}
		if n == 0 && !bytes.Equal(b, was) {
			t.Fatal("nothing was filled, and it changed")
		}
	})
}
