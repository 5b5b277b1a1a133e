package tc

import (
	"time"

	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// key finds the residence time that belongs in a general message: that of the
// event message with the same source, or requesting, port and sequenceId, as
// it left by one port.
type key struct {
	event  msg.Type // Sync, Delay_Req, Pdelay_Req or Pdelay_Resp
	domain uint8
	sdoID  uint16
	port   msg.PortIdentity
	seq    uint16
	egress uint16
}

// outcome is what is known of a residence time.
type outcome uint8

const (
	unseen  outcome = iota // no such event message has passed
	pending                // it has left, its egress stamp is not known yet
	known
	lost // there will be no egress stamp
)

// record is one event message on its way out of one port.
type record struct {
	id      uint64
	key     key
	outcome outcome
	ingress frame.Stamp
	extra   msg.TimeInterval // link delay and asymmetry
	value   msg.TimeInterval // residence and extra; once known
	born    frame.Time
	made    *frame.Frame // the Follow_Up that a one-step message gets; nil: it has its own
	egress  int
}

// table holds the residence times of the latest event messages, in a ring: a
// new one takes the place of the oldest.
type table struct {
	ring    []record
	index   map[key]uint64
	next    uint64 // id of the newest
	expiry  time.Duration
	evicted uint64 // records pushed out before they expired
}

func newTable(size int, expiry time.Duration) table {
	return table{ring: make([]record, size), index: make(map[key]uint64, size), expiry: expiry}
}

func (t *table) slot(id uint64) *record { return &t.ring[id%uint64(len(t.ring))] }

// add makes a record whose egress stamp is pending. There must be none of k.
func (t *table) add(k key, ingress frame.Stamp, extra msg.TimeInterval, now frame.Time) *record {
	t.next++
	r := t.slot(t.next)
	if r.outcome != unseen {
		if now.Sub(r.born) < t.expiry {
			t.evicted++
		}
		t.forget(r)
	}
	*r = record{id: t.next, key: k, outcome: pending, ingress: ingress, extra: extra, born: now}
	t.index[k] = r.id
	return r
}

func (t *table) forget(r *record) {
	delete(t.index, r.key)
	if r.made != nil {
		r.made.Release()
	}
	*r = record{}
}

// find is the record of k, nil if there is none or it has expired.
func (t *table) find(k key, now frame.Time) *record {
	id, ok := t.index[k]
	if !ok {
		return nil
	}
	r := t.slot(id)
	if now.Sub(r.born) >= t.expiry {
		t.forget(r)
		return nil
	}
	return r
}

// byID is the record of a stamp that arrives; nil if it is gone or has one.
func (t *table) byID(id uint64) *record {
	r := t.slot(id)
	if r.id != id || r.outcome != pending {
		return nil
	}
	return r
}
