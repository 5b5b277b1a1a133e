// Package pause reads and makes PAUSE frames (IEEE 802.3-2018 annex 31B) and
// priority-based flow control frames, PFC (IEEE 802.1Qbb, annex 31D). They concern the
// two ends of a link, and no bridge forwards them. All fields are big-endian.
package pause

import (
	"encoding/binary"
	"errors"
	"time"

	"tapir/wire/ether"
)

const (
	// Len is the length of a frame in octets, without FCS.
	Len = 60
	// Quantum is the unit of a pause, in bit times of the link.
	Quantum = 512
	// MostQuanta is the longest pause.
	MostQuanta = 0xffff
	// Priorities is the number of priorities that PFC knows.
	Priorities = 8

	opcodePause uint16 = 0x0001
	opcodePFC   uint16 = 0x0101
	pauseLen           = 18 // octets up to the quanta
	pfcLen             = 34 // octets up to the last timer
)

// Group is the address of both kinds of frames, 01-80-C2-00-00-01.
var Group = ether.Addr{0x01, 0x80, 0xc2, 0, 0, 1}

// What can be wrong with a frame. Parse returns one of these unwrapped.
var (
	ErrTruncated   = errors.New("pause: frame too short")
	ErrOpcode      = errors.New("pause: unknown MAC control opcode")
	ErrReserved    = errors.New("pause: reserved bits set in the class-enable vector")
	ErrDestination = errors.New("pause: PFC frame not sent to 01-80-C2-00-00-01")
)

// Frame is a PAUSE or PFC frame.
type Frame struct {
	Dst, Src ether.Addr
	// PFC: the frame is about priorities, by Enabled and Timers. Else it is about all
	// that the receiver sends, by Quanta.
	PFC bool
	// Quanta is how long the receiver may not send, in units of Quantum; 0 lets it send
	// again.
	Quanta uint16
	// Enabled has bit n set if Timers[n] counts: how long the receiver may not send frames
	// of priority n, in units of Quantum; 0 lets it send them again.
	Enabled uint8
	Timers  [Priorities]uint16
}

// Parse reads b, a frame of the MAC control sublayer (ether.IsMACControl). Whether a PAUSE
// frame for Dst concerns the station is for the caller to say. Padding is not looked at.
func Parse(b []byte) (f Frame, err error) {
	if len(b) < pauseLen {
		return f, ErrTruncated
	}
	f.Dst, f.Src = ether.Addr(b[:6]), ether.Addr(b[6:12])
	switch binary.BigEndian.Uint16(b[14:]) {
	case opcodePause:
		f.Quanta = binary.BigEndian.Uint16(b[16:])
		return f, nil
	case opcodePFC:
	default:
		return f, ErrOpcode
	}
	f.PFC, f.Enabled = true, b[17]
	switch {
	case len(b) < pfcLen:
		return f, ErrTruncated
	case b[16] != 0:
		return f, ErrReserved
	case f.Dst != Group:
		return f, ErrDestination
	}
	for i := range f.Timers {
		f.Timers[i] = binary.BigEndian.Uint16(b[18+2*i:])
	}
	return f, nil
}

// Put writes the frame into b, which has Len octets. A zero Dst stands for Group.
func (f *Frame) Put(b []byte) {
	clear(b[:Len])
	copy(b, f.Dst[:])
	if f.Dst.IsZero() {
		copy(b, Group[:])
	}
	copy(b[6:], f.Src[:])
	binary.BigEndian.PutUint16(b[12:], ether.TypeMACControl)
	if !f.PFC {
		binary.BigEndian.PutUint16(b[14:], opcodePause)
		binary.BigEndian.PutUint16(b[16:], f.Quanta)
		return
	}
	binary.BigEndian.PutUint16(b[14:], opcodePFC)
	b[17] = f.Enabled
	for i, t := range f.Timers {
		binary.BigEndian.PutUint16(b[18+2*i:], t)
	}
}

// Duration is how long so many quanta are on a link of a speed in Mb/s.
func Duration(quanta uint16, mbps int) time.Duration {
	return time.Duration(int64(quanta) * Quantum * 1000 / int64(max(1, mbps)))
}
