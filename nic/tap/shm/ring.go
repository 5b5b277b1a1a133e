package shm

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"unsafe"

	"tapir/nic/tap"
	"tapir/wire/frame"
	"tapir/wire/virtio"
)

// A ring is one direction: records of a header and a frame, one behind the other, in
// memory that both ends write. Whoever writes keeps its index in memory of its own, and
// believes of the other's index only what is possible.
//
//	record: length of the frame, 4 octets, native order; virtio-net header, 10; unused, 2; frame
//
// Records begin at multiples of 16. One that would cross the end of the ring begins at its
// start; the length `skip` says so.
const (
	ringSize = 1 << 20
	align    = 16
	record   = 16
	skip     = ^uint32(0)
	// longest is more than any frame: 64 KiB of IP packet behind an Ethernet header.
	longest = 64<<10 + 64

	// Where the indices of a ring lie in its control block: each on a cache line, and
	// away from the line that processors fetch along.
	tailAt  = 0
	headAt  = 128
	sleepAt = 256 // the reader sleeps: 1
	fullAt  = 384 // the writer waits for room: 1
	control = 512
)

// errBroken says that the other end has written what no end writes.
var errBroken = errors.New("shm: the other end broke the ring")

// ring is one direction as one end has it.
type ring struct {
	tail, head      *atomic.Uint64
	sleeping, stuck *atomic.Uint32
	data            []byte
	at              uint64 // the index of this end
	seen            uint64 // the other's, when it was last read
}

func (r *ring) attach(ctl, data []byte) {
	*r = ring{
		tail:     (*atomic.Uint64)(unsafe.Pointer(&ctl[tailAt])),
		head:     (*atomic.Uint64)(unsafe.Pointer(&ctl[headAt])),
		sleeping: (*atomic.Uint32)(unsafe.Pointer(&ctl[sleepAt])),
		stuck:    (*atomic.Uint32)(unsafe.Pointer(&ctl[fullAt])),
		data:     data,
	}
}

func padded(n int) uint64 { return uint64(n+align-1) &^ (align - 1) }

// put appends a record; tap.ErrAgain: there is no room.
func (r *ring) put(off frame.Offload, b []byte) error {
	size := uint64(len(r.data))
	need := padded(record + len(b))
	pos := r.at % size
	lost := uint64(0) // at the end of the ring
	if pos+need > size {
		lost = size - pos
	}
	if len(b) > longest {
		return tap.ErrRefused
	}
	if r.at+lost+need-r.seen > size {
		r.seen = r.head.Load()
		if used := r.at - r.seen; used > size {
			return errBroken
		}
		if r.at+lost+need-r.seen > size {
			return tap.ErrAgain
		}
	}
	if lost > 0 {
		binary.NativeEndian.PutUint32(r.data[pos:], skip)
		r.at, pos = r.at+lost, 0
	}
	rec := r.data[pos : pos+need]
	binary.NativeEndian.PutUint32(rec, uint32(len(b)))
	virtio.Put(rec[4:], off)
	copy(rec[record:], b)
	r.at += need
	r.tail.Store(r.at)
	return nil
}

// empty reports whether the reader has nothing to read.
func (r *ring) empty() bool {
	if r.seen == r.at {
		r.seen = r.tail.Load()
	}
	return r.seen == r.at
}

// next finds the next record: its header and the room behind it. What lies there may
// change at any time, so each octet is read once.
func (r *ring) next() (head [record]byte, body []byte, err error) {
	size := uint64(len(r.data))
	for {
		if r.empty() {
			return head, nil, tap.ErrAgain
		}
		used, pos := r.seen-r.at, r.at%size
		if used > size || used%align != 0 || used < record {
			return head, nil, errBroken
		}
		copy(head[:], r.data[pos:pos+record])
		if binary.NativeEndian.Uint32(head[:]) != skip {
			return head, r.data[pos+record : min(pos+used, size)], nil
		}
		if used < size-pos {
			return head, nil, errBroken
		}
		r.at += size - pos
	}
}

// get fills f, which is empty, with the next frame.
func (r *ring) get(f *frame.Frame) error {
	head, body, err := r.next()
	if err != nil {
		return err
	}
	n := int(binary.NativeEndian.Uint32(head[:]))
	if n > min(longest, len(body)) {
		return errBroken
	}
	off, bad := virtio.Parse(head[4 : 4+virtio.HeaderLen])
	switch {
	case bad != nil || n == 0 || off.NeedsCsum && int(off.CsumStart)+int(off.CsumOffset)+2 > n:
		err = tap.ErrRefused
	case n > f.Tailroom():
		err = tap.ErrOversize
	default:
		f.Append(body[:n])
		f.Offload = off
	}
	r.at += padded(record + n)
	r.head.Store(r.at)
	return err
}
