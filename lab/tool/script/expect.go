package script

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tapir/nic/nicdrop"
	"tapir/nic/toe"
	"tapir/wire/frame"
)

// expectation is what the application must have seen, or the engine hold.
type expectation struct {
	// holds says whether it is so, and what is so instead.
	holds func(r *runner, p *peer) (ok bool, have string)
	kind  func(h *happening) bool // of what has happened; nil: it is about what is so
	waits bool                    // * may stand before it
	word  word
}

func (e *expectation) do(r *runner, s *step) *Error {
	if r.live != nil {
		return r.live.expect(e, s)
	}
	ok, have := e.holds(r, r.peer(s.conn))
	if s.when.kind == anyTime && !ok {
		for end := r.at + farAway; !ok && r.at < end && len(r.queue) == 0; ok, have = e.holds(r, r.peer(s.conn)) {
			next := r.poll()
			if r.turns++; next == frame.Never || r.turns > maxTurns {
				break
			}
			r.at = max(r.at, time.Duration(next-epoch))
		}
		r.ref = r.at
		if !ok {
			ok, have = e.holds(r, r.peer(s.conn))
		}
	}
	if !ok {
		if err := r.silent(s, moreBefore); err != nil {
			return err
		}
		return r.fail(s, e.word, "not so", have)
	}
	return nil
}

// fact is whether something is so, and what is so instead.
type fact struct {
	ok   bool
	have string
}

// facts are the expectations without a number.
func facts(p *peer) map[string]fact {
	state := stateOf(p)
	return map[string]fact{
		"nothing":     {true, ""},
		"established": {p.app != nil && p.app.established, state},
		"eof":         {p.app != nil && p.app.eof, "the peer's FIN has not been delivered; " + state},
		"open":        {p.app != nil && !p.app.closed, state},
		"gone":        {p.conn == nil || p.conn.State() == toe.StateClosed, state},
		"ecn":         {p.conn != nil && p.conn.Info().ECN, "ECN is not in use"},
	}
}

// stateOf describes a connection for an error.
func stateOf(p *peer) string {
	switch {
	case p.conn == nil:
		return "there is no connection"
	case p.app.closed && p.app.err != nil:
		return fmt.Sprintf("closed: %v", p.app.err)
	case p.app.closed:
		return fmt.Sprintf("closed in order, state %v", p.conn.State())
	}
	return fmt.Sprintf("state %v", p.conn.State())
}

// numbers are the expectations of a connection with a number.
func numbers(p *peer, i *toe.Info) map[string]uint64 {
	return map[string]uint64{
		"acked":       p.app.acked,
		"cwnd":        i.Cwnd,
		"ssthresh":    i.Ssthresh,
		"flight":      i.SndNxt - i.SndUna,
		"mss":         uint64(i.MSS),
		"sndwnd":      i.SndWnd,
		"held":        uint64(i.OutOfOrder),
		"retransmits": i.Retransmits,
		"timeouts":    i.Timeouts,
		"recoveries":  i.FastRecovers,
	}
}

// times are those with a length of time.
func times(i *toe.Info) map[string]time.Duration {
	return map[string]time.Duration{"srtt": i.SRTT, "rttvar": i.RTTVar, "rto": i.RTO}
}

// counters are the engine's counts, over all connections.
func counters(s *toe.Stats) map[string]uint64 {
	return map[string]uint64{
		"challenge-acks": s.ChallengeAcks,
		"resets-in":      s.ResetsIn,
		"resets-out":     s.ResetsOut,
		"black-holes":    s.BlackHoles,
		"cookies-sent":   s.CookiesSent,
		"cookies-taken":  s.CookiesTaken,
		"time-wait":      uint64(s.TimeWait),
		"ce-marks":       s.CEMarks,
		"ecn-reductions": s.ECNReductions,
		"tail-probes":    s.TailProbes,
		"connections":    uint64(s.Open),
		"failures":       s.Failures,
	}
}

// expectReader reads what follows the word of an expectation.
type expectReader func(e *expectation, l *line)

