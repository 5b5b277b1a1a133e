package script

import (
	"net/netip"
	"time"

	"tapir/nic/toe"
	"tapir/wire/tcp"
)

// peer is one connection of a script: both addresses, the numbers that its
// relative ones count from, and the application at the NIC's end.
type peer struct {
	number        int
	local, remote netip.AddrPort // the NIC's and the peer's
	isn           uint32         // the peer's first sequence number
	base          uint32         // the NIC's, once known
	based         bool
	win           uint16 // of the peer's last segment

	// Timestamps. A value of the NIC counts the milliseconds of the script;
	// tsBase is what was added to it.
	tsBase        uint32
	tsBased       bool
	tsOut         int64 // last value of the NIC
	tsIn          int64 // last value of the peer, and when
	tsInAt        time.Duration
	offered, took bool // timestamps in the SYN of the peer, of the NIC
	app           *app
	conn          *toe.Conn
	end           *endpoint // in a script of the protocol iwarp
}

// reopen makes the peer ready for a new connection between the same ports.
func (p *peer) reopen(isn uint32) {
	*p = peer{number: p.number, local: p.local, remote: p.remote, isn: isn, win: 65535, end: p.end}
}

// defaultOptions are those of a segment whose options the script leaves out:
// timestamps, if both SYNs had them.
func (p *peer) defaultOptions(at time.Duration) *tcpOptions {
	o := &tcpOptions{}
	if p.offered && p.took {
		val := p.tsIn + int64((at-p.tsInAt)/time.Millisecond)
		o.list = []tcpOption{{name: "nop"}, {name: "nop"}, {name: "TS", values: []value{{n: val}, {n: p.tsOut}}}}
	}
	return o
}

// noteOptions keeps what a segment of the peer says.
func (p *peer) noteOptions(o *tcpOptions, flags tcp.Flags, at time.Duration) {
	ts := o.has("TS")
	if flags.Has(tcp.SYN) {
		p.offered = ts != nil
	}
	if ts != nil {
		p.tsIn, p.tsInAt = ts.values[0].n, at
	}
}

// salts of the two streams.
const (
	nicSalt  = 1
	peerSalt = 2
)

// pattern fills p with the octets that every stream of a script carries, from
// offset off on.
func pattern(p []byte, salt uint64, off int64) {
	for i := range p {
		p[i] = octet(salt, off+int64(i))
	}
}

func octet(salt uint64, off int64) byte {
	x := (uint64(off) + salt<<40) * 0x9e3779b97f4a7c15
	return byte(x >> 56)
}
