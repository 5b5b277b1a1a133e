package script

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/rdmap"
)

// eventNames are the events of a connection as scripts call them.
var eventNames = map[string][]cm.EventType{
	"request": {cm.ConnectRequest}, "established": {cm.ActiveComplete, cm.PassiveComplete}, "rejected": {cm.Rejected},
	"refused": {cm.Refused}, "timeout": {cm.TimedOut}, "unreachable": {cm.Unreachable}, "failed": {cm.Failed},
	"disconnected": {cm.Disconnected}, "closed": {cm.ClosedEvent},
}

// asyncNames are the asynchronous events.
var asyncNames = map[string]verbs.EventType{
	"cq-error": verbs.EventCQError, "qp-fatal": verbs.EventQPFatal, "request-error": verbs.EventQPRequestError,
	"access-error": verbs.EventQPAccessError, "terminated": verbs.EventTerminated,
	"established": verbs.EventCommEstablished,
	"sq-drained":  verbs.EventSQDrained, "last-wqe": verbs.EventLastWQE, "srq-limit": verbs.EventSRQLimit,
}

var (
	completionOps = map[string]verbs.WCOpcode{}
	statuses      = map[string]verbs.Status{}
	qpStates      = map[string]bool{}
)

func init() {
	for op := range verbs.WCOpcode(255) {
		if name := hyphenated(op); !strings.HasPrefix(name, "opcode-") {
			completionOps[name] = op
		}
	}
	for s := range verbs.Status(255) {
		if name := statusText(s); !strings.HasPrefix(name, "status-") {
			statuses[name] = s
		}
	}
	for s := verbs.Reset; s <= verbs.Err; s++ {
		qpStates[s.IWARP()] = true
	}
}

// statusText is a status as scripts call it: flushed, remote-access.
func statusText(s verbs.Status) string {
	return strings.TrimSuffix(strings.TrimPrefix(hyphenated(s), "wr-"), "-error")
}

// rdmaExpectations are the expectations of iWARP by their first word.
var rdmaExpectations = map[string]expectReader{
	"event": (*expectation).parseEvent, "async": (*expectation).parseAsync,
	"completion": (*expectation).parseCompletion,
	"qp":         (*expectation).parseQPState, "memory": (*expectation).parseMemory,
	"region":  (*expectation).parseRegion,
	"counter": (*expectation).parseNICCounter,
	"quiet":   quiet(func(r *runner) string { return r.world.unclaimed() }),
}

// tcpExpectations are those of TCP that a script of iWARP may have.
var tcpExpectations = []string{"nothing", "state", "dropped", "connections", "resets-in", "resets-out", "failures"}

// rdmaExpects are both. The error of one of iWARP points at the whole of it.
var rdmaExpects = func() map[string]expectReader {
	table := map[string]expectReader{}
	for name, parse := range rdmaExpectations {
		table[name] = func(e *expectation, l *line) {
			start := e.word.col
			parse(e, l)
			e.word = word{strings.TrimRight(l.source[start-1:l.peek().col-1], " \t"), start}
		}
	}
	for _, name := range tcpExpectations {
		table[name] = tcpExpects[name]
	}
	return table
}()

// first returns the oldest happening that kind accepts, and its place.
func (e *endpoint) first(kind func(h *happening) bool) (*happening, int) {
	for i := range e.told {
		if kind(&e.told[i]) {
			return &e.told[i], i
		}
	}
	return nil, 0
}

// claim takes the oldest happening if its text begins so.
func (e *endpoint) claim(text string) bool {
	if len(e.told) == 0 || !strings.HasPrefix(e.told[0].text, text) {
		return false
	}
	e.told = e.told[1:]
	return true
}

// soonClaim is claim, as soon as there is something.
func (e *endpoint) soonClaim(text string) bool {
	return e.w.r.soon(func() bool { return e.claim(text) })
}

// observe makes the expectation that the oldest happening of a kind is as
// matches says.
func (e *expectation) observe(kind func(h *happening) bool, matches func(w *world, h *happening) bool) {
	e.kind = kind
	e.holds = func(r *runner, p *peer) (bool, string) {
		h, i := p.end.first(kind)
		if h == nil || r.live != nil && !matches(r.world, h) {
			for i := range r.world.events {
				if h := &r.world.events[i]; kind(h) && matches(r.world, h) {
					r.world.events = slices.Delete(r.world.events, i, i+1)
					return true, ""
				}
			}
		}
		if h == nil {
			return false, "nothing of the kind has happened"
		}
		if !matches(r.world, h) {
			return false, h.text
		}
		p.end.told = slices.Delete(p.end.told, i, i+1)
		return true, ""
	}
}

