package toe

import (
	"net/netip"
	"time"

	"tapir/wire/frame"
	"tapir/wire/ip"
)

type hole struct{}
type reassembly struct{ octets int }

func (r *reassembly) release(e *Engine) {}

type lossState struct{}
type congestion struct {
	cwnd, ssthresh uint64
	state          int
}
type rttState struct{ rto, srtt, rttvar time.Duration }

const caOpen = 0

func (c *Conn) openActive(now frame.Time) {}
func (c *Conn) onRTO(now frame.Time)      {}

// Poll sends what is due and returns the next deadline, frame.Never if none.
func (e *Engine) Poll(now frame.Time) frame.Time { e.fire(now); return e.timers.next() }

// Segment handles one received segment: seg (borrowed) holds the TCP header
// and payload that followed the IP header h; it may be a super-segment of up
// to 64 KiB. It reports whether a connection or listener owns the segment; if
// not, the caller may drop it or answer it with Reset.
func (e *Engine) Segment(h *ip.Header, seg []byte, off frame.Offload, now frame.Time) bool {
	return false
}

// Reset queues a RST in answer to a segment that Segment did not own.
func (e *Engine) Reset(h *ip.Header, seg []byte) {}

// Unreachable handles an ICMP error about a segment that this engine sent
// with sequence number seq. mtu is the next hop's MTU if the packet was too
// big, else 0; hard tells a lasting error (RFC 1122 section 4.2.3.9).
func (e *Engine) Unreachable(local, remote netip.AddrPort, seq uint32, hard bool, mtu int, now frame.Time) {
}
