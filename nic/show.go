package nic

import (
	"net/netip"

	"tapir/nic/cm"
	"tapir/nic/iwarp"
	"tapir/nic/toe"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// QPInfo describes a queue pair for display.
type QPInfo = iwarp.QPInfo

// CEPInfo describes a connection end point for display.
type CEPInfo = iwarp.CEPInfo

// ShowNIC describes the NIC.
func (d *Device) ShowNIC() view.Info {
	drops := d.allDrops()
	in, out := d.wire.Frames[frame.Inbound], d.wire.Frames[frame.Outbound]
	return view.Info{
		Name: d.cfg.Name, MAC: d.cfg.MAC, Addrs: append([]netip.Prefix{}, d.IP.Addrs()...),
		Gateways: append([]netip.Addr{}, d.cfg.Gateways...), MTU: d.cfg.MTU, VLAN: d.cfg.VLAN,
		Frames: d.cfg.Frames.String(), HostTAP: d.host.Exists(),
		RxPackets: in.Packets, TxPackets: out.Packets, RxBytes: in.Bytes, TxBytes: out.Bytes,
		Drops: drops.Total(),
		QPs:   len(d.Verbs.QPs()), CQs: len(d.Verbs.CQs()), MRs: len(d.Verbs.MRs()), CEPs: len(d.iwarp.CEPs()),
		LastStamp: d.lastStamp(), Conflicts: d.IP.Conflicts(),
	}
}

// lastStamp is what the hardware clock showed when the last frame left; 0 if
// none has.
func (d *Device) lastStamp() int64 {
	if d.wire.Stamped == 0 {
		return 0
	}
	return int64(d.common.PHC.At(d.wire.LastSent))
}

// ShowQP describes the queue pairs in order of creation.
func (d *Device) ShowQP() []QPInfo { return d.iwarp.QPs() }

// ShowCEP describes the listeners, then the connections, in order of
// creation.
func (d *Device) ShowCEP() []CEPInfo { return d.iwarp.CEPs() }

// ShowCQ describes the completion queues in order of creation.
func (d *Device) ShowCQ() []view.CQInfo {
	list := make([]view.CQInfo, 0, len(d.Verbs.CQs()))
	for _, c := range d.Verbs.CQs() {
		list = append(list, view.CQInfo{Num: c.Num(), Entries: c.Cap(), Waiting: c.Len(), Total: c.Total(),
			Failed: c.Failed()})
	}
	return list
}

// ShowMR describes the memory regions in order of creation.
func (d *Device) ShowMR() []view.MRInfo {
	list := make([]view.MRInfo, 0, len(d.Verbs.MRs()))
	for _, m := range d.Verbs.MRs() {
		list = append(list, view.MRInfo{Num: m.Num(), STag: m.RKey(), PD: m.PD().Num(), Addr: m.Addr(), Len: m.Len(),
			Access: m.Access().String(), Valid: m.Valid()})
	}
	return list
}

// ShowMW describes the memory windows in order of creation.
func (d *Device) ShowMW() []view.MWInfo {
	list := make([]view.MWInfo, 0, len(d.Verbs.MWs()))
	for _, w := range d.Verbs.MWs() {
		i := view.MWInfo{Num: w.Num(), Kind: w.Kind().String(), STag: w.RKey(), PD: w.PD().Num()}
		if mr := w.Bound(); mr != nil {
			i.MR, i.Addr, i.Len, i.Access = mr.Num(), w.Addr(), w.Len(), w.Access().String()
		}
		if qp := w.QP(); qp != nil {
			i.QP = qp.Num()
		}
		list = append(list, i)
	}
	return list
}

// TCPConn is the TCP connection below an RDMA connection, nil if there is
// none: for its state, and for parameters of its own such as TOS, keep-alive
// or congestion control (toe.Conn.SetParams). Those that are set right after
// Connect hold from the SYN on.
func (d *Device) TCPConn(id *cm.ID) *toe.Conn { return d.iwarp.TCP(id) }

// TCPListener is the TCP listener below an RDMA listener: its parameters are
// those of the connections that it accepts from then on.
func (d *Device) TCPListener(l *cm.Listener) *toe.Listener { return d.iwarp.TCPListener(l) }
