// Package l2 is the Ethernet side of one function of the device, as the
// driver core (ecore) has it: vports, each a set of receive and transmit queues
// with one classification, and the filters, modes, RSS tables and rules that
// decide which frame goes to which queue.
//
// It is a pure state machine. Frames of the port go in through Receive and come
// out of receive queues; those of the driver go into transmit queues and come
// out in Transmit. Nothing passes a vport before it is started, its queues are
// started, it is active and something is accepted; nothing passes after
// VportStop. receive.go and transmit.go hold the two ways, in packet order.
//
// Every call answers with nil or an error that status.Of understands. What real
// firmware would assert on is refused with INVAL, changes nothing, and is told
// to Config.Assert.
package l2

import (
	"tapir/nic/fastlinq/status"
	"tapir/nic/pacing"
	"tapir/wire/enum"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Sizes of the hardware that no share can change.
const (
	MinMTU = 46
	MaxMTU = 9600
	// Overhead is how much longer than the MTU a frame may be: a header with two
	// tags.
	Overhead = ether.MaxHeaderLen
	// MaxPerZone is how many transmit queues may share a queue id.
	MaxPerZone = 64
	// MaxRxBuffers is how many buffers a received packet may fill.
	MaxRxBuffers = 5
	// MinRing and MaxRing bound the size of a queue.
	MinRing, MaxRing = 128, 8191
	// MaxCoalesce is the longest coalescing time, in microseconds.
	MaxCoalesce = 511
	// maxVports is how many an engine has at most.
	maxVports = 256
)

// Share is what of the engine's resources a function has. Ids of vports and
// queues are relative: from 0 to below the share.
type Share struct {
	Vports, Queues, MACs, VLANs, RSSEngines int
	Rules                                   int // of n-tuple steering
}

// DefaultShare is that of one of eight functions on an engine of the first chip.
var DefaultShare = Share{Vports: 20, Queues: 32, MACs: 64, VLANs: 64, RSSEngines: 15, Rules: 256}

// Config is what a Function lives in. Pool is needed; hooks may be nil.
type Config struct {
	Share Share // the zero value: DefaultShare
	Pool  frame.Pool
	// Fire is told that the index pi of status block sb moves on by one: a queue
	// has a completion.
	Fire func(sb uint16, pi uint8)
	// Coalesce is told of a queue's new coalescing time, in microseconds.
	Coalesce func(sb uint16, pi uint8, us int)
	// Assert hears of the calls that the firmware does not survive.
	Assert func(text string)
	// Drop is told of every frame that the function discards after it has taken
	// it, to be received (Rx) or sent; it borrows the frame.
	Drop func(side Sides, f *frame.Frame, r frame.DropReason)
	// Switched is told of every frame (borrowed) that a vport sends to others of the
	// function.
	Switched func(from int, f *frame.Frame)
	// PF is the function's place in the scheduler of its port; nil: it is alone, and
	// has no rates.
	PF *pacing.Node
	// Superframes: the port takes frames with segmentation or checksums left to
	// do; else they are finished here.
	Superframes bool
	Engines     int // of the device; with two there is no WFQ
}

// Function is the Ethernet side of one function.
type Function struct {
	cfg     Config
	vports  []*vport // by id; nil: not started
	started []*vport // the same, in order of their ids
	zones   []zone   // by queue id
	tables  [2]table // by direction
	macs    int      // MAC filters in use
	vlans   int
	pairs   int
	rules   rules
	tunnels TunnelParams
	// tunnelled: some kind of tunnel is known; inside: filters compare the addresses inside of
	// some kind.
	tunnelled, inside bool
	strangers         int // vports that take frames for stations without a filter
	aggregations      int // that are open, of all vports
	// foreign is, by direction, the station that Accepts last found to be no vport's, as a
	// number; noStation: none since a vport or a filter has changed.
	foreign [2]uint64

	pkt     packet
	to      []*vport // who accepts the packet in hand
	drops   [2]frame.Drops
	asserts uint64
	turn    int // the transmit queue whose turn it is
	rung    int // frames in all transmit queues that doorbells have told of
	txq     []*TxQueue
	nextCID uint32

	cutter Cutter // keeps the segments of a frame until the port has room

	pf     *pacing.Node // of the function
	pacing *pacing.Node // of all vports together
	least  int          // Mb/s that vports share
}

// dir is the side that classifies: frames of the port, or those that vports
// send to one another.
type dir uint8

const (
	rx dir = iota
	tx
)

// noStation is no address.
const noStation = 1 << 63

// New returns the Ethernet side of a function. It panics without a Pool, or
// with a share that no engine has.
func New(cfg Config) *Function {
	if cfg.Share == (Share{}) {
		cfg.Share = DefaultShare
	}
	if cfg.Pool == nil || cfg.Share.Vports > maxVports {
		panic("l2: no pool, or more vports than an engine has")
	}
	fn := &Function{
		cfg: cfg, vports: make([]*vport, cfg.Share.Vports), zones: make([]zone, cfg.Share.Queues),
		tables:  [2]table{{by: map[key]set{}}, {by: map[key]set{}}},
		foreign: [2]uint64{noStation, noStation},
	}
	if fn.pf = cfg.PF; fn.pf == nil {
		fn.pf = new(pacing.Tree).Port().Child(false)
	}
	fn.pacing = fn.pf.Child(true)
	return fn
}

// Share is what the function has of the engine.
func (fn *Function) Share() Share { return fn.cfg.Share }

// SetShare changes that. BUSY: a vport is started; INVAL: no engine has so many.
func (fn *Function) SetShare(s Share) error {
	switch {
	case s == fn.cfg.Share:
		return nil
	case len(fn.started) > 0:
		return status.Busy.Errorf("another share while vport %d is started", fn.started[0].id)
	case s.Vports > maxVports:
		return status.Inval.Errorf("%d vports: an engine has %d", s.Vports, maxVports)
	}
	fn.cfg.Share, fn.vports, fn.zones = s, make([]*vport, s.Vports), make([]zone, s.Queues)
	return nil
}

// Used is what of its share the function uses.
func (fn *Function) Used() Share {
	u := Share{Vports: len(fn.started), MACs: fn.macs, VLANs: fn.vlans, Rules: len(fn.rules.by)}
	for i := range fn.zones {
		if z := &fn.zones[i]; z.rx != nil || z.tx > 0 {
			u.Queues++
		}
	}
	for _, v := range fn.started {
		if v.rss.enabled {
			u.RSSEngines++
		}
	}
	return u
}

// Drops counts the frames of the port that no vport took, by reason.
func (fn *Function) Drops() *frame.Drops { return &fn.drops[rx] }

// TxDrops counts the frames of vports that were not sent, by reason.
func (fn *Function) TxDrops() *frame.Drops { return &fn.drops[tx] }

// Asserts counts the calls that the firmware would not have survived.
func (fn *Function) Asserts() uint64 { return fn.asserts }

// assert refuses what the firmware asserts on.
func (fn *Function) assert(format string, args ...any) error {
	fn.asserts++
	err := status.Inval.Errorf(format, args...)
	if fn.cfg.Assert != nil {
		fn.cfg.Assert(err.Error())
	}
	return err
}

// vport is the vport with a relative id, or why there is none. Its firmware asserts
// on ids of vports that are not started.
func (fn *Function) vport(id int) (*vport, error) {
	v, err := fn.peekVport(id)
	if err != nil && id >= 0 && id < len(fn.vports) {
		return nil, fn.assert("vport %d is not started", id)
	}
	return v, err
}

// peekVport is vport for those who only read: the firmware does not assert.
func (fn *Function) peekVport(id int) (*vport, error) {
	switch {
	case id < 0 || id >= len(fn.vports):
		return nil, status.Inval.Errorf("vport %d: the function has %d", id, len(fn.vports))
	case fn.vports[id] == nil:
		return nil, status.Inval.Errorf("vport %d is not started", id)
	}
	return fn.vports[id], nil
}

func checkMTU(mtu int) error {
	if mtu < MinMTU || mtu > MaxMTU {
		return status.Inval.Errorf("MTU %d: want %d to %d", mtu, MinMTU, MaxMTU)
	}
	return nil
}

// set is a set of vports.
type set [maxVports / 64]uint64

func (s *set) has(id int) bool { return s[id/64]&(1<<(id%64)) != 0 }
func (s *set) add(id int)      { s[id/64] |= 1 << (id % 64) }
func (s *set) remove(id int)   { s[id/64] &^= 1 << (id % 64) }
func (s *set) any() bool       { return *s != set{} }

// TPAMode is how received segments of a TCP stream are put together.
type TPAMode uint8

// The modes. With GRO all segments of an aggregation have the same size, so
// that it can be cut again.
const (
	TPANone TPAMode = iota
	TPARSC
	TPAGRO
)

func (m TPAMode) String() string {
	return enum.Name([]string{"none", "RSC", "GRO"}, m, "TPAMode(%d)")
}
