package qpattr

import (
	"errors"
	"testing"
)

// The table of moves, against what it takes by hand.
func TestMoves(t *testing.T) {
	for _, c := range []struct {
		name     string
		typ      Type
		from, to uint8
		mask     Mask
		ok       bool
	}{
		{"RC to Init", RC, reset, initial, State | PKeyIndex | Port | Access, true},
		{"RC to Init without port", RC, reset, initial, PKeyIndex | Access, false},
		{"RC to Init with Q_Key", RC, reset, initial, PKeyIndex | Port | Access | QKey, false},
		{"UD to Init", UD, reset, initial, PKeyIndex | Port | QKey, true},
		{"UD to Init with rights", UD, reset, initial, PKeyIndex | Port | Access, false},
		{"again", RC, initial, initial, Access, true},
		{"RC to RTR", RC, initial, rtr, AV | PathMTU | DestQPN | RQPSN | MaxDestRdAtomic | MinRNRTimer, true},
		{"RC to RTR without MTU", RC, initial, rtr, AV | DestQPN | RQPSN | MaxDestRdAtomic | MinRNRTimer, false},
		{"UC to RTR", UC, initial, rtr, AV | PathMTU | DestQPN | RQPSN, true},
		{"UC to RTR with timer", UC, initial, rtr, AV | PathMTU | DestQPN | RQPSN | MinRNRTimer, false},
		{"UD to RTR", UD, initial, rtr, State, true},
		{"RC to RTS", RC, rtr, rts, Timeout | RetryCount | RNRRetry | SQPSN | MaxRdAtomic, true},
		{"RC to RTS with less", RC, rtr, rts, SQPSN, false},
		{"UC to RTS", UC, rtr, rts, SQPSN, true},
		{"XRC target to RTS", XRCTarget, rtr, rts, Timeout | SQPSN, true},
		{"Init to RTS", RC, initial, rts, SQPSN, false},
		{"timer in RTS", RC, rts, rts, MinRNRTimer | CurState, true},
		{"path in RTS", RC, rts, rts, AV, false},
		{"drain", RC, rts, sqd, SQDNotify, true},
		{"path while drained", RC, sqd, sqd, AV | Timeout, true},
		{"resume", RC, sqd, rts, 0, true},
		{"SQE of RC", RC, sqe, rts, 0, false},
		{"SQE of UD", UD, sqe, rts, QKey, true},
		{"alternate path", RC, rts, rts, AltPath, false},
		{"error", RC, rts, failed, State, true},
		{"reset with attributes", RC, rts, reset, AV, false},
	} {
		err := Check(c.typ, c.from, c.to, c.mask)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Values out of range change nothing.
func TestMerge(t *testing.T) {
	good := Attr{Port: 1, PathMTU: 1024, Timeout: 14, RetryCount: 7, RNRRetry: 7, RQPSN: 0xffffff, MinRNRTimer: 12}
	for mask, bad := range map[Mask]Attr{
		Port: {Port: 2}, PathMTU: {PathMTU: 1500}, Timeout: {Timeout: 32}, RetryCount: {RetryCount: 8},
		RNRRetry: {RNRRetry: 8}, RQPSN: {RQPSN: 1 << 24}, SQPSN: {SQPSN: 1 << 24}, MinRNRTimer: {MinRNRTimer: 32},
		DestQPN: {DestQPN: 1 << 24}, AV: {Path: Path{SL: 8}},
	} {
		a := good
		if err := a.Merge(&bad, mask); !errors.Is(err, ErrInvalid) || a != good {
			t.Errorf("%v: %v", mask, err)
		}
	}
	var a Attr
	if err := a.Merge(&good, PathMTU|RQPSN|RetryCount); err != nil || a.PathMTU != 1024 || a.RQPSN != 0xffffff || a.Port != 0 {
		t.Errorf("%v: %+v", err, a)
	}
	if s := (State | DestQPN | 1<<30).String(); s != "STATE|DEST_QPN|bit 0x40000000" {
		t.Error(s)
	}
}
