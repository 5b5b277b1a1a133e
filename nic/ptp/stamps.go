package ptp

import (
	"fmt"
	"time"

	"tapir/nic/ip"
	"tapir/nic/port"
	"tapir/ptp/clock"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Names of those who may own the port's PTP unit.
const (
	hostFunction = "host"   // the driver of the host function
	ptpEngine    = "engine" // the NIC's own PTP instance
)

// Env is what a Service needs.
type Env struct {
	Name    string // of the interface, for management messages
	Product string // the NIC's name
	Seed    uint64
	Wire    *port.Port
	// IP is the internet layer behind the port; nil: the port carries messages of
	// its own over Ethernet alone.
	IP *ip.Layer
	// Station is the address of a port without an internet layer.
	Station func() ether.Addr
	// Inner finds the Ethernet frame that a frame of the wire holds, which
	// begins in b; nil: each is one itself.
	Inner    func(b []byte) []byte
	Pool     frame.Pool
	Schedule func(at frame.Time, fn func(now frame.Time)) (cancel func())
	// Observe starts and ends the observation of the wire for event messages;
	// nil: there is nothing to observe.
	Observe func(on bool) error
	// Now is the time within a call, for one-step messages; nil: time stands
	// still meanwhile.
	Now func() frame.Time
}

// Service is the PTP unit of a NIC's wire port with those who use it: the
// driver of the host function, or an instance of the NIC's own.
type Service struct {
	env      Env
	port     Port
	host     *Unit
	instance *Instance // nil: none runs
	on       bool      // somebody wants stamps of event messages
	faults   uint64    // of the instance's Tx stamps
	unseen   [2]uint64 // event messages that the observer missed, by direction
	again    bool      // a stamp came while Poll ran
	// sent are event messages that TxDone has not reported yet, a ring; none
	// while off.
	sent []sentEvent
	next int
}

// maxSent bounds the event messages that TxDone has not reported yet.
const maxSent = 64

// sentEvent is an event message on its way out of the wire port.
type sentEvent struct {
	frame  uint64 // its number; 0: free
	packet Packet
	// message is its number in the NIC's own instance; 0: somebody else's.
	message uint64
	sent    frame.Time // as the NIC knows it
	data    []byte     // the frame, while a capture runs
}

// NewService returns the service of a port that nobody uses yet.
func NewService(env Env, faults Faults) *Service {
	s := &Service{env: env}
	s.host = New(&s.port, hostFunction, s.PHC())
	s.host.Faults = faults
	return s
}

// PHC is the NIC's hardware clock.
func (s *Service) PHC() *clock.PHC { return s.env.Wire.PHC }

// SetFaults changes the faults of Tx stamps.
func (s *Service) SetFaults(f Faults) { s.host.Faults = f }

// On tells whether somebody wants stamps.
func (s *Service) On() bool { return s.on }

// Owner names who has the port's PTP unit: host, engine, or empty for nobody.
func (s *Service) Owner() string { return s.port.Owner() }

// Unit is the PTP unit as the host function's driver sees it, for display.
func (s *Service) Unit() *Unit { return s.host }

// HWTimestamps is the PTP unit's present configuration.
func (s *Service) HWTimestamps() HWConfig { return s.host.Config() }

// SetHWTimestamps is SIOCSHWTSTAMP of the host function: it takes the port's
// PTP unit, programmes it, and answers with what holds now, which may be wider
// than what was asked. With both directions off the unit is given back. Errors
// may be of the observer of the wire, too.
func (s *Service) SetHWTimestamps(c HWConfig, now frame.Time) (HWConfig, error) {
	u := s.host
	had := u.Enabled()
	if err := u.Enable(now); err != nil {
		return u.Config(), err
	}
	answer, err := u.Configure(c)
	off := err == nil && c.TxType == TxOff && c.Filter == FilterNone
	if err == nil && !off {
		err = s.observe()
	}
	if off || err != nil && !had {
		u.Disable()
		if oerr := s.observe(); err == nil {
			err = oerr
		}
	}
	return answer, err
}

// observe starts or ends the observation of the wire.
func (s *Service) observe() error {
	on := s.host.Enabled() || s.instance != nil
	if on == s.on {
		return nil
	}
	if s.env.Observe != nil {
		if err := s.env.Observe(on); err != nil {
			return err
		}
	}
	s.on, s.sent, s.env.Wire.Stamper = on, nil, nil
	if on {
		s.sent = make([]sentEvent, maxSent)
		s.env.Wire.Stamper = s
	}
	return nil
}

// RxStamp takes the hardware stamp of an event message that the host function
// received.
func (s *Service) RxStamp(id ID) (frame.Stamp, bool) { return s.host.RxStamp(id) }

// TxStamp takes the hardware stamp of an event message that the host function
// sent; waiting tells that it may still come.
func (s *Service) TxStamp(id ID) (stamp frame.Stamp, ok, waiting bool) { return s.host.TxStamp(id) }

// Counters are those of event messages and their stamps; that of the Linux
// driver has its name.
func (s *Service) Counters() []port.Counter {
	st := s.host.Stats()
	return []port.Counter{
		{Name: "ptp_rx_stamps", Value: st.RxStamps}, {Name: "ptp_rx_missed", Value: st.RxMissed},
		{Name: "ptp_rx_unseen", Value: s.unseen[frame.Inbound]},
		{Name: "ptp_tx_stamps", Value: st.TxStamps}, {Name: "ptp_skip_txts", Value: st.TxSkipped},
		{Name: "ptp_tx_stale", Value: st.TxStale},
		{Name: "ptp_tx_unseen", Value: s.unseen[frame.Outbound]}, {Name: "ptp_tx_faults", Value: st.Faults + s.faults},
	}
}

// Sighted shows a frame that came in by the wire to the PTP unit.
func (s *Service) Sighted(f *frame.Frame, now frame.Time) {
	if f.Seen == frame.Never {
		s.unseen[frame.Inbound]++
	}
	if p, ok := s.parse(f.Bytes()); ok {
		if stamp, ok := s.host.Received(p, port.PassedAt(f, now)); ok {
			s.note(stamp)
		}
	}
}

// parse finds the event message in a frame of the wire.
func (s *Service) parse(b []byte) (Packet, bool) {
	if s.env.Inner != nil {
		b = s.env.Inner(b)
	}
	return Parse(b)
}

// note says in the capture that a received frame was stamped.
func (s *Service) note(stamp frame.Stamp) {
	if n := &s.env.Wire.Notes; n.On {
		n.Addf("%s", stampText("rx", stamp))
	}
}

func stampText(dir string, s frame.Stamp) string {
	return fmt.Sprintf("%s stamp %d.%09d", dir, int64(s)/int64(time.Second), int64(s)%int64(time.Second))
}

// Request asks for the stamp of a frame of the host function.
func (s *Service) Request(f *frame.Frame, now frame.Time) {
	if p, ok := Parse(f.Bytes()); ok {
		s.host.Request(p, now)
	}
}

// Leaving implements port.Stamper: a frame, if an event message, will be
// reported by TxDone. The capture gets it only then, with the time at which it
// was seen.
func (s *Service) Leaving(o *port.Out, now frame.Time) (traced bool) {
	if o.OneStep {
		s.oneStep(o, now)
	}
	p, ok := s.parse(o.Frame.Bytes())
	if !ok {
		return false
	}
	e := &s.sent[s.next]
	s.next = (s.next + 1) % len(s.sent)
	s.trace(e, frame.Never) // nobody has reported it
	e.frame, e.packet, e.message, e.sent = o.Frame.ID, p, o.Message, now
	if traced = s.env.Wire.Tracer() != nil; traced {
		e.data = append(e.data, o.Frame.Bytes()...)
	}
	return traced
}

// oneStep writes the stamp of a one-step message into it while it leaves. It
// is the time at which the NIC hands it to its link: the observer comes too
// late for it.
func (s *Service) oneStep(o *port.Out, now frame.Time) {
	if s.env.Now != nil {
		now = s.env.Now()
	}
	transport.OneStep(o.Frame.Bytes(), s.PHC().At(now), o.Since)
}

// trace gives the capture an event message that was seen at a time, Never if
// that is lost.
func (s *Service) trace(e *sentEvent, at frame.Time) {
	if t := s.env.Wire.Tracer(); t != nil && len(e.data) > 0 {
		text := "tx stamp lost"
		if at == frame.Never {
			at = e.sent
		} else {
			text = stampText("tx", s.PHC().At(at))
		}
		t.Trace(s.env.Wire.RecordAt(at, frame.Outbound, e.frame, e.data, text))
	}
	e.data = e.data[:0]
}

// TxDone hands the time at which the wire frame with number id left, Never if
// that is lost, to those who wait for it. False means that nobody did.
func (s *Service) TxDone(id uint64, at, now frame.Time) bool {
	for i := range s.sent {
		if e := &s.sent[i]; e.frame == id {
			if at == frame.Never {
				s.unseen[frame.Outbound]++
			}
			s.trace(e, at)
			e.frame = 0
			if e.message == 0 {
				s.host.Sent(e.packet, at)
			} else if s.instance != nil {
				s.instance.sent(e.message, at, now)
			}
			s.again = s.env.Wire.Polling
			return true
		}
	}
	return false
}

// Poll lets what the PTP unit and the instance wait for happen, and returns the
// next deadline.
func (s *Service) Poll(now frame.Time) frame.Time {
	if !s.on {
		return frame.Never
	}
	next := s.host.Poll(now)
	if s.instance != nil {
		next = min(next, s.instance.Poll(now))
	}
	if s.again {
		s.again = false
		return now
	}
	return next
}
