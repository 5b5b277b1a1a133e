// Package hfi is the hardware-dependent half of Omni-Path: one port of a host
// fabric interface. It has a LID, a P_Key table and virtual lanes; it gives
// out RDMA netdevs, whose packets it tells apart by vESW id, and carries MADs
// for agents of queue pairs 0 and 1.
//
// It is a pure state machine. Frames of the fabric come in through Receive,
// in the order of receive.go:
//
//  1. port     number, counters
//  2. framing  the packet is taken out of its Ethernet frame
//  3. packet   every field is checked, the ICRC last
//  4. lid      for us, and not from us
//  5. P_Key    the port's table
//  6. demux    by vESW id to a netdev; MADs to the agents
//
// What netdevs and agents send waits in a queue for each virtual lane until
// Poll. Marks of congestion are the subject of congestion.go.
package hfi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"tapir/opa"
	"tapir/opa/cca"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// State is a port's logical state.
type State = mad.PortState

// The states of a port: with Init management packets pass, with Active everything.
const (
	Down   = mad.PortDown
	Init   = mad.PortInit
	Armed  = mad.PortArmed
	Active = mad.PortActive
)

// Limits of a port.
const (
	// MaxMTU is the default and highest MTU, in octets of payload. Header
	// octets up to headroom16B pass beyond it.
	MaxMTU      = 10240
	headroom16B = 124
	lanes       = 32
	// TableLen is the number of entries of a port's P_Key table.
	TableLen = 256
	// managementVL carries MADs of queue pair 0 and goes first.
	managementVL = 15
	maxLMC       = 7
)

// Config is what a port is made of.
type Config struct {
	Name string // for errors
	GUID uint64
	Num  uint8 // of the port on its HFI; 0: 1
	// LID is a static LID; 0 waits for the subnet manager to assign one. With
	// a static LID the port is active as soon as its link is up.
	LID     opa.LID
	PKeys   []uint16 // nil: 0x7fff and 0x8001
	MTU     int      // 2048, 4096, 8192 or 10240; 0: 10240
	Framing opa.Framing
	ICRC    opa.ICRC
	Netdevs int // that the port gives out at most; 0: 255
	// Contexts is the number of receive contexts that packets are spread over
	// by vESW and entropy, Engines the number of send engines by virtual lane
	// and entropy; both powers of two. 0: 8 and 16.
	Contexts, Engines int
	// QueueFrames bounds the frames that wait on one virtual lane; 0: 1024.
	QueueFrames int
}

// Env is what a port lives in.
type Env struct {
	Pool frame.Pool // MADs are sent in its frames
	Wire frame.Link // the fabric
}

// Port is one HFI port.
type Port struct {
	cfg  Config
	pool frame.Pool
	wire frame.Link
	// sender is SendMAD for the agents.
	sender func(to mad.Address, b []byte) bool
	state  State
	lid    opa.LID
	lmc    uint8
	pkeys  [TableLen]uint16
	used   []uint16 // of pkeys, up to the last that is not 0

	netdevs  []*netdev
	byVESW   [opa.MaxVESW + 1]*netdev
	listened map[opa.LID]int // multicast LIDs of netdevs, and how many listen

	queues  [lanes]frame.Queue
	busy    uint32 // lanes with frames
	turn    int    // the lane that goes next
	agents  []mad.Agent
	looped  frame.Queue // MADs to ourselves
	urgent  frame.Queue // notifications of congestion, and MADs while data are delayed
	cca     cca.Control
	held    frame.Time // when the first delayed packet may leave
	psn     uint32
	now     frame.Time
	rxID    uint64
	txID    uint64
	counts  Counts
	tracer  frame.Tracer
	scratch []byte
	watcher func() // nil: none
}

// New returns a port whose link is down.
func New(cfg Config, env Env) (*Port, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("HFI %s: %w", cfg.Name, err)
	}
	if env.Pool == nil || env.Wire == nil {
		return nil, errors.New("hfi: Env needs a Pool and a Wire link")
	}
	p := &Port{cfg: cfg, pool: env.Pool, wire: env.Wire, state: Down, lid: cfg.LID, listened: map[opa.LID]int{}}
	p.sender = p.SendMAD
	return p, p.SetPKeys(cfg.PKeys)
}

func (c Config) withDefaults() Config {
	c.MTU, c.Netdevs, c.Num = cmp.Or(c.MTU, MaxMTU), cmp.Or(c.Netdevs, 255), cmp.Or(c.Num, 1)
	c.Contexts, c.Engines, c.QueueFrames = cmp.Or(c.Contexts, 8), cmp.Or(c.Engines, 16), cmp.Or(c.QueueFrames, 1024)
	if c.PKeys == nil {
		c.PKeys = []uint16{opa.PKeyManagement, opa.PKeyFull | opa.PKeyDefault}
	}
	return c
}