// tcpExpects are the expectations of scripts of TCP.
var tcpExpects = func() map[string]expectReader {
	table := map[string]expectReader{"read": (*expectation).parseRead, "closed": (*expectation).parseClosed,
		"state": (*expectation).parseState, "dropped": (*expectation).parseDropped}
	for name := range facts(&peer{}) {
		table[name] = func(e *expectation, _ *line) {
			e.waits = name != "nothing" && name != "open"
			e.holds = func(_ *runner, p *peer) (bool, string) {
				f := facts(p)[name]
				return f.ok, f.have
			}
		}
	}
	for name := range numbers(&peer{app: &app{}}, &toe.Info{}) {
		table[name] = func(e *expectation, l *line) {
			n, w := l.integer("a number", 0, 1<<62)
			e.mark(w)
			e.ofConn(func(_ *runner, p *peer, i *toe.Info) (bool, string) {
				have := numbers(p, i)[name]
				return have == uint64(n), fmt.Sprintf("%s %d", name, have)
			})
		}
	}
	for name := range counters(&toe.Stats{}) {
		table[name] = func(e *expectation, l *line) {
			n, w := l.integer("a number", 0, 1<<62)
			e.mark(w)
			e.holds = func(r *runner, _ *peer) (bool, string) {
				have := counters(new(r.engine.Stats()))[name]
				return have == uint64(n), fmt.Sprintf("%s %d", name, have)
			}
		}
	}
	for name := range times(&toe.Info{}) {
		table[name] = func(e *expectation, l *line) {
			d, w := l.duration("a time")
			e.mark(w)
			e.ofConn(func(r *runner, _ *peer, i *toe.Info) (bool, string) {
				have := times(i)[name]
				return (have - d).Abs() <= r.script.set.tolerance, name + " " + formatTime(have)
			})
		}
	}
	return table
}()

// parseExpect reads what follows expect: an expectation of the table.
func parseExpect(table map[string]expectReader) func(*line) action {
	return func(l *line) action {
		w := l.next("what is to be so: " + sortedNames(table))
		parse := table[w.text]
		if parse == nil {
			panic(l.at(w, "%q: expected one of %s", w.text, sortedNames(table)))
		}
		e := &expectation{word: w, waits: true}
		parse(e, l)
		return e
	}
}

// mark makes the error of e point at the word with the value.
func (e *expectation) mark(w word) { e.word = word{e.word.text + " " + w.text, e.word.col} }

// ofConn is an expectation of a connection that is there.
func (e *expectation) ofConn(holds func(r *runner, p *peer, i *toe.Info) (bool, string)) {
	e.holds = func(r *runner, p *peer) (bool, string) {
		if p.conn == nil {
			return false, stateOf(p)
		}
		info := p.conn.Info()
		return holds(r, p, &info)
	}
}

// parseRead reads: read N, the octets delivered since the read before.
func (e *expectation) parseRead(l *line) {
	n, w := l.integer("a number of octets", 0, 1<<40)
	e.mark(w)
	e.holds = func(_ *runner, p *peer) (bool, string) {
		if p.app == nil {
			return false, stateOf(p)
		}
		have := p.app.received - p.app.claimed
		if have != uint64(n) {
			return false, fmt.Sprintf("read %d", have)
		}
		p.app.claimed = p.app.received
		return true, ""
	}
}

// parseClosed reads: closed [ERROR].
func (e *expectation) parseClosed(l *line) {
	var kind toe.Kind
	if !l.done() {
		names := slices.Sorted(maps.Keys(errorKinds))
		_, w := l.oneOf("an error", names)
		kind = errorKinds[w.text]
		e.mark(w)
	}
	e.holds = func(_ *runner, p *peer) (bool, string) {
		if p.app == nil || !p.app.closed {
			return false, "not closed; " + stateOf(p)
		}
		var have *toe.Error
		if !errors.As(p.app.err, &have) {
			return kind == 0, stateOf(p)
		}
		return have.Kind == kind, stateOf(p)
	}
}

func (e *expectation) parseState(l *line) {
	var names []string
	for s := toe.StateClosed; s <= toe.StateTimeWait; s++ {
		names = append(names, s.String())
	}
	want, w := l.oneOf("a state", names)
	e.mark(w)
	e.holds = func(r *runner, p *peer) (bool, string) {
		have := r.state(p)
		return have == toe.State(want), "state " + have.String()
	}
}

// state is the state of a connection, also before the application has it.
func (r *runner) state(p *peer) toe.State {
	if r.engine == nil {
		return toe.StateClosed
	}
	for c := range r.engine.Conns {
		if c.Local() == p.local && c.Remote() == p.remote {
			return c.State()
		}
	}
	if p.conn != nil {
		return p.conn.State()
	}
	return toe.StateClosed
}

// parseDropped reads: dropped REASON N, over all connections.
func (e *expectation) parseDropped(l *line) {
	var names []string
	reasons := slices.Collect(nicdrop.All())
	for _, d := range reasons {
		names = append(names, hyphenated(d))
	}
	i, _ := l.oneOf("a reason", names)
	n, w := l.integer("a number of segments", 0, 1<<40)
	e.mark(word{names[i] + " " + w.text, 0})
	e.holds = func(r *runner, _ *peer) (bool, string) {
		have := r.engine.Stats().Drops[reasons[i]]
		return have == uint64(n), fmt.Sprintf("dropped %s %d", names[i], have)
	}
}
