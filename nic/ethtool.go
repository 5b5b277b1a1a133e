package nic

import (
	"net/netip"

	"tapir/nic/port"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// ShowEthtool describes the NIC as ethtool does.
func (d *Device) ShowEthtool() view.EthtoolInfo {
	e := view.EthtoolInfo{
		Netdev: d.cfg.Name, Driver: "tapir", PermAddr: d.permanent, Msglvl: d.cfg.Msglvl.Word(),
		Rings:    view.EthtoolRings{TxMax: port.QueueFrames, Tx: port.QueueFrames},
		Channels: view.EthtoolChannels{MaxCombined: 1, Combined: 1},
		Stats:    d.MACStats(),
	}
	d.Hardware.Describe(&e)
	return e
}

// ShowNIC describes the NIC.
func (d *Device) ShowNIC() view.Info {
	drops := d.Drops()
	in, out := d.Wire.Frames[frame.Inbound], d.Wire.Frames[frame.Outbound]
	return view.Info{
		Name: d.cfg.Name, MAC: d.cfg.MAC, Addrs: append([]netip.Prefix{}, d.IP.Layer.Addrs()...),
		Gateways: append([]netip.Addr{}, d.cfg.Gateways...), MTU: d.cfg.MTU, VLAN: d.cfg.VLAN, VLANIP: d.IP.VLANTexts(),
		Frames: d.cfg.Frames.String(), Hardware: d.cfg.Hardware.Kind(), HostTAP: d.Host.Exists(),
		RxPackets: in.Packets, TxPackets: out.Packets, RxBytes: in.Bytes, TxBytes: out.Bytes,
		Drops: drops.Total(),
		QPs:   len(d.Verbs.QPs()), CQs: len(d.Verbs.CQs()), MRs: len(d.Verbs.MRs()), CEPs: len(d.ShowCEP()),
		LastStamp: d.LastStamp(), Conflicts: d.IP.Conflicts(),
	}
}
