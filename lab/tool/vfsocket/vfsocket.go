// Package vfsocket carries the channel between a VF and its PF over a connection, for a
// VF's driver in a process of its own. What the hardware does, it does with frames: a
// message by the trigger, and writes to the memory of the driver, which are replies and
// bulletins, in the order in which the PF makes them.
//
// A frame is its length (that of what follows, 4 octets), a kind (1 octet) and a body; all
// numbers are little-endian:
//
//	1 TRIGGER  driver to PF  a message: TLVs, at most 1024 octets
//	2 WRITE    PF to driver  address (8 octets), octets for the driver's memory there
//	3 TAKEN    PF to driver  answers each TRIGGER, behind what the PF wrote at once; its
//	                         body is empty, or why the PF does not serve the message
//	4 GONE     PF to driver  why the connection ends
package vfsocket

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Kinds of frames.
const (
	trigger = 1 + iota
	write
	taken
	gone
)

const (
	headerLen = 5
	addrLen   = 8
	// maxMessage is the longest message of a VF.
	maxMessage = 1024
	// maxFrame bounds the body of a frame.
	maxFrame = 4096
	// backlog is how many frames wait for a driver that does not read. One more ends its
	// connection.
	backlog = 1024
)

// put appends a frame.
func put(b []byte, kind byte, body ...[]byte) []byte {
	n := 1
	for _, p := range body {
		n += len(p)
	}
	b = append(binary.LittleEndian.AppendUint32(b, uint32(n)), kind)
	for _, p := range body {
		b = append(b, p...)
	}
	return b
}

// get reads a frame. Errors: those of reading, and a length that no frame has.
func get(r io.Reader) (kind byte, body []byte, err error) {
	var h [headerLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(h[:])
	if n < 1 || n > maxFrame+1 {
		return 0, nil, fmt.Errorf("a frame of %d octets: want 1 to %d", n, maxFrame+1)
	}
	body = make([]byte, n-1)
	_, err = io.ReadFull(r, body)
	return h[4], body, err
}

// PF is what a session needs of the NIC. Its calls are made by one goroutine.
type PF interface {
	// Attach gives the VF to a driver, whose memory is written by write: that must not wait.
	Attach(write func(addr uint64, b []byte) error) error
	// Deliver hands a message of the VF to the PF.
	Deliver(msg []byte) error
	// Detach resets the VF, as when the program dies that has it.
	Detach()
}

// Serve is the PF's end of a connection, of which r may have read some, until the driver
// closes it. It closes it, too. Errors: the driver breaks the protocol or does not read,
// the PF does not give it the VF, or quit is closed.
func Serve(conn net.Conn, r *bufio.Reader, pf PF, quit <-chan struct{}) error {
	s := &session{conn: conn, out: make(chan []byte, backlog), written: make(chan struct{})}
	go s.write()
	err := s.run(r, pf, quit)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil {
		s.send(put(nil, gone, []byte(err.Error())))
	}
	close(s.out)
	<-s.written
	_ = conn.Close()
	return err
}

// session is one connection.
type session struct {
	conn    net.Conn
	out     chan []byte
	written chan struct{}
}

func (s *session) run(r *bufio.Reader, pf PF, quit <-chan struct{}) error {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-quit:
			_ = s.conn.SetReadDeadline(time.Now())
		case <-done:
		}
	}()
	if err := pf.Attach(s.memory); err != nil {
		return err
	}
	defer pf.Detach()
	for {
		kind, body, err := get(r)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errors.New("the NIC is stopping")
		case err != nil:
			return err
		case kind != trigger:
			return fmt.Errorf("a frame of kind %d", kind)
		}
		var why []byte
		if err := pf.Deliver(body); err != nil {
			why = []byte(err.Error())
		}
		if !s.send(put(nil, taken, why)) {
			return errors.New("the driver does not read")
		}
	}
}

// memory writes to the driver's memory; it does not wait. IO: the driver does not read.
func (s *session) memory(addr uint64, b []byte) error {
	if !s.send(put(nil, write, binary.LittleEndian.AppendUint64(nil, addr), b)) {
		return errors.New("the VF's driver does not read")
	}
	return nil
}

func (s *session) send(frame []byte) bool {
	select {
	case s.out <- frame:
		return true
	default:
		return false
	}
}

// writeTimeout bounds how long a driver may take to read a frame.
const writeTimeout = 5 * time.Second

// write writes what is sent until out is closed.
func (s *session) write() {
	defer close(s.written)
	for frame := range s.out {
		_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := s.conn.Write(frame); err != nil {
			_ = s.conn.Close() // the reader ends, too
		}
	}
}

// Client is the driver's end. It is the channel of a fastlinq.VFDriver.
type Client struct {
	conn net.Conn
	r    *bufio.Reader
	// Memory is the driver, whose memory is written.
	Memory interface {
		Write(addr uint64, b []byte) error
	}
}

// NewClient returns the driver's end of a connection, of which r may have read some.
func NewClient(conn net.Conn, r *bufio.Reader) *Client { return &Client{conn: conn, r: r} }

// replyTimeout is how long a driver waits for the PF.
const replyTimeout = 5 * time.Second

// Send hands a message to the PF.
func (c *Client) Send(msg []byte) error {
	if len(msg) > maxMessage {
		return fmt.Errorf("a message of %d octets", len(msg))
	}
	_, lost := c.conn.Write(put(nil, trigger, msg)) // the PF may have said before why it closes
	_ = c.conn.SetReadDeadline(time.Now().Add(replyTimeout))
	for {
		switch kind, err := c.next(); {
		case err != nil && kind == 0 && lost != nil:
			return lost
		case kind == taken || err != nil:
			return err
		}
	}
}

// Wait takes what the PF writes until done.
func (c *Client) Wait(done func() bool) error {
	_ = c.conn.SetReadDeadline(time.Now().Add(replyTimeout))
	for !done() {
		if _, err := c.next(); errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.New("the PF does not answer")
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Poll takes what the PF writes within a time. Errors: the connection has ended.
func (c *Client) Poll(within time.Duration) error {
	_ = c.conn.SetReadDeadline(time.Now().Add(within))
	for {
		if _, err := c.r.Peek(headerLen); errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil {
			return err
		}
		_ = c.conn.SetReadDeadline(time.Now().Add(replyTimeout)) // the rest of it follows
		_, err := c.next()
		if err != nil || c.r.Buffered() == 0 {
			return err
		}
	}
}

// next takes a frame.
func (c *Client) next() (kind byte, err error) {
	kind, body, err := get(c.r)
	switch {
	case err != nil:
		return 0, err
	case kind == write && len(body) >= addrLen:
		_ = c.Memory.Write(binary.LittleEndian.Uint64(body), body[addrLen:]) // a wrong address harms nobody
	case kind == taken && len(body) > 0:
		return kind, fmt.Errorf("the PF does not take the message: %s", body)
	case kind == gone:
		return kind, fmt.Errorf("the PF has closed the channel: %s", body)
	}
	return kind, nil
}

// Close ends the connection: the PF resets the VF.
func (c *Client) Close() error { return c.conn.Close() }
