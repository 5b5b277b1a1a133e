// Package capture is a NIC's own capture: every frame that passes one of its
// ports, written as pcapng with the NIC's clock, the direction, the packet id,
// what the layers say about the frame, and why it was dropped.
//
// A frame's way through it:
//
//  1. Trace runs on the event loop's thread. It picks the interface, collects
//     the comments and splits a super-frame into the segments it stands for.
//  2. packet encodes one block behind the waiting ones. What finds no room is
//     counted and reported in the file; the loop never waits.
//  3. drain, on a goroutine of its own, swaps the waiting blocks for an empty
//     buffer and writes them out.
package capture

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"tapir/wire/frame"
	"tapir/wire/pcapng"
	"tapir/wire/virtio"
)

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
}

// Options says what to capture. The zero value keeps whole frames of the wire,
// split into true segments.
type Options struct {
	SnapLen int    // octets kept of each frame; 0 = all
	Raw     bool   // keep super-frames and partial checksums as they passed
	Host    bool   // the host TAP too, as a second interface
	Count   uint64 // end after so many live packets; 0 = never
	Buffer  int    // octets that may wait for the writer; 0 = DefaultBuffer
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
	opt  Options
	emit func(seg []byte) // s.segment, bound once

	mu       sync.Mutex
	fill     []byte // encoded blocks that wait for drain
	spare    []byte
	ports    []port // by pcapng interface number
	live     bool   // packets count against Options.Count
	ending   bool   // no more packets; drain finishes the file
	counted  uint64
	err      error // of the writer
	comments []string

	// The record in hand while its segments are encoded.
	splitter virtio.Splitter
	pkt      pcapng.Packet
	notes    []string // one per segment, or nil
	index    int

	wake chan struct{}
	done chan struct{}
}

// port is the state of one interface of the file.
type port struct {
	Stats
	run         uint64 // lost since the last packet that was written
	first, last frame.Stamp
}

