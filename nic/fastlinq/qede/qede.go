// Package qede is the driver of an Ethernet function: what the Linux driver
// qede makes of the settings of a netdev, and more vports for stations of their own
// (Linux: L2 forwarding offload). It starts and stops
// its queues in the order that the device wants, keeps receive buffers posted,
// and helps itself when there are more addresses or VLANs than filters: then all
// of them pass.
// What it asks of the device goes by the slowpath, as ramrods; only rates are the
// scheduler's registers.
//
// Settings are declared: Apply brings the device to them, from whatever it was.
package qede

import (
	"cmp"
	"slices"

	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
)

// bufSize is that of a receive buffer, in octets: a super-frame fills two at most.
const bufSize = 64 << 10

// Settings are those of the netdev.
type Settings struct {
	MAC    ether.Addr
	MTU    int // octets of IP
	Queues int // in use, each way
	RxRing int // buffers of a receive queue
	TxRing int // frames of a transmit queue

	Promisc, AllMulti bool
	Ucast, Mcast      []ether.Addr // that are received beside MAC
	VLANs             []uint16     // none: all pass; else these and frames without a tag

	Hashes l2.HashTypes
	Table  []int           // the queue of each entry of the RSS table; nil: all in turn
	Key    [l2.KeyLen]byte // of RSS
	Rules  []Rule          // of n-tuple steering
	Tunnel l2.TunnelParams // that are recognized
	PVID   l2.DefaultVLAN  // of frames without a tag
	Silent bool            // tags of received frames are removed
	// Stations have a vport each, from 1 on, with one of the last queue pairs. If
	// TxSwitching is set, what one vport sends to another stays in the device.
	Stations    []Station
	TxSwitching bool
	TPA         l2.TPAMode // segments are put together: only if the netdev takes super-frames
	Checks      struct {   // of what is sent
		AntiSpoofing, ControlMAC, ControlType bool
	}
	RxChecksum bool
	DropTTL0   bool
	TxMaxRate  int   // Mb/s; 0: no limit
	TxRates    []int // of the first transmit queues, in Mb/s; 0, and those that are missing: no limit
	NoRSS      bool  // all goes to the first queue
	// What the driver does itself, in place of the device: checksums and
	// segments of what is sent, segments of super-frames that were received.
	NoTxChecksum, NoTSO, NoGRO bool
}

// Station is an address with a vport of its own, which has no groups and all VLANs.
type Station struct {
	MAC    ether.Addr
	Weight int // percent of the function's least rate, for WFQ; 0: as the others
}

// first is the number of queue pairs of the first vport.
func (s *Settings) first() int { return s.Queues - len(s.Stations) }

// vport is that of a queue pair.
func (s *Settings) vport(queue int) int { return max(0, queue-s.first()+1) }

// Rule is an n-tuple rule at a place of its own in the table.
type Rule struct {
	Location int
	l2.Tuple
	Drop  bool
	Queue int
}

// restart are the settings that cannot change while the vport runs.
type restart struct {
	queues, rx, tx int
	stations       int
	tpa            l2.TPAMode
	ttl0           bool
}

func (s *Settings) restart() restart {
	return restart{s.Queues, s.RxRing, s.TxRing, len(s.Stations), s.TPA, s.DropTTL0}
}

// Netdev is an Ethernet function with its driver.
type Netdev struct {
	fn  *l2.Function
	sp  l2.Slowpath
	cfg l2.Config
	s   Settings
	rxq []*l2.RxQueue
	txq []*l2.TxQueue
	// rules are those that the device has.
	rules  []l2.Tuple
	vports int // that are started
	// What is in force, whatever the settings say.
	promisc, allMulti, anyVLAN bool
	turn                       int // the receive queue that is served first
	blocks                     []uint16
	napi                       []bool // receive queues that have interrupted, until they are empty
	// Segments that the driver has cut: of a frame in hand, and of those
	// received that wait for the netdev's link.
	sent, received l2.Cutter
}

