package hfinode

import (
	"fmt"

	"tapir/nic/view"
	"tapir/vnic"
)

// ethtool describes the HFI, then its virtual NICs, as ethtool does.
func (n *Node) ethtool() []view.EthtoolInfo {
	return append([]view.EthtoolInfo{n.portInfo()}, n.vnicInfo()...)
}

// portInfo is the HFI itself, with the counters of the Linux driver hfi1.
func (n *Node) portInfo() view.EthtoolInfo {
	p := n.engine.port
	c := p.Config()
	e := view.EthtoolInfo{Netdev: n.cfg.Name, Driver: "hfi1", Version: n.Env().Version, BusInfo: n.TAP(),
		Rings:    view.EthtoolRings{Tx: c.QueueFrames, TxMax: c.QueueFrames},
		Channels: view.EthtoolChannels{Rx: c.Contexts, Tx: c.Engines},
		Features: features(1)}
	e.Link.Up = p.Active()
	for _, s := range new(p.Counts()).DriverCounters() {
		e.Stats = append(e.Stats, view.Counter(s))
	}
	for _, s := range n.counters() {
		e.Own = append(e.Own, view.Counter(s))
	}
	return e
}

// vnicInfo is each virtual NIC that has a host TAP, with the counters of the
// Linux driver opa_vnic.
func (n *Node) vnicInfo() (list []view.EthtoolInfo) {
	for _, d := range n.engine.vports.Netdevs() {
		h := n.engine.hostOf(d)
		if h == nil {
			continue
		}
		waiting, queues := n.engine.port.Config().QueueFrames, len(h.ports)
		e := view.EthtoolInfo{Netdev: h.name, Driver: "opa_vnic", Version: n.Env().Version, BusInfo: n.cfg.Name,
			PermAddr: d.Config().BaseMAC,
			Rings: view.EthtoolRings{Rx: d.Policy().HostQueue, RxMax: d.Policy().HostQueue, Tx: waiting,
				TxMax: waiting},
			Channels: view.EthtoolChannels{Combined: queues, MaxCombined: queues},
			Features: features(queues)}
		e.Link.Up = d.Carrier()
		for i, s := range new(d.Stats()).Counters() {
			if i < vnic.DriverCounters {
				e.Stats = append(e.Stats, view.Counter(s))
			} else {
				e.Own = append(e.Own, view.Counter(s))
			}
		}
		for q := range h.ports {
			e.Own = append(e.Own, view.Count(fmt.Sprintf("rx_queue_%d_packets", q), h.sent[q]))
		}
		list = append(list, e)
	}
	return list
}

// features are the offloads that a netdev might have: a frame is one packet, so
// there is none but the hash that spreads received frames over several queues.
func features(queues int) (list []view.EthtoolFeature) {
	for _, name := range []string{"rx-checksum", "tx-checksum-ipv4", "tx-checksum-ipv6", "tx-scatter-gather",
		"tx-tcp-segmentation", "tx-tcp6-segmentation", "rx-gro-hw", "rx-lro", "rx-vlan-hw-parse", "tx-vlan-hw-insert",
		"rx-ntuple-filter"} {
		list = append(list, view.EthtoolFeature{Name: name, Fixed: true})
	}
	spread := queues > 1
	return append(list, view.EthtoolFeature{Name: "rx-hashing", On: spread, Wanted: spread, Fixed: true})
}
