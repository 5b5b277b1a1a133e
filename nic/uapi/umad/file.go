package umad

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
	"tapir/wire/ib"
)

// Octets of struct ib_user_mad_hdr, with and without the index of a P_Key; of the
// shortest datagram that the kernel takes, of the longest without segmentation,
// of the longest message, and of what it gives back of one that was not answered.
const (
	headerLen    = 64
	oldHeaderLen = 56
	leastMAD     = 36
	mostMAD      = 2048 // of base version 0x80; ib.MADLen of version 1
	mostMessage  = 1 << 20
	madHeaderLen = 24
)

// Offsets in struct ib_user_mad_hdr, which begins with the agent's id.
const (
	offStatus  = 4
	offTimeout = 8 // milliseconds
	offRetries = 12
	offLength  = 16
	offQP      = 20 // big-endian
	offQKey    = 24 // big-endian
	offLID     = 28 // big-endian
	offSL      = 30
	offPKey    = 56 // of the longer header
)

// Offsets in a datagram.
const (
	offClass  = 1
	offMethod = 3
	offTID    = 8
)

// generalQKey is the Q_Key of queue pair 1.
const generalQKey = 0x80010000

// A program has at most maxUnread requests that are not answered and answers that
// it has not read; each answer takes a page of the pipe.
const (
	maxUnread = 64
	pipePage  = 4096
)

var native = binary.NativeEndian

// file is an open umad file. What the program holds is a pipe, in which answers
// come.
type file struct {
	*trap.Pipe
	link   Link
	ctx    context.Context // until the file is released
	cancel func()

	mu       sync.Mutex
	closed   bool
	header   int  // octets
	used     bool // an agent was registered
	agents   [maxAgents]*agent
	underWay []*exchange
	unread   []record
}

// exchange is a request that waits for its response, or a message that is sent in
// segments.
type exchange struct {
	agent    *agent
	tid      uint64
	record   []byte // as the program has written it
	mad      []byte // of record
	to       Address
	answer   chan answer
	answered bool // a second response is nobody's
	segments segments
}

// answer is a response, with the port that it came from.
type answer struct {
	from Address
	mad  []byte
}

// Write implements trap.Writer: one datagram. A native write to what the program
// holds, the end of a pipe that is read, fails by itself.
func (f *file) Write(c *trap.Call, addr, n uint64) trap.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < uint64(f.header+leastMAD) || n > uint64(f.header+mostMessage) {
		return trap.Fail(unix.EINVAL)
	}
	b := make([]byte, max(int(n), f.header+ib.MADLen))
	err := c.Read(addr, b[:n])
	if err == nil {
		err = f.send(b)
	}
	return trap.Result(int64(n), err)
}

// send lets the datagram in record b, which it keeps, leave. Errors: EINVAL, and
// ENOMEM for a program that does not read its answers.
func (f *file) send(b []byte) error {
	id := native.Uint32(b)
	if id >= maxAgents || f.agents[id] == nil {
		return unix.EINVAL
	}
	x := &exchange{agent: f.agents[id], record: b, mad: b[f.header:], answer: make(chan answer, 1)}
	x.to = Address{QP: binary.BigEndian.Uint32(b[offQP:]), LID: binary.BigEndian.Uint16(b[offLID:]), SL: b[offSL]}
	if f.header == headerLen {
		x.to.PKey = native.Uint16(b[offPKey:])
	}
	f.trim()
	if len(f.underWay)+len(f.unread) >= maxUnread {
		return unix.ENOMEM
	}
	if !x.fits() {
		return unix.EINVAL
	}
	if !ib.IsResponse(x.mad) {
		binary.BigEndian.PutUint32(x.mad[offTID:], x.agent.tid)
	}
	x.tid = binary.BigEndian.Uint64(x.mad[offTID:])
	f.underWay = append(f.underWay, x)
	go f.exchange(x)
	return nil
}

// fits tells whether the datagram is not too long for its base version and agent.
func (x *exchange) fits() bool {
	switch {
	case x.segmented():
		return true
	case x.mad[0] == ib.BaseVersionOPA:
		return len(x.mad) <= mostMAD
	}
	return len(x.mad) == ib.MADLen
}

