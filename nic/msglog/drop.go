package msglog

import (
	"fmt"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// Dropped says which frame was dropped at a port, and why.
func (l *Log) Dropped(p frame.Port, dir frame.Direction, b []byte, r frame.DropReason) {
	l.Append(Drop, func(t []byte) []byte {
		t = fmt.Appendf(t, "%v %v %v: %d octets", p, dir, r, len(b))
		eth, n, err := ether.Parse(b)
		if err != nil {
			return t
		}
		t = fmt.Appendf(t, ", %v > %v type %#04x", eth.Src, eth.Dst, eth.Type)
		if h, _, err := ip.ParseQuoted(b[n:]); err == nil &&
			(eth.Type == ether.TypeIPv4 || eth.Type == ether.TypeIPv6) {
			t = fmt.Appendf(t, ", %v > %v protocol %d", h.Src, h.Dst, h.Proto)
		}
		return t
	})
}
