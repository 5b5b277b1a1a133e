package mpa

import (
	"encoding/binary"

	"tapir/wire/crc"
)

const (
	// MarkerInterval is the distance between the first octets of two markers.
	MarkerInterval = 512
	// MarkerLen is the length of a marker.
	MarkerLen = 4
	// MaxULPDU is the longest ULPDU that ULPDU_Length can express.
	MaxULPDU = 65535
	// MinMULPDU and MaxMULPDU bound MULPDU, and with it what may be sent (RFC
	// 5044 sections 3 and 4.5).
	MinMULPDU = 128
	MaxMULPDU = 64768
	// MaxFPDULen bounds the length of an FPDU with all its markers.
	MaxFPDULen = (2+MaxULPDU+3)&^3 + crcLen + MarkerLen*(1+(MaxULPDU+9)/bodyPerMarker)

	// Overhead is what an FPDU adds to a ULPDU besides pad and markers.
	Overhead = LengthLen + crcLen
	// LengthLen is the length of ULPDU_Length, with which an FPDU begins.
	LengthLen = 2

	crcLen        = 4
	bodyPerMarker = MarkerInterval - MarkerLen
)

// Layout is how one direction of a connection frames its ULPDUs.
type Layout struct {
	CRC     bool // generate and check CRC32C; else the field is sent as zero and not read
	Markers bool // insert a marker every 512 octets
}

// body is the length of an FPDU without its markers.
func body(ulpdu int) int { return (LengthLen+ulpdu+3)&^3 + crcLen }

// untilMarker is the distance from pos to the next marker's first octet.
func untilMarker(pos uint64) int {
	return int(-pos % MarkerInterval)
}

// markers counts the markers of an FPDU of n octets without them that starts
// at pos. One that falls between two FPDUs belongs to the second.
func (l Layout) markers(pos uint64, n int) int {
	d := untilMarker(pos)
	if !l.Markers || n <= d {
		return 0
	}
	return 1 + (n-d-1)/bodyPerMarker
}

// MarkersIn counts the markers that begin from position from up to, but not
// at, position to of the full operation stream.
func MarkersIn(from, to uint64) uint64 {
	return (to+MarkerInterval-1)/MarkerInterval - (from+MarkerInterval-1)/MarkerInterval
}

// lead is the length of the marker in front of the FPDU at pos: 4 or 0.
func (l Layout) lead(pos uint64) int {
	if l.Markers && pos%MarkerInterval == 0 {
		return MarkerLen
	}
	return 0
}

// FPDULen is the length of the FPDU that carries a ULPDU of the given length
// and starts at position pos of the full operation stream: length field,
// ULPDU, pad, CRC and the markers that fall into it, one in front included.
func (l Layout) FPDULen(pos uint64, ulpdu int) int {
	n := body(ulpdu)
	return n + MarkerLen*l.markers(pos, n)
}

// MULPDU is the length of the longest ULPDU to send in a TCP segment of emss
// octets: RFC 5044 section 4.5, which assumes as many markers as the segment
// can hold wherever it starts, within MinMULPDU and MaxMULPDU.
func (l Layout) MULPDU(emss int) int {
	room := emss&^3 - LengthLen - crcLen
	if l.Markers {
		room -= MarkerLen * ((emss + MarkerInterval - 1) / MarkerInterval)
	}
	return min(max(room, MinMULPDU), MaxMULPDU)
}

// Body returns the part of dst into which the caller writes the n octets of a
// ULPDU before Seal makes an FPDU of them. dst must have room for
// FPDULen(pos, n) octets.
func (l Layout) Body(dst []byte, n int) []byte { return dst[LengthLen : LengthLen+n] }

// Seal completes the FPDU at position pos around the ULPDU of n octets that
// the caller wrote into Body(dst, n): length, pad, markers and CRC. It returns
// the FPDU's length. The same arguments always give the same octets.
func (l Layout) Seal(dst []byte, pos uint64, n int) int {
	return l.SealTrailer(dst, pos, n, Trailer{})
}

// Trailer is what senders put behind a ULPDU. RFC 5044 section 4.1 has Seal
// pad with zeros; some senders leave other octets there, which receivers
// ignore.
type Trailer struct {
	Pad [3]byte // the first of them, as many as the ULPDU's length asks for
	CRC uint32  // the field's little-endian value; computed where CRCs are on
}

// SealTrailer is Seal with another trailer than the standard's.
func (l Layout) SealTrailer(dst []byte, pos uint64, n int, t Trailer) int {
	PutLength(dst, n)
	size := body(n)
	copy(dst[LengthLen+n:size-crcLen], t.Pad[:])
	if m := l.markers(pos, size); m > 0 {
		size = insertMarkers(dst, pos, size, m)
	}
	if l.CRC {
		t.CRC = crc.CRC32C(dst[:size-crcLen])
	}
	binary.LittleEndian.PutUint32(dst[size-crcLen:], t.CRC)
	return size
}

// Trailer reads the trailer of the whole FPDU b at position pos.
func (l Layout) Trailer(b []byte, pos uint64) (t Trailer) {
	n := int(binary.BigEndian.Uint16(b[l.lead(pos):]))
	end := len(b) - crcLen
	t.CRC = binary.LittleEndian.Uint32(b[end:])
	if at := pos + uint64(end) - MarkerLen; l.Markers && at%MarkerInterval == 0 {
		end -= MarkerLen
	}
	copy(t.Pad[:], b[end-(-(LengthLen+n)&3):end])
	return t
}

