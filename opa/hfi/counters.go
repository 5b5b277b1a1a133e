package hfi

import (
	"strings"

	"tapir/wire/frame"
)

// Counts is what a port has counted: frames of the fabric, with their framing.
type Counts struct {
	RxPackets, RxBytes uint64
	TxPackets, TxBytes uint64
	MADs               uint64 // received, and good
	FECN, BECN         uint64 // packets received with these marks
	RxDrops, TxDrops   frame.Drops
}

// Counts returns all counters.
func (p *Port) Counts() Counts { return p.counts }

// Counter is one number with its name.
type Counter struct {
	Name  string
	Value uint64
}

// Counters lists c by name: RxICRCErr and its like as rx_drop_icrc.
func (c *Counts) Counters() []Counter {
	list := []Counter{
		{"rx_packets", c.RxPackets}, {"rx_bytes", c.RxBytes}, {"tx_packets", c.TxPackets}, {"tx_bytes", c.TxBytes},
		{"mads", c.MADs}, {"rx_fecn", c.FECN}, {"rx_becn", c.BECN},
	}
	for r := frame.DropNone + 1; r < frame.NumDropReasons; r++ {
		name := strings.ToLower(strings.ReplaceAll(r.String(), " ", "_"))
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
	rxReasons = [frame.NumDropReasons]bool{
		frame.DropTruncated: true, frame.DropMalformed: true, frame.DropEtherType: true, frame.DropIPChecksum: true,
		frame.DropFragment: true, frame.DropIPProtocol: true, frame.DropL4Checksum: true, frame.DropNoListener: true,
		frame.DropLength: true, frame.DropL2: true, frame.DropL4: true, frame.DropSLID: true, frame.DropDLID: true,
		frame.DropNotOurLID: true, frame.DropPad: true, frame.DropTail: true, frame.DropICRC: true, frame.DropPKey: true,
		frame.DropVESW: true, frame.DropLooped: true, frame.DropUnused: true, frame.DropPort: true,
		frame.DropNoBuffer: true, frame.DropTxQueue: true,
	}
	txReasons = [frame.NumDropReasons]bool{
		frame.DropPort: true, frame.DropOversize: true, frame.DropTxQueue: true, frame.DropNoBuffer: true,
		frame.DropSLID: true, frame.DropDLID: true,
	}
)
