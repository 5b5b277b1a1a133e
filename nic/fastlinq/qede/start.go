package qede

import (
	"cmp"
	"math/bits"

	"tapir/nic/fastlinq/l2"
	"tapir/wire/ether"
)

// The indices of a queue pair in its status block.
const (
	rxPI = 0
	txPI = 1
)

// start starts the vport and its queues, in the order that the device wants.
func (n *Netdev) start() error {
	err := n.sp.VportStart(l2.StartParams{MTU: n.s.MTU, TPA: n.s.TPA, DropTTL0: n.s.DropTTL0})
	for v := 1; v <= len(n.s.Stations) && err == nil; v++ {
		err = n.sp.VportStart(l2.StartParams{Vport: v, MTU: n.s.MTU, DropTTL0: n.s.DropTTL0})
	}
	if err == nil {
		n.vports = 1 + len(n.s.Stations)
		err = n.fn.ResetStats(0)
	}
	for id := 0; id < n.s.Queues && err == nil; id++ {
		err = n.startPair(id)
	}
	if err != nil {
		return cmp.Or(err, n.stop())
	}
	return nil
}

func (n *Netdev) startPair(id int) error {
	v := n.s.vport(id)
	p := l2.QueueParams{Vport: v, Stats: v, Queue: id, SB: n.blocks[id], PI: rxPI, Size: n.s.RxRing}
	rxq, err := n.sp.RxQueueStart(p, bufSize)
	if err != nil {
		return err
	}
	n.rxq, n.napi = append(n.rxq, rxq), append(n.napi, false)
	if err := rxq.Post(n.s.RxRing); err != nil {
		return err
	}
	p.PI, p.Size = txPI, n.s.TxRing
	txq, err := n.sp.TxQueueStart(p, 0)
	if err != nil {
		return err
	}
	n.txq = append(n.txq, txq)
	return nil
}

// stop stops what start has started, in reverse order.
func (n *Netdev) stop() (err error) {
	off := false
	for v := range n.vports {
		err = cmp.Or(err, n.sp.VportUpdate(l2.UpdateParams{Vport: v, RxActive: &off, TxActive: &off}))
	}
	for i := len(n.txq) - 1; i >= 0; i-- {
		err = cmp.Or(err, n.sp.TxQueueStop(n.txq[i]))
	}
	for i := len(n.rxq) - 1; i >= 0; i-- {
		err = cmp.Or(err, n.sp.RxQueueStop(n.rxq[i]))
	}
	n.rxq, n.txq, n.napi = n.rxq[:0], n.txq[:0], n.napi[:0]
	n.received.Segments.Discard()
	err = cmp.Or(err, n.removeRules())
	for ; n.vports > 0; n.vports-- {
		err = cmp.Or(err, n.sp.VportStop(n.vports-1))
	}
	return err
}

