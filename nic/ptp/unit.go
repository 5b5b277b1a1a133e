// Package ptp is the PTP unit of a NIC after the public driver of the FastLinQ
// adapters: the hardware half with its filters and its two latches of one
// stamp each, and the driver half that reads them. It does no I/O and owns no
// clock.
//
// The hardware's free counter counts nanoseconds from Enable on; the wall time
// that the clock shows is software above it.
package ptp

import (
	"fmt"
	"time"

	"tapir/wire/frame"
)

// GiveUp is how long the driver waits for the stamp of a sent packet.
const GiveUp = 2 * time.Second

// Clock is the NIC's hardware clock; *clock.PHC is one.
type Clock interface {
	At(now frame.Time) frame.Stamp
	Now(now frame.Time) frame.Stamp
	Counter(now frame.Time) int64
	ResetCounter(now frame.Time)
}

// Port is the resource lock of a physical port: at most one of its functions
// owns PTP.
type Port struct{ owner *Unit }

// Owner is the name of the function that owns PTP; empty if none does.
func (p *Port) Owner() string {
	if p.owner == nil {
		return ""
	}
	return p.owner.name
}

// Faults are lost, late and repeated stamps of sent packets. Each counts
// packets of its own; 0 means never.
type Faults struct {
	LoseEvery      uint64 // one in LoseEvery stamps never comes; 0: none
	DelayEvery     uint64 // one in DelayEvery comes late by Delay
	Delay          time.Duration
	DuplicateEvery uint64 // one in DuplicateEvery comes twice
}

// Fault is what befalls one stamp.
type Fault struct {
	Lose, Duplicate bool
	Delay           time.Duration
}

// Of is what befalls the stamp of the nth packet, from 1.
func (f *Faults) Of(n uint64) Fault {
	hit := func(every uint64) bool { return every != 0 && n%every == 0 }
	out := Fault{Lose: hit(f.LoseEvery), Duplicate: hit(f.DuplicateEvery)}
	if hit(f.DelayEvery) {
		out.Delay = f.Delay
	}
	return out
}

// Stats counts.
type Stats struct {
	RxStamps  uint64 // received packets with a stamp
	RxMissed  uint64 // received while the latch was full, or unseen by the observer
	TxStamps  uint64 // sent packets with a stamp
	TxSkipped uint64 // requested while another was waited for, or given up: ptp_skip_txts
	TxStale   uint64 // stamps in the latch that nobody waited for
	Faults    uint64 // injected
}

// Unit is one function's view of its port's PTP unit.
type Unit struct {
	name  string
	port  *Port
	clock Clock

	enabled bool
	config  HWConfig // as answered
	rx, tx  programme
	rxLatch latch
	txLatch latch

	pending  pending
	late     latched // a stamp that a fault holds back
	sent     uint64  // packets that the hardware stamped or should have
	received *stamps // nil while disabled, as done
	done     *stamps

	Faults Faults
	stats  Stats
}

// pending is the one packet whose Tx stamp the driver waits for.
type pending struct {
	active bool
	id     ID
	until  frame.Time
}

// latched is a stamp that becomes visible at due.
type latched struct {
	active  bool
	packet  Packet
	counter int64
	due     frame.Time
}

// New returns the unit of the function called name; PTP is disabled.
func New(port *Port, name string, c Clock) *Unit {
	return &Unit{name: name, port: port, clock: c, rx: off, tx: off}
}

// Enable takes the port's lock and zeroes the counter. It fails with ErrBusy
// if another function has it.
func (u *Unit) Enable(now frame.Time) error {
	switch {
	case u.enabled:
		return nil
	case u.port.owner != nil:
		return fmt.Errorf("%w: %s", ErrBusy, u.port.owner.name)
	}
	u.port.owner, u.enabled = u, true
	u.clock.ResetCounter(now)
	u.rxLatch, u.txLatch = latch{}, latch{}
	u.received, u.done = &stamps{}, &stamps{}
	return nil
}

// Disable restores the registers and gives the lock back. Stamps that were
// waited for are given up.
func (u *Unit) Disable() {
	if !u.enabled {
		return
	}
	if u.pending.active {
		u.stats.TxSkipped++
	}
	u.port.owner, u.enabled = nil, false
	u.config, u.rx, u.tx = HWConfig{}, off, off
	u.pending, u.late = pending{}, latched{}
	u.received, u.done = nil, nil
}

// Enabled tells whether this function owns PTP.
func (u *Unit) Enabled() bool { return u.enabled }

// Config is the answer to the last Configure.
func (u *Unit) Config() HWConfig { return u.config }

// Configure programmes the filters and answers with what holds now.
func (u *Unit) Configure(c HWConfig) (HWConfig, error) {
	switch {
	case !u.enabled:
		return u.config, ErrDisabled
	case c.Flags != 0:
		return u.config, fmt.Errorf("%w: flags %#x", ErrInvalid, c.Flags)
	case c.TxType < TxOff || c.TxType > TxOn:
		return u.config, fmt.Errorf("%w: tx type %v", ErrRange, c.TxType)
	case c.Filter < 0 || c.Filter >= numFilters:
		return u.config, fmt.Errorf("%w: rx filter %d", ErrRange, int(c.Filter))
	}
	u.rx = programmes[c.Filter]
	u.tx = off
	if c.TxType == TxOn {
		u.tx = u.rx
	}
	c.Filter = grant(c.Filter)
	u.config = c
	return c, nil
}