// exchange waits for the response to a request, and sends again what has none, as
// often as the program wants; then the request comes back. The program does not
// wait for a response if it gives no time for one.
func (f *file) exchange(x *exchange) {
	timeout := time.Duration(native.Uint32(x.record[offTimeout:])) * time.Millisecond
	var got answer
	if x.segmented() {
		f.sendSegments(x)
		timeout = 0
	} else {
		waits := timeout > 0 && !ib.IsResponse(x.mad)
		tries := uint64(native.Uint32(x.record[offRetries:])) + 1
		for ; tries > 0 && got.mad == nil && f.ctx.Err() == nil; tries-- {
			f.link.Send(x.to, x.mad)
			if !waits {
				break
			}
			got = f.await(x, timeout)
		}
		if !waits {
			timeout = 0
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.underWay = slices.DeleteFunc(f.underWay, func(o *exchange) bool { return o == x })
	id := native.Uint32(x.record)
	if f.closed || timeout == 0 || f.agents[id] != x.agent {
		return
	}
	if got.mad == nil {
		native.PutUint32(x.record[offStatus:], uint32(unix.ETIMEDOUT))
		native.PutUint32(x.record[offLength:], uint32(f.header+madHeaderLen))
		f.put(append(x.record[:f.header:f.header], x.mad[:madHeaderLen]...))
		return
	}
	f.give(id, got.from, got.mad)
}

// await waits for the response, and longer while segments of it come.
func (f *file) await(x *exchange, timeout time.Duration) answer {
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		select {
		case a := <-x.answer:
			return a
		case <-f.ctx.Done():
			return answer{}
		case <-late.C:
			f.mu.Lock()
			more := x.segments.progress(f.segmentTime())
			f.mu.Unlock()
			if !more {
				return answer{}
			}
			late.Reset(f.segmentTime())
		}
	}
}

// give has the program read a datagram, or a message, for an agent.
func (f *file) give(id uint32, from Address, mad []byte) {
	b := make([]byte, f.header, f.header+len(mad))
	native.PutUint32(b, id)
	native.PutUint32(b[offLength:], uint32(f.header+len(mad)))
	binary.BigEndian.PutUint32(b[offQP:], from.QP)
	if from.QP != 0 {
		binary.BigEndian.PutUint32(b[offQKey:], generalQKey)
	}
	binary.BigEndian.PutUint16(b[offLID:], from.LID)
	b[offSL] = from.SL
	f.put(append(b, mad...))
}

// receive takes a datagram of the port: a response or a segment for who has asked,
// a request for an agent that wants such.
func (f *file) receive(from Address, b []byte) {
	if len(b) < leastMAD {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	tid := binary.BigEndian.Uint64(b[offTID:])
	for _, x := range f.underWay {
		if x.tid == tid && x.mad[offClass] == b[offClass] && f.answered(x, from, b) {
			return
		}
	}
	if ib.IsResponse(b) || segmented(b) {
		return // nobody waits
	}
	for id, a := range f.agents {
		if a != nil && a.wants(b) && len(f.unread) < maxUnread {
			f.give(uint32(id), from, b)
			return
		}
	}
}

// answered takes what belongs to x, and tells whether it did.
func (f *file) answered(x *exchange, from Address, b []byte) bool {
	switch {
	case x.agent.rmpp && segmented(b):
		return f.segment(x, from, b)
	case !ib.IsResponse(b):
		return false
	}
	return x.deliver(from, b)
}

// deliver hands over the response, the first alone, and tells whether it did.
func (x *exchange) deliver(from Address, mad []byte) bool {
	if x.answered {
		return false
	}
	x.answered = true
	x.answer <- answer{from, mad} // which has room for one
	return true
}

// Release implements trap.File.
func (f *file) Release() {
	f.mu.Lock()
	f.closed = true
	f.cancel()
	f.Pipe.Release()
	f.mu.Unlock()
	f.link.Close()
}
