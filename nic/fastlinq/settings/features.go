package settings

import (
	"fmt"

	"tapir/nic/param"
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

// What is in force follows from what is wanted as in the kernel: segmentation
// needs checksums, and so does putting segments together, which the driver
// does in one way only, and not for packets beyond a page.

func (c *NIC) HasRxChecksum() bool { return !c.Features.NoRxChecksum && c.Superframes }
func (c *NIC) HasTxChecksum() bool { return !c.Features.NoTxChecksum }
func (c *NIC) HasTSO() bool        { return !c.Features.NoTSO && c.HasTxChecksum() }
func (c *NIC) HasGRO() bool        { return !c.Features.NoGRO && c.Superframes }
func (c *NIC) HasGROHW() bool {
	return c.Ethernet.GRO && c.HasGRO() && c.HasRxChecksum() && c.MTU <= maxGROMTU
}
func (c *NIC) HasLRO() bool {
	return c.Features.LRO && c.HasGRO() && c.HasRxChecksum() && !c.HasGROHW()
}

func (c *NIC) validateFeatures() error {
	switch f := &c.Features; {
	case f.LRO && !c.Superframes:
		return fmt.Errorf("lro makes super-frames: use --frames gso or jumbo")
	case f.NoNTuple && len(c.Ethernet.Rules) > 0:
		return fmt.Errorf("ntuple: there are no rules while ntuple_filters is 0")
	}
	return nil
}

// featureRows are the settings of features.
func (c *Config) featureRows() []*param.Row {
	host := func(name, help string) param.Row {
		return param.Row{Name: name, Help: help, Origin: param.FastLinQ, Runtime: true, Host: true}
	}
	tso := host("tso",
		"let the device cut super-frames into segments; 0: the driver does, and the TCP engine sends none")
	tso.Host = false
	return []*param.Row{
		param.Bool(host("rx_checksum", "verify checksums for the host TAP; counts with frames gso or jumbo"),
			&c.Features.NoRxChecksum, true),
		param.Bool(
			host("tx_checksum",
				"let the device complete checksums of the host TAP; 0: the driver does, and tso is off"),
			&c.Features.NoTxChecksum, true),
		param.Bool(tso, &c.Features.NoTSO, true),
		param.Bool(host("gro", "pass super-frames of the wire to the host TAP whole; 0: the driver cuts them, and "+
			"neither gro_hw nor lro counts"),
			&c.Features.NoGRO, true),
		param.Bool(host("lro", "put TCP segments for the host TAP together, whatever their size; gro_hw wins; needs "+
			"frames gso or jumbo"),
			&c.Features.LRO, false),
		param.Bool(host("rx_vlan_filter", "let rx_vlans decide which VLANs pass; 0: all do"), &c.Features.NoVLANFilter,
			true), param.Bool(host("ntuple_filters", "allow n-tuple rules"), &c.Features.NoNTuple, true),
		param.Bool(host("rx_hash", "spread what the host TAP gets over its queues; 0: all to the first"),
			&c.Features.NoRxHash, true),
	}
}
