package vf

import (
	"fmt"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/nicdrop"
	"tapir/nic/view"
	"tapir/wire/ether"
)

// Row is what there is to see of a VF: the policies of its PF first, with the words of ip
// link, then what it is.
type Row struct {
	VF        int        `json:"vf"`
	MAC       ether.Addr `json:"mac"` // that the PF has set, or that a trusted VF uses; zero: the VF chooses
	VLAN      int        `json:"vlan"`
	QoS       int        `json:"qos"`
	MaxTxRate int        `json:"max_tx_rate"` // Mb/s; 0: no limit
	MinTxRate int        `json:"min_tx_rate"`
	SpoofChk  bool       `json:"spoofchk"`
	State     string     `json:"link_state"`
	Trust     bool       `json:"trust"`
	QueryRSS  bool       `json:"query_rss"`
	Netdev    string     `json:"netdev"` // the name that it was made with
	Absolute  int        `json:"absolute"`
	Function  string     `json:"function"` // ACQUIRED and so on
	Address   ether.Addr `json:"address"`  // that its driver uses
	Up        bool       `json:"up"`       // the link, as the VF sees it
	Queues    int        `json:"queues"`
	Promisc   bool       `json:"promisc"`
	AllMulti  bool       `json:"allmulti"`
	RxPackets uint64     `json:"rx_packets"`
	TxPackets uint64     `json:"tx_packets"`
	Spoofed   uint64     `json:"spoofed"`
	Messages  uint64     `json:"messages"`            // of the channel that were answered
	Resets    uint64     `json:"resets"`              // function-level
	Malicious string     `json:"malicious,omitempty"` // why the VF is shut out until it is reset
}

// Show describes all VFs.
func (b *Bridge) Show() []Row {
	list := []Row{}
	for _, v := range b.all() {
		i, err := b.iov.VFInfo(v.id)
		if err != nil {
			continue
		}
		s, _ := b.fn.Stats(v.vport()) // nothing, of one that is not started
		r := Row{VF: v.id, MAC: i.MAC, VLAN: int(i.VLAN), QoS: int(i.QoS), MaxTxRate: i.MaxRate, MinTxRate: i.MinRate,
			SpoofChk: i.SpoofChk, State: i.LinkState.String(), Trust: i.Trust, QueryRSS: i.QueryRSS,
			Netdev: v.netdev.Name, Absolute: i.AbsoluteID, Function: i.State.String(),
			Address: i.Address, Up: i.Link.Up, Queues: i.RxQueues,
			Promisc: i.Promisc, AllMulti: i.AllMulti, RxPackets: s.RxUcastPkts + s.RxMcastPkts + s.RxBcastPkts,
			TxPackets: s.TxUcastPkts + s.TxMcastPkts + s.TxBcastPkts, Spoofed: b.spoofed(v)}
		r.Messages, r.Resets = i.Counts.Messages, i.Counts.Resets
		if i.Malicious {
			r.Malicious = i.Why
		}
		if r.Address.IsZero() {
			r.Address = v.MAC()
		}
		if r.MAC.IsZero() && i.Trust {
			r.MAC = i.Address
		}
		list = append(list, r)
	}
	return list
}

// all are the VFs that there are.
func (b *Bridge) all() (list []*VF) {
	for _, v := range b.vfs {
		if v != nil {
			list = append(list, v)
		}
	}
	return list
}

// spoofed counts the frames that a VF has sent with the address of another station.
func (b *Bridge) spoofed(v *VF) uint64 {
	_, out, _ := b.fn.VportDrops(v.vport())
	return out[nicdrop.AntiSpoofing]
}

// Counters are the statistics of all VFs.
func (b *Bridge) Counters() (list []view.Counter) {
	for _, v := range b.all() {
		s, err := b.fn.Stats(v.vport())
		if err != nil {
			s = l2.Statistics{}
		}
		var of iov.Counts
		if i, err := b.iov.VFInfo(v.id); err == nil {
			of = i.Counts
		}
		in, out, _ := b.fn.VportDrops(v.vport())
		for _, c := range []struct {
			name string
			n    uint64
		}{
			{"rx_packets", s.RxUcastPkts + s.RxMcastPkts + s.RxBcastPkts},
			{"rx_bytes", s.RxUcastBytes + s.RxMcastBytes + s.RxBcastBytes}, {"rx_multicast", s.RxMcastPkts},
			{"rx_broadcast", s.RxBcastPkts}, {"rx_dropped", in.Total()},
			{"tx_packets", s.TxUcastPkts + s.TxMcastPkts + s.TxBcastPkts},
			{"tx_bytes", s.TxUcastBytes + s.TxMcastBytes + s.TxBcastBytes},
			{"tx_dropped", out.Total() + v.Stats.TxStopped + v.Stats.TxStorm},
			{"tx_spoofed", out[nicdrop.AntiSpoofing]}, {"tx_storm", v.Stats.TxStorm},
			{"resets", of.Resets}, {"malicious", of.Malicious}, {"malformed", of.Malformed},
		} {
			list = append(list, view.Count(fmt.Sprintf("vf%d_%s", v.id, c.name), c.n))
		}
	}
	return list
}
