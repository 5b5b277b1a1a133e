package qede

import "strconv"

// Stat is a counter with its name in ethtool -S.
type Stat struct {
	Name  string
	Value uint64
}

// QueueStats are the counters of the queues since they were started, in the
// driver's order.
func (n *Netdev) QueueStats() (list []Stat) {
	for i, q := range n.rxq {
		p := strconv.Itoa(i) + ": "
		list = append(list, Stat{p + "rcv_pkts", q.Stats.Received}, Stat{p + "rx_hw_errors", q.Stats.HWErrors},
			Stat{p + "rx_alloc_errors", q.Stats.AllocErrors}, Stat{p + "rx_ip_frags", q.Stats.IPFragments})
		t := n.txq[i]
		p = strconv.Itoa(i) + "_0: "
		list = append(list, Stat{p + "xmit_pkts", t.Stats.Sent}, Stat{p + "stopped_cnt", t.Stats.Stopped},
			Stat{p + "tx_mem_alloc_err", t.Stats.MemErrors})
	}
	return list
}

// Stats are the counters of the vport and of what no vport took, since they
// were reset or the netdev was opened, in the driver's order.
func (n *Netdev) Stats() []Stat {
	s, _ := n.fn.Stats(0) // zero while it is closed
	for v := 1; v < n.vports; v++ {
		more, _ := n.fn.Stats(v)
		s.Add(&more.VportStats)
	}
	return []Stat{
		{"rx_ucast_bytes", s.RxUcastBytes}, {"rx_mcast_bytes", s.RxMcastBytes}, {"rx_bcast_bytes", s.RxBcastBytes},
		{"rx_ucast_pkts", s.RxUcastPkts}, {"rx_mcast_pkts", s.RxMcastPkts}, {"rx_bcast_pkts", s.RxBcastPkts},
		{"tx_ucast_bytes", s.TxUcastBytes}, {"tx_mcast_bytes", s.TxMcastBytes}, {"tx_bcast_bytes", s.TxBcastBytes},
		{"tx_ucast_pkts", s.TxUcastPkts}, {"tx_mcast_pkts", s.TxMcastPkts}, {"tx_bcast_pkts", s.TxBcastPkts},
		{"rx_undersize_packets", s.Undersize},
		{"no_buff_discards", s.NoBuffDiscards}, {"mac_filter_discards", s.MACFilterDiscards},
		{"gft_filter_drop", s.GFTFilterDrop}, {"tx_err_drop_pkts", s.TxErrDropPkts},
		{"ttl0_discard", s.TTL0Discard}, {"packet_too_big_discard", s.PacketTooBigDiscard},
		{"coalesced_pkts", s.CoalescedPkts}, {"coalesced_events", s.CoalescedEvents},
		{"coalesced_aborts_num", s.CoalescedAborts}, {"non_coalesced_pkts", s.NonCoalescedPkts},
		{"coalesced_bytes", s.CoalescedBytes},
	}
}
