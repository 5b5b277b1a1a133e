package toe

import (
	"net/netip"

	"tapir/wire/tcp"
)

// reset is a RST to be sent for a segment that no connection wants.
type reset struct {
	local, remote netip.AddrPort
	seq, ack      tcp.Seq
	flags         tcp.Flags
}
