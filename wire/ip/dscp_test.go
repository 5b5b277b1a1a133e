package ip

import (
	"net/netip"
	"testing"
)

// A DSCP is set where there is none; the ECN field stays, and the checksum fits.
func TestSetDSCP(t *testing.T) {
	for _, src := range []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1")} {
		for tos, want := range map[uint8]uint8{0: 46 << 2, 2: 46<<2 | 2, 3: 46<<2 | 3, 8 << 2: 8 << 2} {
			h := Header{Version: 6, TOS: tos, FlowLabel: 0xfffff, TTL: 64, Proto: 17, Src: src, Dst: src}
			if src.Is4() {
				h.Version, h.FlowLabel = 4, 0
			}
			b := make([]byte, h.HeaderLen())
			h.Put(b)
			SetDSCP(b, 46)
			got, _, err := Parse(b)
			if err != nil || got.TOS != want || got.FlowLabel != h.FlowLabel {
				t.Errorf("%v, TOS %d: %d %v, want %d", src, tos, got.TOS, err, want)
			}
		}
	}
	SetDSCP([]byte{0x45}, 46)
	SetDSCP(nil, 46)
}
