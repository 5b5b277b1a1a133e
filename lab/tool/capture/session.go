// Package capture is a NIC's own capture: every frame that passes one of its
// ports, written as pcapng with the system's time, and on request the NIC's
// clock, the direction, the packet id,
// what the layers say about the frame, and why it was dropped.
//
// A frame's way through it:
//
//  1. Trace runs on the event loop's thread. It picks the interface and splits
//     a super-frame into the segments it stands for.
//  2. begin and end put one block behind the waiting ones: of the frame only
//     what is kept is touched. What finds no room is counted and reported in
//     the file; the loop never waits.
//  3. drain (writer.go), on a goroutine of its own, writes the waiting blocks,
//     many at a time.
package capture

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"sync"

	"tapir/nic/msglog"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
	"tapir/wire/virtio"
)

// DefaultBulk is Options.Bulk for captures of which nothing else was asked: an
// FPDU's headers and the beginning of its data.
const DefaultBulk = 32

// bulkRun is the most FPDUs in a row that are no bulk.
const bulkRun = 8

// DefaultBuffer is the number of octets that may wait for the writer. The
// memory is taken only while they do.
const DefaultBuffer = 32 << 20

// Info is what the file says about the NIC.
type Info struct {
	Application string  `json:"application"` // "tapir v1.2"
	Hardware    string  `json:"hardware,omitempty"`
	OS          string  `json:"os,omitempty"`
	Name        string  `json:"name"` // of the NIC
	MAC         [6]byte `json:"mac"`
	MTU         int     `json:"mtu"`
	Speed       uint64  `json:"speed"`            // bits per second; 0 = unknown
	Wire        string  `json:"wire"`             // name of the wire TAP
	Host        string  `json:"host,omitempty"`   // name of the host TAP; empty = none
	Frames      string  `json:"frames,omitempty"` // frame mode
	// About describes an interface that is no NIC's.
	About string `json:"about,omitempty"`
}

// Options says what to capture. The zero value keeps whole frames of the wire,
// split into true segments.
type Options struct {
	SnapLen int // octets kept of each frame; 0 = all
	// Bulk is how many octets are kept behind the TCP header of the segments
	// amid a long message: of more than bulkRun FPDUs in a row in a super-frame
	// about which there is only one thing to say. The first and the last FPDU
	// of the message stay whole. 0 = all.
	Bulk int
	// Compact keeps the segments that Bulk cuts, but for the first of a kind, in
	// a Repeat block, for an Expander to write them out later: a fifth of the
	// octets are left to be written meanwhile.
	Compact bool
	Raw     bool // keep super-frames and partial checksums as they passed
	Number  bool // the segments of a super-frame have numbers of their own, from its ID on; not Compact
	Host    bool // the host TAP too, as a second interface
	// the wire's packets once more, with the stamps of the hardware clock, on an interface of their own; not Compact
	PHC bool
	// Log are the topics of the NIC's log whose lines are written between the
	// packets: see Line.
	Log    msglog.Topic
	Count  uint64 // end after so many live packets; 0 = never
	Buffer int    // octets that may wait for the writer; 0 = DefaultBuffer
}

// Stats counts packets: those that passed, were handed to the writer, and were
// lost because the writer was too slow.
type Stats struct {
	Seen    uint64 `json:"seen"`
	Written uint64 `json:"written"`
	Lost    uint64 `json:"lost"`
}

// Session is one running capture. It implements frame.Tracer.
type Session struct {
	opt Options

	mu      sync.Mutex
	out     queue  // encoded blocks that wait for the writer
	ports   []port // by pcapng interface number
	phc     uint32 // that of the hardware clock's stamps; 0: none
	live    bool   // packets count against Options.Count
	ending  bool   // no more packets; drain finishes the file
	counted uint64
	err     error // of the writer

	// The record in hand while its segments are encoded.
	splitter virtio.Splitter
	inHand

	name  string // of the NIC
	lines uint64 // lost

	said [2][]byte // the last note about a segment, by direction

	done chan struct{}
}

// port is the state of one interface of the file.
type port struct {
	Stats
	run         uint64 // lost since the last packet that was written
	first, last frame.Stamp
}

