package capture

import (
	"fmt"
	"io"

	"tapir/wire/frame"
	"tapir/wire/pcapng"
	"tapir/wire/virtio"
)

// Lab writes what passes the links of a lab as one pcapng file: an interface
// for each link end, the frames of all links in the order in which it is given
// them, and between them what the nodes say. It has no clock and no goroutine,
// and the same calls give the same octets; memory is bounded. It belongs to one
// goroutine.
type Lab struct {
	w     io.Writer
	buf   []byte
	err   error // of the writer
	ends  []port
	split virtio.Splitter
	inHand
}

// End is one end of a link.
type End struct {
	Link, Node string
	Far        string // the node at the other end
	MTU        int
	MAC        [6]byte // of the node's port; zero if it has none
	Speed      uint64  // bits per second; 0 = unknown
}

// Name is that of the end's interface in the file.
func (e *End) Name() string { return e.Link + ":" + e.Node }

// labChunk is what is written at once.
const labChunk = 64 << 10

// LabApplication is what the file of a Lab says wrote it.
const LabApplication = "tapir lab"

// NewLab begins the file on w.
func NewLab(w io.Writer) *Lab {
	l := &Lab{w: w, buf: make([]byte, 0, 2*labChunk)}
	l.block(&pcapng.Section{Application: LabApplication})
	return l
}

// Add describes a link end and returns the number of its interface.
func (l *Lab) Add(e End) (iface uint32) {
	l.block(&pcapng.Interface{
		LinkType: pcapng.LinkEthernet, Name: e.Name(), MAC: e.MAC, Speed: e.Speed,
		Description: fmt.Sprintf("node %s on link %s to %s, MTU %d; outbound is from %s", e.Node, e.Link, e.Far, e.MTU,
			e.Node),
	})
	l.ends = append(l.ends, port{})
	return uint32(len(l.ends) - 1)
}

// Packet writes a frame that passes the end of that number: Outbound from its
// node to the link, Inbound the other way. Its time is r.System, or r.Stamp if
// that is 0. The true segments of a super-frame are numbered from r.ID on; the
// same numbers at the other end of the link stand for the same frames, 0 for
// none. What r.Notes and r.Drop say become comments. Queue and Port are not
// looked at.
func (l *Lab) Packet(iface uint32, r *frame.Record) {
	l.take(iface, r)
	if err := l.segments(r); err != nil {
		l.leftWhole(err)
		l.packet(r.Data, r.Notes)
	}
}

// frame writes a true frame of which a capture kept r.Data of whole octets.
func (l *Lab) frame(iface uint32, r *frame.Record, whole int) {
	l.take(iface, r)
	copy(l.open(whole, len(r.Data)), r.Data)
	l.shut(r.Notes)
}

// segments writes the true frames that r stands for. Notes that hold for as
// many FPDUs as there are segments go to theirs; any others stay with the
// first.
func (l *Lab) segments(r *frame.Record) error {
	if r.Offload.GSO == frame.GSONone {
		if !r.Offload.NeedsCsum {
			l.packet(r.Data, r.Notes)
			return nil
		}
		return l.split.Split(r.Offload, r.Data, func(seg []byte) { l.packet(seg, r.Notes) })
	}
	n, err := l.split.Begin(r.Offload, r.Data)
	if err != nil {
		return err
	}
	defer l.split.End()
	notes := eachOf(r.Notes, n)
	for i := range n {
		l.split.Put(l.open(l.split.Len(i), l.split.Len(i)), i)
		l.shut(notes.next())
	}
	return nil
}

// Event writes what a node says.
func (l *Lab) Event(e *pcapng.Journal) {
	l.buf = e.AppendTo(l.buf)
	l.pour(labChunk)
}

func (l *Lab) packet(data []byte, notes []frame.Note) {
	copy(l.open(len(data), len(data)), data)
	l.shut(notes)
}

// open begins a packet of so many octets on the wire and returns the place of
// those that are kept.
func (l *Lab) open(whole, kept int) (data []byte) {
	l.pkt.OrigLen, l.start = uint32(whole), len(l.buf)
	l.buf, data = l.pkt.AppendHead(l.buf, kept)
	return data
}

// shut ends the packet that open has begun.
func (l *Lab) shut(notes []frame.Note) {
	l.buf = l.tail(l.buf, notes, false)
	if l.pkt.ID != 0 {
		l.pkt.ID++
	}
	p := &l.ends[l.pkt.Interface]
	p.last = frame.Stamp(l.pkt.Stamp)
	if p.Written == 0 {
		p.first = p.last
	}
	p.Seen++
	p.Written++
	l.pour(labChunk)
}

func (l *Lab) block(b pcapng.Block) {
	l.buf = b.AppendTo(l.buf)
	l.pour(labChunk)
}

// pour writes what is there if it is at least so much.
func (l *Lab) pour(least int) {
	if len(l.buf) < least {
		return
	}
	if l.err == nil {
		_, l.err = l.w.Write(l.buf)
	}
	l.buf = l.buf[:0]
}

// Flush writes what waits, so that a reader may follow.
func (l *Lab) Flush() error {
	l.pour(0)
	return l.err
}

// Close ends the file with statistics of each end, and returns the writer's
// error, if there was one.
func (l *Lab) Close() error {
	for i := range l.ends {
		st := l.ends[i].statistics(uint32(i))
		l.block(&st)
	}
	return l.Flush()
}
