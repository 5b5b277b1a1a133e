package frame

import (
	"bytes"
	"fmt"
	"strconv"
)

// Record is one frame as it passed a port, handed to a Tracer.
type Record struct {
	Port    Port
	Dir     Direction
	Data    []byte // the Ethernet frame, borrowed
	Offload Offload
	Stamp   Stamp // of the NIC's hardware clock
	System  Stamp // the system's time of day; 0: that of Stamp
	ID      uint64
	Queue   uint16
	Drop    DropReason // DropNone unless the frame was discarded
	Notes   []Note     // borrowed
}

// Text is what the notes say, a line each.
func (r *Record) Text() string {
	var b []byte
	for i, n := range r.Notes {
		if i > 0 {
			b = append(b, '\n')
		}
		b = n.AppendTo(b)
	}
	return string(b)
}

// Note is a line of text about a frame, or about consecutive segments of it.
type Note struct {
	Text  []byte
	Times int
}

// AppendTo appends the line to b, with how often it holds if that is more than
// once.
func (n Note) AppendTo(b []byte) []byte {
	b = append(b, n.Text...)
	if n.Times > 1 {
		b = append(strconv.AppendInt(append(b, " ("...), int64(n.Times), 10), " times)"...)
	}
	return b
}

// Say returns one note with the text given.
func Say(text string) []Note { return []Note{{[]byte(text), 1}} }

// KeepNotes returns a copy of notes that lasts.
func KeepNotes(notes []Note) []Note {
	if len(notes) == 0 {
		return nil
	}
	kept := make([]Note, len(notes))
	for i, n := range notes {
		kept[i] = Note{bytes.Clone(n.Text), n.Times}
	}
	return kept
}

// Tracer receives every frame of a NIC: the seam of its own capture.
type Tracer interface {
	Trace(*Record)
}

// Notes collects, for the frame being handled, what the layers have to say
// about it ("QP 3 WR 17 RDMA Write"). While On is false it costs one
// branch. Each engine has one; the port empties it after each frame.
type Notes struct {
	On    bool
	text  []byte
	lines []line
	added uint64 // lines so far, in all frames
	taken []Note
	drop  DropReason
}

// line is where a note's text ends, and how often it holds.
type line struct{ end, times int }

// Addf adds a note. Callers check On first, so that arguments are not
// evaluated without need.
func (n *Notes) Addf(format string, args ...any) {
	n.text = fmt.Appendf(n.text, format, args...)
	n.close()
}

// Append adds the note that write appends to the slice it is given, for notes
// that are too frequent for a format. The number it returns is for Repeat.
func (n *Notes) Append(write func(b []byte) []byte) (id uint64) {
	n.text = write(n.text)
	n.close()
	return n.added
}

func (n *Notes) close() {
	n.lines = append(n.lines, line{len(n.text), 1})
	n.added++
}

// Repeat adds times repetitions to the note with number id if it is the frame's
// last one so far, and reports whether it was.
func (n *Notes) Repeat(id uint64, times int) bool {
	if id != n.added || len(n.lines) == 0 {
		return false
	}
	n.lines[len(n.lines)-1].times += times
	return true
}

// Drop notes that the frame in hand is discarded for reason r.
func (n *Notes) Drop(r DropReason) { n.drop = r }

// Take returns what was noted since the last Take, and forgets it. The notes
// are valid until something is noted again.
func (n *Notes) Take() (notes []Note, drop DropReason) {
	drop, n.drop = n.drop, DropNone
	if len(n.lines) == 0 {
		return nil, drop
	}
	n.taken = n.taken[:0]
	begin := 0
	for _, l := range n.lines {
		n.taken = append(n.taken, Note{n.text[begin:l.end:l.end], l.times})
		begin = l.end
	}
	n.text, n.lines = n.text[:0], n.lines[:0]
	return n.taken, drop
}