// New starts a capture of the NIC that info describes. The file's head is
// written to w with the first packet, or when Live or Close is called; w belongs
// to the session until Done is closed.
func New(w io.Writer, info Info, opt Options) *Session {
	if opt.Buffer == 0 {
		opt.Buffer = DefaultBuffer
	}
	opt.Host = opt.Host && info.Host != ""
	opt.Compact = opt.Compact && !opt.PHC && !opt.Number
	s := &Session{opt: opt, name: info.Name, out: newQueue(opt.Buffer), done: make(chan struct{})}
	s.out.fill = appendHead(nil, info, opt)
	s.ports = make([]port, 1, 2)
	if opt.Host {
		s.ports = s.ports[:2]
	}
	if opt.PHC {
		s.phc = uint32(len(s.ports))
		s.ports = append(s.ports, port{})
	}
	go s.drain(w)
	return s
}

func appendHead(b []byte, info Info, opt Options) []byte {
	sec := pcapng.Section{Hardware: info.Hardware, OS: info.OS, Application: info.Application}
	b = sec.AppendTo(b)
	wire := pcapng.Interface{
		LinkType: pcapng.LinkEthernet, SnapLen: uint32(opt.SnapLen), Name: info.Name,
		Description: cmp.Or(info.About, fmt.Sprintf("wire TAP %s, MTU %d", info.Wire, info.MTU)),
		MAC:         info.MAC, Speed: info.Speed, OS: info.Application, Hardware: info.Hardware,
	}
	if info.Frames != "" {
		wire.Comments = append(wire.Comments, "frames: "+info.Frames)
	}
	if opt.Raw {
		wire.Comments = append(wire.Comments, "raw: super-frames and partial checksums as they passed the TAP")
	}
	b = wire.AppendTo(b)
	if opt.Host {
		host := wire
		host.Name = info.Name + "-host"
		host.Description = fmt.Sprintf("host TAP %s, MTU %d", info.Host, info.MTU)
		b = host.AppendTo(b)
	}
	if opt.PHC {
		phc := wire
		phc.Name = info.Name + "/phc"
		phc.Description = "the packets of " + info.Name + " with the stamps of its hardware clock"
		b = phc.AppendTo(b)
	}
	return b
}

// Trace records r, borrowed. It never blocks and does not allocate while the
// writer keeps up.
func (s *Session) Trace(r *frame.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || r.Port == frame.Host && !s.opt.Host {
		return
	}
	s.trace(r, uint32(r.Port), systemTime(r))
	if s.opt.PHC && r.Port == frame.Wire {
		s.trace(r, s.phc, r.Stamp)
	}
	if s.ending {
		s.out.flush()
	} else {
		s.out.signal()
	}
}

// trace writes r as packets of an interface.
func (s *Session) trace(r *frame.Record, iface uint32, at frame.Stamp) {
	s.take(iface, r)
	s.pkt.Stamp, s.pkt.Queue = int64(at), uint32(r.Queue)
	if r.Queue != 0 {
		s.pkt.Has |= pcapng.HasQueue
	}
	switch {
	case s.opt.Raw || !r.Offload.NeedsCsum && r.Offload.GSO == frame.GSONone:
		s.packet(r.Data, r.Notes)
	case r.Offload.GSO != frame.GSONone:
		s.split(r)
	case s.kept(len(r.Data)) < len(r.Data):
		s.packet(r.Data, r.Notes) // the checksum of what is cut stays partial
	default:
		s.complete(r)
	}
}

// kept is how many octets are kept of a packet of n.
func (s *Session) kept(n int) int {
	if s.opt.SnapLen > 0 {
		return min(n, s.opt.SnapLen)
	}
	return n
}

// split writes the segments that a super-frame stands for. Notes that hold for
// as many FPDUs as there are segments go to theirs; any others stay with the
// first.
func (s *Session) split(r *frame.Record) {
	n, err := s.splitter.Begin(r.Offload, r.Data)
	if err != nil {
		s.leave(r, err)
		return
	}
	notes, said := r.Notes, 0
	for _, note := range notes {
		said += note.Times
	}
	if n == 1 || said != n {
		for i := range n {
			s.segment(i, s.kept(s.splitter.Len(i)), notes)
			notes = nil
		}
	} else {
		i, said := 0, &s.said[min(r.Dir, 1)]
		for k := range notes {
			s.run(i, notes[k].Times, notes[k:k+1], !bytes.Equal(*said, notes[k].Text))
			*said = append((*said)[:0], notes[k].Text...)
			i += notes[k].Times
		}
	}
	s.splitter.End()
}

