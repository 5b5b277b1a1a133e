package ib

import (
	"fmt"
	"time"
)

// Syndrome is the first octet of an AETH (section 9.7.5.2.4).
type Syndrome uint8

// Syndromes.
const (
	SyndromeACK        Syndrome = 0x1f // end-to-end credits are not used
	SyndromeRNR        Syndrome = 0x20 // plus a timer code
	NAKSequence        Syndrome = 0x60
	NAKInvalidRequest  Syndrome = 0x61
	NAKRemoteAccess    Syndrome = 0x62
	NAKRemoteOperation Syndrome = 0x63
	NAKInvalidRD       Syndrome = 0x64
	syndromeKind       Syndrome = 0x60
	syndromeCode       Syndrome = 0x1f
)

// ACK reports whether s acknowledges, with any credit count.
func (s Syndrome) ACK() bool { return s&^syndromeCode == 0 }

// RNR reports whether s says that the receiver is not ready, and the timer
// code for RNRDelay.
func (s Syndrome) RNR() (code uint8, ok bool) {
	return uint8(s & syndromeCode), s&^syndromeCode == SyndromeRNR
}

// NAK reports whether s is a negative acknowledgement with a defined code.
func (s Syndrome) NAK() bool { return s >= NAKSequence && s <= NAKInvalidRD }

// String names s.
func (s Syndrome) String() string {
	switch s {
	case NAKSequence:
		return "NAK PSN sequence error"
	case NAKInvalidRequest:
		return "NAK invalid request"
	case NAKRemoteAccess:
		return "NAK remote access error"
	case NAKRemoteOperation:
		return "NAK remote operational error"
	case NAKInvalidRD:
		return "NAK invalid RD request"
	}
	if s.ACK() {
		return "ACK"
	}
	if code, ok := s.RNR(); ok {
		return fmt.Sprintf("RNR NAK %v", RNRDelay(code))
	}
	return fmt.Sprintf("reserved syndrome 0x%02x", uint8(s))
}

var rnrDelays = [32]uint32{ // in units of 10 µs (table 45)
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRDelay is the time that a timer code, 0 to 31, stands for. Code 0 is the
// longest, 655.36 ms.
func RNRDelay(code uint8) time.Duration {
	return time.Duration(rnrDelays[code&31]) * 10 * time.Microsecond
}

// Timeout is 4.096 µs times 2 to the power of code, 0 to 31, as local ACK
// timeout, packet lifetime and CM response timeout are given.
func Timeout(code uint8) time.Duration { return 4096 * time.Nanosecond << (code & 31) }
