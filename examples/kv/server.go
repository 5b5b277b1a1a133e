package main

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// Server keeps the table. It is a client of the access layer: it serves
// whenever its device is there, and keeps the table when it is not.
type Server struct {
	device string
	addr   netip.AddrPort
	bufs   int    // puts and answers of a connection under way at most
	table  []byte // the slots, then the buffers of two connections

	// All below belongs to the device's thread, but for what mu guards.
	port     *port // nil without the device
	listener *cm.Listener
	conns    []*serverConn
	leaving  bool

	mu    sync.Mutex
	puts  int
	fault error
}

// serverConn is one client's connection with its buffers for puts and
// answers, from base on.
type serverConn struct {
	conn
	base int
}

// NewServer makes a store for keys that listens at addr on the device called
// device. A client may have depth puts under way.
func NewServer(device string, addr netip.AddrPort, keys, depth int) *Server {
	// A put's buffer is free again when its answer has been sent, of which the
	// client may know earlier than we: hence twice as many.
	s := &Server{device: device, addr: addr, bufs: 2 * depth}
	s.table = make([]byte, keys*slotLen+2*s.room())
	return s
}

// room is what one connection's buffers take.
func (s *Server) room() int { return s.bufs * (putLen + answerLen) }

// Puts is how many values were stored; the error is the first broken rule.
func (s *Server) Puts() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts, s.fault
}

func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		s.fault = err
	}
}

func (s *Server) keys() int { return (len(s.table) - 2*s.room()) / slotLen }

// Add implements al.Client.
func (s *Server) Add(d *al.Device, _ frame.Time) {
	if d.Name() != s.device {
		return
	}
	p, err := openPort(d, s.table, verbs.LocalWrite|verbs.RemoteRead, s.fail)
	if err != nil {
		s.fail(err)
		return
	}
	s.port, s.leaving = p, false
	if s.listener, err = d.CM().Listen(s.addr, 4, s.event, nil); err != nil {
		s.fail(err)
	}
}

// Remove implements al.Client.
func (s *Server) Remove(d *al.Device, now frame.Time) {
	if d.Name() != s.device || s.port == nil {
		return
	}
	s.leaving = true
	if s.listener != nil {
		s.listener.Close()
	}
	for _, c := range s.conns {
		c.abort(now)
	}
	s.letGo()
}

// letGo gives the device back once the last connection has ended.
func (s *Server) letGo() {
	if s.leaving && len(s.conns) == 0 && s.port != nil {
		s.port.close()
		s.port = nil
	}
}

func (s *Server) event(ev cm.Event, now frame.Time) {
	if ev.ID == nil {
		return // of the listener, which goes with the device
	}
	c, _ := ev.ID.Context.(*serverConn)
	switch ev.Type {
	case cm.ConnectRequest:
		s.admit(ev.ID, now)
	case cm.PassiveComplete:
		c.up = true
	case cm.ClosedEvent:
		if c == nil { // was rejected
			s.port.ctx.Device().Defer(func(frame.Time) { _ = ev.ID.Destroy() })
			return
		}
		c.closed()
	}
}

// admit accepts a connection, with receives posted before the peer can send.
func (s *Server) admit(id *cm.ID, now frame.Time) {
	c, err := s.newConn(id)
	if err != nil {
		_ = id.Reject(nil, now)
		return
	}
	hello := binary.BigEndian.AppendUint64(nil, s.port.mr.Addr())
	hello = binary.BigEndian.AppendUint32(hello, s.port.mr.RKey())
	hello = binary.BigEndian.AppendUint32(hello, uint32(s.keys()))
	if err := id.Accept(cm.Params{QP: c.qp, PrivateData: hello}, now); err != nil {
		s.fail(err)
	}
}

func (s *Server) newConn(id *cm.ID) (*serverConn, error) {
	base := s.keys() * slotLen
	if len(s.conns) > 0 && s.conns[0].base == base {
		base += s.room()
	}
	if s.leaving || len(s.conns) == 2 {
		return nil, cm.ErrRefused
	}
	c := &serverConn{base: base}
	if err := c.open(s.port, s.bufs, func(*conn, frame.Time) { s.ended(c) }); err != nil {
		return nil, err
	}
	c.id, id.Context = id, c
	s.conns = append(s.conns, c)
	for i := range s.bufs {
		s.await(c, i)
	}
	return c, nil
}

func (s *Server) ended(c *serverConn) {
	for i := range s.conns {
		if s.conns[i] == c {
			s.conns = append(s.conns[:i], s.conns[i+1:]...)
			break
		}
	}
	s.letGo()
}

// await posts the receive for put buffer i.
func (s *Server) await(c *serverConn, i int) {
	off := c.base + i*putLen
	if err := c.recv(s.port.sge(off, putLen), func(wc *verbs.WC, _ frame.Time) {
		s.put(c, i, int(wc.ByteLen))
	}); err != nil {
		s.fail(err)
	}
}

// put stores what came in and answers.
func (s *Server) put(c *serverConn, i, n int) {
	in := s.table[c.base+i*putLen:][:putLen]
	key := int(binary.BigEndian.Uint64(in))
	if n != putLen || key >= s.keys() {
		s.fail(errTorn)
		return
	}
	slot := s.table[key*slotLen:][:slotLen]
	if version, err := checkSlot(in[8:], key); err != nil {
		s.fail(err)
		return
	} else if version >= binary.BigEndian.Uint64(slot) { // else it was sent again and overtaken
		copy(slot, in[8:])
	}
	s.mu.Lock()
	s.puts++
	s.mu.Unlock()
	off := c.base + s.bufs*putLen + i*answerLen
	copy(s.table[off:], in[:answerLen])
	err := c.send(verbs.SendWR{SGEs: s.port.sge(off, answerLen)}, func(*verbs.WC, frame.Time) { s.await(c, i) })
	if err != nil && c.up {
		s.fail(err)
	}
}
