// Package timewait keeps the connections of an engine that are in TIME-WAIT as
// small records, in the order of their ends.
package timewait

import (
	"net/netip"
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// Port is a local port that a connection holds until it has left TIME-WAIT.
type Port interface{ Drop() }

// Record is a connection in TIME-WAIT: what it takes to answer old segments
// and to let a new connection follow.
type Record struct {
	key      key
	Snd, Rcv tcp.Seq // SND.NXT and RCV.NXT
	TSRecent uint32
	At       frame.Time // end of TIME-WAIT
	quietAt  frame.Time // answers are counted from here
	Port     Port
	next     int32 // in the order of their ends, or of free records
	prev     int32
	TSOff    uint32 // of this side's timestamps
	Window   uint16 // last one offered
	answers  uint8
	flags    flags
}

type flags uint8

const (
	stamped flags = 1 << iota // timestamps are in use
	isIPv4                    // the addresses are IPv4
)

// key is a 4-tuple in 36 octets.
type key struct {
	local, remote         [16]byte
	localPort, remotePort uint16
}

func keyOf(local, remote netip.AddrPort) key {
	return key{local.Addr().As16(), remote.Addr().As16(), local.Port(), remote.Port()}
}

// SetConn says whose record w is, and whether it uses timestamps.
func (w *Record) SetConn(local, remote netip.AddrPort, timestamps bool) {
	w.key = keyOf(local, remote)
	if timestamps {
		w.flags |= stamped
	}
	if local.Addr().Is4() {
		w.flags |= isIPv4
	}
}

// Addrs returns the addresses of the connection.
func (w *Record) Addrs() (local, remote netip.AddrPort) {
	l, r := netip.AddrFrom16(w.key.local), netip.AddrFrom16(w.key.remote)
	if w.flags&isIPv4 != 0 {
		l, r = l.Unmap(), r.Unmap()
	}
	return netip.AddrPortFrom(l, w.key.localPort), netip.AddrPortFrom(r, w.key.remotePort)
}

// Timestamps tells whether the connection uses them.
func (w *Record) Timestamps() bool { return w.flags&stamped != 0 }

// MayAnswer counts one more answer, if fewer than limit were given within a
// second.
func (w *Record) MayAnswer(limit int, now frame.Time) bool {
	if now.Sub(w.quietAt) >= time.Second || w.quietAt == 0 {
		w.quietAt, w.answers = now, 0
	}
	if int(w.answers) >= limit {
		return false
	}
	w.answers++
	return true
}

// ReusedBy reports whether a SYN may replace w: it is newer by timestamp (RFC
// 6191 section 2) or by sequence number (RFC 9293 section 3.10.7.4).
func (w *Record) ReusedBy(h *tcp.Header) bool {
	if h.Flags.Has(tcp.ACK) {
		return false
	}
	if w.Timestamps() && h.Opts.HasTS && h.Opts.TSVal != w.TSRecent {
		return int32(h.Opts.TSVal-w.TSRecent) > 0
	}
	return w.Rcv.Less(h.Seq)
}

// List holds the records in one slab, oldest first. Every stay has the
// same length, so that the order of entry is the order of ends. The zero List
// is empty.
type List struct {
	index      map[key]int32
	recs       []Record
	head, tail int32 // -1: none
	free       int32
}

// Len is the number of records.
func (l *List) Len() int { return len(l.index) }

// Find returns the record of a connection, nil if there is none. It is valid
// until the list changes.
func (l *List) Find(local, remote netip.AddrPort) *Record {
	if len(l.index) == 0 {
		return nil
	}
	if i, ok := l.index[keyOf(local, remote)]; ok {
		return &l.recs[i]
	}
	return nil
}

// Add stores w as the newest record.
func (l *List) Add(w Record) {
	if l.index == nil {
		*l = List{index: make(map[key]int32), head: -1, tail: -1, free: -1}
	}
	i := l.free
	if i >= 0 {
		l.free = l.recs[i].next
		l.recs[i] = w
	} else {
		i = int32(len(l.recs))
		l.recs = append(l.recs, w)
	}
	l.index[w.key] = i
	l.link(i)
}

// link puts record i at the end of the order.
func (l *List) link(i int32) {
	w := &l.recs[i]
	w.prev, w.next = l.tail, -1
	if l.tail >= 0 {
		l.recs[l.tail].next = i
	} else {
		l.head = i
	}
	l.tail = i
}

func (l *List) unlink(i int32) {
	w := &l.recs[i]
	if w.prev >= 0 {
		l.recs[w.prev].next = w.next
	} else {
		l.head = w.next
	}
	if w.next >= 0 {
		l.recs[w.next].prev = w.prev
	} else {
		l.tail = w.prev
	}
}

// Remove forgets w and gives its port back. The last one takes the slab with
// it.
func (l *List) Remove(w *Record) {
	i := l.index[w.key]
	l.unlink(i)
	delete(l.index, w.key)
	if w.Port != nil {
		w.Port.Drop()
	}
	*w = Record{next: l.free}
	if l.free = i; len(l.index) == 0 {
		*l = List{}
	}
}

// Renew starts w's stay again.
func (l *List) Renew(w *Record, at frame.Time) {
	i := l.index[w.key]
	l.unlink(i)
	w.At = at
	l.link(i)
}

// Oldest is the record that ends first, nil if there is none.
func (l *List) Oldest() *Record {
	if len(l.index) == 0 {
		return nil
	}
	return &l.recs[l.head]
}

// Deadline is when the first record ends.
func (l *List) Deadline() frame.Time {
	if w := l.Oldest(); w != nil {
		return w.At
	}
	return frame.Never
}

// Expire forgets what has ended.
func (l *List) Expire(now frame.Time) {
	if len(l.index) == 0 {
		return
	}
	for w := l.Oldest(); w != nil && w.At <= now; w = l.Oldest() {
		l.Remove(w)
	}
}

// Reopen tells whether a SYN opens a new connection in w's place: to a listener, or to
// an operating system that has the ports which nobody here holds; w is then removed.
func (l *List) Reopen(w *Record, h *tcp.Header, listener, shared bool) bool {
	switch {
	case !w.ReusedBy(h):
		return false
	case !listener && shared && w.Port == nil:
		l.Remove(w)
		return true
	}
	return listener
}

// Ack is the header of an acknowledgement; clock is that of timestamps.
func (w *Record) Ack(clock uint32) tcp.Header {
	h := tcp.Header{Seq: w.Snd, Ack: w.Rcv, Flags: tcp.ACK, Window: w.Window}
	if w.Timestamps() {
		h.Opts.HasTS, h.Opts.TSVal, h.Opts.TSEcr = true, clock+w.TSOff, w.TSRecent
	}
	return h
}
