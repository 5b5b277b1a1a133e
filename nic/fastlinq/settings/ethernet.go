package settings

import (
	"cmp"
	"fmt"

	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/hostfn"
	"tapir/nic/secret"
	"tapir/wire/ether"
)

// Ethernet are the settings of the host function's netdev, after those of
// ethtool(8) and ip-link(8). The zero value takes every frame, by all queues.
type Ethernet struct {
	RxMode         RxMode
	Ucast, Mcast   []ether.Addr    // received beside the NIC's own address
	VLANs          []uint16        // none: all pass; else these and frames without a tag
	Channels       int             // queues in use; 0: all of Queues
	RxRing, TxRing int             // frames of a queue; 0: 256
	Hashes         l2.HashTypes    // of RSS; 0: all but UDP
	Key            [l2.KeyLen]byte // of RSS, first octet first; zero: by chance
	Table          []int           // of RSS: a queue for each entry; nil: all in turn
	Rules          []hostfn.Rule   // of n-tuple steering
	PVID           uint16          // default VLAN; 0: none
	SilentVLAN     bool            // tags of received frames are removed
	Stations       []qede.Station  // with a vport and the last queues of their own
	TxSwitching    bool            // what one vport sends to another stays in the device
	Control        ControlCheck    // frames that the operating system does not send
	SpoofCheck     bool            // the operating system sends with addresses of its own only
	DropTTL0       bool
	TxMaxRate      int   // Mb/s of what the operating system sends; 0: no limit
	TxRates        []int // the same of each of the first queues
	GRO            bool  // received TCP segments are put together: only with super-frames
	// UDP ports of the tunnels that are recognized, 0: not. InnerClass: filters
	// compare the addresses inside.
	VXLANPort, GenevePort uint16
	InnerClass            bool
}

// ControlCheck tells frames of link protocols.
type ControlCheck uint8

// By their addresses (IEEE 802.1Q table 8-1), and by the EtherTypes of MAC control and
// LLDP.
const (
	ControlMAC ControlCheck = 1 << iota
	ControlType
)

// RxMode is the receive mode of the host function's netdev.
type RxMode uint8

// The modes. The operating system tells a TAP of some addresses only that it
// wants to receive, and of those late: so all frames are its own to judge, unless
// it is told otherwise here.
const (
	RxPromisc  RxMode = iota
	RxAllMulti        // its own station and filters, all groups
	RxRegular         // its own station and filters, broadcast
)

// ringSize is how many frames a queue of the host function holds by default.
const ringSize = 256

// Netdev is the configuration as the driver wants it.
func (c *NIC) Netdev() qede.Settings {
	e := &c.Ethernet
	s := qede.Settings{
		MAC: c.MAC, MTU: c.MTU, Queues: cmp.Or(e.Channels, c.Queues),
		RxRing: cmp.Or(e.RxRing, ringSize), TxRing: cmp.Or(e.TxRing, ringSize),
		Promisc: e.RxMode == RxPromisc, AllMulti: e.RxMode == RxAllMulti,
		Ucast: e.Ucast, Mcast: e.Mcast, VLANs: e.VLANs, Hashes: cmp.Or(e.Hashes, l2.DefaultHash),
		Key: cmp.Or(e.Key, KeyByChance(c.RSSKey)), Table: e.Table,
		PVID: l2.DefaultVLAN{Enable: e.PVID != 0, VLAN: e.PVID}, DropTTL0: e.DropTTL0, TxMaxRate: e.TxMaxRate,
		TxRates: e.TxRates,
		Tunnel:  l2.TunnelParams{VXLANPort: e.VXLANPort, GenevePort: e.GenevePort},
	}
	for _, r := range e.Rules {
		s.Rules = append(s.Rules, qede.Rule{Location: r.Location, Drop: r.Drop, Queue: r.Queue, Tuple: l2.Tuple{
			Proto: r.Proto, V6: r.V6, Src: r.Src, Dst: r.Dst, SrcPort: r.SrcPort, DstPort: r.DstPort,
			Tunnel: l2.TunnelType(r.Tunnel)}})
	}
	s.Checks.AntiSpoofing = e.SpoofCheck
	s.Checks.ControlMAC, s.Checks.ControlType = e.Control&ControlMAC != 0, e.Control&ControlType != 0
	s.Silent, s.Stations, s.TxSwitching = e.SilentVLAN, e.Stations, e.TxSwitching
	s.RxChecksum, s.NoTxChecksum, s.NoTSO, s.NoGRO, s.NoRSS = c.HasRxChecksum(), !c.HasTxChecksum(), !c.HasTSO(),
		!c.HasGRO(), c.Features.NoRxHash
	switch {
	case c.HasGROHW():
		s.TPA = l2.TPAGRO
	case c.HasLRO():
		s.TPA = l2.TPARSC
	}
	if c.Features.NoVLANFilter {
		s.VLANs = nil
	}
	e.tunnels(&s.Tunnel)
	return s
}

// tunnels enables the kinds that have a port.
func (e *Ethernet) tunnels(t *l2.TunnelParams) {
	t.Enable[l2.VXLAN] = e.VXLANPort != 0
	t.Enable[l2.L2Geneve], t.Enable[l2.IPGeneve] = e.GenevePort != 0, e.GenevePort != 0
	if e.InnerClass {
		t.Class[l2.VXLAN], t.Class[l2.L2Geneve] = l2.ClassInnerMACVLAN, l2.ClassInnerMACVLAN
	}
}

// KeyByChance is the RSS key of a NIC that was given none.
func KeyByChance(s secret.Secret) (key [l2.KeyLen]byte) {
	s.Fill(key[:])
	return key
}

// validate says what a NIC cannot be, whatever its queues.
func (e *Ethernet) validate(c *NIC) error {
	switch {
	case e.GRO && !c.Superframes:
		return fmt.Errorf("gro_hw makes super-frames: use --frames gso or jumbo")
	case e.Channels > c.Queues:
		return fmt.Errorf("%d channels: there are %d queues", e.Channels, c.Queues)
	case len(e.TxRates) > c.Queues:
		return fmt.Errorf("queue_maxrate: %d rates: there are %d queues", len(e.TxRates), c.Queues)
	}
	return nil
}
