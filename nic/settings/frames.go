package settings

import (
	"net/netip"

	"tapir/wire/enum"
)

// FrameMode says what frames a NIC exchanges with its TAP.
type FrameMode uint8

const (
	// Wire: one TCP segment per frame, complete checksums; what a capture
	// shows is what a cable would carry.
	Wire FrameMode = iota
	// GSO: super-frames of up to 64 KiB with the virtio-net header.
	GSO
	// Jumbo: GSO with a default MTU of 9000 octets.
	Jumbo
)

var modeNames = [...]string{"wire", "gso", "jumbo"}

// String is the mode as ParseFrameMode reads it.
func (m FrameMode) String() string {
	return enum.Name(modeNames[:], m, "unknown")
}

// ParseFrameMode reads "wire", "gso" or "jumbo".
func ParseFrameMode(s string) (FrameMode, error) {
	return enum.Parse[FrameMode](modeNames[:], s, "frame mode %q: use wire, gso or jumbo")
}

// Ephemeral is the larger range of ports, from 1024 on, outside of [lo, hi].
func Ephemeral(lo, hi uint16) (first, last uint16, ok bool) {
	below, above := int(lo)-1024, 65535-int(hi)
	switch {
	case above >= below && above > 0:
		return hi + 1, 65535, true
	case below > 0:
		return 1024, lo - 1, true
	}
	return 0, 0, false
}

// Reserver keeps TCP ports of the operating system's side free for the
// engine, by placeholder sockets in the host TAP's namespace.
type Reserver interface {
	// Reserve takes the local address and port; release gives it back.
	Reserve(local netip.AddrPort) (release func(), err error)
	// EphemeralRange is the operating system's own range, both included.
	EphemeralRange() (lo, hi uint16)
}
