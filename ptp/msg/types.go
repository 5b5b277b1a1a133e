package msg

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tapir/wire/enum"
	"tapir/wire/frame"
)

// ClockIdentity names a clock: an EUI-64 (IEEE 1588-2019 section 7.5.2.2).
type ClockIdentity [8]byte

// AllClocks is the wildcard of targetPortIdentity.
var AllClocks = ClockIdentity{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// IdentityOf makes a clock identity of a MAC address, with FF-FE in the middle.
func IdentityOf(mac [6]byte) ClockIdentity {
	return ClockIdentity{mac[0], mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}
}

// Compare orders identities as octet strings, as the best master clock
// algorithm does: negative if c is the better (smaller) one.
func (c ClockIdentity) Compare(o ClockIdentity) int { return bytes.Compare(c[:], o[:]) }

// String has the form "0a1b2c.fffe.3d4e5f".
func (c ClockIdentity) String() string {
	return hex.EncodeToString(c[:3]) + "." + hex.EncodeToString(c[3:5]) + "." + hex.EncodeToString(c[5:])
}

// MarshalText has the form of String.
func (c ClockIdentity) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what String writes.
func (c *ClockIdentity) UnmarshalText(b []byte) (err error) {
	*c, err = ParseClockIdentity(string(b))
	return err
}

// ParseClockIdentity reads the form of String.
func ParseClockIdentity(s string) (c ClockIdentity, err error) {
	if len(s) == 18 && s[6] == '.' && s[11] == '.' {
		if b, err := hex.DecodeString(s[:6] + s[7:11] + s[12:]); err == nil {
			return ClockIdentity(b), nil
		}
	}
	return c, fmt.Errorf("msg: %q is not a clock identity; expected the form 0a1b2c.fffe.3d4e5f", s)
}

// PortIdentity names a port of a clock (section 5.3.5). Ports count from 1;
// 0xffff is the wildcard.
type PortIdentity struct {
	Clock ClockIdentity
	Port  uint16
}

// AllPorts is the targetPortIdentity that means every port of every clock.
var AllPorts = PortIdentity{AllClocks, 0xffff}

// PortIdentityLen is the encoded length in octets.
const PortIdentityLen = 10

// Compare orders by clock identity, then by port number.
func (p PortIdentity) Compare(o PortIdentity) int {
	if c := p.Clock.Compare(o.Clock); c != 0 {
		return c
	}
	return cmp.Compare(p.Port, o.Port)
}

// String has the form "0a1b2c.fffe.3d4e5f-1".
func (p PortIdentity) String() string { return p.Clock.String() + "-" + strconv.Itoa(int(p.Port)) }

// MarshalText has the form of String.
func (p PortIdentity) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what String writes.
func (p *PortIdentity) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePortIdentity(string(b))
	return err
}

// ParsePortIdentity reads the form of String.
func ParsePortIdentity(s string) (p PortIdentity, err error) {
	clock, port, _ := strings.Cut(s, "-")
	n, numErr := strconv.ParseUint(port, 10, 16)
	if p.Clock, err = ParseClockIdentity(clock); err != nil || numErr != nil {
		return PortIdentity{}, fmt.Errorf("msg: %q is not a port identity; expected the form 0a1b2c.fffe.3d4e5f-1", s)
	}
	p.Port = uint16(n)
	return p, nil
}

func (p *PortIdentity) parse(b []byte) {
	p.Clock, p.Port = ClockIdentity(b[:8]), binary.BigEndian.Uint16(b[8:10])
}

func (p *PortIdentity) put(b []byte) {
	copy(b[:8], p.Clock[:])
	binary.BigEndian.PutUint16(b[8:10], p.Port)
}

func (p *PortIdentity) append(b []byte) []byte {
	return binary.BigEndian.AppendUint16(append(b, p.Clock[:]...), p.Port)
}

// Timestamp is a time since the epoch of the PTP timescale (1970-01-01 TAI) or
// of an arbitrary one (section 5.3.3).
type Timestamp struct {
	Seconds     uint64 // 48 bits
	Nanoseconds uint32 // below 1e9
}

const (
	// TimestampLen is the encoded length in octets.
	TimestampLen = 10
	// MaxSeconds is the largest number of seconds.
	MaxSeconds = 1<<48 - 1

	second = 1_000_000_000
)

// TimestampOf is the wire form of a clock reading. A reading before the epoch
// has none and becomes zero.
func TimestampOf(s frame.Stamp) Timestamp {
	if s < 0 {
		return Timestamp{}
	}
	return Timestamp{uint64(s) / second, uint32(uint64(s) % second)}
}

// Stamp is the clock reading, false if it lies after the year 2262 and does
// not fit.
func (t Timestamp) Stamp() (frame.Stamp, bool) {
	if t.Seconds >= math.MaxInt64/second {
		return 0, false
	}
	return frame.Stamp(t.Seconds*second + uint64(t.Nanoseconds)), true
}

// String has the form "12.000000345".
func (t Timestamp) String() string { return fmt.Sprintf("%d.%09d", t.Seconds, t.Nanoseconds) }

