package ip

import (
	"net/netip"
	"testing"
)

// MarkCE changes ECT(0) and ECT(1) to CE and nothing else, and leaves a right checksum.
func TestMarkCE(t *testing.T) {
	for _, addr := range []string{"10.0.0.1", "fd00::1"} {
		for id := range 1 << 16 {
			if id > 3 && (id%257 != 0 || addr[0] == 'f') {
				continue
			}
			for tos := range uint8(8) {
				a := netip.MustParseAddr(addr)
				h := Header{Version: 4, TOS: tos<<5 | tos, ID: uint16(id), TTL: 64, Proto: ProtoUDP, Src: a, Dst: a}
				if a.Is6() {
					h.Version, h.ID, h.FlowLabel = 6, 0, 0xfffff
				}
				b := make([]byte, h.HeaderLen())
				h.Put(b)
				ecn := h.TOS & ECNMask
				if got := MarkCE(b); got != (ecn == 1 || ecn == 2) {
					t.Fatalf("%s, ECN %d: %v", addr, ecn, got)
				}
				if ecn != 0 {
					h.TOS |= CE
				}
				want := make([]byte, len(b))
				h.Put(want)
				if string(b) != string(want) {
					t.Fatalf("%x, want %x", b, want)
				}
			}
		}
	}
	for _, b := range [][]byte{nil, {0x45, 2}, make([]byte, 60), {0x60, 0x20}} {
		if MarkCE(b) {
			t.Errorf("%x is marked", b)
		}
	}
}
