package l2

import (
	"encoding/binary"

	"tapir/nic/fastlinq/status"
	"tapir/wire/ip"
)

// HashTypes are the kinds of packets that are spread by a hash.
type HashTypes uint8

// The kinds (rss_caps). Packets of a kind with ports are hashed with them.
const (
	HashIPv4 HashTypes = 1 << iota
	HashIPv6
	HashIPv4TCP
	HashIPv6TCP
	HashIPv4UDP
	HashIPv6UDP
	// DefaultHash is what drivers begin with.
	DefaultHash = HashIPv4 | HashIPv6 | HashIPv4TCP | HashIPv6TCP
	allHashes   = DefaultHash | HashIPv4UDP | HashIPv6UDP
)

// HashType is the kind that a packet's hash is of; 0: it has none.
type HashType = HashTypes

// TableLen is the largest indirection table; KeyLen the octets of a key.
const (
	TableLen = 128
	KeyLen   = 40
)

// RSSParams change a vport's RSS. Each part has its own update flag and leaves
// the others as they are.
type RSSParams struct {
	Engine       int
	UpdateConfig bool // Enable
	UpdateCaps   bool // Hashes
	UpdateTable  bool // TableLog and Table
	UpdateKey    bool // Key
	Enable       bool
	Hashes       HashTypes
	TableLog     int // the table has 2^TableLog entries
	Table        [TableLen]*RxQueue
	Key          [KeyLen]byte // first octet first
}

// rss is a vport's RSS.
type rss struct {
	engine   int
	enabled  bool
	hashes   HashTypes
	tableLog int
	table    [TableLen]*RxQueue
	key      [KeyLen]byte
	toeplitz *Toeplitz // of key; nil while it is zero
}

func (fn *Function) checkRSS(v *vport, p *RSSParams) error {
	switch {
	case p.Engine < 0 || p.Engine >= fn.cfg.Share.RSSEngines:
		return status.Inval.Errorf("vport %d: RSS engine %d: the function has %d", v.id, p.Engine,
			fn.cfg.Share.RSSEngines)
	case p.UpdateCaps && p.Hashes&^allHashes != 0:
		return status.Inval.Errorf("vport %d: hash types %#x", v.id, uint8(p.Hashes))
	case !p.UpdateTable:
		return nil
	case p.TableLog < 0 || 1<<p.TableLog > TableLen:
		return status.Inval.Errorf("vport %d: an RSS table of 2^%d entries", v.id, p.TableLog)
	}
	for i, q := range p.Table[:1<<p.TableLog] {
		if q == nil || q.fn != fn || q.vport != v {
			return status.Inval.Errorf("vport %d: entry %d of the RSS table is no queue of it", v.id, i)
		}
	}
	return nil
}

func (r *rss) update(p *RSSParams) {
	r.engine = p.Engine
	if p.UpdateConfig {
		r.enabled = p.Enable
	}
	if p.UpdateCaps {
		r.hashes = p.Hashes
	}
	if p.UpdateTable {
		r.tableLog, r.table = p.TableLog, p.Table
	}
	if p.UpdateKey {
		r.key = p.Key
		r.toeplitz = NewToeplitz(p.Key)
	}
}

// forget takes a queue that stops out of the table: what fell to it goes to the
// vport's first.
func (r *rss) forget(q *RxQueue) {
	for i := range r.table {
		if r.table[i] == q {
			r.table[i] = nil
		}
	}
}

// UpdateTableEntry changes one entry of a vport's RSS table. INVAL for an index
// beyond the table or a queue that is not the vport's.
func (fn *Function) UpdateTableEntry(id, index int, q *RxQueue) error {
	v, err := fn.vport(id)
	if err != nil {
		return err
	}
	if index < 0 || index >= 1<<v.rss.tableLog || q == nil || q.fn != fn || q.vport != v {
		return status.Inval.Errorf("vport %d: entry %d of the RSS table", id, index)
	}
	v.rss.table[index] = q
	return nil
}

// queue is the queue that a packet falls to, with its hash; nil if the table has none.
func (r *rss) queue(p *packet) (q *RxQueue, hash uint32, kind HashType) {
	if !r.enabled {
		return nil, 0, 0
	}
	hash, kind = r.hash(p)
	return r.table[hash&(1<<r.tableLog-1)], hash, kind
}

func (r *rss) hash(p *packet) (hash uint32, kind HashType) {
	n := p.network()
	if n.Version == 0 || r.toeplitz == nil {
		return 0, 0
	}
	l3, l4tcp, l4udp := HashIPv4, HashIPv4TCP, HashIPv4UDP
	if n.Version == 6 {
		l3, l4tcp, l4udp = HashIPv6, HashIPv6TCP, HashIPv6UDP
	}
	with := l4udp
	if n.Proto == ip.ProtoTCP {
		with = l4tcp
	}
	switch {
	case n.ports && r.hashes&with != 0:
		kind = with
	case r.hashes&l3 != 0:
		kind = l3
	default:
		return 0, 0
	}
	hash = r.toeplitz.Sum(0, n.Addrs(), 0)
	if kind == with {
		a := len(n.Addrs())
		hash = r.toeplitz.Sum(hash, p.Frame[n.L4:n.L4+4], a)
	}
	return hash, kind
}

// Toeplitz hashes with one key. Its tables hold, for each half octet of the
// input, what it adds to the hash.
type Toeplitz [2 * (KeyLen - 4)][16]uint32

// NewToeplitz returns the tables of a key.
func NewToeplitz(key [KeyLen]byte) *Toeplitz {
	t := new(Toeplitz)
	for half := range t {
		for bit := range 4 {
			at := 4*half + bit
			window := uint32(binary.BigEndian.Uint64(key[min(at/8, KeyLen-8):]) >> (32 - at + 8*min(at/8, KeyLen-8)))
			for v := range 16 {
				if v&(8>>bit) != 0 {
					t[half][v] ^= window
				}
			}
		}
	}
	return t
}

// Sum goes on with a hash over b, which lies at octet at of the input. Input
// is the source and destination address, then the ports, as in the packet.
func (t *Toeplitz) Sum(hash uint32, b []byte, at int) uint32 {
	for i, c := range b {
		hash ^= t[2*(at+i)][c>>4] ^ t[2*(at+i)+1][c&15]
	}
	return hash
}
