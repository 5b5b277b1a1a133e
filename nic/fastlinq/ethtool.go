package fastlinq

import (
	"slices"

	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/param"
	"tapir/nic/view"
)

// vportStats are the counters of the vport that the port does not have, with
// qede's names.
var vportStats = []string{"gft_filter_drop", "tx_err_drop_pkts", "ttl0_discard"}

// tpaStats are those of segments that were put together.
var tpaStats = []string{"coalesced_pkts", "coalesced_events", "coalesced_aborts_num", "non_coalesced_pkts",
	"coalesced_bytes"}

// Describe implements hardware.View. In the driver's order the counters of the host
// function's queues come first, those of the vport among the port's, and those of VFs last.
func (d display) Describe(e *view.EthtoolInfo) {
	e.FirmwareVersion, e.BootVersion, e.StormVersion = d.firmwareVersion(), d.bootVersion(), fw.Wanted.String()
	e.Link, e.Pause, e.Features = d.ethtoolLink(), d.pause(), d.features()
	if d.function == nil {
		e.Stats = append(e.Stats, d.partCounters()...)
		return
	}
	s := d.function.Settings()
	e.Rings = view.EthtoolRings{RxMax: l2.MaxRing, TxMax: l2.MaxRing, Rx: s.RxRing, Tx: s.TxRing}
	e.Channels = view.EthtoolChannels{MaxCombined: d.cfg.Queues, Combined: s.Queues}
	table := d.function.Table()
	if d.cmt != nil { // the user's table, not an engine's half
		full := d.cfg.Netdev()
		table = full.FullTable()
	}
	e.RSS = &view.EthtoolRSS{Table: table[:], Key: s.Key[:], Hashes: uint8(s.Hashes)}
	e.Rules = d.cfg.Ethernet.Rules
	if d.cmt == nil {
		e.MaxRules = d.function.Function().Share().Rules
	}
	var vport, queues []qede.Stat
	d.netdevs(func(_ int, n *qede.Netdev) { vport, queues = sum(vport, n.Stats()), sum(queues, n.QueueStats()) })
	e.Stats = slices.Insert(e.Stats, after(e.Stats, "mac_filter_discards"), counters(vport, vportStats)...)
	e.Stats = slices.Insert(e.Stats, after(e.Stats, "packet_too_big_discard"), counters(vport, tpaStats)...)
	var all []view.Counter
	for _, q := range queues {
		all = append(all, view.Count(q.Name, q.Value))
	}
	e.Stats = slices.Concat(all, e.Stats, d.partCounters())
}

// partCounters are those of the functions of storage and of VFs.
func (d display) partCounters() []view.Counter {
	return slices.Concat(d.iscsi.counters(), d.fcoe.counters(), d.sriov.counters())
}

// sum adds the counters of two engines; one that has failed has no queues.
func sum(a, b []qede.Stat) []qede.Stat {
	if len(a) < len(b) {
		a, b = b, a
	}
	a = slices.Clone(a)
	for i := range b {
		a[i].Value += b[i].Value
	}
	return a
}

// counters are those of a vport with these names.
func counters(vport []qede.Stat, names []string) (list []view.Counter) {
	for _, s := range vport {
		if slices.Contains(names, s.Name) {
			list = append(list, view.Count(s.Name, s.Value))
		}
	}
	return list
}

// after is the place behind a counter.
func after(list []view.Counter, name string) int {
	return slices.IndexFunc(list, func(c view.Counter) bool { return c.Name == name }) + 1
}

// features describes what the NIC does for frames, in the kernel's order.
func (d display) features() []view.EthtoolFeature {
	c, host, tagged, rows := &d.cfg, d.host, d.cfg.VLAN != 0, d.Config().Params()
	fixed := func(name string, on bool) view.EthtoolFeature {
		return view.EthtoolFeature{Name: name, On: on, Wanted: on, Fixed: true}
	}
	// set is a feature by a setting, if the NIC can have it, else it is as alone says.
	set := func(can bool, name, setting string, on, alone bool) view.EthtoolFeature {
		if !can {
			return fixed(name, alone)
		}
		return view.EthtoolFeature{Name: name, On: on, Wanted: param.Find(rows, setting).Get() != "0", Setting: setting,
			Values: [2]string{"0", "1"}}
	}
	supers := host && c.Superframes
	loop := c.Link.Loopback != mfw.LoopbackNone
	return []view.EthtoolFeature{
		fixed("tx-scatter-gather", c.Superframes),
		set(host, "tx-checksum-ipv4", "tx_checksum", c.HasTxChecksum(), true),
		set(host, "tx-checksum-ipv6", "tx_checksum", c.HasTxChecksum(), true),
		fixed("tx-vlan-hw-insert", tagged),
		fixed("rx-vlan-hw-parse", tagged),
		set(host, "rx-vlan-filter", "rx_vlan_filter", !c.Features.NoVLANFilter, tagged),
		fixed("tx-generic-segmentation", host),
		set(supers, "rx-gro", "gro", c.HasGRO(), false),
		set(supers, "rx-lro", "lro", c.HasLRO(), false),
		set(host || c.Superframes, "tx-tcp-segmentation", "tso", c.HasTSO(), false),
		set(host || c.Superframes, "tx-tcp6-segmentation", "tso", c.HasTSO(), false),
		set(host, "rx-ntuple-filter", "ntuple_filters", !c.Features.NoNTuple, false),
		set(host, "rx-hashing", "rx_hash", !c.Features.NoRxHash, false),
		set(supers, "rx-checksum", "rx_checksum", c.HasRxChecksum(), !host),
		{Name: "loopback", On: loop, Wanted: loop, Setting: "phy_loopback",
			Values: [2]string{mfw.LoopbackNone.String(), mfw.LoopbackMAC.String()}},
		set(supers, "rx-gro-hw", "gro_hw", c.HasGROHW(), false),
	}
}

// pause is the flow control that the driver asks for, and what it has.
func (d display) pause() view.EthtoolPause {
	p, s := d.management.mcp.LinkParams(), d.management.mcp.LinkState()
	return view.EthtoolPause{Autoneg: p.PauseAutoneg, Rx: p.ForcedRx, Tx: p.ForcedTx, RxNegotiated: s.RxFlowControl,
		TxNegotiated: s.TxFlowControl}
}