// configure brings a vport that runs to the settings: the update that activates
// it first, then what it receives.
func (n *Netdev) configure() error {
	on := true
	update := l2.UpdateParams{
		RxActive: &on, TxActive: &on, DefaultVLAN: &n.s.PVID, RxChecksum: &n.s.RxChecksum,
		AntiSpoofing: &n.s.Checks.AntiSpoofing, CheckMAC: &n.s.Checks.ControlMAC,
		CheckEtherType: &n.s.Checks.ControlType, SilentVLANRemoval: &n.s.Silent, TxSwitching: &n.s.TxSwitching,
	}
	others := update
	update.RSS = n.rss()
	if n.s.TPA != l2.TPANone {
		tpa := l2.DefaultTPA(n.s.MTU)
		update.TPA = &tpa
	}
	for _, step := range []func() error{
		func() error { return n.sp.VportUpdate(update) },
		func() error { return n.sp.SetTunnels(n.s.Tunnel) },
		n.setRules,
		n.classify,
		func() error { return n.stations(others) },
		func() error { return n.fn.SetVportRate(0, n.s.TxMaxRate) },
		n.setRates,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// rss is the RSS table over the queues in use; one queue needs none.
func (n *Netdev) rss() *l2.RSSParams {
	p := &l2.RSSParams{
		UpdateConfig: true, UpdateCaps: true, UpdateTable: true, UpdateKey: true,
		Enable: n.s.first() > 1 && !n.s.NoRSS, Hashes: n.s.Hashes, TableLog: bits.Len(l2.TableLen) - 1, Key: n.s.Key,
	}
	for i := range p.Table {
		p.Table[i] = n.rxq[n.s.entry(i)]
	}
	return p
}

// entry is the queue of an entry of the RSS table: a shorter one is repeated.
func (s *Settings) entry(i int) int {
	if len(s.Table) > 0 {
		return s.Table[i%len(s.Table)]
	}
	return i % s.first()
}

// stations has each vport but the first receive what is for its station.
func (n *Netdev) stations(update l2.UpdateParams) error {
	on := true
	for i, s := range n.s.Stations {
		v := i + 1
		update.Vport = v
		p := l2.UcastParams{Op: l2.FilterFlush, Type: l2.FilterMAC, Sides: l2.Both, Add: v, Remove: v}
		err := cmp.Or(n.sp.VportUpdate(update), n.sp.FilterUcast(p))
		p.Op, p.MAC = l2.FilterAdd, s.MAC
		if err = cmp.Or(err, n.sp.FilterUcast(p), n.sp.FilterAccept(v, l2.AcceptParams{UpdateRx: true, UpdateTx: true,
			Rx: l2.UcastMatched, Tx: l2.UcastMatched}, &on)); err != nil {
			return err
		}
	}
	return n.Weigh()
}

// Weigh gives vports their parts of the function's least rate, which the management
// firmware says.
func (n *Netdev) Weigh() (err error) {
	low, _ := n.fn.PFRates()
	if low == 0 || n.vports <= 1 {
		return nil
	}
	for _, all := range []int{0, low} { // less before more
		for i, s := range n.s.Stations {
			err = cmp.Or(err, n.fn.SetVportWFQ(i+1, all*s.Weight/100))
		}
	}
	return err
}

// setRates limits the transmit queues.
func (n *Netdev) setRates() (err error) {
	for i, q := range n.txq {
		rate := 0
		if i < len(n.s.TxRates) {
			rate = n.s.TxRates[i]
		}
		err = cmp.Or(err, n.fn.SetQueueRate(q, rate))
	}
	return err
}

func (n *Netdev) setRules() error {
	err := n.removeRules()
	for _, r := range n.s.Rules {
		if err = cmp.Or(err, n.sp.AddRule(l2.Rule{Tuple: r.Tuple, Drop: r.Drop, Queue: r.Queue})); err == nil {
			n.rules = append(n.rules, r.Tuple)
		}
	}
	return err
}

func (n *Netdev) removeRules() (err error) {
	for _, t := range n.rules {
		err = cmp.Or(err, n.sp.RemoveRule(t))
	}
	n.rules = n.rules[:0]
	return err
}

// classify sets filters and receive mode. More addresses than filters make the
// netdev promiscuous, more groups than a command takes make it accept all groups,
// more VLANs than filters let all VLANs pass.
func (n *Netdev) classify() error {
	share := n.fn.Share()
	n.promisc = n.s.Promisc || 1+len(n.s.Ucast) > share.MACs
	n.allMulti = n.s.AllMulti || len(n.s.Mcast) > l2.MaxMcast
	n.anyVLAN = n.promisc || countVLANs(n.s.VLANs) > share.VLANs
	err := cmp.Or(n.addrs(), n.groups(), n.vlans())
	mode := l2.Regular
	switch {
	case n.promisc:
		mode = l2.Promisc
	case n.allMulti:
		mode = l2.AllMulti
	}
	return cmp.Or(err, n.sp.FilterAccept(0, l2.AcceptParams{UpdateRx: true, UpdateTx: true, Rx: mode, Tx: l2.Regular},
		&n.anyVLAN))
}

func countVLANs(list []uint16) (count int) {
	seen := map[uint16]bool{0: true} // costs no filter
	for _, v := range list {
		if !seen[v] {
			seen[v] = true
			count++
		}
	}
	return count
}

func (n *Netdev) filter(op l2.Opcode, typ l2.FilterType, a ether.Addr, vlan uint16) error {
	return n.sp.FilterUcast(l2.UcastParams{Op: op, Type: typ, Sides: l2.Both, MAC: a, VLAN: vlan})
}

// addrs sets the station's own address and, if they all fit, the others.
func (n *Netdev) addrs() error {
	err := cmp.Or(n.filter(l2.FilterFlush, l2.FilterMAC, ether.Addr{}, 0),
		n.filter(l2.FilterAdd, l2.FilterMAC, n.s.MAC, 0))
	if 1+len(n.s.Ucast) > n.fn.Share().MACs {
		return err
	}
	seen := map[ether.Addr]bool{n.s.MAC: true}
	for _, a := range n.s.Ucast {
		if !seen[a] {
			seen[a] = true
			err = cmp.Or(err, n.filter(l2.FilterAdd, l2.FilterMAC, a, 0))
		}
	}
	return err
}

func (n *Netdev) groups() error {
	list := n.s.Mcast
	if len(list) > l2.MaxMcast {
		list = nil
	}
	return n.sp.FilterMcast(l2.McastParams{Op: l2.FilterAdd, MACs: list})
}

// vlans sets VLAN filters while there are some; with the first, that for frames
// without a tag.
func (n *Netdev) vlans() error {
	err := n.filter(l2.FilterFlush, l2.FilterVLAN, ether.Addr{}, 0)
	if len(n.s.VLANs) == 0 {
		return err
	}
	err = cmp.Or(err, n.filter(l2.FilterAdd, l2.FilterVLAN, ether.Addr{}, 0))
	seen, left := map[uint16]bool{0: true}, n.fn.Share().VLANs
	for _, v := range n.s.VLANs {
		if !seen[v] && left > 0 {
			seen[v] = true
			left--
			err = cmp.Or(err, n.filter(l2.FilterAdd, l2.FilterVLAN, ether.Addr{}, v))
		}
	}
	return err
}
