package ip

import "testing"

// TestPriority compares with the words of tc-prio(8).
func TestPriority(t *testing.T) {
	for tos, want := range map[uint8]uint8{
		0: 0, 0x02: 0, 0x04: 0, 0x08: 2, 0x0e: 2, 0x10: 6, 0x16: 6, 0x18: 4, 0x1e: 4, 0x28: 2, 0xb8: 4, 0xe0: 0,
	} {
		if got := Priority(tos); got != want {
			t.Errorf("TOS %#x: priority %d, want %d", tos, got, want)
		}
	}
}
