package toe

import (
	"net/netip"

	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Source renders the byte stream that a connection sends. Offsets count
// stream octets; 0 is the first octet after the SYN. It lets the engine send
// whole MPA FPDUs per segment without knowing MPA (RFC 5044 annex A).
type Source interface {
	// Next returns the payload length of the segment that starts at off, at
	// most limit octets: as many whole records (FPDUs) as fit, at least one. If one
	// record alone exceeds limit, it returns limit, or the rest up to the record's end
	// when off lies inside it. 0 means that nothing is to be sent at off now.
	// off is either the end of what Next has returned so far, where new
	// records may be cut, or lower, where the boundaries must be those of the
	// first sending. Only what Next has returned is rendered.
	Next(off uint64, limit int) int
	// Render writes the stream octets [off, off+len(p)) to p (borrowed). The
	// octets must be the same every time until they are acknowledged.
	Render(off uint64, p []byte)
}

// Runner is a Source that can tell many segments at a time.
type Runner interface {
	// Run returns how many times in a row, at most max, Next would return n for
	// limit octets, from off on. It may return fewer.
	Run(off uint64, n, limit, max int) int
}

// Handler is the upper layer of one connection. Every call happens inside
// Segment, Unreachable or Poll. It may call any method of its Conn at any
// time; those that cause output only mark the connection for the next Poll.
type Handler interface {
	Source
	// Established reports that the handshake is complete, in both roles.
	Established(c *Conn, now frame.Time)
	// Receive hands over the next in-order stream octets (borrowed). The
	// layer consumes all of them.
	Receive(c *Conn, data []byte, now frame.Time)
	// Acked reports that the peer has acknowledged every octet below off.
	Acked(c *Conn, off uint64, now frame.Time)
	// PeerClosed reports the peer's FIN, in order after its last octet.
	PeerClosed(c *Conn, now frame.Time)
	// Closed is the last call. err is nil after an orderly close, reported
	// when both FINs are done; otherwise it is an *Error.
	Closed(c *Conn, err error, now frame.Time)
}

// OOOReceiver is implemented by a Handler that can use data before
// everything in front of it has arrived, such as DDP's direct placement (RFC
// 5041 section 5.3). Without it data is held and delivered in order.
type OOOReceiver interface {
	// ReceiveOOO offers data (borrowed) that has arrived out of order, at
	// stream offset off: one received segment, less what is known already. The
	// layer has taken as many octets from its front as it returns, and TCP will
	// not lend them again; the rest TCP holds for Receive. Octets that had to be
	// discarded for lack of memory are offered again when the peer sends them
	// again.
	ReceiveOOO(c *Conn, off uint64, data []byte, now frame.Time) (taken int)
	// Skip stands for Receive when the stream has reached n octets that
	// ReceiveOOO has taken.
	Skip(c *Conn, n int, now frame.Time)
}

// Output is where an engine's packets go.
type Output interface {
	// Transmit takes f, an IP packet with frame.DefaultHeadroom in front of
	// it, for the neighbour that leads to dst. With Config.MaxSegs 1 the TCP
	// checksum is complete. Otherwise it is partial and f.Offload describes
	// what is left to do, with CsumStart and HdrLen counted from the first
	// byte of the IP header: who prepends a link header adds its length to both.
	Transmit(f *frame.Frame, dst netip.Addr, now frame.Time)
	// Room is the number of frames that Transmit still accepts.
	Room() int
}

// Stations is an Output whose link has stations, of which a connection may know its own.
type Stations interface {
	// Station is the station that leads to dst; zero: it is not known.
	Station(dst netip.Addr) ether.Addr
	// OnMoved has moved called when the stations of some addresses may have changed.
	OnMoved(moved func())
	// TransmitTo is Output.Transmit to a station; zero: the one that leads to dst.
	TransmitTo(f *frame.Frame, dst netip.Addr, station ether.Addr, now frame.Time)
}

// SYNHandler is a Handler that hears of SYNs on an established connection, as peers send that
// have forgotten it.
type SYNHandler interface{ SYNReceived(c *Conn) }

// Isles hear of the data that connections receive beyond a gap, by offsets of the
// stream: each run of it is an isle.
type Isles interface {
	// Room tells whether data [left, right) may be kept.
	Room(conn, left, right uint64) bool
	// Add says that it is; held: in a buffer, not at its target. Reached says that all
	// before next is in order, and returns whether isles are left; Gone that nothing is
	// kept any more.
	Add(conn, left, right uint64, held bool)
	Reached(conn, next uint64) (left bool)
	Gone(conn uint64)
}

// SetIsles has i hear of the isles of all connections; it is called before there are
// any.
func (e *Engine) SetIsles(i Isles) { e.isles = i }
