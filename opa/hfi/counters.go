package hfi

import (
	"fmt"

	"tapir/opa"
	"tapir/opa/cca"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Counts is what a port has counted: frames of the fabric, with their framing.
type Counts struct {
	RxPackets, RxBytes uint64
	TxPackets, TxBytes uint64
	MADs               uint64        // received, and good
	FECN, BECN         uint64        // packets received with these marks
	TxCNP, RxCNP       uint64        // notifications of congestion
	CCA                cca.Counts    // the reaction to them
	LinkUp, LinkDown   uint64        // how often the link came and went
	TxLane             [lanes]uint64 // packets sent, by virtual lane
	RxDrops, TxDrops   frame.Drops
}

// Counts returns all counters.
func (p *Port) Counts() Counts {
	c := p.counts
	c.CCA = p.cca.Counts()
	return c
}

// Counter is one number with its name.
type Counter struct {
	Name  string
	Value uint64
}

// DriverCounters lists those of the Linux driver hfi1 that are counted, with its
// names.
func (c *Counts) DriverCounters() []Counter {
	list := []Counter{
		{"RxICrcErr", c.RxDrops[opa.DropICRC]}, {"RxPkt", c.RxPackets}, {"DcRecvFcn", c.FECN}, {"DcRecvBcn", c.BECN},
		{"TxPkt", c.TxPackets}, {"TxDropped", c.TxDrops.Total()},
	}
	for _, vl := range []int{0, 1, 2, 3, 4, 5, 6, 7, managementVL} {
		list = append(list, Counter{fmt.Sprintf("TxPktVL%d", vl), c.TxLane[vl]})
	}
	return append(list, Counter{"SwLinkUp", c.LinkUp}, Counter{"SwLinkDown", c.LinkDown})
}

// Counters lists c by name: RxICRCErr and its like as rx_drop_icrc.
func (c *Counts) Counters() []Counter {
	list := []Counter{
		{"rx_packets", c.RxPackets}, {"rx_bytes", c.RxBytes}, {"tx_packets", c.TxPackets}, {"tx_bytes", c.TxBytes},
		{"mads", c.MADs}, {"rx_fecn", c.FECN}, {"rx_becn", c.BECN},
		{"tx_cnp", c.TxCNP}, {"rx_cnp", c.RxCNP}, {"cca_becn", c.CCA.BECN}, {"cca_decreases", c.CCA.Decreases},
		{"cca_delayed", c.CCA.Delayed}, {"cca_delay_us", uint64(c.CCA.Delay.Microseconds())},
	}
	for r := range frame.DropReasons() {
		name := r.Counter()
		if rxReasons[r] {
			list = append(list, Counter{"rx_drop_" + name, c.RxDrops[r]})
		}
		if txReasons[r] {
			list = append(list, Counter{"tx_drop_" + name, c.TxDrops[r]})
		}
	}
	return list
}

// The reasons for which a port drops, on either way.
var (
	rxReasons = [frame.MaxDropReasons]bool{
		drop.Truncated: true, drop.Malformed: true, drop.EtherType: true, drop.IPChecksum: true,
		drop.Fragment: true, drop.IPProtocol: true, drop.L4Checksum: true, drop.NoListener: true,
		opa.DropLength: true, opa.DropL2: true, opa.DropL4: true, opa.DropSLID: true, opa.DropDLID: true,
		opa.DropNotOurLID: true, opa.DropPad: true, opa.DropTail: true, opa.DropICRC: true, opa.DropPKey: true,
		opa.DropVESW: true, opa.DropLooped: true, drop.Unused: true, opa.DropPort: true,
		drop.NoBuffer: true, drop.TxQueue: true,
	}
	txReasons = [frame.MaxDropReasons]bool{
		opa.DropPort: true, drop.Oversize: true, drop.TxQueue: true, drop.NoBuffer: true,
		opa.DropSLID: true, opa.DropDLID: true,
	}
)
