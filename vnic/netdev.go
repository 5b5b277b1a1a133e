package vnic

import (
	"cmp"
	"errors"
	"fmt"

	"tapir/opa"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Netdev is one vport and its network device. It has three faces: the
// operating system's (Open, SetMAC, SetRxMode, Transmit, SetHost), the
// Ethernet Manager's, by its agent (Configure, SetMACTable, Reset and the
// read-outs), and the HFI port's (Deliver, PortEvent).
type Netdev struct {
	port  *Port
	num   uint8
	lower opa.RDMANetdev

	cfg     Config
	policy  Policy
	table   *MACTable
	ports   [flows]uint8 // default port by flow, or noPort
	slid    opa.LID      // source of packets
	mac     ether.Addr   // of the interface
	mtu     int          // current, in octets of Ethernet payload
	carrier bool         // the HFI port is active
	wanted  bool         // the operating system opened the interface
	opened  bool         // the HFI took that: there is a vESW id
	running bool         // frames pass

	lists    lists
	stations stations
	groups   groups
	known    neighbors
	txStorm  frame.Bucket
	rxStorm  frame.Bucket

	host   frame.Link // nil: the operating system's side is not there
	toHost frame.Queue
	queued bool // listed in port.waiting
	stats  Stats

	tracer  frame.Tracer
	scratch []byte // for it: the frame in hand as it came
}

// Errors of the operating system's calls.
var (
	ErrMTU     = errors.New("vnic: MTU out of range")
	ErrAddress = errors.New("vnic: not an address of one station")
)

// Num is the vport's number on its HFI port.
func (n *Netdev) Num() uint8 { return n.num }

// Port is the port that the vport belongs to.
func (n *Netdev) Port() *Port { return n.port }

func (n *Netdev) notify(e Event) {
	for _, o := range n.port.observers {
		o.VPortEvent(n, e)
	}
}

// The Ethernet Manager's face.

// Config returns the configuration in force.
func (n *Netdev) Config() Config { return n.cfg }

// Configure sets the configuration, in the order of the Linux driver: the
// base address, the vESW id, the MTU, default ports, state. An impossible one,
// or a vESW id that another vport of the port has, changes nothing and is
// reported (*ConfigError).
func (n *Netdev) Configure(cfg Config) error {
	if err := cfg.Check(n.port.lower.MTU()); err != nil {
		return fmt.Errorf("vport %d: %w", n.num, err)
	}
	if other := n.port.VESW(cfg.VESWID); other != nil && other != n {
		return fmt.Errorf("vport %d: %w", n.num, &ConfigError{"VESWID", cfg.VESWID,
			fmt.Sprintf("one that vport %d has not", other.num)})
	}
	old := n.cfg
	if old.VESWID != cfg.VESWID || old.FabricID != cfg.FabricID {
		if err := n.lower.SetID(cfg.FabricID, cfg.VESWID); err != nil {
			return fmt.Errorf("vport %d: %w", n.num, err)
		}
		n.forget()
	}
	n.cfg = cfg
	if old.BaseMAC != cfg.BaseMAC && !cfg.BaseMAC.IsZero() {
		n.setMAC(cfg.BaseMAC)
	}
	n.relist()
	n.limitMTU(old.mtu())
	n.ports = spread(cfg.DefPortMask)
	n.setSLID()
	n.listen()
	n.update()
	n.notify(Configured)
	return nil
}

// Reset gives the vport its power-on values and empties its MAC table: what
// DELETE_VESW does. Its interface stays; Port.Remove removes it.
func (n *Netdev) Reset() {
	n.table = nil
	if err := n.Configure(PowerOn()); err != nil {
		panic(err) // power-on values are possible, and no vESW id is never in use
	}
	n.notify(Reset)
}

// MACTable returns the table in force; nil is an empty one.
func (n *Netdev) MACTable() *MACTable { return n.table }

// SetMACTable puts t (kept) in force, whole and at once.
func (n *Netdev) SetMACTable(t *MACTable) {
	n.table = t
	n.listen()
}

// OperState is FORWARDING while the Ethernet Manager wants that and the
// interface is open; only then does the Ethernet link count as up.
func (n *Netdev) OperState() State {
	if n.cfg.ConfigState == Forwarding && n.opened {
		return Forwarding
	}
	return DropAll
}

// Stats returns all counters.
func (n *Netdev) Stats() Stats {
	s := n.stats
	if len(n.port.list) > 0 && n.port.list[0] == n {
		s.UnknownVESW = n.port.lower.UnknownVESW()
	}
	return s
}

// Policy returns the policy with its defaults filled in.
func (n *Netdev) Policy() Policy { return n.policy }

// SetPolicy puts p in force. What was remembered under the old one and is not
// wanted any more is forgotten.
func (n *Netdev) SetPolicy(p Policy) {
	n.policy = p.withDefaults()
	n.txStorm.Set(p.TxStorm)
	n.rxStorm.Set(p.RxStorm)
	n.stations.limit(n.policy.MaxStations, n.policy.MaxPerLID, n.policy.Age)
	n.known.limit(n.policy.MaxNeighbors, n.policy.Age)
	if !p.Learn {
		n.stations.clear()
	}
	if !p.Suppress {
		n.known.clear()
	}
	if !p.Snoop {
		n.groups.clear()
	}
	if n.lower != nil {
		n.relist()
		n.listen()
	}
}

// forget drops what was remembered about a vESW that the vport leaves.
func (n *Netdev) forget() {
	n.stations.clear()
	n.known.clear()
	n.groups.clear()
}

// setSLID finds the source LID of packets.
func (n *Netdev) setSLID() {
	n.slid = cmp.Or(n.cfg.EncapSLID, n.port.lower.LID())
}

func (n *Netdev) limitMTU(before int) {
	most := n.cfg.mtu()
	old := n.mtu
	if n.mtu = min(n.mtu, most); old == before {
		n.mtu = most // nobody had chosen a lower one
	}
	if n.mtu != old || most != before {
		n.notify(MTUChanged)
	}
}

// The operating system's face. It may learn late that a vport was removed: what
// it wants of one then has no effect.

// removed reports whether the vport was.
func (n *Netdev) removed() bool { return n.port.byNumber[n.num] != n }

// SetHost says where frames for the operating system go; nil discards them.
func (n *Netdev) SetHost(l frame.Link) { n.host = l }

// SetTracer hands every frame that passes between the vport and its host to t
// from now on; nil stops. Frames from the fabric that are dropped the HFI
// port's tracer sees.
func (n *Netdev) SetTracer(t frame.Tracer) { n.tracer = t }

// Open is the operating system setting the interface up. Without a vESW id it
// comes up only once it gets one.
func (n *Netdev) Open() {
	if !n.wanted && !n.removed() {
		n.wanted = true
		n.update()
		n.notify(LinkChanged)
	}
}

// Close is the operating system setting the interface down.
func (n *Netdev) Close() {
	if n.wanted {
		n.close()
		n.notify(LinkChanged)
	}
}

func (n *Netdev) close() {
	n.wanted = false
	n.update()
	n.stats.RxDrops[opa.DropState] += uint64(n.toHost.Discard())
}

// Opened reports whether the interface is open: the operating system wants it
// and there is a vESW.
func (n *Netdev) Opened() bool { return n.opened }

// Carrier reports whether the interface has a carrier: the HFI port is active.
func (n *Netdev) Carrier() bool { return n.carrier }

// Dormant reports whether the interface is dormant: the Ethernet Manager does
// not let it forward.
func (n *Netdev) Dormant() bool { return n.cfg.ConfigState != Forwarding }

// Running reports whether frames pass.
func (n *Netdev) Running() bool { return n.running }

// MTU is the current MTU, in octets of Ethernet payload.
func (n *Netdev) MTU() int { return n.mtu }

// MaxMTU is the highest MTU that the Ethernet Manager allows.
func (n *Netdev) MaxMTU() int { return n.cfg.mtu() }

// SetMTU is the operating system choosing an MTU, from MinMTU to MaxMTU; else
// it fails with ErrMTU.
func (n *Netdev) SetMTU(mtu int) error {
	if mtu < MinMTU || mtu > n.MaxMTU() {
		return fmt.Errorf("vport %d: %w: %d, expected %d to %d", n.num, ErrMTU, mtu, MinMTU, n.MaxMTU())
	}
	if mtu != n.mtu && !n.removed() {
		n.mtu = mtu
		n.notify(MTUChanged)
	}
	return nil
}

// update recomputes the states, after anything they depend on.
func (n *Netdev) update() {
	carrier, running := n.carrier, n.running
	n.carrier = n.port.lower.Active()
	switch want := n.wanted && n.cfg.VESWID != 0; {
	case want && !n.opened:
		n.opened = n.lower.Open() == nil // it has a vESW id
	case !want && n.opened:
		n.lower.Stop()
		n.opened = false
	}
	n.running = n.opened && n.carrier && !n.Dormant()
	if n.carrier != carrier || n.running != running {
		n.notify(OperChanged)
	}
}

// The HFI port's face; Deliver is in receive.go.

// PortEvent looks at the HFI port's state and LID again.
func (n *Netdev) PortEvent(frame.Time) {
	n.setSLID()
	n.update()
}
