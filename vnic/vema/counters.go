package vema

import (
	"tapir/opa"
	"tapir/opa/mad"
	"tapir/vnic"
	"tapir/wire/drop"
)

func counterHead(n *vnic.Netdev) mad.CounterHead {
	c := n.Config()
	return mad.CounterHead{Instance: uint16(n.Num()), VESW: c.VESWID, PortNum: c.PortNum}
}

func summary(n *vnic.Netdev) mad.SummaryCounters {
	s := n.Stats()
	return mad.SummaryCounters{
		CounterHead: counterHead(n), TxErrors: s.TxErrors(), RxErrors: s.RxErrors(),
		TxPackets: s.Tx.Packets, RxPackets: s.Rx.Packets, TxBytes: s.Tx.Bytes, RxBytes: s.Rx.Bytes,
		Tx: frames(&s.Tx), Rx: frames(&s.Rx),
	}
}

func frames(w *vnic.Way) mad.Frames {
	z := &w.Sizes
	return mad.Frames{
		Unicast: w.Unicast, McastBcast: w.McastBcast, Untagged: w.Untagged, VLAN: w.VLAN,
		Size64: z[0], Size127: z[1], Size255: z[2], Size511: z[3], Size1023: z[4], Size1518: z[5], SizeAbove1518: z[6],
	}
}

func errorCounters(n *vnic.Netdev) mad.ErrorCounters {
	s := n.Stats()
	return mad.ErrorCounters{
		CounterHead: counterHead(n), TxErrors: s.TxErrors(), RxErrors: s.RxErrors(),
		TxSourceMAC: s.TxDrops[opa.DropSpoofed], TxDLIDZero: s.TxDrops[opa.DropNoDLID],
		TxLogic: s.TxFIFOErrors() + s.TxCarrierErrors(), TxDropState: s.TxDrops[opa.DropState],
		RxBadVESW: s.UnknownVESW, RxRunt: s.RxDrops[opa.DropRunt], RxOversize: s.RxDrops[drop.Oversize],
		RxDropState: s.RxDrops[opa.DropState], RxLogic: s.RxFIFOErrors(),
	}
}