func (c *Config) check() error {
	power := func(n int) bool { return n > 0 && n&(n-1) == 0 }
	return cmp.Or(
		expect(c.LID == 0 || c.LID.IsUnicast(), "LID %v; expected a unicast LID", c.LID),
		expect(slices.Contains([]int{2048, 4096, 8192, MaxMTU}, c.MTU), "MTU %d; expected 2048, 4096, 8192 or %d",
			c.MTU, MaxMTU),
		expect(power(c.Contexts) && power(c.Engines),
			"%d receive contexts and %d send engines; expected powers of two", c.Contexts, c.Engines),
		expect(c.Netdevs >= 0 && c.QueueFrames >= 0, "a negative number of netdevs or waiting frames"),
		expect(len(c.PKeys) <= TableLen, "%d P_Keys; at most %d", len(c.PKeys), TableLen))
}

func expect(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// Config returns the configuration with its defaults filled in.
func (p *Port) Config() Config { return p.cfg }

// GUID is the port's GUID.
func (p *Port) GUID() uint64 { return p.cfg.GUID }

// PortNum is the port's number on its HFI.
func (p *Port) PortNum() uint8 { return p.cfg.Num }

// MTU is the longest 16B packet that can be sent, in octets.
func (p *Port) MTU() int { return p.cfg.MTU + headroom16B }

// ICRC is what packets carry as invariant CRC.
func (p *Port) ICRC() opa.ICRC { return p.cfg.ICRC }

// LID is the port's LID, 0 before it is assigned.
func (p *Port) LID() opa.LID { return p.lid }

// State is the port's logical state.
func (p *Port) State() State { return p.state }

// Active reports whether packets can cross the port.
func (p *Port) Active() bool { return p.state == Active }

// LinkUp tells that the fabric is reached: the port goes to Init, and on to
// Active if its LID is static.
func (p *Port) LinkUp(now frame.Time) {
	if p.state != Down {
		return
	}
	p.state = Init
	p.counts.LinkUp++
	if p.cfg.LID != 0 {
		p.state = Active
	}
	p.event(now)
}

// LinkDown tells that it is not. What waits to be sent is dropped.
func (p *Port) LinkDown(now frame.Time) {
	if p.state == Down {
		return
	}
	p.state = Down
	p.counts.LinkDown++
	for vl := range p.queues {
		p.counts.TxDrops[opa.DropPort] += uint64(p.queues[vl].Discard())
	}
	p.counts.TxDrops[opa.DropPort] += uint64(p.urgent.Discard())
	p.busy = 0
	p.event(now)
}

// Errors of the subnet manager's calls.
var (
	ErrState = errors.New("hfi: the port cannot go to that state")
	ErrLID   = errors.New("hfi: not a unicast LID, or not aligned to its LMC")
)

// SetState is the subnet manager moving the port: from Init on to Armed and
// Active, which needs a LID, or back to Init. Else it fails with ErrState.
func (p *Port) SetState(s State, now frame.Time) error {
	if p.state == Down || s < Init || s > Active || s > Init && p.lid == 0 {
		return fmt.Errorf("%w: %v to %v", ErrState, p.state, s)
	}
	if s != p.state {
		p.state = s
		p.event(now)
	}
	return nil
}

// SetLID is the subnet manager giving the port a LID, and 2^lmc in all. It
// fails with ErrLID.
func (p *Port) SetLID(lid opa.LID, lmc uint8, now frame.Time) error {
	if !lid.IsUnicast() || lmc > maxLMC || lid&(1<<lmc-1) != 0 {
		return fmt.Errorf("%w: %v, LMC %d", ErrLID, lid, lmc)
	}
	if lid != p.lid || lmc != p.lmc {
		p.lid, p.lmc = lid, lmc
		p.event(now)
	}
	return nil
}

// PKeys returns the P_Key table of TableLen entries, borrowed; 0 is an empty
// one.
func (p *Port) PKeys() []uint16 { return p.pkeys[:] }

// SetPKeys replaces the P_Key table by keys (borrowed), of at most TableLen.
func (p *Port) SetPKeys(keys []uint16) error {
	if len(keys) > TableLen {
		return fmt.Errorf("hfi: %d P_Keys; at most %d", len(keys), TableLen)
	}
	clear(p.pkeys[copy(p.pkeys[:], keys):])
	p.used = p.pkeys[:]
	for len(p.used) > 0 && p.used[len(p.used)-1] == 0 {
		p.used = p.used[:len(p.used)-1]
	}
	return nil
}

// event tells the netdevs' clients that state or LID changed.
func (p *Port) event(now frame.Time) {
	for _, n := range p.netdevs {
		n.client.PortEvent(now)
	}
	if p.watcher != nil {
		p.watcher()
	}
}

// Watch has f called after each change of state or LID.
func (p *Port) Watch(f func()) { p.watcher = f }

// ours reports whether a unicast LID is one of the port's.
func (p *Port) ours(l opa.LID) bool { return p.lid != 0 && l&^(1<<p.lmc-1) == p.lid }

// UnknownVESW counts the packets for vESWs that no open netdev has.
func (p *Port) UnknownVESW() uint64 { return p.counts.RxDrops[opa.DropVESW] }

// SetTracer hands every frame that passes the port to t from now on; nil
// stops.
func (p *Port) SetTracer(t frame.Tracer) { p.tracer = t }
