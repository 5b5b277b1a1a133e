package toe

import (
	"net/netip"
	"time"

	"tapir/nic/toe/isn"
)

// Config sets up an Engine. The zero value of every field means its default.
type Config struct {
	Params // of every connection that sets none of its own

	// Secret is the key behind initial sequence numbers (RFC 6528), timestamp
	// offsets, SYN cookies and ephemeral ports.
	Secret isn.Secret
	// MTU is the largest IP packet sent and the base of the announced MSS,
	// in octets; default 1500, at least 576.
	MTU int
	// RcvWnd is the receive window in octets; default 1 MiB, at least
	// 64 KiB. It also bounds the out-of-order data held per connection.
	RcvWnd int
	// MaxReassembly bounds the memory of out-of-order data of all connections
	// together, in octets; default 64 MiB.
	MaxReassembly int
	// SndWnd bounds unacknowledged sent data per connection, in octets;
	// default 4 MiB.
	SndWnd int
	// MaxSegs is the number of segments that one frame may hold. 1 (the
	// default) sends one segment per frame with a complete checksum. More
	// sends GSO super-frames of up to MaxSegs equal segments and 64 KiB, and
	// leaves the checksum of every frame partial.
	MaxSegs int

	// PathMTUAge is how long a reduced path MTU is kept before a larger one is
	// tried (RFC 8201 section 4); default 10 minutes.
	PathMTUAge time.Duration

	InitialRTO time.Duration // first retransmission timeout; default 1 s (RFC 6298 section 2.1)
	MinRTO     time.Duration // lower bound of the timeout; default 200 ms
	TailProbe  time.Duration // shortest silence before a tail loss probe; default 2 ms
	MaxRTO     time.Duration // upper bound of the timeout; default 60 s
	DelayedAck time.Duration // longest delay of an acknowledgement; default 40 ms
	TimeWait   time.Duration // stay in TIME-WAIT; default 60 s
	// MaxTimeWait bounds the connections in TIME-WAIT; then the oldest makes
	// room. Default 65536.
	MaxTimeWait int

	// Passive opens: MaxConns bounds the connections of the engine (default
	// 65536), MaxConnsPerPort and MaxConnsPerHost those by local port and by
	// remote IPv4 address or IPv6 /64 (default MaxConns). SYNs beyond are
	// dropped. Half-open connections beyond MaxHalfOpenPerPort (default 1024)
	// and MaxHalfOpenPerHost (default 512) are kept in SYN cookies only.
	MaxConns, MaxConnsPerPort, MaxConnsPerHost int
	MaxHalfOpenPerPort, MaxHalfOpenPerHost     int
	NoSynCookies                               bool // drop SYNs beyond the backlog

	SynRetries int // SYN retransmissions before Timeout; default 6
	Retries    int // consecutive timeouts of data before Timeout; default 10

	// FirstPort and LastPort bound the ephemeral ports, both included;
	// default 49152 to 65535 (RFC 6335 section 6).
	FirstPort, LastPort uint16
	// TTL is the IPv4 time to live and IPv6 hop limit; default 64.
	TTL uint8

	// Reserve, if set, takes a local port from the operating system that has
	// the same address, before a listener or connection uses it. release
	// gives it back, after TIME-WAIT.
	Reserve func(local netip.AddrPort) (release func(), err error)
}

const (
	minRcvWnd = 64 << 10
	minMTU    = 576
	// maxPacket is the longest IP packet, super-frames included.
	maxPacket = 65535
	// minSegment is the mean segment at which SndWnd can be in flight: there
	// are never more than SndWnd/minSegment segments.
	minSegment = 512
)

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// withDefaults returns cfg with every unset or impossible value replaced.
func (cfg Config) withDefaults() Config {
	def(&cfg.MTU, 1500)
	def(&cfg.RcvWnd, 1<<20)
	def(&cfg.SndWnd, 4<<20)
	def(&cfg.MaxReassembly, 64<<20)
	def(&cfg.MaxSegs, 1)
	def(&cfg.PathMTUAge, 10*time.Minute)
	def(&cfg.InitialRTO, time.Second)
	def(&cfg.MinRTO, 200*time.Millisecond)
	def(&cfg.MaxRTO, time.Minute)
	def(&cfg.TailProbe, 2*time.Millisecond)
	def(&cfg.DelayedAck, 40*time.Millisecond)
	def(&cfg.TimeWait, time.Minute)
	def(&cfg.SynRetries, 6)
	def(&cfg.Retries, 10)
	def(&cfg.FirstPort, 49152)
	def(&cfg.LastPort, 65535)
	def(&cfg.TTL, 64)
	def(&cfg.MaxTimeWait, 1<<16)
	def(&cfg.MaxConns, 1<<16)
	def(&cfg.MaxConnsPerPort, cfg.MaxConns)
	def(&cfg.MaxConnsPerHost, cfg.MaxConns)
	def(&cfg.MaxHalfOpenPerPort, 1024)
	def(&cfg.MaxHalfOpenPerHost, 512)
	cfg.Params = cfg.Params.withDefaults(cfg.Retries)
	cfg.MTU = boundMTU(cfg.MTU)
	cfg.RcvWnd = min(max(cfg.RcvWnd, minRcvWnd), 1<<30)
	cfg.MaxSegs = max(cfg.MaxSegs, 1)
	cfg.LastPort = max(cfg.LastPort, cfg.FirstPort)
	// A window that is a multiple of its scale never moves its right edge
	// back when it is rounded for the header.
	scale := 1 << wndScale(cfg.RcvWnd)
	cfg.RcvWnd = (cfg.RcvWnd + scale - 1) / scale * scale
	return cfg
}

// boundMTU is the possible MTU next to mtu.
func boundMTU(mtu int) int { return min(max(mtu, minMTU), maxPacket) }

// wndScale is the smallest shift that lets wnd be announced in 16 bits
// (RFC 7323 section 2).
func wndScale(wnd int) (shift uint8) {
	for wnd>>shift > 0xffff && shift < 14 {
		shift++
	}
	return shift
}
