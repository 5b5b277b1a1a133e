// Package ptp is an IEEE 1588-2019 instance: ordinary and boundary clocks,
// masters and slaves, end-to-end and peer-to-peer delay, one and two steps,
// BMCA, and the profiles of NewConfig. It does no I/O and owns no clock:
// messages, stamps and the time go in, messages and the next deadline come out.
//
// The caller feeds Receive and TxStamp, and calls Poll after each batch and at
// the deadline that Poll returned. All sending falls in Poll.
package ptp

import (
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// Clock is the PTP hardware clock that an instance steers and that its stamps
// belong to. ptp/clock has one.
type Clock interface {
	// At is what the clock shows; it changes nothing.
	At(now frame.Time) frame.Stamp
	// AdjFine sets the frequency offset in 2^-16 ppm; positive is faster.
	AdjFine(now frame.Time, scaledPPM int64) error
	// AdjTime steps the clock by d.
	AdjTime(now frame.Time, d time.Duration) error
	// MaxAdj is the largest frequency offset in ppb.
	MaxAdj() int64
}

// Lower carries messages: over a NIC's port, a simulated link, a test.
type Lower interface {
	// Send sends a message out of a port, counted from 0. It may call TxStamp
	// before it returns.
	Send(port int, m Outgoing)
}

// Outgoing is a message to send.
type Outgoing struct {
	Body []byte         // the PTP message, borrowed until Send returns
	Dst  transport.Addr // by unicast; the zero value means the multicast group of the message's type
	// Event messages belong to the event port of UDP.
	Event bool
	// ID is not 0 if the stamp is wanted: the lower half reports it by TxStamp,
	// once.
	ID uint64
	// OneStep asks the lower half to write the stamp into the message: a Sync's
	// originTimestamp is set to it; of a Pdelay_Resp, the time since Since is
	// added to the correctionField.
	OneStep bool
	Since   frame.Stamp
	Now     frame.Time
}

// Meta is what the lower half knows about a received message.
type Meta struct {
	Src     transport.Addr
	Stamp   frame.Stamp // when it passed the time-stamp point
	Stamped bool        // Stamp is valid
	// Seen is the engine time of Stamp, where it is known and Now is later; 0
	// means Now.
	Seen frame.Time
	Now  frame.Time
}

// seen is the engine time of the stamp.
func (m *Meta) seen() frame.Time {
	if m.Seen != 0 {
		return m.Seen
	}
	return m.Now
}

// Sample is one measurement of a slave port.
type Sample struct {
	Port     int // from 0
	Now      frame.Time
	Sequence uint16
	Offset   time.Duration    // from the master, as measured
	Delay    msg.TimeInterval // mean path or link delay that was used
	Freq     float64          // correction of the clock after it, ppb
	Servo    servo.State
	Origin   frame.Stamp // t1, with its corrections
	Ingress  frame.Stamp // t2
}

// Observer is told what happens in an instance, for logs, plots and
// subscriptions. It must not call back.
type Observer interface {
	// PortState tells that a port has changed its state.
	PortState(port int, from, to msg.PortState, why string, now frame.Time)
	// Measured tells of a measurement.
	Measured(Sample)
}
