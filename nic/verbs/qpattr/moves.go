package qpattr

import "fmt"

// States, numbered as ibv_qp_state and verbs.State.
const (
	reset uint8 = iota
	initial
	rtr
	rts
	sqd
	sqe
	failed
	numStates
)

// rule is what a move needs and takes, by type.
type rule struct {
	need, may [NumTypes]Mask
}

// all is the same mask for every type.
func all(m Mask) [NumTypes]Mask { return [NumTypes]Mask{m, m, m, m, m} }

// Alternate paths and their migration are not offered: no bit of them is in
// the table.
const (
	initBits   = PKeyIndex | Port | Access
	initUD     = PKeyIndex | Port | QKey
	toRTR      = AV | PathMTU | DestQPN | RQPSN
	toRTRRC    = toRTR | MaxDestRdAtomic | MinRNRTimer
	toRTSRC    = Timeout | RetryCount | RNRRetry | SQPSN | MaxRdAtomic
	stayRC     = CurState | Access | MinRNRTimer
	stayUC     = CurState | Access
	stayUD     = CurState | QKey
	drainedRC  = Port | AV | Timeout | RetryCount | RNRRetry | MaxRdAtomic | MaxDestRdAtomic | drainedTGT
	drainedINI = Port | AV | Timeout | RetryCount | RNRRetry | MaxRdAtomic | Access | PKeyIndex
	drainedTGT = Port | AV | Timeout | MaxDestRdAtomic | Access | PKeyIndex | MinRNRTimer
)

var stay = [NumTypes]Mask{stayRC, stayUC, stayUD, stayUC, stayRC}

// moves has a rule for each move but those to Reset and Err, which are always
// allowed and take no attribute.
var moves = map[[2]uint8]rule{
	{reset, initial}:   {need: [NumTypes]Mask{initBits, initBits, initUD, initBits, initBits}},
	{initial, initial}: {may: [NumTypes]Mask{initBits, initBits, initUD, initBits, initBits}},
	{initial, rtr}: {
		need: [NumTypes]Mask{toRTRRC, toRTR, 0, toRTR, toRTRRC},
		may: [NumTypes]Mask{Access | PKeyIndex, Access | PKeyIndex, PKeyIndex | QKey, Access | PKeyIndex,
			Access | PKeyIndex},
	},
	{rtr, rts}: {need: [NumTypes]Mask{toRTSRC, SQPSN, SQPSN, toRTSRC, Timeout | SQPSN}, may: rated(stay)},
	{rts, rts}: {may: rated(stay)},
	{rts, sqd}: {may: all(SQDNotify)},
	{sqd, sqd}: {may: [NumTypes]Mask{drainedRC, AV | Access | PKeyIndex, PKeyIndex | QKey, drainedINI, drainedTGT}},
	{sqd, rts}: {may: stay},
	{sqe, rts}: {may: [NumTypes]Mask{0, stayUC, stayUD, 0, 0}},
}

// rated adds the rate limit.
func rated(m [NumTypes]Mask) [NumTypes]Mask {
	for i := range m {
		m[i] |= RateLimit
	}
	return m
}

// Check refuses a move from one state to another, both numbered as
// ibv_qp_state, that lacks an attribute it needs or has one it must not have,
// or that does not exist for the type.
func Check(t Type, from, to uint8, mask Mask) error {
	mask &^= State
	if to == reset || to == failed {
		if mask &^= CurState; mask != 0 {
			return fmt.Errorf("%v not allowed: %w", mask, ErrInvalid)
		}
		return nil
	}
	r, ok := moves[[2]uint8{from, to}]
	switch {
	case !ok || from == sqe && t != UC && t != UD:
		return fmt.Errorf("no such move: %w", ErrInvalid)
	case r.need[t]&^mask != 0:
		return fmt.Errorf("%v missing: %w", r.need[t]&^mask, ErrInvalid)
	case mask&^(r.need[t]|r.may[t]) != 0:
		return fmt.Errorf("%v not allowed: %w", mask&^(r.need[t]|r.may[t]), ErrInvalid)
	}
	return nil
}
