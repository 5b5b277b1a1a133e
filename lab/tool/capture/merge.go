package capture

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"tapir/wire/frame"
	"tapir/wire/pcapng"
	"tapir/wire/timer"
)

// Part is one of the captures that a Join reads.
type Part struct {
	Name string // for errors
	R    io.Reader
	// Ifaces are the ends, by their numbers, that the capture's interfaces show.
	Ifaces []uint32
	// Node means that it is the node's own capture, each frame at least
	// JoinPrefix octets of it; else the link's, with numbered frames.
	Node bool
}

// Read takes what parts hold, each in the order of time, and returns how many
// packets they say they have lost. A part that breaks off is read up to there.
func (j *Join) Read(parts []Part) (lost uint64, err error) {
	var waiting timer.Heap[*partReader]
	read := func(r *partReader) {
		if r.next() {
			waiting.Set(&r.turn, frame.Time(r.at))
		} else {
			lost, err = lost+r.lost, errors.Join(err, r.err)
		}
	}
	links := 0
	all := make([]*partReader, len(parts))
	for i := range parts {
		all[i] = &partReader{Part: &parts[i], r: pcapng.NewReader(parts[i].R), link: links}
		if !parts[i].Node {
			links++
		}
	}
	for _, r := range all {
		r.links, r.turn = links, timer.Entry[*partReader]{Owner: r, ID: r.order()}
		read(r)
	}
	for r, ok := waiting.Pop(frame.Never); ok; r, ok = waiting.Pop(frame.Never) {
		r.give(j)
		read(r)
	}
	return lost, err
}

// partReader holds the next packet or line of a part.
type partReader struct {
	*Part
	r           *pcapng.Reader
	turn        timer.Entry[*partReader]
	link, links int // of the links' parts, this is number link
	packet      *pcapng.Packet
	said        *pcapng.Journal
	at          int64
	lost        uint64
	last        map[uint32]uint64 // lost, by interface: statistics count from the start
	err         error
	notes       []frame.Note
}

// next reads on and reports whether there is more.
func (r *partReader) next() bool {
	for {
		b, err := r.r.Next()
		if err != nil {
			if err != io.EOF && !errors.Is(err, pcapng.ErrTruncated) {
				r.err = fmt.Errorf("%s: %w", r.Name, err)
			}
			for _, n := range r.last {
				r.lost += n
			}
			return false
		}
		switch b := b.(type) {
		case *pcapng.Packet:
			if int(b.Interface) < len(r.Ifaces) {
				r.packet, r.said, r.at = b, nil, b.Stamp
				return true
			}
		case *pcapng.Journal:
			r.packet, r.said, r.at = nil, b, b.Stamp
			return true
		case *pcapng.Statistics:
			if r.last == nil {
				r.last = map[uint32]uint64{}
			}
			r.last[b.Interface] = b.Dropped
		}
	}
}

// give hands what was read to j.
func (r *partReader) give(j *Join) {
	if r.said != nil {
		j.Say(r.said)
		return
	}
	p, from := r.packet, fromLink
	rec := frame.Record{Dir: frame.Inbound, System: frame.Stamp(p.Stamp)}
	if p.Flags.Direction() == pcapng.Outbound {
		rec.Dir = frame.Outbound
	}
	r.notes = r.notes[:0]
	for _, c := range p.Comments {
		r.notes = append(r.notes, frame.Note{Text: []byte(c), Times: 1})
	}
	id := uint64(0)
	if r.Node {
		from = fromNode
	} else if p.ID != 0 { // no two links have a number in common
		id = (p.ID-1)*uint64(r.links) + uint64(r.link) + 1
	}
	j.frame(r.Ifaces[p.Interface], &rec, p.Data, int(p.OrigLen), from, id, r.notes)
}

// isDropped tells whether a capture says that the frame was dropped.
func isDropped(r *frame.Record, notes []frame.Note) bool {
	if r.Drop != frame.DropNone {
		return true
	}
	for i := range notes {
		if strings.HasPrefix(string(notes[i].Text), dropPrefix) {
			return true
		}
	}
	return false
}

// order tells which of several parts comes first at the same time: those of the
// links, and of these the one with the lowest end.
func (r *partReader) order() (n uint64) {
	if len(r.Ifaces) > 0 {
		n = uint64(r.Ifaces[0])
	}
	if r.Node {
		n |= 1 << 32
	}
	return n
}