// insertMarkers spreads the size octets of dst, last piece first, and writes
// the m markers between the pieces.
func insertMarkers(dst []byte, pos uint64, size, m int) int {
	first := untilMarker(pos)
	start := 0 // of the length field
	if first == 0 {
		start = MarkerLen
	}
	for i := m; i > 0; i-- {
		from := first + bodyPerMarker*(i-1)
		to := min(from+bodyPerMarker, size)
		copy(dst[from+MarkerLen*i:], dst[from:to])
		at := first + MarkerInterval*(i-1)
		binary.BigEndian.PutUint32(dst[at:], uint32(uint16(max(at-start, 0))))
	}
	return size + MarkerLen*m
}

// Put writes the FPDU at position pos whose ULPDU is the concatenation of
// header and payload pieces, copying each octet once, and returns its length.
func (l Layout) Put(dst []byte, pos uint64, header []byte, payload ...[]byte) int {
	b := dst[LengthLen:]
	n := copy(b, header)
	for _, p := range payload {
		n += copy(b[n:], p)
	}
	return l.Seal(dst, pos, n)
}

// PutLength writes the length of a ULPDU of n octets to head, the beginning of
// an FPDU.
func PutLength(head []byte, n int) { binary.BigEndian.PutUint16(head, uint16(n)) }

// Complete finishes the FPDU at position pos whose first n octets, the length
// field (see PutLength) and a header, are in dst already: payload follows them.
// It is for FPDUs that come in great numbers: the payload is gone through once,
// and the CRC is computed while it is copied, over the copy.
func (l Layout) Complete(dst []byte, pos uint64, n int, payload []byte) int {
	at := n + len(payload)
	if l.Markers || !l.CRC {
		copy(dst[n:], payload)
		return l.Seal(dst, pos, at-LengthLen)
	}
	sum := crc.Copy(dst, n, payload)
	end := (at + 3) &^ 3
	if pad := dst[at:end]; len(pad) > 0 {
		clear(pad)
		sum = crc.Update(sum, pad)
	}
	binary.LittleEndian.PutUint32(dst[end:], sum)
	return end + crcLen
}

// PutRange writes octets [from, from+len(dst)) of the FPDU that Put would
// write, for a TCP segment that begins or ends inside it. scratch must have
// room for the whole FPDU.
func (l Layout) PutRange(dst, scratch []byte, from int, pos uint64, header []byte, payload ...[]byte) int {
	n := l.Put(scratch, pos, header, payload...)
	return copy(dst, scratch[from:n])
}

// Marked tells whether a marker lies in the FPDU of size octets at pos, and so
// tells where that FPDU starts whatever came before (RFC 5044 section 6).
func (l Layout) Marked(pos uint64, size int) bool { return l.Markers && untilMarker(pos) < size }

// ParseFPDU takes the FPDU at position pos apart. b must begin with it. It
// returns the ULPDU and the FPDU's length, or 0 when b does not hold it whole.
// The ULPDU lies in b unless markers fall into it: then it is gathered in
// scratch, which needs room for the ULPDU and may be b itself. Errors are
// *Error with code CRC or Marker.
func (l Layout) ParseFPDU(b []byte, pos uint64, scratch []byte) (ulpdu []byte, n int, err error) {
	size := l.size(b, pos)
	if size == 0 || len(b) < size {
		return nil, 0, nil
	}
	if err := l.check(b[:size], pos); err != nil {
		return nil, 0, err
	}
	return l.ulpdu(b[:size], pos, scratch), size, nil
}

// unbroken is the number of octets of a ULPDU at pos that lie in front of the
// first marker that can divide it.
func (l Layout) unbroken(pos uint64) int {
	if lead := l.lead(pos); lead > 0 {
		return MarkerInterval - lead - LengthLen
	}
	return untilMarker(pos) - LengthLen
}

// divided reports whether markers divide the ULPDU of the whole FPDU b.
func (l Layout) divided(b []byte, pos uint64) bool {
	return l.Markers && int(binary.BigEndian.Uint16(b[l.lead(pos):])) > l.unbroken(pos)
}

// size is the length of the FPDU that b begins with, 0 when b is too short to
// tell.
func (l Layout) size(b []byte, pos uint64) int {
	lead := l.lead(pos)
	if len(b) < lead+LengthLen {
		return 0
	}
	return l.FPDULen(pos, int(binary.BigEndian.Uint16(b[lead:])))
}

// sound tells whether the CRC of the whole FPDU b is right, where CRCs are on.
func (l Layout) sound(b []byte) bool {
	end := len(b) - crcLen
	return !l.CRC || crc.CRC32C(b[:end]) == binary.LittleEndian.Uint32(b[end:])
}

// check verifies CRC and markers of the whole FPDU b.
func (l Layout) check(b []byte, pos uint64) error {
	if !l.sound(b) {
		return &Error{Code: CRC, Pos: pos}
	}
	if !l.Markers {
		return nil
	}
	lead := l.lead(pos)
	for at := untilMarker(pos); at < len(b); at += MarkerInterval {
		if binary.BigEndian.Uint16(b[at+2:])&^3 != uint16(max(at-lead, 0)) {
			return &Error{Code: Marker, Pos: pos}
		}
	}
	return nil
}

// ulpdu returns the ULPDU of the whole FPDU b, without its markers.
func (l Layout) ulpdu(b []byte, pos uint64, scratch []byte) []byte {
	lead := l.lead(pos)
	n := int(binary.BigEndian.Uint16(b[lead:]))
	divided := l.divided(b, pos)
	b = b[lead+LengthLen:]
	if !divided {
		return b[:n:n]
	}
	next := l.unbroken(pos)
	done := copy(scratch, b[:next])
	for done < n {
		b = b[next+MarkerLen:]
		next = bodyPerMarker
		done += copy(scratch[done:n], b[:min(next, len(b))])
	}
	return scratch[:n:n]
}
