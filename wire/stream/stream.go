// Package stream puts TCP segments in order for those who watch a connection
// and are no end of it: captures, inspections and injected faults.
package stream

import (
	"bytes"
	"net/netip"
	"slices"

	"tapir/wire/tcp"
)

// Ends name a connection, whichever end sends: A is below B.
type Ends struct{ A, B netip.AddrPort }

// EndsOf are the ends of a segment's connection.
func EndsOf(src, dst netip.AddrPort) Ends {
	if src.Compare(dst) > 0 {
		return Ends{dst, src}
	}
	return Ends{src, dst}
}

// Segment is a piece of a stream, with what its watcher has to know about it.
type Segment[T any] struct {
	Seq  tcp.Seq
	Data []byte
	Note T
}

// Order is one direction of a connection.
type Order[T any] struct {
	// Next is the sequence number behind what was put in order.
	Next tcp.Seq
	// Gap holds the segments that wait for others in front of them, in order.
	Gap []Segment[T]
	// Waiting is the number of octets in Gap.
	Waiting int
}

// Wait keeps a segment, whose octets it copies, until its turn comes.
func (o *Order[T]) Wait(s Segment[T]) {
	s.Data = bytes.Clone(s.Data)
	i, _ := slices.BinarySearchFunc(o.Gap, s.Seq.Sub(o.Next)+1, func(g Segment[T], at int32) int {
		return int(g.Seq.Sub(o.Next)) - int(at)
	})
	o.Gap = slices.Insert(o.Gap, i, s)
	o.Waiting += len(s.Data)
}

// Due returns the first segment that waits, if no octets are missing in front of
// it any more.
func (o *Order[T]) Due() (s Segment[T], ok bool) {
	if len(o.Gap) == 0 || o.Next.Less(o.Gap[0].Seq) {
		return s, false
	}
	return o.Pop(), true
}

// Pop returns the first segment that waits.
func (o *Order[T]) Pop() Segment[T] {
	s := o.Gap[0]
	o.Gap = slices.Delete(o.Gap, 0, 1)
	o.Waiting -= len(s.Data)
	return s
}

// Advance returns those octets of a segment that are new, and moves Next behind
// them. The segment begins at Next or before.
func (o *Order[T]) Advance(s Segment[T]) []byte {
	old := int(o.Next.Sub(s.Seq))
	if old >= len(s.Data) {
		return nil
	}
	o.Next = s.Seq.Add(len(s.Data))
	return s.Data[old:]
}
