package nic

import "tapir/nic/fastlinq/cmt"

// coupledQueues are the queues of both engines as the host TAP has them, in turn.
func (d *Device) coupledQueues(of ...[]QueueInfo) (list []QueueInfo) {
	for local := range max(len(of[0]), len(of[1])) {
		for e := range of {
			if local >= len(of[e]) {
				continue // of an engine that has failed
			}
			q := of[e][local]
			q.Hwfn, q.Queue, q.RSSEntries = hwfnName(&d.cfg, e), cmt.Queue(e, local), q.RSSEntries/cmt.Engines
			list = append(list, q)
		}
	}
	return list
}

// addHost adds what the second engine has counted of the host TAP to the NIC's
// host_rx_packets, host_rx_bytes, host_tx_packets and host_tx_bytes.
func (c *engines) addHost(list []Counter) {
	c.look(func(e *Engine) {
		for i, n := range []uint64{e.rxFrames, e.rxBytes, e.txFrames, e.txBytes} {
			list[i].Value += n
		}
	})
}

// waiting is the number of frames on their way through the second engine.
func (c *engines) waiting() (n int) {
	c.look(func(e *Engine) { n = e.netdev.Waiting() + e.in.Len() + e.out.Len() })
	return n
}

// counters are those of two engines: frames of the operating system from the wire
// and to it by each, and what passed between them.
func (c *engines) counters() (list []Counter) {
	if c == nil {
		return nil
	}
	s := c.steering.Stats()
	list = []Counter{
		{Name: "engine0_rx_packets", Value: s.Frames[0]}, {Name: "engine1_rx_packets", Value: s.Frames[1]},
		{Name: "engine0_tx_packets", Value: c.sent[0]}, {Name: "engine1_tx_packets", Value: c.sent[1]},
		{Name: "engine_pinned", Value: s.Pinned}, {Name: "engine_resteered", Value: s.Resteered}, {Name: "engine_resent", Value: c.resent},
	}
	if c.second == nil {
		return list
	}
	return append(list, Counter{Name: "engine_ring_batches", Value: c.second.in.Stats().Batches})
}
