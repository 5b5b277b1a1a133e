package ptp

import (
	"testing"
	"time"

	"tapir/ptp/msg"
)

// only returns an alteration of messages of type t number from, from+1 ... to.
func only(t msg.Type, from, to int, f fate) func(*msg.Message) fate {
	n := 0
	return func(m *msg.Message) fate {
		if m.Type != t {
			return fate{}
		}
		if n++; n >= from && n <= to {
			return f
		}
		return fate{}
	}
}

// onlyStamp is the same for stamps.
func onlyStamp(t msg.Type, from, to int, f stampFate) func(*msg.Message) stampFate {
	n := 0
	return func(m *msg.Message) stampFate {
		if m.Type != t {
			return stampFate{}
		}
		if n++; n >= from && n <= to {
			return f
		}
		return stampFate{}
	}
}

// TestTxTimestampLost: the port is FAULTY for the fault reset interval, then
// begins anew; the same for a stamp that comes as an error.
func TestTxTimestampLost(t *testing.T) {
	for _, tc := range []struct {
		name string
		kind msg.Type
		how  stampFate
	}{
		{"Delay_Req", msg.DelayReq, stampFate{lost: true}},
		{"Delay_Req, error", msg.DelayReq, stampFate{err: errStamp}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, master, slave := pair(t, nil)
			w.until("lock", 10*time.Second, slave.converged(master, 100))
			slave.ends[0].stamp = onlyStamp(tc.kind, 1, 1, tc.how)
			w.until("fault", 2*time.Second, func() bool { return slave.state(0) == msg.StateFaulty })
			since := w.now
			w.until("end of the fault", 20*time.Second, func() bool { return slave.state(0) == msg.StateListening })
			if d := w.now.Sub(since); d < 15900*time.Millisecond || d > 16100*time.Millisecond {
				t.Errorf("faulty for %v", d)
			}
			w.until("lock again", 10*time.Second, slave.converged(master, 100))
			s := slave.Stats(0)
			if s.Drops[DropStampLost] != 1 || s.Faults != 1 {
				t.Errorf("stamps lost %d, faults %d", s.Drops[DropStampLost], s.Faults)
			}
			if got := slave.Snapshot().Ports[0].Fault; got != "transmit timestamp lost" {
				t.Errorf("fault %q", got)
			}
		})
	}
}

// TestMasterTxTimestampLost: the master is FAULTY; the slave, which may be
// master, takes over and gives back.
func TestMasterTxTimestampLost(t *testing.T) {
	w, master, slave := pair(t, nil)
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	master.ends[0].stamp = onlyStamp(msg.Sync, 1, 1, stampFate{lost: true})
	w.until("the slave takes over", 5*time.Second, func() bool {
		return slave.state(0) == msg.StateMaster && master.state(0) == msg.StateFaulty
	})
	w.until("the master returns", 30*time.Second, slave.converged(master, 100))
}

// TestTxTimestampLate: a stamp that comes within its time is used, one that
// comes later is counted and changes nothing.
func TestTxTimestampLate(t *testing.T) {
	w, master, slave := pair(t, nil)
	slave.ends[0].stamp = onlyStamp(msg.DelayReq, 1, 1000, stampFate{late: 9 * time.Millisecond}) // behind the Delay_Resp
	master.ends[0].stamp = onlyStamp(msg.Sync, 1, 1000, stampFate{late: 9 * time.Millisecond})
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	if s := slave.Stats(0); s.Faults != 0 {
		t.Fatalf("stamps in time made a fault: %+v", s)
	}
	slave.ends[0].stamp = onlyStamp(msg.DelayReq, 1, 1, stampFate{late: 11 * time.Millisecond})
	w.until("fault", 2*time.Second, func() bool { return slave.state(0) == msg.StateFaulty })
	w.run(time.Second)
	if s := slave.Stats(0); s.Drops[DropStampLost] != 1 || s.Drops[DropStampLate] != 1 || s.Drops[DropStampStray] != 0 {
		t.Errorf("drops %v", s.Drops)
	}
}

// TestTxTimestampDuplicated: the second report of a stamp is counted, and
// nothing else.
func TestTxTimestampDuplicated(t *testing.T) {
	w, master, slave := pair(t, nil)
	slave.ends[0].stamp = func(*msg.Message) stampFate { return stampFate{twice: true} }
	master.ends[0].stamp = slave.ends[0].stamp
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	w.run(5 * time.Second)
	for _, n := range []*node{master, slave} {
		s := n.Stats(0)
		if sent := s.Tx[msg.Sync] + s.Tx[msg.DelayReq]; s.Drops[DropStampStray] < sent-2 || s.Faults != 0 {
			t.Errorf("%s: %d events, drops %v, faults %d", n.name, sent, s.Drops, s.Faults)
		}
	}
	if m, s := master.Stats(0), slave.Stats(0); m.Tx[msg.FollowUp] != m.Tx[msg.Sync] || s.Drops[DropDuplicate] != 0 {
		t.Errorf("%d Syncs, %d Follow_Ups", m.Tx[msg.Sync], m.Tx[msg.FollowUp])
	}
}

// TestSyncWithoutFollowUp: nothing is measured, and the Sync that lost its
// counterpart is counted; the next pair is used.
func TestSyncWithoutFollowUp(t *testing.T) {
	w, master, slave := pair(t, nil)
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	master.ends[0].alter = only(msg.FollowUp, 1, 8, fate{drop: true})
	n := len(slave.samples)
	w.run(time.Second - time.Millisecond)
	if len(slave.samples) > n+1 {
		t.Errorf("%d samples without Follow_Ups", len(slave.samples)-n)
	}
	w.run(time.Second)
	if s := slave.Stats(0); s.SyncMismatch != 8 || s.Drops[DropUnmatched] != 8 || slave.state(0) != msg.StateSlave {
		t.Errorf("mismatches %d, drops %d, state %v", s.SyncMismatch, s.Drops[DropUnmatched], slave.state(0))
	}
	if len(slave.samples) < n+7 {
		t.Errorf("%d samples", len(slave.samples)-n)
	}
}

