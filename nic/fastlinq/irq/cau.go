package irq

import (
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// FSM is one of the two state machines of a status block.
type FSM uint8

// The state machines.
const (
	Rx FSM = iota
	Tx
)

// State is that of a state machine. The values are those of the CAU.
type State uint8

// The states.
const (
	Enabled  State = 0 // events wait for their timer
	Stopped  State = 3 // events wait until it is no longer stopped
	Disabled State = 4 // nothing is coalesced: every event goes through
)

// MaxCoalesce is the longest time that events wait, in microseconds.
const MaxCoalesce = 0x1ff

// cauEntry is the CAU's word pair of a status block: producer and the states of
// both machines; their timers' resolutions.
type cauEntry struct{ data, params uint32 }

// Where the fields of the CAU's words begin.
const (
	piProd    = 0xffff
	piTimeset = 16 // 7 bits
	piFSM     = 23
	sbState   = 24 // 4 bits, and 4 of Tx
	sbRes     = 14 // 2 bits, and 2 of Tx
	timesetOf = 0x7f
)

func (e *cauEntry) state(f FSM) State { return State(e.data >> (sbState + 4*f) & 0xf) }
func (e *cauEntry) res(f FSM) uint32  { return e.params >> (sbRes + 2*f) & 3 }

// resolution is the CAU's for a time: 0, 1 and 2 stand for 1, 2 and 4 us.
func resolution(usecs int) uint32 {
	switch {
	case usecs <= 0x7f:
		return 0
	case usecs <= 0xff:
		return 1
	}
	return 2
}

// Event says that the device has put something into the queue behind a protocol
// index of sb. It allocates nothing.
func (sb *SB) Event(pi int, now frame.Time) { sb.Events(pi, 1, now) }

// Events is n events at once, as those of a batch: one update for all.
func (sb *SB) Events(pi, n int, now frame.Time) {
	h := sb.hwfn
	if h.sbs[sb.line] != sb {
		return // released
	}
	h.dev.now = now
	sb.events += uint64(n)
	w := &h.cauPI[sb.line*PIs+pi]
	*w = *w&^piProd | (*w+uint32(n))&piProd
	l, e, f := &h.lines[sb.line], &h.cauSB[sb.line], FSM(*w>>piFSM&1)
	switch e.state(f) {
	case Stopped:
		l.held[f] = true
		return
	case Enabled:
		if set := *w >> piTimeset & timesetOf; set > 0 {
			at := now.Add(time.Duration(set<<e.res(f)) * time.Microsecond)
			l.timers[f] = min(l.timers[f], at)
			h.dev.next = min(h.dev.next, at)
			return
		}
	}
	h.flush(sb)
}

// flush writes the status block: the indices of all machines that are not
// stopped, then the producer; one update, and one interrupt, for all that has
// waited.
func (h *Hwfn) flush(sb *SB) {
	l, e := &h.lines[sb.line], &h.cauSB[sb.line]
	words := (*[PIs]uint32)(h.cauPI[sb.line*PIs:])
	if stopped := [2]bool{e.state(Rx) == Stopped, e.state(Tx) == Stopped}; stopped != [2]bool{} {
		for i, w := range words {
			if !stopped[w>>piFSM&1] {
				sb.pi[i] = uint16(w)
			}
		}
	} else {
		for i, w := range words {
			sb.pi[i] = uint16(w)
		}
	}
	l.timers = [2]frame.Time{frame.Never, frame.Never}
	sb.prod = (sb.prod + 1) & indexMask
	e.data = e.data&^indexMask | sb.prod
	sb.updates++
	l.prod = sb.prod
	h.propagate(l, h.bit(sb.line))
}

// Poll writes the status blocks whose time has come and returns when it wants to
// be called again.
func (d *Device) Poll(now frame.Time) frame.Time {
	d.now = now
	if now < d.next {
		return d.next
	}
	d.next = frame.Never
	for _, h := range d.Hwfns {
		for i := range h.lines {
			l := &h.lines[i]
			if min(l.timers[Rx], l.timers[Tx]) <= now {
				h.flush(h.sbs[i])
			}
			d.next = min(d.next, l.timers[Rx], l.timers[Tx])
		}
	}
	return d.next
}

// SetState moves a state machine of sb. What waited is written at once, unless
// it is stopped.
func (sb *SB) SetState(f FSM, s State, now frame.Time) {
	h := sb.hwfn
	h.dev.now = now
	e, l := &h.cauSB[sb.line], &h.lines[sb.line]
	waits := l.held[f] || l.timers[f] != frame.Never
	shift := sbState + 4*f
	e.data = e.data&^(0xf<<shift) | uint32(s)<<shift
	switch {
	case !waits:
	case s == Stopped:
		l.held[f], l.timers[f] = true, frame.Never
	default:
		l.held[f] = false
		h.flush(sb)
	}
}

// State is that of a state machine.
func (sb *SB) State(f FSM) State { return sb.hwfn.cauSB[sb.line].state(f) }

// SetCoalesce has events behind a protocol index wait for up to usecs
// microseconds, rounded down to the resolution: 1 below 128, 2 below 256, 4
// above. 0 leaves it as it is. INVAL, and no change: above MaxCoalesce, or in
// another resolution than that of another index of the same machine.
func (sb *SB) SetCoalesce(pi, usecs int) error {
	h := sb.hwfn
	switch {
	case pi < 0 || pi >= PIs:
		return status.Inval.Errorf("protocol index %d of %d", pi, PIs)
	case usecs < 0 || usecs > MaxCoalesce:
		return status.Inval.Errorf("coalescing of %d us: allowed are 0..%d", usecs, MaxCoalesce)
	case usecs == 0:
		return nil
	}
	words := h.cauPI[sb.line*PIs:][:PIs]
	f, e, res := FSM(words[pi]>>piFSM&1), &h.cauSB[sb.line], resolution(usecs)
	for i, w := range words {
		if i != pi && FSM(w>>piFSM&1) == f && w>>piTimeset&timesetOf != 0 && e.res(f) != res {
			return status.Inval.Errorf(
				"coalescing of %d us: another queue of status block %d has a resolution of %d us",
				usecs, sb.id, 1<<e.res(f))
		}
	}
	shift := sbRes + 2*f
	e.params = e.params&^(3<<shift) | res<<shift
	words[pi] = words[pi]&^(timesetOf<<piTimeset) | uint32(usecs)>>res<<piTimeset
	return nil
}

// SetTimer has all events of a state machine wait for up to usecs microseconds,
// or, with 0, not at all. INVAL, and no change: above MaxCoalesce.
func (sb *SB) SetTimer(f FSM, usecs int, now frame.Time) error {
	h := sb.hwfn
	switch {
	case usecs < 0 || usecs > MaxCoalesce:
		return status.Inval.Errorf("coalescing of %d us: allowed are 0..%d", usecs, MaxCoalesce)
	case usecs == 0:
		sb.SetState(f, Disabled, now)
		return nil
	}
	words := h.cauPI[sb.line*PIs:][:PIs]
	res := resolution(usecs)
	for i, w := range words {
		if FSM(w>>piFSM&1) == f {
			words[i] = w&^(timesetOf<<piTimeset) | uint32(usecs)>>res<<piTimeset
		}
	}
	e, shift := &h.cauSB[sb.line], sbRes+2*f
	e.params = e.params&^(3<<shift) | res<<shift
	sb.SetState(f, Enabled, now)
	return nil
}

// Coalesce is how long events behind a protocol index wait, in microseconds; 0
// while its state machine does not coalesce.
func (sb *SB) Coalesce(pi int) int {
	w, e := sb.hwfn.cauPI[sb.line*PIs+pi], &sb.hwfn.cauSB[sb.line]
	f := FSM(w >> piFSM & 1)
	if e.state(f) == Disabled {
		return 0
	}
	return int(w >> piTimeset & timesetOf << e.res(f))
}
