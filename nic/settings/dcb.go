package settings

import (
	"time"

	"tapir/nic/dcb"
	"tapir/nic/param"
)

// DCB are the traffic classes and PFC of the wire: what the port acts on without DCBX, and
// what it administers with it. The zero value has neither.
type DCB struct {
	dcb.Admin
	PauseLimit time.Duration // for which the NIC may pause the other end without a break; 0: for ever
}

// words is a setting with the words of iproute2's dcb: set reads them after reset. With given,
// "default" stands for no words, and given says whether there are some.
func (d *DCB) words(name, expect, help string, get func(*dcb.Port) string, reset func(*dcb.Port),
	set func(*dcb.Port, string) error, given *bool) *param.Row {
	row := param.Row{Name: name, Type: "list", Expect: expect, Origin: param.Tapir, Runtime: true, Help: help}
	return param.Text(row,
		func() string {
			if given != nil && !*given {
				return "default"
			}
			return get(&d.Port)
		},
		func(v string) error {
			n := d.Port
			reset(&n)
			is := given == nil || v != "default"
			if is {
				if err := set(&n, v); err != nil {
					return err
				}
			}
			if d.Port = n; given != nil {
				*given = is
			}
			return nil
		})
}

// dcbRows are the settings of traffic classes and PFC, with the words of iproute2's dcb.
func (c *Bound) dcbRows() []*param.Row {
	d := c.DCB
	of := func(get func(*dcb.Config) string) func(*dcb.Port) string {
		return func(p *dcb.Port) string { return get(&p.Config) }
	}
	to := func(set func(*dcb.Config, string) error) func(*dcb.Port, string) error {
		return func(p *dcb.Port, v string) error { return set(&p.Config, v) }
	}
	return []*param.Row{
		d.words("prio_pfc", "PRIORITY:on or off with commas, from 0 to 7, such as 3:on, or all:off",
			"priorities that priority-based flow control keeps from loss; PAUSE frames are then off",
			of((*dcb.Config).PFCWords), func(n *dcb.Port) { n.PFC = 0 }, to((*dcb.Config).SetPFC), nil),
		d.words("prio_tc", "PRIORITY:CLASS with commas, each from 0 to 7, such as all:0,3:1, or default",
			"traffic class of each priority; by default n is that of priority n if anything else of the classes is set",
			of((*dcb.Config).MapWords), func(n *dcb.Port) { n.PrioTC = [dcb.Classes]uint8{} },
			to((*dcb.Config).SetMap), &d.Mapped),
		d.words("tc_tsa", "CLASS:strict or ets with commas, from 0 to 7, such as 0:ets,1:strict, or default",
			"how each traffic class is selected: strict ones go first, ETS classes share the rest; by default "+
				"those with a share in tc_bw are ETS classes",
			of((*dcb.Config).TSAWords), func(n *dcb.Port) { n.TSA = [dcb.Classes]dcb.TSA{} },
			to((*dcb.Config).SetTSA), &d.Selected),
		d.words("tc_bw", "CLASS:PERCENT with commas, from 0 to 7, whose sum is 100, such as 0:30,3:70, or all:0",
			"share of each ETS traffic class of what the NIC sends",
			of((*dcb.Config).ShareWords), func(n *dcb.Port) { n.Weight = [dcb.Classes]uint8{} },
			to((*dcb.Config).SetShares), nil),
		d.words("tc_maxrate", "CLASS:RATE with commas, from 0 to 7, such as 1:2.5G,2:100M, or all:0 for no limit",
			"the most that each traffic class sends, in bits per second",
			(*dcb.Port).RateWords, func(n *dcb.Port) { n.MaxRate = [dcb.Classes]uint32{} }, (*dcb.Port).SetRates, nil),
		param.Choice(param.Row{Name: "trust", Origin: param.Tapir, Runtime: true,
			Help: "priority and traffic class of what the NIC sends: that of its VLAN tag, or that of its DSCP, " +
				"the upper three bits without dscp_prio"},
			&d.TrustDSCP, param.Named("pcp", false), param.Named("dscp", true)),
		d.words("dscp_prio", "DSCP:PRIORITY with commas, from 0 to 63 and 0 to 7, such as 26:3,48:6, or none",
			"priorities of DSCPs with trust=dscp; other DSCPs have priority 0",
			(*dcb.Port).DSCPWords, func(n *dcb.Port) { n.DSCP = nil }, (*dcb.Port).SetDSCPs, nil),
		d.words("prio_buffer", "PRIORITY:BUFFER with commas, each from 0 to 7, such as all:0,3:1, or default",
			"receive buffer in which frames of each priority wait while the receive queues are full; by default n "+
				"is that of priority n", (*dcb.Port).BufferMapWords,
			func(n *dcb.Port) { n.Buffers.Prio = [dcb.Classes]uint8{} }, (*dcb.Port).SetBufferMap, &d.Buffers.Mapped),
		d.words("buffer_size", "BUFFER:OCTETS with commas, from 0 to 7, such as 3:1M,0:64K, or all:0 for the defaults",
			"size of receive buffers; PFC pauses at half of it, down to a quarter; by default 512K with PFC, else 48K",
			(*dcb.Port).BufferSizeWords, func(n *dcb.Port) { n.Buffers.Size = [dcb.Classes]uint32{} },
			(*dcb.Port).SetBufferSizes, nil),
		param.Duration(param.Row{Name: "pfc_prevention_tout", Origin: param.Tapir, Runtime: true,
			Help: "for how long the NIC may pause the other end without a break, by PAUSE or PFC, while its " +
				"operating system reads nothing; then it drops frames instead"}, &d.PauseLimit, 0, 8*time.Second, true),
	}
}
