package ptp

import "tapir/wire/frame"

// latchValid is the bit of a status word that says that a stamp is held; the
// low 16 bits are its packet's sequenceId.
const latchValid = 1 << 16

// latch holds the stamp of one packet. Until it is armed again, no other
// packet is stamped.
type latch struct {
	status  uint32
	counter int64 // of the free counter, ns
}

func (l *latch) valid() bool { return l.status&latchValid != 0 }

// hold takes a stamp, if the latch is armed.
func (l *latch) hold(sequence uint16, counter int64) bool {
	if l.valid() {
		return false
	}
	l.status, l.counter = uint32(sequence)|latchValid, counter
	return true
}

// read returns what is held, as often as it is asked.
func (l *latch) read() (sequence uint16, counter int64, ok bool) {
	return uint16(l.status), l.counter, l.valid()
}

// rearm is the write of the valid bit.
func (l *latch) rearm() { l.status = 0 }

// stamps keeps the latest stamps until they are fetched.
type stamps struct {
	ring [64]struct {
		id    ID
		stamp frame.Stamp
		full  bool
	}
	next int
}

func (s *stamps) add(id ID, stamp frame.Stamp) {
	e := &s.ring[s.next]
	e.id, e.stamp, e.full = id, stamp, true
	s.next = (s.next + 1) % len(s.ring)
}

// take returns the oldest stamp of id and forgets it.
func (s *stamps) take(id ID) (frame.Stamp, bool) {
	if s == nil {
		return 0, false
	}
	for i := range s.ring {
		e := &s.ring[(s.next+i)%len(s.ring)]
		if e.full && e.id == id {
			e.full = false
			return e.stamp, true
		}
	}
	return 0, false
}
