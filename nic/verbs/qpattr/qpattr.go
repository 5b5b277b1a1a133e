// Package qpattr holds the attributes of InfiniBand queue pairs and the table
// that says which of them each move between states needs, takes or refuses
// (InfiniBand Architecture 1.3, section 11.2.5.2; Linux ib_modify_qp_is_ok).
package qpattr

import (
	"errors"
	"fmt"
	"strings"

	"tapir/wire/enum"
)

// ErrInvalid is the error of a move that the table does not allow (EINVAL).
var ErrInvalid = errors.New("invalid queue pair attributes")

// Type is the transport service of a queue pair.
type Type uint8

const (
	RC           Type = iota // reliable connection
	UC                       // unreliable connection
	UD                       // unreliable datagram
	XRCInitiator             // sending half of an extended reliable connection
	XRCTarget                // receiving half
	NumTypes
)

var typeNames = [NumTypes]string{"RC", "UC", "UD", "XRC_INI", "XRC_TGT"}

func (t Type) String() string { return enum.Name(typeNames[:], t, "type %d") }

// Connected tells whether a queue pair of the type has one peer.
func (t Type) Connected() bool { return t != UD }

// Types is a set of types.
type Types uint8

// Set returns the set of ts.
func Set(ts ...Type) (s Types) {
	for _, t := range ts {
		s |= 1 << t
	}
	return s
}

// Has tells whether t is in the set.
func (s Types) Has(t Type) bool { return t < NumTypes && s&(1<<t) != 0 }

// Mask names attributes, one bit each, numbered as ibv_qp_attr_mask.
type Mask uint32

const (
	State           Mask = 1 << 0
	CurState        Mask = 1 << 1
	SQDNotify       Mask = 1 << 2
	Access          Mask = 1 << 3
	PKeyIndex       Mask = 1 << 4
	Port            Mask = 1 << 5
	QKey            Mask = 1 << 6
	AV              Mask = 1 << 7
	PathMTU         Mask = 1 << 8
	Timeout         Mask = 1 << 9
	RetryCount      Mask = 1 << 10
	RNRRetry        Mask = 1 << 11
	RQPSN           Mask = 1 << 12
	MaxRdAtomic     Mask = 1 << 13
	AltPath         Mask = 1 << 14
	MinRNRTimer     Mask = 1 << 15
	SQPSN           Mask = 1 << 16
	MaxDestRdAtomic Mask = 1 << 17
	PathMigration   Mask = 1 << 18
	Capacity        Mask = 1 << 19
	DestQPN         Mask = 1 << 20
	RateLimit       Mask = 1 << 25
)

var maskNames = map[Mask]string{
	State: "STATE", CurState: "CUR_STATE", SQDNotify: "EN_SQD_ASYNC_NOTIFY", Access: "ACCESS_FLAGS",
	PKeyIndex: "PKEY_INDEX", Port: "PORT", QKey: "QKEY", AV: "AV", PathMTU: "PATH_MTU", Timeout: "TIMEOUT",
	RetryCount: "RETRY_CNT", RNRRetry: "RNR_RETRY", RQPSN: "RQ_PSN", MaxRdAtomic: "MAX_QP_RD_ATOMIC",
	AltPath: "ALT_PATH", MinRNRTimer: "MIN_RNR_TIMER", SQPSN: "SQ_PSN", MaxDestRdAtomic: "MAX_DEST_RD_ATOMIC",
	PathMigration: "PATH_MIG_STATE", Capacity: "CAP", DestQPN: "DEST_QPN", RateLimit: "RATE_LIMIT",
}

// String lists the names of the bits as ibv_qp_attr_mask has them.
func (m Mask) String() string {
	var names []string
	for bit := Mask(1); bit != 0 && m != 0; bit <<= 1 {
		if m&bit == 0 {
			continue
		}
		m &^= bit
		name, ok := maskNames[bit]
		if !ok {
			name = fmt.Sprintf("bit %#x", uint32(bit))
		}
		names = append(names, name)
	}
	return strings.Join(names, "|")
}

