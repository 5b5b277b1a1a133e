package settings

import (
	"fmt"

	"tapir/nic/dcb"
	"tapir/nic/param"
)

// DCB are the traffic classes and PFC of the wire. The zero value has neither.
type DCB struct {
	dcb.Config
	// TrustDSCP: the priority of an IP packet is the upper three bits of its DSCP. Else it
	// is that of the frame's VLAN tag, and 0 without one.
	TrustDSCP bool
}

// WithDefaults puts each priority into the class of its number if anything is set.
func (d DCB) WithDefaults() DCB {
	if d != (DCB{}) && d.PrioTC == ([dcb.Classes]uint8{}) {
		for i := range d.PrioTC {
			d.PrioTC[i] = uint8(i)
		}
	}
	return d
}

// Validate tells what is wrong.
func (d *DCB) Validate() error {
	if err := d.Config.Validate(); err != nil {
		return fmt.Errorf("tc_bw: %w", err)
	}
	return nil
}

// dcbRows are the settings of traffic classes and PFC, with the words of iproute2's dcb.
func (c *Bound) dcbRows() []*param.Row {
	d := c.DCB
	words := func(name, expect, help string, get func(*dcb.Config) string, reset func(*dcb.Config),
		set func(*dcb.Config, string) error) *param.Row {
		return param.Text(param.Row{Name: name, Type: "list", Expect: expect, Origin: param.Tapir, Help: help},
			func() string { return get(&d.Config) },
			func(v string) error {
				n := d.Config
				reset(&n)
				err := set(&n, v)
				if err == nil {
					d.Config = n
				}
				return err
			})
	}
	return []*param.Row{
		words("prio_pfc", "PRIORITY:on or off with commas, from 0 to 7, such as 3:on, or all:off",
			"priorities that priority-based flow control keeps from loss; PAUSE frames are then off",
			(*dcb.Config).PFCWords, func(n *dcb.Config) { n.PFC = 0 }, (*dcb.Config).SetPFC),
		words("tc_bw", "CLASS:PERCENT with commas, from 0 to 7, whose sum is 100, such as 0:30,3:70, or all:0",
			"share of each ETS traffic class of what the NIC sends; the others are strict and go first",
			(*dcb.Config).ShareWords, func(n *dcb.Config) { n.Weight, n.TSA = [8]uint8{}, [8]dcb.TSA{} },
			(*dcb.Config).SetShares),
		param.Choice(param.Row{Name: "trust", Origin: param.Tapir,
			Help: "priority and traffic class of what the NIC sends: that of its VLAN tag, or the upper three bits " +
				"of its DSCP"}, &d.TrustDSCP, param.Named("pcp", false), param.Named("dscp", true)),
	}
}