// New returns a netdev that is closed, whose ramrods post sends, at once to the
// firmware if it is nil; blocks has the status block of each queue pair that there
// may be. The errors are those of Check.
func New(cfg l2.Config, post func(*l2.Ramrod) error, blocks []uint16, s Settings) (*Netdev, error) {
	n := &Netdev{fn: l2.New(cfg), cfg: cfg, blocks: blocks, s: s}
	if post == nil {
		post = n.execute
	}
	n.sp.Post = post
	if err := n.check(&s); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *Netdev) execute(r *l2.Ramrod) error {
	n.fn.Execute(r)
	return r.Err
}

// Function is the device below the driver.
func (n *Netdev) Function() *l2.Function { return n.fn }

// Settings are those in force.
func (n *Netdev) Settings() Settings { return n.s }

// Mode is what the receive mode has come to: promiscuous or all multicast for
// want of filters, too, and likewise all VLANs.
func (n *Netdev) Mode() (promisc, allMulti, anyVLAN bool) { return n.promisc, n.allMulti, n.anyVLAN }

// Apply brings the netdev to new settings, open or closed, or leaves it as it is and
// says with INVAL what cannot be. A change of queues or rings stops and starts the
// vport: frames that wait in its queues are lost, as on a reload of the driver. Other
// errors are the slowpath's, and leave half of it done.
func (n *Netdev) Apply(s Settings, open bool) (err error) {
	if err := n.check(&s); err != nil {
		return err
	}
	before, was := n.s, n.open()
	n.s = s
	switch {
	case !was && !open:
		return nil
	case !open:
		return n.stop()
	case !was:
		err = n.start()
	case before.restart() != s.restart():
		if err = n.stop(); err == nil {
			err = n.start()
		}
	case before.MTU != s.MTU:
		off := false
		for v := range 1 + len(s.Stations) {
			err = cmp.Or(err, n.sp.VportUpdate(l2.UpdateParams{Vport: v, RxActive: &off, TxActive: &off}),
				n.sp.VportUpdate(l2.UpdateParams{Vport: v, MTU: &s.MTU}))
		}
	}
	if err != nil {
		return err
	}
	return n.configure()
}

// open tells whether the queues are started.
func (n *Netdev) open() bool { return len(n.rxq) > 0 }

// Check tells what Apply would refuse.
func (n *Netdev) Check(s Settings) error { return n.check(&s) }

// check refuses settings that the device cannot be brought to.
func (n *Netdev) check(s *Settings) error {
	share := n.fn.Share()
	switch {
	case s.MAC.IsZero() || s.MAC.IsMulticast():
		return status.Inval.Errorf("%v is no station's address", s.MAC)
	case s.MTU < l2.MinMTU || s.MTU > l2.MaxMTU:
		return status.Inval.Errorf("MTU %d: want %d to %d", s.MTU, l2.MinMTU, l2.MaxMTU)
	case s.Queues < 1 || s.Queues > min(share.Queues, len(n.blocks)):
		return status.Inval.Errorf("%d queues: want 1 to %d", s.Queues, min(share.Queues, len(n.blocks)))
	case s.Hashes&^(l2.DefaultHash|l2.HashIPv4UDP|l2.HashIPv6UDP) != 0:
		return status.Inval.Errorf("hash types %#x", uint8(s.Hashes))
	case s.TxMaxRate < 0 || s.TxMaxRate > l2.MaxRate:
		return status.Inval.Errorf("rate %d Mb/s: want 0 to %d", s.TxMaxRate, l2.MaxRate)
	case s.TPA > l2.TPAGRO:
		return status.Inval.Errorf("TPA mode %d", s.TPA)
	}
	for q, rate := range s.TxRates {
		if rate < 0 || rate > l2.MaxRate {
			return status.Inval.Errorf("queue %d: rate %d Mb/s: want 0 to %d", q, rate, l2.MaxRate)
		}
	}
	for _, size := range []int{s.RxRing, s.TxRing} {
		if size < l2.MinRing || size > l2.MaxRing {
			return status.Inval.Errorf("a ring of %d: want %d to %d", size, l2.MinRing, l2.MaxRing)
		}
	}
	if len(s.Table) > l2.TableLen {
		return status.Inval.Errorf("an RSS table of %d entries: want at most %d", len(s.Table), l2.TableLen)
	}
	for i, q := range s.Table {
		if q < 0 || q >= s.first() {
			return status.Inval.Errorf("entry %d of the RSS table: queue %d of %d", i, q, s.first())
		}
	}
	return cmp.Or(checkAddrs(s), checkStations(s, share), checkRules(s, share.Rules), s.Tunnel.Check())
}

