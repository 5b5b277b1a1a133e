package hfinode

import (
	"fmt"
	"os"
	"time"

	"tapir/lab/conf/hficonf"
	"tapir/lab/node"
	"tapir/lab/node/nodectl"
	"tapir/lab/tool/schema"
	"tapir/nic/view"
	"tapir/opa/mad"
	"tapir/vnic"
	"tapir/wire/ether"
)

var (
	_ = schema.Add("show", 1, []hfiRow{})
	_ = schema.Add("show nic", 1, hfiRow{})
	_ = schema.Results("show vport", 1, (*Node).vportRows)
	_ = schema.Results("show mac", 1, (*Node).macRows)
	_ = schema.Results("show congestion", 1, (*Node).congestionRows)
	_ = schema.Results("show ethtool", 1, (*Node).ethtool)
	_ = schema.Results("show counters", 1, (*Node).counters)
	_ = schema.Add("show wire", 1, []node.WireRow{})
)

// hfiRow is what Show tells of the HFI itself.
type hfiRow struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	GUID    string   `json:"guid"`
	LID     string   `json:"lid"`
	State   string   `json:"state"`
	MTU     int      `json:"mtu"` // octets of the longest Ethernet frame's payload
	Framing string   `json:"framing"`
	ICRC    string   `json:"icrc"`
	PKeys   []string `json:"pkeys"`
	VPorts  int      `json:"vports"`
	TAP     string   `json:"tap"`
	Drops   uint64   `json:"drops"`
	PID     int      `json:"pid"`
	Version string   `json:"version"`
}

// vportRow is one vport.
type vportRow struct {
	VPort    uint8      `json:"vport"`
	VESW     uint16     `json:"vesw"`
	Fabric   uint16     `json:"fabric"`
	TAP      string     `json:"tap"` // of the host
	MAC      ether.Addr `json:"mac"`
	MTU      int        `json:"mtu"`
	PKey     string     `json:"pkey"`
	Config   string     `json:"config_state"`
	Oper     string     `json:"oper_state"`
	Carrier  bool       `json:"carrier"`
	Blocked  string     `json:"blocked"` // why nothing passes
	Mcast    string     `json:"mcast_dlid"`
	Ports    []string   `json:"default_ports"`
	MACs     int        `json:"mac_entries"`
	Digest   string     `json:"mac_digest"`
	Stations int        `json:"stations"`
	Groups   int        `json:"groups"`
	TxPkts   uint64     `json:"tx_packets"`
	RxPkts   uint64     `json:"rx_packets"`
	TxErrs   uint64     `json:"tx_errors"`
	RxErrs   uint64     `json:"rx_errors"`
}

// macRow is an address of a vESW: of the Ethernet Manager's table, or seen.
type macRow struct {
	VESW   uint16     `json:"vesw"`
	MAC    ether.Addr `json:"mac"`
	VLAN   uint16     `json:"vlan"`
	LID    string     `json:"lid"`
	Source string     `json:"from"` // table, source (an anti-spoof entry), learned, host
	Place  int        `json:"place"`
	Mask   ether.Addr `json:"mask,omitzero"`
}

// congestionRow is the reaction of a service level to congestion.
type congestionRow struct {
	SL        uint8         `json:"sl"`
	CCTI      uint16        `json:"ccti"`
	Limit     uint16        `json:"limit"`
	Increase  uint8         `json:"increase"`
	Timer     time.Duration `json:"timer_ns"`
	Threshold uint8         `json:"threshold"`
	Min       uint8         `json:"min"`
	Shift     uint8         `json:"shift"`
	Mult      uint16        `json:"multiplier"`
	Delay     time.Duration `json:"delay_ns"` // behind a packet of the port's MTU
}

func (n *Node) congestionRows() (list []congestionRow) {
	c := n.engine.port.Congestion()
	set := c.Settings()
	for _, l := range c.Levels(n.cfg.MTU) {
		e := set.SLs[l.SL]
		list = append(list, congestionRow{SL: l.SL, CCTI: l.CCTI, Limit: c.Limit(), Increase: e.Increase,
			Timer: time.Duration(e.Timer) * mad.CongestionTick, Threshold: e.Threshold, Min: e.Min,
			Shift: l.Entry.Shift(), Mult: l.Entry.Multiplier(), Delay: l.Delay})
	}
	return list
}

func hexPKey(k uint16) string { return fmt.Sprintf("%#04x", k) }

