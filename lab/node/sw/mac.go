package sw

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Defaults of the MAC table, those of IEEE 802.1Q table 8-6 and of small
// switches.
const (
	defaultAgeing = 300 * time.Second
	defaultMACs   = 4096
)

// station is where a MAC address was last seen.
type station struct {
	port int
	seen frame.Time
}

// macTable is a filtering database with learning and ageing (IEEE 802.1Q
// section 8.8). VLANs share it.
type macTable struct {
	stations map[ether.Addr]station
	ageing   time.Duration
	most     int
	sweep    frame.Time // when the aged entries go next
	full     uint64     // addresses that found no place
	moves    uint64     // addresses that turned up at another port
}

func newMACTable(ageing time.Duration, most int) macTable {
	ageing = cmp.Or(ageing, defaultAgeing)
	return macTable{stations: map[ether.Addr]station{}, ageing: ageing, most: cmp.Or(most, defaultMACs),
		sweep: frame.Time(0).Add(ageing)}
}

// learn notes that a frame from a came in through port.
func (t *macTable) learn(a ether.Addr, port int, now frame.Time) {
	old, known := t.stations[a]
	if !known && len(t.stations) >= t.most {
		t.age(now)
		if len(t.stations) >= t.most {
			t.full++
			return
		}
	}
	if known && old.port != port {
		t.moves++
	}
	t.stations[a] = station{port, now}
}

// find returns the port behind which a is.
func (t *macTable) find(a ether.Addr, now frame.Time) (port int, ok bool) {
	s, ok := t.stations[a]
	if !ok || now.Sub(s.seen) >= t.ageing {
		return 0, false
	}
	return s.port, true
}

// poll forgets what has aged, once per ageing time.
func (t *macTable) poll(now frame.Time) {
	if now >= t.sweep {
		t.age(now)
		t.sweep = now.Add(t.ageing)
	}
}

func (t *macTable) age(now frame.Time) {
	for a, s := range t.stations {
		if now.Sub(s.seen) >= t.ageing {
			delete(t.stations, a)
		}
	}
}

// MACRow is one entry of the MAC table.
type MACRow struct {
	MAC  ether.Addr `json:"mac"`
	Port string     `json:"port"`
	Age  string     `json:"age"` // such as "1.25s"
}

// rows lists the table, ordered by address.
func (t *macTable) rows(name func(port int) string, now frame.Time) []MACRow {
	list := make([]MACRow, 0, len(t.stations))
	for a, s := range t.stations {
		if age := now.Sub(s.seen); age < t.ageing {
			list = append(list, MACRow{a, name(s.port), age.Round(time.Millisecond).String()})
		}
	}
	slices.SortFunc(list, func(a, b MACRow) int { return bytes.Compare(a.MAC[:], b.MAC[:]) })
	return list
}