func (t *Timestamp) parse(b []byte) {
	v := binary.BigEndian.Uint64(b[:8])
	t.Seconds = v >> 16
	t.Nanoseconds = uint32(v&0xffff)<<16 | uint32(binary.BigEndian.Uint16(b[8:10]))
}

// Put writes the timestamp to the front of b.
func (t *Timestamp) Put(b []byte) {
	binary.BigEndian.PutUint64(b[:8], t.Seconds<<16|uint64(t.Nanoseconds>>16))
	binary.BigEndian.PutUint16(b[8:10], uint16(t.Nanoseconds))
}

func (t *Timestamp) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, t.Seconds<<16|uint64(t.Nanoseconds>>16))
	return binary.BigEndian.AppendUint16(b, uint16(t.Nanoseconds))
}

// TimeInterval is a duration in units of 2^-16 ns (section 5.3.2).
type TimeInterval int64

// MaxInterval stands for everything too long to be said; the most negative
// value, for the other direction.
const (
	MaxInterval TimeInterval = math.MaxInt64
	MinInterval TimeInterval = math.MinInt64
)

// IntervalOf is d as a TimeInterval. What does not fit, above 39 hours,
// becomes MaxInterval or MinInterval.
func IntervalOf(d time.Duration) TimeInterval {
	switch {
	case d > time.Duration(MaxInterval>>16):
		return MaxInterval
	case d < time.Duration(MinInterval>>16):
		return MinInterval
	}
	return TimeInterval(d) << 16
}

// Between is a-b, false if it is longer than 19 hours.
func Between(a, b frame.Stamp) (TimeInterval, bool) {
	const most = 1 << 46
	if d := a - b; d < most && d > -most && (a >= b) == (d >= 0) {
		return TimeInterval(d) << 16, true
	}
	return 0, false
}

// Duration is the interval in whole nanoseconds, rounded down.
func (i TimeInterval) Duration() time.Duration { return time.Duration(i >> 16) }

// Add is i+o. MaxInterval and MinInterval stay what they are (section
// 13.3.2.9), and a sum that does not fit becomes one of them.
func (i TimeInterval) Add(o TimeInterval) TimeInterval {
	switch {
	case i == MaxInterval || i == MinInterval:
		return i
	case o > 0 && i > MaxInterval-o:
		return MaxInterval
	case o < 0 && i < MinInterval-o:
		return MinInterval
	}
	return i + o
}

// String is the interval in nanoseconds, with what the fraction has.
func (i TimeInterval) String() string {
	return strconv.FormatFloat(float64(i)/65536, 'f', -1, 64) + "ns"
}

// ClockQuality tells how good a grandmaster is (section 5.3.7).
type ClockQuality struct {
	Class    uint8
	Accuracy uint8  // 0x20 (25 ns) to 0x31 (above 10 s), 0xfe unknown
	Variance uint16 // offsetScaledLogVariance
}

// What a clock says of itself when it does not know better.
const (
	ClassDefault    uint8  = 248
	ClassSlaveOnly  uint8  = 255
	AccuracyUnknown uint8  = 0xfe
	VarianceUnknown uint16 = 0xffff
)

func (q *ClockQuality) parse(b []byte) {
	q.Class, q.Accuracy, q.Variance = b[0], b[1], binary.BigEndian.Uint16(b[2:4])
}

func (q *ClockQuality) put(b []byte) {
	b[0], b[1] = q.Class, q.Accuracy
	binary.BigEndian.PutUint16(b[2:4], q.Variance)
}

// PortState is the state of a port (table 20).
type PortState uint8

// The port states. Grandmaster is what linuxptp calls the master port of a
// clock that follows nobody; on the wire it is Master.
const (
	StateInitializing PortState = iota + 1
	StateFaulty
	StateDisabled
	StateListening
	StatePreMaster
	StateMaster
	StatePassive
	StateUncalibrated
	StateSlave
	StateGrandmaster
)

var stateNames = [...]string{"NONE", "INITIALIZING", "FAULTY", "DISABLED", "LISTENING", "PRE_MASTER",
	"MASTER", "PASSIVE", "UNCALIBRATED", "SLAVE", "GRAND_MASTER"}

// String is the state's name in the standard.
func (s PortState) String() string {
	return enum.Name(stateNames[:], s, "PortState(%d)")
}

// TimeSource tells where a grandmaster has its time from (table 6).
type TimeSource uint8

// The time sources.
const (
	SourceAtomicClock        TimeSource = 0x10
	SourceGNSS               TimeSource = 0x20
	SourceTerrestrialRadio   TimeSource = 0x30
	SourceSerialTimeCode     TimeSource = 0x39
	SourcePTP                TimeSource = 0x40
	SourceNTP                TimeSource = 0x50
	SourceHandSet            TimeSource = 0x60
	SourceOther              TimeSource = 0x90
	SourceInternalOscillator TimeSource = 0xa0
)

// DelayMechanism tells how a port measures path delay (table 21).
type DelayMechanism uint8

// The delay mechanisms.
const (
	DelayE2E       DelayMechanism = 1
	DelayP2P       DelayMechanism = 2
	DelayCommonP2P DelayMechanism = 3
	DelaySpecial   DelayMechanism = 4
	DelayNone      DelayMechanism = 0xfe
)