// tables are those of an HFI.
func (n *Node) tables() []nodectl.Table {
	return []nodectl.Table{
		nodectl.Row("nic", n.row), nodectl.List("vport", n.vportRows), nodectl.List("mac", n.macRows),
		nodectl.List("congestion", n.congestionRows),
		nodectl.List("ethtool", n.ethtool), nodectl.List("counters", n.counters),
		nodectl.List("wire", func() []node.WireRow { return node.WireRows(n.wire) }),
		nodectl.List("params", func() []view.ParamInfo { return view.Params(n.engine.cfg.Clock.Params()) }),
	}
}

func (n *Node) row() hfiRow {
	p, drops := n.engine.port, n.drops()
	counts := p.Counts()
	r := hfiRow{Name: n.cfg.Name, Kind: "hfi", GUID: hficonf.GUIDText(n.cfg.GUID), LID: p.LID().String(),
		State: p.State().String(),
		MTU:   n.cfg.MTU, Framing: n.cfg.Framing.String(), ICRC: n.cfg.ICRC.String(), PKeys: []string{},
		VPorts: len(n.engine.vports.Netdevs()),
		TAP:    n.TAP(), Drops: drops.Total() + counts.RxDrops.Total() + counts.TxDrops.Total(), PID: os.Getpid(),
		Version: n.Env().Version}
	for _, k := range p.PKeys() {
		if k != 0 {
			r.PKeys = append(r.PKeys, hexPKey(k))
		}
	}
	return r
}

func (n *Node) vportRows() []vportRow { return n.engine.vportRows(n.engine.tapOf) }

func (n *Node) macRows() []macRow { return n.engine.macRows() }

// Tables are the tables of an HFI without a process: nic, vport and mac.
func (h *HFI) Tables() map[string]any {
	return map[string]any{"nic": map[string]any{"guid": hficonf.GUIDText(h.cfg.GUID), "lid": h.port.LID().String(),
		"state": h.port.State().String()}, "mac": h.macRows(),
		"vport": h.vportRows(func(*vnic.Netdev) string { return "-" })}
}

func (h *HFI) vportRows(tapOf func(*vnic.Netdev) string) (list []vportRow) {
	for _, d := range h.vports.Netdevs() {
		c, s := d.Config(), d.Stats()
		groups, _ := d.MulticastMACs()
		r := vportRow{VPort: d.Num(), VESW: c.VESWID, Fabric: c.FabricID, TAP: tapOf(d), MAC: d.MAC(),
			MTU: d.MTU(), PKey: hexPKey(c.PKey),
			Config: c.ConfigState.String(), Oper: d.OperState().String(), Carrier: d.Carrier(), Blocked: blocked(d),
			Mcast: c.McastDLID.String(), Ports: []string{}, MACs: d.MACTable().Len(),
			Digest:   fmt.Sprintf("%#08x", d.MACTable().Digest()),
			Stations: len(d.Stations()), Groups: len(groups),
			TxPkts: s.Tx.Packets, RxPkts: s.Rx.Packets, TxErrs: s.TxErrors(), RxErrs: s.RxErrors()}
		for i, lid := range c.UcastDLID {
			if c.DefPortMask>>i&1 != 0 {
				r.Ports = append(r.Ports, lid.String())
			}
		}
		list = append(list, r)
	}
	return list
}

// blocked says which condition keeps frames from passing; empty: none.
func blocked(d *vnic.Netdev) string {
	switch {
	case d.Config().VESWID == 0:
		return "no vESW: the Ethernet Manager has not configured the vport"
	case !d.Opened():
		return "the host TAP is down: ip link set it up"
	case !d.Carrier():
		return "no carrier: the HFI port is not active"
	case d.Dormant():
		return "dormant: the Ethernet Manager says DROP_ALL"
	}
	return ""
}

func (h *HFI) macRows() (list []macRow) {
	for _, d := range h.vports.Netdevs() {
		vesw, t := d.Config().VESWID, d.MACTable()
		for i := range t.Len() {
			e := t.At(i)
			if e.MAC.IsZero() {
				continue
			}
			from := "table"
			if e.Source() {
				from = "source"
			}
			list = append(list, macRow{VESW: vesw, MAC: e.MAC, LID: e.DLID.String(), Source: from, Place: i,
				Mask: e.Mask})
		}
		for _, s := range d.Stations() {
			r := macRow{VESW: vesw, MAC: s.MAC, VLAN: s.VLAN, LID: s.LID.String(), Source: "learned"}
			if s.LID == 0 {
				r.LID, r.Source = "-", "host"
			}
			list = append(list, r)
		}
	}
	return list
}

func (n *Node) counters() []nodectl.Counter {
	return nodectl.AppendDrops(n.engine.Counters(), "tap_drop_", new(n.drops()))
}