// TestFollowUpBeforeSync: Follow_Ups that overtake their Syncs are used.
func TestFollowUpBeforeSync(t *testing.T) {
	w, master, slave := pair(t, nil)
	master.ends[0].alter = only(msg.Sync, 1, 1<<30, fate{late: time.Microsecond})
	w.until("lock", 10*time.Second, slave.converged(master, 2000))
	w.run(5 * time.Second)
	if s := slave.Stats(0); s.Drops[DropUnmatched] != 0 || slave.samples[len(slave.samples)-1].Sequence == 0 {
		t.Errorf("drops %v", s.Drops)
	}
	// The way of the Syncs is a microsecond longer: half of it is seen.
	if off := slave.off(master); off < -520 || off > -480 {
		t.Errorf("offset %v", off)
	}
}

// TestSyncLost: a Follow_Up whose Sync was lost is not taken for that of
// another one.
func TestSyncLost(t *testing.T) {
	w, master, slave := pair(t, nil)
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	master.ends[0].alter = only(msg.Sync, 2, 5, fate{drop: true})
	w.run(2 * time.Second)
	if s := slave.Stats(0); s.FollowUpMismatch != 3 || s.SyncMismatch != 1 && s.Drops[DropUnmatched] != 4 {
		t.Errorf("mismatches %d and %d, drops %d", s.SyncMismatch, s.FollowUpMismatch, s.Drops[DropUnmatched])
	}
	if off := slave.off(master); off > 10 || off < -10 {
		t.Errorf("offset %v", off)
	}
}

// TestDuplicates: each message twice changes nothing but the counters.
func TestDuplicates(t *testing.T) {
	for _, p := range []Profile{DefaultE2E, DefaultP2P} {
		w, master, slave := pairOf(t, p, nil)
		master.ends[0].alter = func(*msg.Message) fate { return fate{twice: true} }
		w.until("lock", 10*time.Second, slave.converged(master, 100))
		w.run(2 * time.Second)
		if off := slave.off(master); off > 5 || off < -5 {
			t.Errorf("%v: offset %v", p, off)
		}
		if s := slave.Stats(0); s.Drops[DropDuplicate] < 30 {
			t.Errorf("%v: %d duplicates", p, s.Drops[DropDuplicate])
		}
	}
}

// TestSequenceWrap: sequenceIds of all kinds pass from 65535 to 0.
func TestSequenceWrap(t *testing.T) {
	for _, p := range []Profile{DefaultE2E, DefaultP2P} {
		w, master, slave := pairOf(t, p, nil)
		for _, n := range []*node{master, slave} {
			for i := range n.ports[0].seq {
				n.ports[0].seq[i] = 65500
			}
			for range 65500 {
				n.ports[0].link.Begin()
			}
		}
		w.until("lock", 10*time.Second, slave.converged(master, 100))
		w.run(10 * time.Second)
		last := slave.samples[len(slave.samples)-1].Sequence
		if last > 100 || slave.Stats(0).Drops[DropSequence] != 0 || slave.Stats(0).Drops[DropUnmatched] != 0 {
			t.Errorf("%v: last Sync %d, drops %v", p, last, slave.Stats(0).Drops)
		}
		for i := 1; i < len(slave.samples); i++ {
			if d := slave.samples[i].Sequence - slave.samples[i-1].Sequence; d != 1 {
				t.Fatalf("%v: Sync %d follows %d", p, slave.samples[i].Sequence, slave.samples[i-1].Sequence)
			}
		}
	}
}

// TestMasterClockStep: the master's clock jumps a day ahead. Without a step
// threshold the slave never steps again and follows as fast as it can; with
// one it steps.
func TestMasterClockStep(t *testing.T) {
	for _, threshold := range []float64{0, 20_000} {
		w, master, slave := pair(t, func(_, s *Config) { s.Servo.Step = threshold })
		w.until("lock", 10*time.Second, slave.converged(master, 100))
		if err := master.phc.AdjTime(w.now, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
		master.ClockStepped()
		if threshold != 0 {
			w.until("step", 10*time.Second, slave.converged(master, 100))
			continue
		}
		w.run(10 * time.Second)
		if off := slave.off(master); off > -23*time.Hour {
			t.Errorf("slave is %v off", off)
		}
		if f := slave.discipline.Frequency(); f < 400_000_000 {
			t.Errorf("correction %v ppb", f)
		}
	}
}

// TestSlaveClockStep: somebody sets the slave's clock back by a day. The
// sanity check finds it, the servo begins anew and steps it back.
func TestSlaveClockStep(t *testing.T) {
	for _, told := range []bool{false, true} {
		w, master, slave := pair(t, func(_, s *Config) { s.Servo.Step = 20_000 })
		w.until("lock", 10*time.Second, slave.converged(master, 100))
		if err := slave.phc.AdjTime(w.now, -24*time.Hour); err != nil {
			t.Fatal(err)
		}
		if told {
			slave.ClockStepped()
		}
		w.until("the slave is right again", 10*time.Second, slave.converged(master, 100))
		w.run(5 * time.Second)
		if off := slave.off(master); off > 10 || off < -10 {
			t.Errorf("told %v: slave is %v off", told, off)
		}
	}
}
