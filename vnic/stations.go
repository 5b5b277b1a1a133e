package vnic

import (
	"bytes"
	"math/bits"
	"slices"
	"time"

	"tapir/opa"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// hostSide is the LID of stations on the host's side.
const hostSide opa.LID = 0

// stationKey is a station: its VLAN id above its MAC address, and a mark that
// no other word has.
type stationKey uint64

func keyOf(a ether.Addr, vid uint16) stationKey {
	return stationKey(1<<63 | uint64(vid&0xfff)<<48 | macBits(a))
}

func (k stationKey) addr() ether.Addr {
	return ether.Addr{byte(k >> 40), byte(k >> 32), byte(k >> 24), byte(k >> 16), byte(k >> 8), byte(k)}
}

// station is where a source address was seen, and when last.
type station struct {
	key  stationKey // 0: no station
	lid  opa.LID
	seen frame.Time
}

// stations is a hash table with linear probing; less than half of the slots
// are in use.
type stations struct {
	slots       []station
	n           int
	age         time.Duration
	most        int
	perLID      int
	countsByLID map[opa.LID]int
}

// lesson is what learn found.
type lesson uint8

const (
	unchanged lesson = iota // nothing new
	learned                 // a station that was not known
	moved                   // it was somewhere else
	refused                 // there is no room to remember it
)

func (t *stations) limit(most, perLID int, age time.Duration) {
	t.most, t.perLID, t.age = most, perLID, age
}

// clear forgets all.
func (t *stations) clear() {
	t.slots, t.n, t.countsByLID = nil, 0, nil
}

// at is the slot of k, or the free one where it would be. There must be slots.
func (t *stations) at(k stationKey) int {
	mask := len(t.slots) - 1
	i := int(uint64(k) * golden >> (64 - bits.Len(uint(mask))))
	for t.slots[i].key != 0 && t.slots[i].key != k {
		i = (i + 1) & mask
	}
	return i
}

// find returns the LID behind which station k was seen, if it was lately.
func (t *stations) find(k stationKey, now frame.Time) (opa.LID, bool) {
	if t.n == 0 {
		return 0, false
	}
	s := &t.slots[t.at(k)]
	if s.key == 0 || now.Sub(s.seen) > t.age {
		return 0, false
	}
	return s.lid, true
}

// learn notes that station k was seen behind lid.
func (t *stations) learn(k stationKey, lid opa.LID, now frame.Time) lesson {
	if t.n > 0 {
		if s := &t.slots[t.at(k)]; s.key != 0 {
			if s.lid == lid {
				s.seen = now
				return unchanged
			}
			if !t.room(lid) {
				return refused
			}
			t.count(s.lid, -1)
			t.count(lid, 1)
			s.lid, s.seen = lid, now
			return moved
		}
	}
	if t.n >= t.most || !t.room(lid) {
		return refused
	}
	if 2*(t.n+1) > len(t.slots) {
		t.grow()
	}
	t.slots[t.at(k)] = station{k, lid, now}
	t.n++
	t.count(lid, 1)
	return learned
}

// room reports whether another station may be behind lid.
func (t *stations) room(lid opa.LID) bool {
	return lid == hostSide || t.countsByLID[lid] < t.perLID
}

func (t *stations) count(lid opa.LID, d int) {
	if lid == hostSide {
		return
	}
	if t.countsByLID == nil {
		t.countsByLID = map[opa.LID]int{}
	}
	if t.countsByLID[lid] += d; t.countsByLID[lid] == 0 {
		delete(t.countsByLID, lid)
	}
}

func (t *stations) grow() {
	old := t.slots
	t.slots = make([]station, max(16, 2*len(old)))
	for _, s := range old {
		if s.key != 0 {
			t.slots[t.at(s.key)] = s
		}
	}
}

// remove forgets the station in slot i; those that had to give way to it move
// up.
func (t *stations) remove(i int) {
	t.count(t.slots[i].lid, -1)
	t.n--
	t.slots[i] = station{}
	mask := len(t.slots) - 1
	for j := (i + 1) & mask; t.slots[j].key != 0; j = (j + 1) & mask {
		s := t.slots[j]
		t.slots[j] = station{}
		t.slots[t.at(s.key)] = s
	}
}

// expire forgets the stations that were silent for too long and reports
// whether one of the host's side was among them.
func (t *stations) expire(now frame.Time) (host bool) {
	for i := 0; i < len(t.slots); i++ {
		for s := &t.slots[i]; s.key != 0 && now.Sub(s.seen) > t.age; {
			host = host || s.lid == hostSide
			t.remove(i)
		}
	}
	return host
}

// appendLocal appends the addresses of the host's side but one, in ascending
// order and each once.
func (t *stations) appendLocal(list []ether.Addr, except ether.Addr) []ether.Addr {
	from := len(list)
	for i := range t.slots {
		if s := &t.slots[i]; s.key != 0 && s.lid == hostSide && s.key.addr() != except {
			list = append(list, s.key.addr())
		}
	}
	slices.SortFunc(list[from:], func(a, b ether.Addr) int { return bytes.Compare(a[:], b[:]) })
	return append(list[:from], slices.Compact(list[from:])...)
}