// Received passes a packet that came in at engine time at, frame.Never if its
// time was missed. A stamp waits for RxStamp, and is returned too.
func (u *Unit) Received(p Packet, at frame.Time) (s frame.Stamp, ok bool) {
	if !u.enabled || !u.rx.matches(p) {
		return 0, false
	}
	if at == frame.Never || !u.rxLatch.hold(p.Sequence, u.counter(at)) {
		u.stats.RxMissed++
		return 0, false
	}
	_, counter, _ := u.rxLatch.read() // the driver does so while it completes the packet
	u.rxLatch.rearm()
	u.stats.RxStamps++
	s = u.wall(counter, at)
	u.received.add(p.ID, s)
	return s, true
}

// counter is the free counter for an event at engine time at, with the jitter
// of stamps.
func (u *Unit) counter(at frame.Time) int64 {
	return int64(u.clock.At(at)) - u.base(at)
}

// base is what the software adds to the counter.
func (u *Unit) base(now frame.Time) int64 { return int64(u.clock.Now(now)) - u.clock.Counter(now) }

func (u *Unit) wall(counter int64, now frame.Time) frame.Stamp {
	return frame.Stamp(counter + u.base(now))
}

// Request asks for the stamp of p, which is about to be sent. False means that
// it is sent without one: stamping is off, or another stamp is waited for.
func (u *Unit) Request(p Packet, now frame.Time) bool {
	if u.config.TxType != TxOn || !p.Event {
		return false
	}
	if u.pending.active {
		u.stats.TxSkipped++
		return false
	}
	if u.txLatch.valid() {
		u.stats.TxStale++
		u.txLatch.rearm()
	}
	u.pending = pending{true, p.ID, now.Add(GiveUp)}
	return true
}

// Sent passes a packet that went out at engine time at, frame.Never if that was
// missed.
func (u *Unit) Sent(p Packet, at frame.Time) {
	if !u.enabled || !u.tx.matches(p) {
		return
	}
	u.sent++
	fault := u.Faults.Of(u.sent)
	if fault != (Fault{}) {
		u.stats.Faults++
	}
	switch {
	case fault.Lose || at == frame.Never:
		return
	case fault.Delay > 0 && !u.late.active:
		u.late = latched{true, p, u.counter(at), at.Add(fault.Delay)}
		return
	}
	counter := u.counter(at)
	u.txLatch.hold(p.Sequence, counter)
	u.collect(at)
	if fault.Duplicate {
		u.txLatch.hold(p.Sequence, counter)
	}
}

// collect is the driver's look at the Tx latch.
func (u *Unit) collect(now frame.Time) {
	sequence, counter, ok := u.txLatch.read()
	if !ok || !u.pending.active {
		return
	}
	u.txLatch.rearm()
	if sequence != u.pending.id.Sequence {
		u.stats.TxStale++
		return
	}
	u.stats.TxStamps++
	u.done.add(u.pending.id, u.wall(counter, now))
	u.pending = pending{}
}

// Poll lets late stamps come in and gives up on those that do not. It returns
// when it wants to be called again.
func (u *Unit) Poll(now frame.Time) frame.Time {
	if u.late.active && now >= u.late.due {
		u.txLatch.hold(u.late.packet.Sequence, u.late.counter)
		u.late = latched{}
		u.collect(now)
	}
	if u.pending.active && now >= u.pending.until {
		u.pending = pending{}
		u.stats.TxSkipped++
	}
	next := frame.Never
	if u.late.active {
		next = u.late.due
	}
	if u.pending.active {
		next = min(next, u.pending.until)
	}
	return next
}

// RxStamp takes the stamp of a received packet.
func (u *Unit) RxStamp(id ID) (frame.Stamp, bool) { return u.received.take(id) }

// TxStamp takes the stamp of a sent packet; waiting tells that it may still
// come.
func (u *Unit) TxStamp(id ID) (s frame.Stamp, ok, waiting bool) {
	s, ok = u.done.take(id)
	return s, ok, u.pending.active && u.pending.id == id
}

// Stats returns the counts so far.
func (u *Unit) Stats() Stats { return u.stats }

// Registers is what the hardware half shows.
type Registers struct {
	RxEnable    uint32 `json:"rx_enable"`
	RxParamMask uint32 `json:"rx_param_mask"`
	RxRuleMask  uint32 `json:"rx_rule_mask"`
	TxEnable    uint32 `json:"tx_enable"`
	TxParamMask uint32 `json:"tx_param_mask"`
	TxRuleMask  uint32 `json:"tx_rule_mask"`
	RxStatus    uint32 `json:"rx_status"` // sequenceId, bit 16 valid
	TxStatus    uint32 `json:"tx_status"`
}

// Registers returns the registers' contents.
func (u *Unit) Registers() Registers {
	return Registers{
		RxEnable: u.rx.enable, RxParamMask: u.rx.params(), RxRuleMask: u.rx.rules, RxStatus: u.rxLatch.status,
		TxEnable: u.tx.enable, TxParamMask: u.tx.params(), TxRuleMask: u.tx.rules, TxStatus: u.txLatch.status,
	}
}

func (g *programme) params() uint32 {
	if g.enable == 0 {
		return paramsOff
	}
	return paramsOn
}
