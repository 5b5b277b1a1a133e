package pairing

import (
	"testing"

	"tapir/wire/frame"
)

// TestSyncs: a Sync and its Follow_Up are a pair in either order; what waits
// in vain makes room and is told.
func TestSyncs(t *testing.T) {
	var s Syncs
	type step struct {
		followUp  bool
		seq       uint16
		want      Result
		displaced bool
	}
	for i, st := range []step{
		{false, 1, Waiting, false}, {true, 1, Done, false},
		{true, 1, Duplicate, false},
		{true, 2, Waiting, false}, {true, 2, Duplicate, false}, {false, 2, Done, false},
		{false, 3, Waiting, false}, {false, 4, Waiting, true}, {true, 3, Unmatched, false}, {true, 4, Done, false},
		{true, 5, Waiting, false}, {true, 6, Waiting, true}, {false, 7, Waiting, true},
		{true, 9, Waiting, true}, {false, 9, Done, false},
		{false, 65535, Waiting, false}, {true, 0, Waiting, true}, {false, 0, Done, false},
	} {
		var p Pair
		var r Result
		var displaced bool
		if st.followUp {
			p, r, displaced = s.FollowUp(st.seq, FollowUp{Origin: frame.Stamp(st.seq)})
		} else {
			p, r, displaced = s.Sync(st.seq, frame.Stamp(st.seq)+500, 0)
		}
		if r != st.want || displaced != st.displaced {
			t.Errorf("step %d %+v: %v, %v", i, st, r, displaced)
		}
		if r == Done && (p.Origin != frame.Stamp(st.seq) || p.Ingress != frame.Stamp(st.seq)+500 || !s.Seen(st.seq)) {
			t.Errorf("step %d: pair %+v", i, p)
		}
	}
	s.Sync(20, 0, 0)
	if s.Drop(); s.Seen(20) || !s.Seen(0) {
		t.Error("a dropped Sync was seen, or the last pair was not")
	}
}

// TestRequests: stamp and answer in either order; eight at a time.
func TestRequests(t *testing.T) {
	var r Requests
	if _, got := r.Sent(1, 0); got != Unknown {
		t.Errorf("a stamp without a request: %v", got)
	}
	r.Begin(1)
	r.Begin(2)
	r.Sent(1, 10)
	r.Answered(2, 21, 5)
	if _, got := r.Answered(2, 22, 5); got != Duplicate {
		t.Errorf("an answer again: %v", got)
	}
	for seq, e := range map[uint16]Exchange{1: {10, 11, 7}, 2: {20, 21, 5}} {
		var got Exchange
		var res Result
		if seq == 1 {
			got, res = r.Answered(1, 11, 7)
		} else {
			got, res = r.Sent(2, 20)
		}
		if res != Done || got != e {
			t.Errorf("request %d: %v, %+v", seq, res, got)
		}
		if _, res := r.Answered(seq, 0, 0); res != Unknown {
			t.Errorf("request %d, once more: %v", seq, res)
		}
	}
	for seq := uint16(65530); seq != 10; seq++ {
		if answered := r.Begin(seq); answered != (seq-65530 < 8) {
			t.Errorf("request %d took the place of one that was answered: %v", seq, answered)
		}
	}
}

// TestStamps: each ID has one stamp; late ones are told from strays.
func TestStamps(t *testing.T) {
	s := NewStamps[string](2)
	s.Await(1, 100, "a")
	s.Await(2, 90, "b")
	if !s.Full() || s.Deadline() != 90 {
		t.Errorf("full %v, deadline %v", s.Full(), s.Deadline())
	}
	if e, r := s.Take(2); e != "b" || r != Done {
		t.Errorf("%q, %v", e, r)
	}
	if _, r := s.Take(2); r != Unknown {
		t.Errorf("a stamp again: %v", r)
	}
	s.GiveUp()
	if _, r := s.Take(1); r != Unmatched {
		t.Errorf("a late stamp: %v", r)
	}
	if _, r := s.Take(1); r != Unknown {
		t.Errorf("a late stamp again: %v", r)
	}
	if _, r := s.Take(0); r != Unknown || s.Deadline() != frame.Never {
		t.Errorf("ID 0: %v; deadline %v", r, s.Deadline())
	}
}
