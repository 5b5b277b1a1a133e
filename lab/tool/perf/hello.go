package perf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"tapir/lab/conf/perfconf"
)

// helloVersion is the version of the exchange below, the first octet of a hello.
const helloVersion = 2

// hello travels in the client's private data and tells the server the job. As RoCE
// leaves 56 octets for it, it is binary: numbers in the order of the fields, as
// encoding/binary's Uvarint has them, but for those of 32 and 64 random bits. Zeros may
// follow, with which RoCE fills its private data up.
type hello struct {
	Op       perfconf.Op
	Size     int
	Iters    int64
	Duration time.Duration
	QPs      int
	QP       int // which of them, from 0
	Depth    int
	Seed     uint64 // of the data that Verify moves
	Region   region
	Sizes    []int
}

// welcome is the server's answer: where the client may write and read. A
// refusal carries its reason instead.
type welcome struct {
	Region region `json:"region"`
	Refuse string `json:"refuse,omitempty"`
}

// region is a registered region as its peer sees it.
type region struct {
	STag uint32 `json:"stag"`
	Addr uint64 `json:"addr"`
	Len  uint64 `json:"len"`
}

// decode reads what encode made, which zeros may follow.
func (w *welcome) decode(b []byte) error { return json.Unmarshal(bytes.TrimRight(b, "\x00"), w) }

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of numbers and strings cannot fail
	}
	return b
}

// encode makes the private data of a hello. A size that is a power of two takes one
// octet.
func (h *hello) encode() []byte {
	be := binary.BigEndian
	b := []byte{helloVersion, byte(slices.Index(perfconf.Ops, h.Op))}
	for _, n := range []uint64{uint64(h.Size), uint64(h.Iters), uint64(h.Duration), uint64(h.QPs), uint64(h.QP),
		uint64(h.Depth)} {
		b = binary.AppendUvarint(b, n)
	}
	b = be.AppendUint64(be.AppendUint32(be.AppendUint64(b, h.Seed), h.Region.STag), h.Region.Addr)
	b = binary.AppendUvarint(binary.AppendUvarint(b, h.Region.Len), uint64(len(h.Sizes)))
	for _, size := range h.Sizes {
		n := uint64(size) << 1
		if size&(size-1) == 0 && size > 0 {
			n = uint64(bits.TrailingZeros64(uint64(size)))<<1 | 1
		}
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// errNoHello says that private data is another program's.
var errNoHello = errors.New("the private data is no hello of this test")

func decodeHello(b []byte) (h hello, err error) {
	switch {
	case len(b) < 2:
		return h, errNoHello
	case b[0] != helloVersion:
		return h, fmt.Errorf("%w: version %d, want %d", errNoHello, b[0], helloVersion)
	case int(b[1]) >= len(perfconf.Ops):
		return h, errNoHello
	}
	h.Op = perfconf.Ops[b[1]]
	r := numbers{b: b[2:]}
	h.Size, h.Iters, h.Duration = int(r.next()), int64(r.next()), time.Duration(r.next())
	h.QPs, h.QP, h.Depth = int(r.next()), int(r.next()), int(r.next())
	h.Seed, h.Region.STag, h.Region.Addr = r.fixed(8), uint32(r.fixed(4)), r.fixed(8)
	h.Region.Len = r.next()
	for left := r.next(); left > 0 && !r.bad; left-- {
		n := r.next()
		if n&1 != 0 {
			n = 2 << min(n>>1, 62)
		}
		h.Sizes = append(h.Sizes, int(n>>1))
	}
	if r.bad || len(bytes.Trim(r.b, "\x00")) > 0 {
		return h, errNoHello
	}
	j := h.job()
	if err := j.Validate(); err != nil {
		return h, err
	}
	if h.QP < 0 || h.QP >= h.QPs {
		return h, fmt.Errorf("queue pair %d of %d", h.QP, h.QPs)
	}
	return h, nil
}

// numbers takes a hello apart.
type numbers struct {
	b   []byte
	bad bool // it ended too early
}

func (r *numbers) next() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// fixed takes a number of n octets.
func (r *numbers) fixed(n int) (v uint64) {
	if len(r.b) < n {
		r.b, r.bad = nil, true
		return 0
	}
	for _, c := range r.b[:n] {
		v = v<<8 | uint64(c)
	}
	r.b = r.b[n:]
	return v
}

// job is what the hello asks for.
func (h *hello) job() perfconf.Job {
	return perfconf.Job{Op: h.Op, Size: h.Size, Iters: h.Iters, Duration: h.Duration, QPs: h.QPs, Depth: h.Depth,
		Sizes: h.Sizes}
}
