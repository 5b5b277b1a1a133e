// Package ibcm is the connection manager of RoCE: the communication management
// of InfiniBand (volume 1, chapter 12) over queue pair 1, and its addressing by
// IP (annex A11), as a cm.Transport.
//
// A connection is made by REQ, REP and RTU and ended by DREQ and DREP; a
// datagram service is found by SIDR_REQ and SIDR_REP. Each request is sent again
// until it is answered or its retries are used up. Duplicates are answered from
// the state that they find. An application that is slow is excused by an MRA.
// Alternate paths (LAP) are refused.
package ibcm

import (
	"encoding/binary"
	"net/netip"
	"time"

	"tapir/nic/cm"
	"tapir/nic/roce"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/timer"
)

// Sender sends management datagrams from queue pair 1; roce.Engine is one.
type Sender interface {
	SendMAD(path *qpattr.Path, dest uint32, pkeyIndex uint16, payload []byte) error
}

// Source draws numbers; a secret.Source is one.
type Source interface{ Uint64() uint64 }

// Env is what the manager needs of the NIC around it.
type Env struct {
	Dev *verbs.Device
	CM  *cm.Manager
	Out Sender
	// Source draws the first communication id, packet sequence numbers and ports.
	Source Source
	// SourceFor is the NIC's address for talking to remote, not valid if it has none, and
	// the VLAN on which that is; local is the address to talk from, unspecified or not
	// valid: any.
	SourceFor func(remote, local netip.Addr) (source netip.Addr, vlan uint16)
	// Allow refuses connections to an address; nil: none.
	Allow func(remote netip.Addr) error
	// MTU is the largest path MTU that the link carries: 256 to 4096.
	MTU func() int
}

// Config are the manager's settings; a time is a code of ib.Timeout, and 0 takes
// the default.
type Config struct {
	// ResponseTimeout is how long a message waits for its answer before it is
	// sent again, and what the peer is told of this side: default 20 (4.3 s).
	ResponseTimeout uint8
	// Retries is how often a message is sent again, at most 15: default 15.
	Retries uint8
	// PacketLifetime is that of the path: default 16 (268 ms). The ACK timeout
	// is twice that, TIMEWAIT twice that and the peer's delay.
	PacketLifetime uint8
}

// What both sides are told, and defaults.
const (
	defaultResponse = 20
	defaultRetries  = 15
	defaultLifetime = 16
	ackDelay        = 15 // of this side
	mraTimeout      = 24 // 69 s: what an MRA asks for
	hopLimit        = 64
	rateAny         = 0x1e // path record rate, as the kernel's rdma_cm states
	defaultReads    = 16   // Reads each way where the application names no number
	minRNRTimer     = 12   // 0.64 ms, for queue pairs that the manager moves
)

// Stats counts messages; arrays are indexed by attribute less ib.AttrREQ.
type Stats struct {
	Sent, Received, Again, Duplicates [ib.AttrAPR - ib.AttrREQ + 1]uint64
	Malformed                         uint64 // datagrams that are none of communication management
	Unmatched                         uint64 // messages for a connection that does not exist
	Stale                             uint64 // requests that show that the peer has forgotten a connection
}

type peerKey struct {
	guid uint64
	num  uint32 // communication id, or queue pair
}

type sidrKey struct {
	gid [16]byte
	num uint32
}

// Engine is the connection manager. It has no clock, goroutine or lock.
type Engine struct {
	cfg       Config
	env       Env
	guid      uint64
	conns     map[uint32]*conn  // by this side's communication id
	peers     map[peerKey]*conn // by the peer's
	remoteQPs map[peerKey]*conn // by the peer's queue pair
	sidrs     map[sidrKey]*conn // requests received
	listeners []*acceptor
	timers    timer.Heap[*conn]
	nextID    uint32
	nextTID   uint64
	nextPort  uint16
	made      uint64
	stats     Stats
}

// New returns the manager and makes it the transport of env.CM.
func New(cfg Config, env Env) *Engine {
	def := func(v *uint8, d uint8) {
		if *v == 0 {
			*v = d
		}
	}
	def(&cfg.ResponseTimeout, defaultResponse)
	def(&cfg.Retries, defaultRetries)
	def(&cfg.PacketLifetime, defaultLifetime)
	guid := env.Dev.Identity().GUID
	e := &Engine{
		cfg: cfg, env: env, guid: binary.BigEndian.Uint64(guid[:]),
		conns: map[uint32]*conn{}, peers: map[peerKey]*conn{}, remoteQPs: map[peerKey]*conn{},
		sidrs:  map[sidrKey]*conn{},
		nextID: uint32(env.Source.Uint64()), nextTID: env.Source.Uint64() &^ 0xffffffff,
		nextPort: uint16(env.Source.Uint64()) | firstPort,
	}
	env.CM.SetTransport((*transport)(e))
	return e
}