// New starts a capture of the NIC that info describes. The file's head is
// written to w at once; w belongs to the session until Done is closed.
func New(w io.Writer, info Info, opt Options) *Session {
	if opt.Buffer == 0 {
		opt.Buffer = DefaultBuffer
	}
	opt.Host = opt.Host && info.Host != ""
	s := &Session{opt: opt, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.emit = s.segment
	s.fill = appendHead(nil, info, opt)
	s.ports = make([]port, 1, 2)
	if opt.Host {
		s.ports = s.ports[:2]
	}
	go s.drain(w)
	s.signal()
	return s
}

func appendHead(b []byte, info Info, opt Options) []byte {
	sec := pcapng.Section{Hardware: info.Hardware, OS: info.OS, Application: info.Application}
	b = sec.AppendTo(b)
	wire := pcapng.Interface{
		LinkType: pcapng.LinkEthernet, SnapLen: uint32(opt.SnapLen), Name: info.Name,
		Description: fmt.Sprintf("wire TAP %s, MTU %d", info.Wire, info.MTU),
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
	return b
}

// Trace records r, borrowed. It never blocks and does not allocate while the
// writer keeps up.
func (s *Session) Trace(r *frame.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || int(r.Port) >= len(s.ports) {
		return
	}
	s.collect(r)
	s.pkt = pcapng.Packet{
		Interface: uint32(r.Port), Stamp: int64(r.Stamp), ID: r.ID, Queue: uint32(r.Queue),
		Has: pcapng.HasFlags | pcapng.HasQueue, Flags: flags(r),
	}
	if r.ID != 0 { // replayed packets have none
		s.pkt.Has |= pcapng.HasID
	}
	s.notes, s.index = nil, 0
	if s.opt.Raw || r.Offload.GSO == frame.GSONone && !r.Offload.NeedsCsum {
		s.packet(r.Data, s.comments)
	} else {
		s.split(r)
	}
	s.signal()
}

// collect fills s.comments: a line each, and the reason of a drop.
func (s *Session) collect(r *frame.Record) {
	s.comments = s.comments[:0]
	for rest, more := r.Comment, r.Comment != ""; more; {
		var line string
		line, rest, more = strings.Cut(rest, "\n")
		s.comments = append(s.comments, line)
	}
	if r.Drop != frame.DropNone {
		s.comments = append(s.comments, dropComments[min(r.Drop, frame.NumDropReasons)])
	}
}

var dropComments = func() (c [frame.NumDropReasons + 1]string) {
	for r := range c {
		c[r] = "dropped: " + frame.DropReason(r).String()
	}
	return c
}()

func flags(r *frame.Record) pcapng.Flags {
	f := pcapng.Inbound
	if r.Dir == frame.Outbound {
		f = pcapng.Outbound
	}
	if len(r.Data) < 6 {
		return f
	}
	switch {
	case [6]byte(r.Data) == [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}:
		return f | pcapng.Broadcast
	case r.Data[0]&1 != 0:
		return f | pcapng.Multicast
	}
	return f | pcapng.Unicast
}

// split writes the segments that a super-frame stands for. A comment line per
// segment goes to its segment; any other number stays with the first.
func (s *Session) split(r *frame.Record) {
	if n := segments(r); n > 1 && n == len(s.comments) {
		s.notes = s.comments
	}
	if err := s.splitter.Split(r.Offload, r.Data, s.emit); err != nil && s.index == 0 {
		s.comments = append(s.comments, "left whole: "+err.Error())
		s.packet(r.Data, s.comments)
	}
}

// segments estimates how many segments a TCP super-frame makes; it need not be
// right, only agree with the number of comments if they are one each.
func segments(r *frame.Record) int {
	tcp := int(r.Offload.CsumStart)
	if r.Offload.GSOSize == 0 || tcp+13 > len(r.Data) {
		return 1
	}
	payload := len(r.Data) - tcp - int(r.Data[tcp+12]>>4)*4
	size := int(r.Offload.GSOSize)
	return (payload + size - 1) / size
}

func (s *Session) segment(seg []byte) {
	switch {
	case s.notes != nil && s.index < len(s.notes):
		s.packet(seg, s.notes[s.index:s.index+1])
	case s.index == 0:
		s.packet(seg, s.comments)
	default:
		s.packet(seg, nil)
	}
	s.index++
}

// packet encodes one packet behind the waiting ones or counts it as lost.
func (s *Session) packet(data []byte, comments []string) {
	p := &s.ports[s.pkt.Interface]
	if s.ending {
		return
	}
	p.Seen++
	p.last = frame.Stamp(s.pkt.Stamp)
	if p.Seen == 1 {
		p.first = p.last
	}
	s.pkt.OrigLen = uint32(len(data))
	if s.opt.SnapLen > 0 && len(data) > s.opt.SnapLen {
		data = data[:s.opt.SnapLen]
	}
	s.pkt.Data, s.pkt.Comments = data, comments
	if len(s.fill)+s.pkt.Size() > s.opt.Buffer {
		p.Lost++
		p.run++
		return
	}
	s.reportLoss(p)
	s.fill = s.pkt.AppendTo(s.fill)
	s.pkt.Data, s.pkt.Comments = nil, nil
	p.Written++
	if s.live {
		s.counted++
		s.ending = s.counted == s.opt.Count
	}
}

// reportLoss says in the file what is missing before the packet in hand.
func (s *Session) reportLoss(p *port) {
	s.pkt.Has &^= pcapng.HasDropCount
	if p.run == 0 {
		return
	}
	s.pkt.Has |= pcapng.HasDropCount
	s.pkt.DropCount = p.run
	st := p.statistics(s.pkt.Interface)
	st.Comments = []string{fmt.Sprintf("%d packets are missing here: the capture's reader was too slow", p.run)}
	s.fill = st.AppendTo(s.fill)
	p.run = 0
}

func (p *port) statistics(iface uint32) pcapng.Statistics {
	return pcapng.Statistics{
		Interface: iface, Stamp: int64(p.last), Start: int64(p.first), End: int64(p.last),
		Has:      pcapng.HasStart | pcapng.HasEnd | pcapng.HasReceived | pcapng.HasDropped | pcapng.HasDelivered,
		Received: p.Seen, Dropped: p.Lost, Delivered: p.Written,
	}
}

// Live says that what was traced so far was replayed context: packets count
// against Options.Count from now on.
func (s *Session) Live() {
	s.mu.Lock()
	s.live = true
	s.mu.Unlock()
}

// Close ends the capture, waits until everything is written and returns the
// writer's error, if any. The session must no longer be a NIC's tracer, or its
// further calls are ignored.
func (s *Session) Close() error {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.signal()
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

func (s *Session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drain writes until the capture ends or w fails.
func (s *Session) drain(w io.Writer) {
	defer close(s.done)
	for range s.wake {
		for {
			b, last := s.take()
			if len(b) > 0 {
				if _, err := w.Write(b); err != nil {
					s.fail(err)
					return
				}
			}
			if last {
				return
			}
			if len(b) == 0 {
				break
			}
		}
	}
}

// take returns the waiting blocks; the last ones with the closing statistics.
func (s *Session) take() (b []byte, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		for i := range s.ports {
			st := s.ports[i].statistics(uint32(i))
			if n := s.ports[i].run; n > 0 {
				st.Comments = []string{fmt.Sprintf("%d packets are missing here: the capture's reader was too slow", n)}
			}
			s.fill = st.AppendTo(s.fill)
		}
	}
	b = s.fill
	s.fill, s.spare = s.spare[:0], b
	return b, s.ending
}

func (s *Session) fail(err error) {
	s.mu.Lock()
	s.err, s.ending = err, true
	s.mu.Unlock()
}