// Path is an address vector: the way to a peer's port.
type Path struct {
	DGID      [16]byte // network order; IPv4 mapped into IPv6
	SGIDIndex uint8    // of the local port's GID table
	FlowLabel uint32   // 20 bits
	HopLimit  uint8    // 0: 64
	TClass    uint8    // the IP TOS or traffic class octet
	SL        uint8    // 0 to 7; the priority of a tagged frame
}

// Attr holds the attributes of a queue pair; a Mask says which count.
type Attr struct {
	CurState        uint8 // of verbs.State
	SQDNotify       bool  // raise EventSQDrained in state SQD
	Access          uint8 // verbs.Access: what the peer may do
	PKeyIndex       uint16
	Port            uint8 // 1
	QKey            uint32
	Path            Path
	PathMTU         int    // octets of payload: 256, 512, 1024, 2048 or 4096
	Timeout         uint8  // local ACK timeout: 4.096 us times 2 to this power; 0: none
	RetryCount      uint8  // 0 to 7
	RNRRetry        uint8  // 0 to 6; 7: without end
	RQPSN, SQPSN    uint32 // 24 bits: first expected, first to send
	MaxRdAtomic     uint8  // Reads and atomics outstanding as requester
	MaxDestRdAtomic uint8  // and as responder
	MinRNRTimer     uint8  // 5-bit code of the RNR NAK timer; 0 is the longest
	DestQPN         uint32 // 24 bits
}

// set copies the attributes that mask names from b.
func (a *Attr) set(b *Attr, mask Mask) {
	for _, f := range []struct {
		bit Mask
		do  func()
	}{
		{SQDNotify, func() { a.SQDNotify = b.SQDNotify }},
		{Access, func() { a.Access = b.Access }},
		{PKeyIndex, func() { a.PKeyIndex = b.PKeyIndex }},
		{Port, func() { a.Port = b.Port }},
		{QKey, func() { a.QKey = b.QKey }},
		{AV, func() { a.Path = b.Path }},
		{PathMTU, func() { a.PathMTU = b.PathMTU }},
		{Timeout, func() { a.Timeout = b.Timeout }},
		{RetryCount, func() { a.RetryCount = b.RetryCount }},
		{RNRRetry, func() { a.RNRRetry = b.RNRRetry }},
		{RQPSN, func() { a.RQPSN = b.RQPSN }},
		{SQPSN, func() { a.SQPSN = b.SQPSN }},
		{MaxRdAtomic, func() { a.MaxRdAtomic = b.MaxRdAtomic }},
		{MaxDestRdAtomic, func() { a.MaxDestRdAtomic = b.MaxDestRdAtomic }},
		{MinRNRTimer, func() { a.MinRNRTimer = b.MinRNRTimer }},
		{DestQPN, func() { a.DestQPN = b.DestQPN }},
	} {
		if mask&f.bit != 0 {
			f.do()
		}
	}
}

// Merge copies the attributes that mask names from b, if each is in its range.
func (a *Attr) Merge(b *Attr, mask Mask) error {
	in := func(bit Mask, ok bool) bool { return mask&bit == 0 || ok }
	for _, f := range []struct {
		bit Mask
		ok  bool
	}{
		{Port, b.Port == 1}, {PathMTU, MTUCode(b.PathMTU) != 0}, {Timeout, b.Timeout < 32},
		{RetryCount, b.RetryCount < 8}, {RNRRetry, b.RNRRetry < 8}, {RQPSN, b.RQPSN < 1<<24},
		{SQPSN, b.SQPSN < 1<<24}, {MinRNRTimer, b.MinRNRTimer < 32}, {DestQPN, b.DestQPN < 1<<24},
		{AV, b.Path.SL < 8 && b.Path.FlowLabel < 1<<20},
	} {
		if !in(f.bit, f.ok) {
			return fmt.Errorf("%v out of range: %w", f.bit, ErrInvalid)
		}
	}
	a.set(b, mask)
	return nil
}

// MTUCode is the code, 1 to 5, of a path MTU in octets; 0: there is none.
func MTUCode(octets int) uint8 {
	for code := uint8(1); code <= 5; code++ {
		if octets == MTUOctets(code) {
			return code
		}
	}
	return 0
}

// MTUOctets is the path MTU of a code, 0 for one that does not exist.
func MTUOctets(code uint8) int {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}
