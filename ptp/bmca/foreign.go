package bmca

import (
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

const (
	// Window is FOREIGN_MASTER_TIME_WINDOW in announce intervals.
	Window = 4
	// Threshold is FOREIGN_MASTER_THRESHOLD: so many Announces in the window
	// qualify a foreign master.
	Threshold = 2
	// MaxForeign is how many foreign masters a port remembers.
	MaxForeign = 16
	// MaxPath is how many identities of a path trace are remembered; an Ethernet
	// frame holds 179.
	MaxPath = 179
	// MaxPropagated is how many octets of TLVs to be passed on are remembered.
	MaxPropagated = 512
)

// Foreign is a master that a port has heard.
type Foreign struct {
	Dataset
	Header msg.Header // of its last Announce
	Info   msg.Grandmaster
	Addr   transport.Addr      // where it came from
	Path   []msg.ClockIdentity // its path trace
	// Propagated are the TLVs that a boundary clock passes on without knowing
	// them, as far as MaxPropagated goes.
	Propagated []byte

	recent    [Window]frame.Time // when its last Announces came, the newest first
	count     int                // how many of them there are
	qualified bool
}

// Table holds the foreign masters of one port. Its size is bounded: who floods
// the port with identities can at most put out those that are no better.
type Table struct {
	Algorithm Algorithm
	Threshold int // Announces that qualify: 2, or 1 in IEEE 802.1AS

	list []*Foreign // in order of arrival
	free []*Foreign
}

// Heard is what an Announce did to a table.
type Heard uint8

const (
	Nothing  Heard = iota // as before
	Changed               // the best master may be another one
	Rejected              // the table is full of better masters
)

// Hear takes in an Announce that receiver got at now; m is borrowed. interval
// is the port's announce interval, localPriority that of the port.
func (t *Table) Hear(m *msg.Message, addr transport.Addr, receiver msg.PortIdentity, localPriority uint8,
	interval time.Duration, now frame.Time) Heard {
	t.prune(now.Add(-Window * interval))
	ds := Dataset{
		Priority1: m.Grandmaster.Priority1, Identity: m.Grandmaster.Identity, Quality: m.Grandmaster.Quality,
		Priority2: m.Grandmaster.Priority2, LocalPriority: localPriority, StepsRemoved: m.Grandmaster.StepsRemoved,
		Sender: m.Source, Receiver: receiver,
	}
	f := t.Find(m.Source)
	if f == nil {
		if f = t.add(&ds); f == nil {
			return Rejected
		}
	}
	was, info, flags := f.qualified, f.Info, f.Header.Flags
	f.Dataset, f.Header, f.Info, f.Addr = ds, m.Header, m.Grandmaster, addr
	f.setTLVs(m.TLVs)
	copy(f.recent[1:], f.recent[:])
	f.recent[0] = now
	f.count = min(f.count+1, Window)
	f.qualified = was || f.count >= t.Threshold && f.recent[t.Threshold-1] >= now.Add(-Window*interval)
	if f.qualified && (!was || info != f.Info || flags != f.Header.Flags) {
		return Changed
	}
	return Nothing
}

// setTLVs copies the path trace and what is to be propagated.
func (f *Foreign) setTLVs(tlvs msg.TLVs) {
	f.Path, f.Propagated = f.Path[:0], f.Propagated[:0]
	for t, rest, ok := tlvs.Next(); ok; t, rest, ok = rest.Next() {
		switch {
		case t.Type == msg.TLVPathTrace:
			for v := t.Value; len(v) >= 8 && len(f.Path) < MaxPath; v = v[8:] {
				f.Path = append(f.Path, msg.ClockIdentity(v))
			}
		case propagates(t) && len(f.Propagated)+msg.TLVHeaderLen+len(t.Value) <= MaxPropagated:
			f.Propagated = msg.AppendTLV(f.Propagated, t.Type, t.Value)
		}
	}
}

// propagates tells whether a boundary clock passes on a TLV of Announces: one
// that says so, or the grandmaster's of the power profile.
func propagates(t msg.TLV) bool {
	var power msg.Power
	return t.Type.Propagates() || t.Type == msg.TLVOrganization && power.Parse(t.Value) == nil
}

// Find returns the entry of a sender, nil if it is not known.
func (t *Table) Find(sender msg.PortIdentity) *Foreign {
	for _, f := range t.list {
		if f.Sender == sender {
			return f
		}
	}
	return nil
}

// add makes room for a master with data set ds: a free place, else that of the
// oldest one that did not qualify, else that of the worst if it is worse.
func (t *Table) add(ds *Dataset) *Foreign {
	if len(t.list) >= MaxForeign {
		victim := t.victim(ds)
		if victim < 0 {
			return nil
		}
		t.remove(victim)
	}
	f := &Foreign{}
	if n := len(t.free); n > 0 {
		f, t.free = t.free[n-1], t.free[:n-1]
	}
	*f = Foreign{Path: f.Path[:0], Propagated: f.Propagated[:0]}
	t.list = append(t.list, f)
	return f
}

func (t *Table) victim(ds *Dataset) int {
	worst := 0
	for i, f := range t.list {
		if !f.qualified {
			return i
		}
		if t.Algorithm.Compare(&t.list[worst].Dataset, &f.Dataset) > 0 {
			worst = i
		}
	}
	if t.Algorithm.Compare(ds, &t.list[worst].Dataset) > 0 {
		return worst
	}
	return -1
}

func (t *Table) remove(i int) {
	t.free = append(t.free, t.list[i])
	t.list = append(t.list[:i], t.list[i+1:]...)
}

// Forget removes a sender.
func (t *Table) Forget(sender msg.PortIdentity) {
	for i, f := range t.list {
		if f.Sender == sender {
			t.remove(i)
			return
		}
	}
}

// Clear forgets everybody.
func (t *Table) Clear() {
	for len(t.list) > 0 {
		t.remove(len(t.list) - 1)
	}
}

// prune forgets those who were not heard since the time given.
func (t *Table) prune(since frame.Time) {
	for i := len(t.list) - 1; i >= 0; i-- {
		if t.list[i].recent[0] < since {
			t.remove(i)
		}
	}
}

// Best is Erbest: the best qualified master that was heard in the window
// before now, nil if there is none. It is valid until the table's next change.
func (t *Table) Best(interval time.Duration, now frame.Time) *Foreign {
	t.prune(now.Add(-Window * interval))
	var best *Foreign
	for _, f := range t.list {
		if f.qualified && (best == nil || t.Algorithm.Compare(&f.Dataset, &best.Dataset) > 0) {
			best = f
		}
	}
	return best
}

// Len is the number of masters known.
func (t *Table) Len() int { return len(t.list) }
