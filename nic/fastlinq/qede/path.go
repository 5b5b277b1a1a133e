package qede

import (
	"tapir/nic/fastlinq/l2"
	"tapir/nic/nicdrop"
	"tapir/nic/pacing"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Receive takes a frame of the port, unless it answers why nobody wants it.
func (n *Netdev) Receive(f *frame.Frame) frame.DropReason { return n.fn.Receive(f) }

// Flush ends a batch of received frames.
func (n *Netdev) Flush() { n.fn.Flush() }

// Schedule has Deliver serve a receive queue until it is empty: it has
// interrupted.
func (n *Netdev) Schedule(queue int) {
	if queue < len(n.napi) {
		n.napi[queue] = true
	}
}

// Due tells whether frames wait in a queue that has interrupted.
func (n *Netdev) Due() bool {
	for i, on := range n.napi {
		if on && n.rxq[i].Len() > 0 {
			return true
		}
	}
	return false
}

// Relieve has Deliver serve receive queues that are half full before they
// interrupt.
func (n *Netdev) Relieve() {
	for i, q := range n.rxq {
		if q.Posted() < n.s.RxRing/2 {
			n.napi[i] = true
		}
	}
}

// Fill is how full the fullest receive queue is, in parts of pacing.Full.
func (n *Netdev) Fill() (most int) {
	for _, q := range n.rxq {
		most = max(most, (n.s.RxRing-q.Posted())*pacing.Full/n.s.RxRing)
	}
	return most
}

// Deliver passes received frames to the netdev's link, each queue that has
// interrupted in turn, while that has room, and reports whether some had to stay.
// A frame's Queue is the one it came by. Buffers are posted again.
func (n *Netdev) Deliver(link frame.Link) (waiting bool) {
	if n.received.Drain(link) {
		return true
	}
	n.turn++
	for k := range n.rxq {
		i := (n.turn + k) % len(n.rxq)
		if !n.napi[i] {
			continue
		}
		for q := n.rxq[i]; q.Len() > 0; {
			if link.Room() <= 0 {
				return true
			}
			f, _ := q.Next()
			_ = q.Post(q.Free())
			f.Queue = uint16(i)
			if n.hand(q, f, link) {
				return true
			}
		}
		n.napi[i] = false
	}
	return false
}

// Queue takes a frame of the netdev into the transmit queue that its Queue
// names, unless it answers why not: then the frame stays the caller's.
func (n *Netdev) Queue(f *frame.Frame) frame.DropReason {
	if len(n.txq) == 0 {
		return nicdrop.Vport
	}
	q := n.txq[n.s.queueOf(f)]
	r := n.post(q, f)
	q.Doorbell()
	return r
}

// queueOf is the transmit queue of a frame: one that a station sends goes by its own.
func (s *Settings) queueOf(f *frame.Frame) int {
	if b := f.Bytes(); len(s.Stations) > 0 && len(b) >= ether.HeaderLen {
		for i := range s.Stations {
			if s.Stations[i].MAC == ether.Addr(b[6:12]) {
				return s.first() + i
			}
		}
	}
	return int(f.Queue) % s.first()
}

// Transmit passes queued frames to the port while it has room, and reports
// whether some had to stay.
func (n *Netdev) Transmit(port frame.Link) (waiting bool) { return n.fn.Transmit(port) }

// Waiting is the number of frames in the queues.
func (n *Netdev) Waiting() (count int) {
	for i, q := range n.rxq {
		count += q.Len() + n.txq[i].Len()
	}
	return count + n.received.Segments.Len()
}

// QueueInfo is what there is to know of a queue pair.
type QueueInfo struct {
	Rx        l2.RxQueueStats
	Tx        l2.TxQueueStats
	RxWaiting int // frames
	TxWaiting int
}

// Queues describes the queue pairs in use.
func (n *Netdev) Queues() (list []QueueInfo) {
	for i, q := range n.rxq {
		t := n.txq[i]
		list = append(list, QueueInfo{Rx: q.Stats, Tx: t.Stats, RxWaiting: q.Len(), TxWaiting: t.Len()})
	}
	return list
}

// Table is the queue of each entry of the RSS table.
func (n *Netdev) Table() [l2.TableLen]int { return n.s.FullTable() }

// FullTable is the queue of each entry of the RSS table.
func (s *Settings) FullTable() (table [l2.TableLen]int) {
	for i := range table {
		table[i] = s.entry(i)
	}
	return table
}