func checkAddrs(s *Settings) error {
	for _, a := range s.Ucast {
		if a.IsZero() || a.IsMulticast() {
			return status.Inval.Errorf("%v is no station's address", a)
		}
	}
	for _, a := range s.Mcast {
		if !a.IsMulticast() {
			return status.Inval.Errorf("%v is not a multicast address", a)
		}
	}
	for _, v := range s.VLANs {
		if v > 4094 {
			return status.Inval.Errorf("VLAN %d: want 0 to 4094", v)
		}
	}
	if s.PVID.Enable && (s.PVID.VLAN == 0 || s.PVID.VLAN > 4094) {
		return status.Inval.Errorf("default VLAN %d: want 1 to 4094", s.PVID.VLAN)
	}
	return nil
}

// checkStations refuses vports that cannot be. One that takes all frames would take
// those of the others, too.
func checkStations(s *Settings, share l2.Share) error {
	if len(s.Stations) == 0 {
		return nil
	}
	weights, without := 0, 1
	for i, a := range s.Stations {
		switch {
		case a.MAC.IsZero() || a.MAC.IsMulticast():
			return status.Inval.Errorf("vports: %v is no station's address", a.MAC)
		case a.MAC == s.MAC || slices.Contains(s.Ucast, a.MAC) ||
			slices.ContainsFunc(s.Stations[:i], func(b Station) bool { return b.MAC == a.MAC }):
			return status.Inval.Errorf("vports: %v has a vport already", a.MAC)
		case a.Weight < 0 || a.Weight > 100:
			return status.Inval.Errorf("vports: weight %d of %v: want 0 to 100", a.Weight, a.MAC)
		case a.Weight == 0:
			without++
		}
		weights += a.Weight
	}
	switch {
	case s.Promisc || 1+len(s.Ucast)+len(s.Stations) > share.MACs:
		return status.Inval.Errorf("vports: with rx_mode promisc the first gets all frames: use regular or allmulti")
	case s.first() < 1:
		return status.Inval.Errorf("vports: %d beside the first, and %d queues: each needs one", len(s.Stations),
			s.Queues)
	case 1+len(s.Stations) > share.Vports:
		return status.Inval.Errorf("vports: %d beside the first: the function has %d", len(s.Stations),
			share.Vports)
	case weights > 0 && weights+without > 100:
		return status.Inval.Errorf("vports: weights are %d percent in all, and %d vports without one keep 1: want at "+
			"most 100", weights, without)
	}
	return nil
}

func checkRules(s *Settings, most int) error {
	used := map[int]bool{}
	for _, r := range s.Rules {
		switch {
		case r.Location < 0 || r.Location >= most:
			return status.Inval.Errorf("rule %d: want 0 to %d", r.Location, most-1)
		case used[r.Location]:
			return status.Inval.Errorf("rule %d: there is one", r.Location)
		case !r.Drop && r.Queue >= s.first():
			return status.Inval.Errorf("rule %d: queue %d of %d", r.Location, r.Queue, s.first())
		}
		used[r.Location] = true
	}
	return l2.CheckTuples(tuples(s.Rules))
}

func tuples(rules []Rule) (list []l2.Tuple) {
	for _, r := range rules {
		list = append(list, r.Tuple)
	}
	return list
}