// run writes segments i to i+n-1, of which note speaks. fresh means that it says
// something else than the note before.
func (s *Session) run(i, n int, note []frame.Note, fresh bool) {
	sh, most := s.splitter.Shape(), math.MaxInt
	bulk := s.opt.Bulk > 0 && n > bulkRun
	if bulk {
		most = sh.Payload + s.opt.Bulk
	}
	end := i + n
	if bulk && fresh {
		s.segment(i, s.kept(s.splitter.Len(i)), note)
		i++
	}
	for i < end {
		whole := s.splitter.Len(i)
		s.segment(i, min(s.kept(whole), most), note)
		i++
		like := end - i
		if like > 0 && s.splitter.Len(end-1) != whole {
			like-- // the last of a super-frame may be shorter
		}
		i += s.again(&sh, i, like, bulk && s.opt.Compact)
	}
}

func (s *Session) segment(i, kept int, notes []frame.Note) {
	if data := s.begin(s.splitter.Len(i), kept, notes); data != nil {
		s.splitter.Put(data, i)
		s.end(notes)
	}
	if s.opt.Number {
		s.pkt.ID++
	}
}

// again writes n segments from i on like the one before them, from which only
// their octets differ: a super-frame is mostly made of such. It returns how
// many it has written; those that it leaves are for segment.
func (s *Session) again(sh *virtio.Shape, i, n int, compact bool) int {
	p := &s.ports[s.pkt.Interface]
	if s.live && s.opt.Count > 0 {
		n = int(min(uint64(n), s.opt.Count-s.counted))
	}
	if n == 0 || s.opt.Number || p.run > 0 || s.ending || s.pkt.Has&pcapng.HasDropCount != 0 {
		return 0 // the segment before is not the last block, or unlike
	}
	like := s.out.fill[s.start:]
	kept := len(pcapng.Kept(like))
	cut := kept > sh.Payload && kept < int(s.pkt.OrigLen)
	size := n * len(like)
	if compact = compact && cut; compact {
		size = repeatSize(n, kept-sh.Payload)
	}
	if !s.out.reserve(size) {
		return 0
	}
	if compact {
		s.out.fill = appendRepeat(s.out.fill, &repeat{*sh, n, kept - sh.Payload, s.splitter.Flags(i),
			s.splitter.Flags(i + n - 1)}, s.splitter.Payload(i))
	} else {
		s.copies(like, sh, i, n, cut)
	}
	p.Seen += uint64(n)
	s.wrote(p, n)
	return n
}

// copies appends n copies of a block with the octets of the segments from i on.
func (s *Session) copies(block []byte, sh *virtio.Shape, i, n int, cut bool) {
	b := s.out.fill
	for k := range n {
		s.start = len(b)
		b = append(b, block...)
		if data := pcapng.Kept(b[s.start:]); cut {
			sh.Step(data, k+1, s.splitter.Flags(i+k))
			copy(data[sh.Payload:], s.splitter.Payload(i+k))
		} else {
			s.splitter.Put(data, i+k)
		}
	}
	s.out.fill = b
}

// complete finishes the partial checksum of a true frame.
func (s *Session) complete(r *frame.Record) {
	if err := s.splitter.Split(r.Offload, r.Data, func(seg []byte) { s.packet(seg, r.Notes) }); err != nil {
		s.leave(r, err)
	}
}

// leave writes a frame as it is whose offload cannot be done.
func (s *Session) leave(r *frame.Record, err error) {
	s.leftWhole(err)
	s.packet(r.Data, r.Notes)
}

// packet writes one packet.
func (s *Session) packet(data []byte, notes []frame.Note) {
	if kept := s.begin(len(data), s.kept(len(data)), notes); kept != nil {
		copy(kept, data)
		s.end(notes)
	}
}