// errorOf is an error as layer/type/code, "" for any other.
func errorOf(err error) (text string, c errorCode) {
	var r *rdmap.Error
	var m *mpa.Error
	switch {
	case errors.As(err, &r):
	case errors.As(err, &m):
		r = &rdmap.Error{Layer: rdmap.LayerLLP, Code: uint8(m.Code)}
	default:
		return "", c
	}
	return codeText(r.Layer, r.Type, r.Code), errorCode{layer: uint8(r.Layer), typ: r.Type, code: r.Code}
}

// wantedError is an error that an event must have, if any.
type wantedError struct {
	given bool
	code  errorCode
}

func (e *wantedError) parse(l *line) {
	if w := l.peek(); strings.Contains(w.text, "/") {
		l.next("")
		e.given = true
		e.code = parseCode(l, w)
	}
}

// holds: an error with a code must be stated.
func (e *wantedError) holds(err error) bool {
	text, have := errorOf(err)
	if !e.given || text == "" {
		return e.given == (text != "")
	}
	return e.code.is(rdmap.Layer(have.layer), have.typ, have.code)
}

func errorSuffix(err error) string {
	if text, _ := errorOf(err); text != "" {
		return " " + text
	}
	return ""
}

func eventText(ev *cm.Event) string {
	text := ev.Type.String()
	for name, types := range eventNames {
		if slices.Contains(types, ev.Type) {
			text = "event " + name
		}
	}
	text += errorSuffix(ev.Err)
	if hasDepths(ev.Type) {
		text += fmt.Sprintf(" ird %d ord %d", ev.IRD, ev.ORD)
	}
	if len(ev.PrivateData) > 0 {
		text += " private" + octetsText(ev.PrivateData)
	}
	return text
}

// hasDepths tells which events carry IRD and ORD.
func hasDepths(t cm.EventType) bool {
	return t == cm.ConnectRequest || t == cm.ActiveComplete || t == cm.PassiveComplete
}

// parseEvent reads: event NAME [L/T/C] [ird N] [ord N] [private OCTETS].
func (e *expectation) parseEvent(l *line) {
	names := slices.Sorted(maps.Keys(eventNames))
	i, _ := l.oneOf("an event", names)
	var fault wantedError
	fault.parse(l)
	ird, ord := int64(-1), int64(-1)
	var private payload
	l.options(readers{
		"ird":     signed(&ird, "an IRD", 0, 65535),
		"ord":     signed(&ord, "an ORD", 0, 65535),
		"private": private.reader("private data", false),
	}, "layer/type/code, ird N, ord N, private OCTETS or the end of the line")
	e.observe(func(h *happening) bool { return h.ev != nil }, func(w *world, h *happening) bool {
		ev := h.ev
		return slices.Contains(eventNames[names[i]], ev.Type) && (w.r.live != nil || fault.holds(ev.Err)) &&
			(h.depthless || (ird < 0 || ird == int64(ev.IRD)) && (ord < 0 || ord == int64(ev.ORD))) &&
			private.differs(w, ev.PrivateData, 0) == ""
	})
}

func asyncText(ev *verbs.AsyncEvent) string {
	text := "async " + ev.Type.String()
	for name, t := range asyncNames {
		if t == ev.Type {
			text = "async " + name
		}
	}
	return text + errorSuffix(ev.Err)
}

// parseAsync reads: async NAME [L/T/C].
func (e *expectation) parseAsync(l *line) {
	names := slices.Sorted(maps.Keys(asyncNames))
	i, _ := l.oneOf("an asynchronous event", names)
	var fault wantedError
	fault.parse(l)
	e.observe(func(h *happening) bool { return h.as != nil }, func(w *world, h *happening) bool {
		return h.as.Type == asyncNames[names[i]] && (w.r.live != nil || fault.holds(h.as.Err))
	})
}

func (w *world) completionText(wc *verbs.WC) string {
	text := fmt.Sprintf("completion %s %d %s", hyphenated(wc.Opcode), wc.ID, statusText(wc.Status))
	if wc.ByteLen > 0 {
		text += fmt.Sprintf(" len %d", wc.ByteLen)
	}
	if wc.Solicited {
		text += " se"
	}
	if wc.WithInv {
		text += " inv " + w.nameSTag(wc.Invalidated)
	}
	if wc.WithImm {
		text += fmt.Sprintf(" imm %#x", wc.Imm)
	}
	return text
}

