package nic

import (
	"fmt"

	"tapir/nic/fastlinq/mfw"
)

// Features are the offloads of the NIC that are not as they are by default.
type Features struct {
	NoRxChecksum bool // checksums of received packets are left to the operating system
	NoTxChecksum bool // checksums are complete in the transmit queue already
	NoTSO        bool // as are segments
	NoGRO        bool // super-frames of the wire are cut before the host TAP gets them
	LRO          bool // received TCP segments are put together, whatever their size
	NoVLANFilter bool // all VLANs pass, whichever have filters
	NoNTuple     bool // there are no n-tuple rules
	NoRxHash     bool // all goes to the first queue
}

// maxGROMTU is the longest packet whose segments the driver qede has the
// device put together: a page.
const maxGROMTU = 4096

// supers tells whether received super-frames can reach the operating system.
func (c *Config) supers() bool { return c.Frames != Wire }

// What is in force follows from what is wanted as in the kernel: segmentation
// needs checksums, and so does putting segments together, which the driver
// does in one way only, and not for packets beyond a page.

func (c *Config) rxChecksum() bool { return !c.Features.NoRxChecksum && c.supers() }
func (c *Config) txChecksum() bool { return !c.Features.NoTxChecksum }
func (c *Config) tso() bool        { return !c.Features.NoTSO && c.txChecksum() }
func (c *Config) gro() bool        { return !c.Features.NoGRO && c.supers() }
func (c *Config) groHW() bool {
	return c.Ethernet.GRO && c.gro() && c.rxChecksum() && c.MTU <= maxGROMTU
}
func (c *Config) lro() bool { return c.Features.LRO && c.gro() && c.rxChecksum() && !c.groHW() }

// maxSegs is how many segments a frame of the offload engine holds at most.
func (c *Config) maxSegs() int {
	if c.Frames == Wire || !c.tso() {
		return 1
	}
	return gsoSegs
}

func (c *Config) validateFeatures() error {
	switch f := &c.Features; {
	case f.LRO && !c.supers():
		return fmt.Errorf("lro makes super-frames: use --frames gso or jumbo")
	case f.NoNTuple && len(c.Ethernet.Rules) > 0:
		return fmt.Errorf("ntuple: there are no rules while ntuple_filters is 0")
	}
	return nil
}

// featureParams are the settings of features.
func featureParams() []*Param {
	host := func(name, help string) Param {
		return Param{Name: name, Help: help, Origin: originDriver, Runtime: true, host: true}
	}
	tso := host("tso", "let the device cut super-frames into segments; 0: the driver does, and the TCP engine sends none")
	tso.host = false
	return []*Param{
		boolean(host("rx_checksum", "verify checksums for the host TAP; counts with frames gso or jumbo"), func(c *Config) *bool { return &c.Features.NoRxChecksum }, true),
		boolean(host("tx_checksum", "let the device complete checksums of the host TAP; 0: the driver does, and tso is off"),
			func(c *Config) *bool { return &c.Features.NoTxChecksum }, true),
		boolean(tso, func(c *Config) *bool { return &c.Features.NoTSO }, true),
		boolean(host("gro", "pass super-frames of the wire to the host TAP whole; 0: the driver cuts them, and neither gro_hw nor lro counts"),
			func(c *Config) *bool { return &c.Features.NoGRO }, true),
		boolean(host("lro", "put TCP segments for the host TAP together, whatever their size; gro_hw wins; needs frames gso or jumbo"),
			func(c *Config) *bool { return &c.Features.LRO }, false),
		boolean(host("rx_vlan_filter", "let rx_vlans decide which VLANs pass; 0: all do"), func(c *Config) *bool { return &c.Features.NoVLANFilter }, true),
		boolean(host("ntuple_filters", "allow n-tuple rules"), func(c *Config) *bool { return &c.Features.NoNTuple }, true),
		boolean(host("rx_hash", "spread what the host TAP gets over its queues; 0: all to the first"), func(c *Config) *bool { return &c.Features.NoRxHash }, true),
	}
}

// EthtoolFeature is a feature with the name that the kernel has for it.
type EthtoolFeature struct {
	Name   string `json:"name"`
	On     bool   `json:"on"`
	Wanted bool   `json:"wanted"` // On may have to wait for others
	Fixed  bool   `json:"fixed"`  // it cannot be changed
	// Setting changes it, with the first of Values for off, the second for on.
	Setting string    `json:"setting,omitempty"`
	Values  [2]string `json:"values"`
}

// features describes what the NIC does for frames, in the kernel's order.
func (d *Device) features() []EthtoolFeature {
	c, host, tagged := &d.cfg, d.function != nil, d.cfg.VLAN != 0
	fixed := func(name string, on bool) EthtoolFeature {
		return EthtoolFeature{Name: name, On: on, Wanted: on, Fixed: true}
	}
	// set is a feature by a setting, if the NIC can have it, else it is as alone says.
	set := func(can bool, name, setting string, on, alone bool) EthtoolFeature {
		if !can {
			return fixed(name, alone)
		}
		return EthtoolFeature{Name: name, On: on, Wanted: FindParam(setting).get(c) != "0", Setting: setting, Values: [2]string{"0", "1"}}
	}
	supers := host && c.supers()
	loop := c.Link.Loopback != mfw.LoopbackNone
	return []EthtoolFeature{
		fixed("tx-scatter-gather", c.supers()),
		set(host, "tx-checksum-ipv4", "tx_checksum", c.txChecksum(), true),
		set(host, "tx-checksum-ipv6", "tx_checksum", c.txChecksum(), true),
		fixed("tx-vlan-hw-insert", tagged),
		fixed("rx-vlan-hw-parse", tagged),
		set(host, "rx-vlan-filter", "rx_vlan_filter", !c.Features.NoVLANFilter, tagged),
		fixed("tx-generic-segmentation", host),
		set(supers, "rx-gro", "gro", c.gro(), false),
		set(supers, "rx-lro", "lro", c.lro(), false),
		set(host || c.supers(), "tx-tcp-segmentation", "tso", c.tso(), false),
		set(host || c.supers(), "tx-tcp6-segmentation", "tso", c.tso(), false),
		set(host, "rx-ntuple-filter", "ntuple_filters", !c.Features.NoNTuple, false),
		set(host, "rx-hashing", "rx_hash", !c.Features.NoRxHash, false),
		set(supers, "rx-checksum", "rx_checksum", c.rxChecksum(), !host),
		{Name: "loopback", On: loop, Wanted: loop, Setting: "phy_loopback", Values: [2]string{mfw.LoopbackNone.String(), mfw.LoopbackMAC.String()}},
		set(supers, "rx-gro-hw", "gro_hw", c.groHW(), false),
	}
}
