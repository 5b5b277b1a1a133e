package script

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

func (e *expectation) eventually() bool { return e.waits }

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

// events are the expectations without a number.
var events = map[string]func(r *runner, p *peer) (bool, string){
	"nothing": func(*runner, *peer) (bool, string) { return true, "" },
	"established": func(_ *runner, p *peer) (bool, string) {
		return p.app != nil && p.app.established, stateOf(p)
	},
	"eof": func(_ *runner, p *peer) (bool, string) {
		return p.app != nil && p.app.eof, "the peer's FIN has not been delivered; " + stateOf(p)
	},
	"open": func(_ *runner, p *peer) (bool, string) {
		return p.app != nil && !p.app.closed, stateOf(p)
	},
	"gone": func(r *runner, p *peer) (bool, string) {
		return p.conn == nil || p.conn.State() == toe.StateClosed, stateOf(p)
	},
	"ecn": func(_ *runner, p *peer) (bool, string) {
		return p.conn != nil && p.conn.Info().ECN, "ECN is not in use"
	},
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

// numbers are the expectations with a number. They need a connection.
var numbers = map[string]func(p *peer, i *toe.Info) uint64{
	"acked":       func(p *peer, _ *toe.Info) uint64 { return p.app.acked },
	"cwnd":        func(_ *peer, i *toe.Info) uint64 { return i.Cwnd },
	"ssthresh":    func(_ *peer, i *toe.Info) uint64 { return i.Ssthresh },
	"flight":      func(_ *peer, i *toe.Info) uint64 { return i.SndNxt - i.SndUna },
	"mss":         func(_ *peer, i *toe.Info) uint64 { return uint64(i.MSS) },
	"sndwnd":      func(_ *peer, i *toe.Info) uint64 { return i.SndWnd },
	"held":        func(_ *peer, i *toe.Info) uint64 { return uint64(i.OutOfOrder) },
	"retransmits": func(_ *peer, i *toe.Info) uint64 { return i.Retransmits },
	"timeouts":    func(_ *peer, i *toe.Info) uint64 { return i.Timeouts },
	"recoveries":  func(_ *peer, i *toe.Info) uint64 { return i.FastRecovers },
}

// counters are the engine's counts, over all connections.
var counters = map[string]func(s *toe.Stats) uint64{
	"challenge-acks": func(s *toe.Stats) uint64 { return s.ChallengeAcks },
	"resets-in":      func(s *toe.Stats) uint64 { return s.ResetsIn },
	"resets-out":     func(s *toe.Stats) uint64 { return s.ResetsOut },
	"black-holes":    func(s *toe.Stats) uint64 { return s.BlackHoles },
	"cookies-sent":   func(s *toe.Stats) uint64 { return s.CookiesSent },
	"cookies-taken":  func(s *toe.Stats) uint64 { return s.CookiesTaken },
	"time-wait":      func(s *toe.Stats) uint64 { return uint64(s.TimeWait) },
	"ce-marks":       func(s *toe.Stats) uint64 { return s.CEMarks },
	"ecn-reductions": func(s *toe.Stats) uint64 { return s.ECNReductions },
	"tail-probes":    func(s *toe.Stats) uint64 { return s.TailProbes },
	"connections":    func(s *toe.Stats) uint64 { return uint64(s.Open) },
	"failures":       func(s *toe.Stats) uint64 { return s.Failures },
}

// times are the expectations with a length of time.
var times = map[string]func(i *toe.Info) time.Duration{
	"srtt":   func(i *toe.Info) time.Duration { return i.SRTT },
	"rttvar": func(i *toe.Info) time.Duration { return i.RTTVar },
	"rto":    func(i *toe.Info) time.Duration { return i.RTO },
}

func expectNames() string {
	names := []string{"read", "closed", "state", "dropped"}
	names = slices.AppendSeq(names, maps.Keys(events))
	names = slices.AppendSeq(names, maps.Keys(numbers))
	names = slices.AppendSeq(names, maps.Keys(counters))
	names = slices.AppendSeq(names, maps.Keys(times))
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// parseExpect reads what follows expect.
func parseExpect(l *line) action {
	w := l.next("what is to be so: " + expectNames())
	e := &expectation{word: w, waits: true}
	e.parse(l, w, expectNames())
	return e
}

// parse reads what follows w; names are the words that might stand for w.
func (e *expectation) parse(l *line, w word, names string) {
	switch {
	case events[w.text] != nil:
		e.holds = events[w.text]
		e.waits = w.text != "nothing" && w.text != "open"
	case numbers[w.text] != nil:
		e.parseNumber(l, w.text)
	case counters[w.text] != nil:
		e.parseCounter(l, w.text)
	case times[w.text] != nil:
		e.parseTime(l, w.text)
	case w.text == "read":
		e.parseRead(l)
	case w.text == "closed":
		e.parseClosed(l)
	case w.text == "state":
		e.parseState(l)
	case w.text == "dropped":
		e.parseDropped(l)
	default:
		panic(l.at(w, "%q: expected one of %s", w.text, names))
	}
}

// mark makes the error of e point at the word with the value.
func (e *expectation) mark(w word) { e.word = word{e.word.text + " " + w.text, e.word.col} }

func (e *expectation) parseNumber(l *line, name string) {
	n, w := l.integer("a number", 0, 1<<62)
	e.mark(w)
	e.ofConn(func(_ *runner, p *peer, i *toe.Info) (bool, string) {
		have := numbers[name](p, i)
		return have == uint64(n), fmt.Sprintf("%s %d", name, have)
	})
}

func (e *expectation) parseCounter(l *line, name string) {
	n, w := l.integer("a number", 0, 1<<62)
	e.mark(w)
	e.holds = func(r *runner, _ *peer) (bool, string) {
		stats := r.engine.Stats()
		have := counters[name](&stats)
		return have == uint64(n), fmt.Sprintf("%s %d", name, have)
	}
}

func (e *expectation) parseTime(l *line, name string) {
	d, w := l.duration("a time")
	e.mark(w)
	e.ofConn(func(r *runner, _ *peer, i *toe.Info) (bool, string) {
		have := times[name](i)
		return (have - d).Abs() <= r.script.set.tolerance, name + " " + formatTime(have)
	})
}

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