// begin opens the block of a packet of n octets and returns the place of those
// that are kept; nil if it finds no room and is counted as lost.
func (s *Session) begin(n, kept int, notes []frame.Note) (data []byte) {
	second := s.phc != 0 && s.pkt.Interface == s.phc // of a packet that was written
	if s.ending && !second {
		return nil
	}
	p := &s.ports[s.pkt.Interface]
	p.Seen++
	p.last = frame.Stamp(s.pkt.Stamp)
	if p.Seen == 1 {
		p.first = p.last
	}
	size := pcapng.PacketSize(kept) + pcapng.CommentSize(len(s.extra))
	for _, note := range notes {
		size += pcapng.CommentSize(len(note.Text) + timesLen)
	}
	if !s.out.reserve(size) {
		p.Lost++
		p.run++
		return nil
	}
	if p.run > 0 {
		s.reportLoss(p)
	} else {
		s.pkt.Has &^= pcapng.HasDropCount
	}
	s.pkt.OrigLen = uint32(n)
	s.start = len(s.out.fill)
	s.out.fill, data = s.pkt.AppendHead(s.out.fill, kept)
	return data
}

// timesLen is how much longer a note gets that holds several times.
const timesLen = len(" (9223372036854775807 times)")

// end closes the block that begin has opened. Notes say how often they hold
// where the super-frame is written whole.
func (s *Session) end(notes []frame.Note) {
	s.out.fill = s.tail(s.out.fill, notes, s.opt.Raw)
	s.wrote(&s.ports[s.pkt.Interface], 1)
}

// wrote counts packets that are on their way to the writer.
func (s *Session) wrote(p *port, n int) {
	p.Written += uint64(n)
	if s.live && (s.phc == 0 || s.pkt.Interface != s.phc) {
		s.counted += uint64(n)
		s.ending = s.counted == s.opt.Count
	}
}

// reportLoss says in the file what is missing before the packet in hand.
func (s *Session) reportLoss(p *port) {
	s.pkt.Has |= pcapng.HasDropCount
	s.pkt.DropCount = p.run
	s.out.fill = p.lossStatistics(s.pkt.Interface, s.out.fill)
	p.run = 0
}

// lossStatistics appends the interface's statistics, with a comment on what
// was lost last, and others.
func (p *port) lossStatistics(iface uint32, b []byte, more ...string) []byte {
	st := p.statistics(iface)
	st.Comments = more
	if p.run > 0 {
		st.Comments = append(st.Comments, fmt.Sprintf("%d packets are missing here: the capture's reader was too slow",
			p.run))
	}
	return st.AppendTo(b)
}

func (p *port) statistics(iface uint32) pcapng.Statistics {
	return pcapng.Statistics{
		Interface: iface, Stamp: int64(p.last), Start: int64(p.first), End: int64(p.last),
		Has:      pcapng.HasStart | pcapng.HasEnd | pcapng.HasReceived | pcapng.HasDropped | pcapng.HasDelivered,
		Received: p.Seen, Dropped: p.Lost, Delivered: p.Written,
	}
}

// Live says that what was traced so far was replayed context: packets count
// against Options.Count from now on. It is called where no packet can pass
// before the session is the NIC's tracer: whoever reads the file's head may rely
// on being shown all that it does next.
func (s *Session) Live() {
	s.mu.Lock()
	s.live = true
	s.out.signal()
	s.mu.Unlock()
}

// Close ends the capture, waits until everything is written and returns the
// writer's error, if any. The session must no longer be a NIC's tracer, or its
// further calls are ignored.
func (s *Session) Close() error {
	s.mu.Lock()
	s.ending = true
	s.out.flush()
	s.mu.Unlock()
	<-s.done
	return s.err
}

// Done is closed when the file is complete: after Close, when Options.Count is
// reached, or when the writer failed.
func (s *Session) Done() <-chan struct{} { return s.done }

// Stats returns the counts over all interfaces.
func (s *Session) Stats() (sum Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.ports {
		p := &s.ports[i]
		sum.Seen += p.Seen
		sum.Written += p.Written
		sum.Lost += p.Lost
	}
	return sum
}
