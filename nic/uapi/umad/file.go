package umad

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// Octets of struct ib_user_mad_hdr, with and without the index of a P_Key; of the
// shortest datagram that the kernel takes, of the longest without segmentation,
// and of what it gives back of one that was not answered.
const (
	headerLen    = 64
	oldHeaderLen = 56
	leastMAD     = 36
	mostMAD      = 256
	madHeaderLen = 24
)

// Offsets in struct ib_user_mad_hdr, which begins with the agent's id.
const (
	offStatus  = 4
	offTimeout = 8 // milliseconds
	offRetries = 12
	offLength  = 16
	offQP      = 20 // big-endian
	offLID     = 28 // big-endian
	offSL      = 30
)

// Offsets in a datagram, and the bit of a method that responds.
const (
	offMethod   = 3
	offTID      = 8
	responseBit = 0x80
)

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
	port   *Port
	ctx    context.Context // until the file is released
	cancel func()

	mu        sync.Mutex
	closed    bool
	header    int  // octets
	used      bool // an agent was registered
	agents    [maxAgents]*agent
	underWay  int // requests
	delivered int // answers that may not have been read
}

// Write implements trap.Writer: one datagram. A native write to what the program
// holds, the end of a pipe that is read, fails by itself.
func (f *file) Write(c *trap.Call, addr, n uint64) trap.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < uint64(f.header+leastMAD) || n > uint64(f.header+mostMAD) {
		return trap.Fail(unix.EINVAL)
	}
	b := make([]byte, f.header+mostMAD)
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
	a, mad := f.agents[id], b[f.header:]
	to := Address{QP: binary.BigEndian.Uint32(b[offQP:]), LID: binary.BigEndian.Uint16(b[offLID:]), SL: b[offSL]}
	_, w := f.Descriptor()
	if waiting, err := unix.IoctlGetInt(w, unix.TIOCINQ); err == nil && waiting == 0 {
		f.delivered = 0
	}
	if f.underWay+f.delivered >= maxUnread {
		return unix.ENOMEM
	}
	if mad[offMethod]&responseBit == 0 {
		binary.BigEndian.PutUint32(mad[offTID:], a.tid)
	}
	f.underWay++
	go f.exchange(a, b, mad, to)
	return nil
}

// exchange waits for the response to the datagram in record b, and sends again
// what has none, as often as the program wants; then the request comes back. The
// program does not wait for a response if it gives no time for one.
func (f *file) exchange(a *agent, b, mad []byte, to Address) {
	timeout := time.Duration(native.Uint32(b[offTimeout:])) * time.Millisecond
	var answer []byte
	for tries := uint64(native.Uint32(b[offRetries:])) + 1; tries > 0 && answer == nil && f.ctx.Err() == nil; tries-- {
		ctx, cancel := context.WithTimeout(f.ctx, max(timeout, time.Second/10))
		answer = f.port.Exchange(ctx, to, mad)
		if timeout == 0 {
			tries = 1
		} else if answer == nil {
			<-ctx.Done()
		}
		cancel()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.underWay--
	id := native.Uint32(b)
	if f.closed || timeout == 0 || f.agents[id] != a {
		return
	}
	if answer == nil {
		native.PutUint32(b[offStatus:], uint32(unix.ETIMEDOUT))
		answer = mad[:madHeaderLen]
	} else {
		clear(b[offStatus:offQP])
	}
	native.PutUint32(b[offLength:], uint32(f.header+len(answer)))
	if f.Put(append(b[:f.header:f.header], answer...)) == nil { // there is room
		f.delivered++
	}
}

// Release implements trap.File.
func (f *file) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.cancel()
	f.Pipe.Release()
}