// Stats returns the counters, borrowed.
func (e *Engine) Stats() *Stats { return &e.stats }

// Poll does what is due and returns when there is more.
func (e *Engine) Poll(now frame.Time) frame.Time {
	for c, ok := e.timers.Pop(now); ok; c, ok = e.timers.Pop(now) {
		c.expired(now)
	}
	return e.timers.Next()
}

// Deadline is when Poll has something to do.
func (e *Engine) Deadline() frame.Time { return e.timers.Next() }

const firstPort = 49152

// port chooses a port for a client.
func (e *Engine) port() uint16 {
	if e.nextPort++; e.nextPort < firstPort {
		e.nextPort = firstPort
	}
	return e.nextPort
}

// newConn makes a connection in a state.
func (e *Engine) newConn(s state) *conn {
	for e.nextID++; e.nextID == 0 || e.conns[e.nextID] != nil; e.nextID++ {
	}
	e.made++
	c := &conn{e: e, state: s, local: e.nextID, psn: uint32(e.env.Source.Uint64()) & ib.PSNMask}
	c.timer = timer.Entry[*conn]{Owner: c, ID: e.made}
	e.conns[c.local] = c
	return c
}

// forget ends all knowledge of c.
func (e *Engine) forget(c *conn) {
	e.timers.Remove(&c.timer)
	delete(e.conns, c.local)
	if k := (peerKey{c.guid, c.remote}); e.peers[k] == c {
		delete(e.peers, k)
	}
	if k := (peerKey{c.guid, c.peer.QPN}); e.remoteQPs[k] == c {
		delete(e.remoteQPs, k)
	}
	if k := (sidrKey{c.path.DGID, c.remote}); e.sidrs[k] == c {
		delete(e.sidrs, k)
	}
}

// message is one that can be sent.
type message interface{ Put(data []byte) }

// header makes the datagram of a message: all of an exchange have one
// transaction id.
func (e *Engine) encode(attr uint16, tid uint64, m message) []byte {
	h := ib.Header{BaseVersion: 1, Class: ib.ClassCM, ClassVersion: ib.CMVersion, Method: ib.MethodSend, TID: tid,
		Attr: attr}
	mad, data := h.AppendMAD(make([]byte, 0, ib.MADLen))
	m.Put(data)
	return mad
}

// transmit sends a datagram. One that cannot be sent now is as good as lost.
func (e *Engine) transmit(path *qpattr.Path, pkeyIndex uint16, mad []byte) {
	e.stats.Sent[attrOf(mad)-ib.AttrREQ]++
	_ = e.env.Out.SendMAD(path, ib.QP1, pkeyIndex, mad)
}

func attrOf(mad []byte) uint16 { return binary.BigEndian.Uint16(mad[16:]) }

// gidIndex is the entry of a local address on a VLAN in the port's table, that of RoCE v2
// before that of v1; false if it has none.
func (e *Engine) gidIndex(a netip.Addr, vlan uint16) (index uint8, ok bool) {
	gid := verbs.GIDFromAddr(a)
	for i, g := range e.env.Dev.GIDs() {
		if g == gid && e.env.Dev.GIDEntry(i).VLAN == vlan {
			index, ok = uint8(i), true
			if e.env.Dev.GIDType(i) == verbs.RoCEv2 {
				break
			}
		}
	}
	return index, ok
}

// Datagram implements roce.GSI.
func (e *Engine) Datagram(d *roce.Datagram, now frame.Time) {
	h, data, err := ib.ParseMAD(d.Payload)
	if err != nil || h.BaseVersion != 1 || h.Class != ib.ClassCM || h.Method != ib.MethodSend ||
		ib.CMName(h.Attr) == "" {
		e.stats.Malformed++
		return
	}
	e.stats.Received[h.Attr-ib.AttrREQ]++
	in := incoming{e: e, d: d, h: h, data: data}
	if h.ClassVersion != ib.CMVersion {
		if h.Attr == ib.AttrREQ {
			in.reject(0, ib.ParseIDs(data).LocalID, ib.AboutREQ, ib.RejectClassVersion, nil)
		}
		return
	}
	in.handle(now)
}

// Established says that the peer's first packet has arrived on a queue pair
// whose RTU is still awaited (EventCommEstablished).
func (e *Engine) Established(qpn uint32) {
	for _, id := range e.env.CM.IDs() {
		if c, ok := id.Conn().(*conn); ok && c.qp != nil && c.qp.QPN() == qpn && c.state == repSent {
			c.established(nil)
			return
		}
	}
}

func duration(code uint8) time.Duration { return ib.Timeout(code) }
