package iscsi

import (
	"encoding/binary"
	"errors"

	"tapir/wire/crc"
)

// Event is what Reader.Next has found.
type Event uint8

// Events: of each PDU first Head, then Whole.
const (
	More  Event = iota // the octets end before anything is complete
	Head               // the header is there: Into may give the data a place
	Whole              // the PDU is complete
)

// Errors of a stream. After one the connection is of no use, because nothing tells
// where the next PDU begins.
var (
	ErrHeaderDigest = errors.New("iscsi: header digest is wrong")
	ErrTooLong      = errors.New("iscsi: data segment is longer than allowed")
)

// Reader splits a stream of octets into PDUs. It copies the data segment once, to
// where the caller wants it.
type Reader struct {
	Digests
	Max int // the longest data segment, in octets

	// BHS and AHS are the header of the present PDU, Data its data segment, when it is
	// Whole; DataBad says that its digest is wrong. The next PDU takes their place.
	BHS     BHS
	AHS     []byte
	Data    []byte
	DataBad bool

	state state
	have  int // octets of this part of the PDU
	ahs   [maxAHS]byte
	tail  [3 + digestLen]byte
	own   []byte
	sum   uint32
}

type state uint8

const (
	inHeader state = iota
	inAHS
	inHeaderDigest
	inData
	inTail
)

// Into gives the data segment of the present PDU its place, of at least as many octets.
// Without it the Reader uses memory of its own.
func (r *Reader) Into(p []byte) { r.Data = p[:r.BHS.DataLen()] }

// Next reads from p. It returns how many octets it has taken, and what it has found;
// the caller calls it with the rest until it finds More. Errors: ErrHeaderDigest,
// ErrTooLong.
func (r *Reader) Next(p []byte) (n int, ev Event, err error) {
	for {
		want := r.want()
		k := copy(want[r.have:], p[n:])
		if r.state == inData && r.Digests.Data {
			r.sum = crc.Update(r.sum, want[r.have:r.have+k])
		}
		n += k
		if r.have += k; r.have < len(want) {
			return n, More, nil
		}
		r.have = 0
		if ev, err = r.step(want); ev != More || err != nil {
			return n, ev, err
		}
	}
}

// want is the memory of the part of the PDU that is being read.
func (r *Reader) want() []byte {
	switch r.state {
	case inHeader:
		return r.BHS[:]
	case inAHS:
		return r.ahs[:int(r.BHS[4])*4]
	case inHeaderDigest:
		if r.Digests.Header {
			return r.tail[:digestLen]
		}
		return nil
	case inData:
		return r.data()
	}
	n := r.BHS.DataLen()
	if r.Digests.Data && n > 0 {
		return r.tail[:pad(n)+digestLen]
	}
	return r.tail[:pad(n)]
}

// data is where the data segment goes.
func (r *Reader) data() []byte {
	if n := r.BHS.DataLen(); r.Data == nil && n > 0 {
		if cap(r.own) < n {
			r.own = make([]byte, n)
		}
		r.Data = r.own[:n]
	}
	return r.Data
}

// step goes on to the next part behind a complete one.
func (r *Reader) step(part []byte) (Event, error) {
	switch r.state {
	case inHeader:
		if r.BHS.DataLen() > r.Max {
			return More, ErrTooLong
		}
		r.state = inAHS
	case inAHS:
		r.AHS, r.state = part, inHeaderDigest
	case inHeaderDigest:
		if len(part) > 0 && binary.LittleEndian.Uint32(part) != crc.Update(crc.CRC32C(r.BHS[:]), r.AHS) {
			return More, ErrHeaderDigest
		}
		r.state, r.Data, r.DataBad, r.sum = inData, nil, false, 0
		return Head, nil
	case inData:
		r.state = inTail
	case inTail:
		if padding := pad(r.BHS.DataLen()); len(part) > padding {
			r.sum = crc.Update(r.sum, part[:padding])
			r.DataBad = binary.LittleEndian.Uint32(part[padding:]) != r.sum
		}
		r.state = inHeader
		return Whole, nil
	}
	return More, nil
}

// Middle tells that part of a PDU has been read and that the rest is yet to come.
func (r *Reader) Middle() bool { return r.state != inHeader || r.have > 0 }
