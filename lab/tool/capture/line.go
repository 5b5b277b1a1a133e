package capture

import (
	"fmt"

	"tapir/nic/msglog"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// Topics are those of the log of which the session wants to have the lines.
func (s *Session) Topics() msglog.Topic { return s.opt.Log }

// Line writes a line, borrowed, that the NIC says about a topic, between the
// packets, as an entry of a journal. Like Trace it never blocks and does not
// allocate.
func (s *Session) Line(t msglog.Topic, at frame.Stamp, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || s.opt.Log&t == 0 {
		return
	}
	e := pcapng.Journal{Stamp: int64(at), Host: s.name, Topic: t.String(), Message: text}
	if !s.out.reserve(e.Size()) {
		s.lines++
		return
	}
	s.out.fill = e.AppendTo(s.out.fill)
	s.out.signal()
}

// lostLines says in the closing statistics how many lines are missing.
func (s *Session) lostLines() []string {
	if s.lines == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d lines of the log are missing: the capture's reader was too slow", s.lines)}
}