// parseCompletion reads: completion OP ID STATUS [len N] [se] [inv X] [imm N].
func (e *expectation) parseCompletion(l *line) {
	ops, states := slices.Sorted(maps.Keys(completionOps)), slices.Sorted(maps.Keys(statuses))
	op, _ := l.oneOf("what has completed", ops)
	id, _ := l.unsigned("the id of the work request", 1<<64-1)
	st, _ := l.oneOf("a status", states)
	var n uint64
	var imm *uint64
	var se bool
	var inv numeral
	l.options(readers{
		"len": unsigned(&n, "a number of octets", 1<<32-1),
		"se":  sets(&se, true),
		"inv": symbol(&inv, "an STag", 32, true),
		"imm": given(&imm, "immediate data", 1<<64-1),
	}, "len N, se, inv STAG, imm N or the end of the line")
	e.observe(func(h *happening) bool { return h.wc != nil }, func(w *world, h *happening) bool {
		wc := h.wc
		stag, wrong := inv.stag(w)
		return wrong == nil && wc.Opcode == completionOps[ops[op]] && wc.ID == id &&
			wc.Status == statuses[states[st]] &&
			(uint64(wc.ByteLen) == n || w.r.live != nil && wc.Opcode != verbs.WCRecv) &&
			(w.r.live != nil || wc.Solicited == se) && wc.WithInv == (inv.word.text != "") &&
			uint64(wc.Invalidated) == stag &&
			wc.WithImm == (imm != nil) && wc.Imm == *cmp.Or(imm, new(uint64))
	})
}

// parseQPState reads: qp STATE.
func (e *expectation) parseQPState(l *line) {
	names := slices.Sorted(maps.Keys(qpStates))
	i, _ := l.oneOf("a state", names)
	e.holds = func(_ *runner, p *peer) (bool, string) {
		if p.end.qp == nil {
			return false, "there is no queue pair"
		}
		have := p.end.qp.State().IWARP()
		return have == names[i], "qp " + have
	}
}

// parseMemory reads: memory untouched, or memory REGION OCTETS [at N].
func (e *expectation) parseMemory(l *line) {
	if l.accept("untouched") {
		e.holds = func(r *runner, _ *peer) (bool, string) {
			have := r.world.changed()
			return have == "", have
		}
		return
	}
	at := l.numeral("untouched, or a region such as buf or buf+100", 64, true)
	if at.name == "" || at.op == '^' {
		panic(l.at(at.word, "%q: expected untouched, or a region such as buf or buf+100", at.word.text))
	}
	var d payload
	d.read(l, "octets", false)
	from := at.n
	if l.accept("at") {
		from, _ = l.unsigned("the position of the first octet", 1<<40)
	}
	e.holds = func(_ *runner, p *peer) (bool, string) {
		if d.hidden {
			d = payload{raw: p.end.hidden, n: len(p.end.hidden)}
		}
		return p.end.w.holdsMemory(&at, &d, from)
	}
}

// holdsMemory compares octets of a region, and remembers that they are known.
func (w *world) holdsMemory(at *numeral, d *payload, pos uint64) (bool, string) {
	g, wrong := at.region(w)
	if wrong != nil {
		return false, wrong.name
	}
	off := at.apply(0)
	if have := uint64(len(g.mem())); off > have || uint64(d.n) > have-off {
		return false, fmt.Sprintf("region %s has %d octets only", g.name, have)
	}
	have := g.mem()[off : off+uint64(d.n)]
	if bad := d.differs(w, have, pos); bad != "" {
		return false, bad
	}
	copy(g.expected()[off:], have)
	return true, ""
}

// parseRegion reads: region NAME valid, or region NAME invalid.
func (e *expectation) parseRegion(l *line) {
	name := l.next("the name of a region")
	i, _ := l.oneOf("what it is", []string{"valid", "invalid"})
	e.holds = func(r *runner, _ *peer) (bool, string) {
		g := r.world.find(name.text)
		if g == nil {
			return false, "no region is called " + name.text
		}
		return g.mr.Valid() == (i == 0), fmt.Sprintf("valid %v", g.mr.Valid())
	}
}

// parseNICCounter reads: counter NAME N.
func (e *expectation) parseNICCounter(l *line) {
	name := l.next("the name of a counter, as in tapir show")
	n, _ := l.unsigned("a number", 1<<62)
	e.holds = func(r *runner, _ *peer) (bool, string) {
		if have, ok := r.world.machine.counter(name.text); ok {
			return have == n, fmt.Sprintf("%s %d", name.text, have)
		}
		return false, "no counter is called " + name.text
	}
}
