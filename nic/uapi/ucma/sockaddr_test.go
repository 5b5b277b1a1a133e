package ucma

import (
	"syscall"
	"testing"
)

// TestMappedIPv4: libc writes an IPv4 address so where the kernel has none
// itself, which is usual where the NIC has it.
func TestMappedIPv4(t *testing.T) {
	b := make([]byte, 28)
	order.PutUint16(b, syscall.AF_INET6)
	copy(b[2:], []byte{0x1d, 0x2f})
	copy(b[18:], []byte{0xff, 0xff, 10, 78, 0, 1})
	if s := parseSockaddr(b); s.family != syscall.AF_INET || s.addrPort().String() != "10.78.0.1:7471" {
		t.Errorf("got family %d, %v", s.family, s.addrPort())
	}
	if n := familyLen(order.Uint16(b)); n != len(b) {
		t.Errorf("the address as written has %d octets, want %d", n, len(b))
	}
}
