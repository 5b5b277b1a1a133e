package em

import (
	"fmt"

	"tapir/wire/frame"
)

// Event is one entry of the audit log.
type Event struct {
	Seq  uint64     `json:"seq"` // from 0, without gaps
	At   frame.Time `json:"at_ns"`
	Text string     `json:"text"`
}

// auditLines bounds the entries that are kept.
const auditLines = 4096

type auditLog struct {
	ring []Event
	next uint64
}

// note adds an entry to the audit log.
func (m *Manager) note(format string, args ...any) {
	l := &m.log
	e := Event{l.next, m.now, fmt.Sprintf(format, args...)}
	l.next++
	if len(l.ring) < auditLines {
		l.ring = append(l.ring, e)
	} else {
		l.ring[e.Seq%auditLines] = e
	}
	if m.opt.OnEvent != nil {
		m.opt.OnEvent(e)
	}
}

// Events returns the entries of the audit log that are kept, from number since
// on.
func (m *Manager) Events(since uint64) (list []Event) {
	first := m.log.next - uint64(len(m.log.ring))
	for seq := max(first, since); seq < m.log.next; seq++ {
		list = append(list, m.log.ring[seq%auditLines])
	}
	return list
}
