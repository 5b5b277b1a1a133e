package frame

import "fmt"

// Record is one frame as it passed a port, handed to a Tracer.
type Record struct {
	Port    Port
	Dir     Direction
	Data    []byte // the Ethernet frame, borrowed
	Offload Offload
	Stamp   Stamp
	ID      uint64
	Queue   uint16
	Drop    DropReason // DropNone unless the frame was discarded
	Comment string
}

// Tracer receives every frame of a NIC: the seam of its own capture.
type Tracer interface {
	Trace(*Record)
}

// Notes collects, for the frame being handled, what the layers have to say
// about it ("QP 3 WR 17 RDMA Write MO 0"). While On is false it costs one
// branch. Each engine has one; the port empties it after each frame.
type Notes struct {
	On   bool
	text []byte
	drop DropReason
}

// Addf adds a line. Callers check On first, so that arguments are not
// evaluated without need.
func (n *Notes) Addf(format string, args ...any) {
	n.text = fmt.Appendf(n.line(), format, args...)
}

// Append adds the line that write appends to the slice it is given, for notes
// that are too frequent for a format.
func (n *Notes) Append(write func(b []byte) []byte) { n.text = write(n.line()) }

// line is the text, ready for one line more.
func (n *Notes) line() []byte {
	if len(n.text) > 0 {
		return append(n.text, '\n')
	}
	return n.text
}

// Drop notes that the frame in hand is discarded for reason r.
func (n *Notes) Drop(r DropReason) { n.drop = r }

// Take returns what was noted since the last Take, and forgets it.
func (n *Notes) Take() (comment string, drop DropReason) {
	comment, drop = string(n.text), n.drop
	n.text, n.drop = n.text[:0], DropNone
	return comment, drop
}
