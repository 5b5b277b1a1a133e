package mpa

import "encoding/binary"

// Consumer takes the ULPDUs of a connection in order.
type Consumer interface {
	// ULPDU borrows b. An error ends the stream: the Receiver returns it from
	// then on.
	ULPDU(b []byte) error
}

// Buffers lends the memory in which FPDUs are put together again. Get returns
// at least size octets, Put takes them back.
type Buffers interface {
	Get(size int) []byte
	Put([]byte)
}

// heapBuffers is the Buffers of a Receiver that was given none.
type heapBuffers struct{}

func (heapBuffers) Get(size int) []byte { return make([]byte, size) }
func (heapBuffers) Put([]byte)          {}

// Receiver finds the FPDUs of one direction of a connection in its byte
// stream, however that was split. An FPDU that lies whole in the input and
// has no marker inside is handed on without being copied; others are put
// together in memory that is held only while it is in use, at most
// MaxFPDULen octets at a time.
type Receiver struct {
	layout  Layout
	buffers Buffers
	pos     uint64 // of the FPDU that begins or is under way
	err     error

	// A split FPDU waits in head until its length is known, then in buf.
	head [MarkerLen + LengthLen]byte
	buf  []byte
	have int // octets of it so far
	size int // its length, once known
}

// NewReceiver returns a receiver at the start of full operation. buffers may
// be nil: the heap is used then.
func NewReceiver(l Layout, buffers Buffers) *Receiver {
	if buffers == nil {
		buffers = heapBuffers{}
	}
	return &Receiver{layout: l, buffers: buffers}
}

// Err is the error that ended the stream, or nil.
func (r *Receiver) Err() error { return r.err }

// Pos is the position in the full operation stream of the FPDU that comes
// next or is under way.
func (r *Receiver) Pos() uint64 { return r.pos }

// Partial is the number of octets of an unfinished FPDU that wait for the
// rest. The peer's FIN is orderly only when it is 0.
func (r *Receiver) Partial() int { return r.have }

// Reset releases the memory in use and ends the stream with err.
func (r *Receiver) Reset(err error) {
	r.release()
	r.err = err
}

// Receive borrows the next octets of the stream and hands every ULPDU that
// they complete to c, CRC and markers checked first. Its error is sticky: an
// *Error with code CRC or Marker, or what c returned.
func (r *Receiver) Receive(data []byte, c Consumer) error {
	for len(data) > 0 && r.err == nil {
		if r.have > 0 {
			data = r.gather(data, c)
			continue
		}
		if !r.layout.Markers {
			if data = r.whole(data, c); len(data) == 0 || r.err != nil {
				break
			}
		}
		size := r.layout.size(data, r.pos)
		if size == 0 || size > len(data) {
			data = r.begin(data, size)
			continue
		}
		r.deliver(data[:size], nil, c)
		data = data[size:]
	}
	if r.err != nil {
		r.release()
	}
	return r.err
}

// whole hands on the FPDUs that lie whole in data, those of a stream without
// markers, and returns what follows them.
func (r *Receiver) whole(data []byte, c Consumer) []byte {
	for len(data) >= LengthLen && r.err == nil {
		n := int(binary.BigEndian.Uint16(data))
		size := body(n)
		if size > len(data) {
			break
		}
		if !r.layout.sound(data[:size]) {
			r.err = &Error{Code: CRC, Pos: r.pos}
			break
		}
		r.pos += uint64(size)
		r.err = c.ULPDU(data[LengthLen : LengthLen+n : LengthLen+n])
		data = data[size:]
	}
	return data
}

// Skip passes n octets, whole FPDUs that the caller has found and checked
// itself. An FPDU under way at their place means that they were none: the
// error, with code Marker, is sticky (RFC 5044 section 8, code 3).
func (r *Receiver) Skip(n int) error {
	if r.err == nil && r.have > 0 {
		r.err = &Error{Code: Marker, Detail: "no FPDU begins where one was taken for", Pos: r.pos}
		r.release()
	}
	if r.err == nil {
		r.pos += uint64(n)
	}
	return r.err
}

// begin keeps data, the beginning of an FPDU of the given length (0 if not
// known yet) that continues in later input.
func (r *Receiver) begin(data []byte, size int) []byte {
	r.have = len(data)
	if size == 0 {
		copy(r.head[:], data)
		return nil
	}
	r.size = size
	r.buf = r.buffers.Get(size)
	copy(r.buf, data)
	return nil
}

// gather adds data to the FPDU under way and returns what is left.
func (r *Receiver) gather(data []byte, c Consumer) []byte {
	if r.size == 0 {
		n := copy(r.head[r.have:r.layout.lead(r.pos)+LengthLen], data)
		r.have += n
		if r.size = r.layout.size(r.head[:r.have], r.pos); r.size > 0 {
			r.buf = r.buffers.Get(r.size)
			copy(r.buf, r.head[:r.have])
		}
		return data[n:]
	}
	n := copy(r.buf[r.have:r.size], data)
	r.have += n
	if r.have == r.size {
		r.deliver(r.buf[:r.size], r.buf, c)
		r.release()
	}
	return data[n:]
}

// deliver hands on the ULPDU of the whole FPDU b. scratch is where it may be
// gathered from between its markers; nil takes a buffer if that is needed.
func (r *Receiver) deliver(b, scratch []byte, c Consumer) {
	if r.err = r.layout.check(b, r.pos); r.err != nil {
		return
	}
	var lent []byte
	if scratch == nil && r.layout.divided(b, r.pos) {
		lent = r.buffers.Get(len(b))
		scratch = lent
	}
	u := r.layout.ulpdu(b, r.pos, scratch)
	r.pos += uint64(len(b))
	r.err = c.ULPDU(u)
	if lent != nil {
		r.buffers.Put(lent)
	}
}

// release gives the memory back that held an FPDU under way.
func (r *Receiver) release() {
	if r.buf != nil {
		r.buffers.Put(r.buf)
	}
	r.buf, r.have, r.size = nil, 0, 0
}
