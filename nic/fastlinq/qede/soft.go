package qede

import (
	"tapir/nic/fastlinq/l2"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// What the driver does in place of the device, as an operating system does for
// one whose offloads are off.

// post takes a frame into a transmit queue as the device is to have it, unless
// it answers why not.
func (n *Netdev) post(q *l2.TxQueue, f *frame.Frame) frame.DropReason {
	switch {
	case f.GSO != frame.GSONone && n.s.NoTSO:
		return n.postSegments(q, f)
	case f.NeedsCsum && n.s.NoTxChecksum && int(f.CsumStart)+int(f.CsumOffset)+2 <= f.Len():
		l2.Complete(f)
	}
	if !q.Post(f, l2.TxBD{}) {
		return drop.TxQueue
	}
	return frame.DropNone
}

// postSegments takes the segments of a frame, if there is room for all of them.
func (n *Netdev) postSegments(q *l2.TxQueue, f *frame.Frame) frame.DropReason {
	if r := n.sent.Cut(n.cfg.Pool, f); r != frame.DropNone {
		return r
	}
	if n.sent.Segments.Len() > q.Room() {
		n.sent.Segments.Discard()
		q.Stats.Stopped++
		return drop.TxQueue
	}
	for g := n.sent.Segments.Pop(); g != nil; g = n.sent.Segments.Pop() {
		q.Post(g, l2.TxBD{})
	}
	f.Release()
	return frame.DropNone
}

// hand passes a received frame to the netdev's link, and reports whether some
// of its segments had to stay.
func (n *Netdev) hand(q *l2.RxQueue, f *frame.Frame, link frame.Link) (waiting bool) {
	if f.GSO == frame.GSONone || !n.s.NoGRO {
		link.Transmit(f)
		return false
	}
	if r := n.received.Cut(n.cfg.Pool, f); r != frame.DropNone {
		q.Stats.AllocErrors++
		if n.cfg.Drop != nil {
			n.cfg.Drop(l2.Rx, f, r)
		}
	}
	f.Release()
	return n.received.Drain(link)
}
