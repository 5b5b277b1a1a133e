package fault

import (
	"slices"

	"tapir/mpa"
	"tapir/wire/frame"
)

// judgement is the frame in hand.
type judgement struct {
	e     *Engine
	from  Side
	t     *thing
	frame []byte
	now   frame.Time
	c     *conn // nil: none, or one whose SYN was not seen
	h     *half
	f     *flow // of a RoCE packet
	v     Verdict
}

// strike is a thing that a rule strikes, or the rest of a message.
type strike struct {
	rule    *rule
	counted bool
	// Of an item:
	from, to uint64 // in the stream
	what     string
	left     int  // further transmissions to be struck
	active   bool // the transmission under way is struck
	flip     uint64
	mask     byte
}

// frame0 judges a frame that holds neither TCP nor RoCE.
func (j *judgement) frame0() {
	for _, r := range j.e.rules {
		if r.of(j) && (r.kind.class == ofFrame || r.kind.class == j.t.class) && r.kind.is(j.t) {
			j.meet(r, &j.e.tally[j.from])
		}
	}
}

// broken judges a TCP segment that its receiver will drop: nobody knows what it
// is part of.
func (j *judgement) broken() {
	for _, r := range j.e.rules {
		if r.of(j) && r.kind.what == "frame" {
			j.meet(r, &j.e.tally[j.from])
		}
	}
}

// segment judges a TCP segment.
func (j *judgement) segment() {
	j.c, j.h = j.e.conn(j.t)
	if j.c != nil && j.c.dead {
		j.refuse()
		return
	}
	for _, r := range j.e.rules {
		switch {
		case !r.of(j):
		case r.kind.class == ofFrame && r.kind.is(j.t):
			j.meet(r, &j.e.tally[j.from])
		case r.kind.class == ofTCP && r.kind.is(j.t) && r.late(j):
			j.meet(r, j.tally())
		}
	}
	if j.h == nil || len(j.t.payload) == 0 {
		return
	}
	j.again()
	j.h.put(j.t, j.visit, j.miss)
}

func (j *judgement) tally() *tally {
	if j.h == nil {
		return &j.e.tally[j.from]
	}
	return &j.h.tally
}

// of reports whether a rule is about the direction and the connection.
func (r *rule) of(j *judgement) bool {
	switch {
	case r.From != Either && r.From != j.from,
		r.Connection > 0 && (j.c == nil || j.c.number != r.Connection),
		r.Port > 0 && j.t.src.Port() != r.Port && j.t.dst.Port() != r.Port,
		r.L4 >= 0 && j.t.fabL4 != r.L4:
		return false
	}
	return true
}

// late reports whether a segment brings octets behind those that a rule lets
// pass.
func (r *rule) late(j *judgement) bool {
	if r.After == 0 {
		return true
	}
	return j.h != nil && j.h.begun && j.h.place(j.t)+int64(len(j.t.payload)) > int64(r.After)
}

// chosen counts one more thing that r is about, and decides on it.
func (r *rule) chosen(x *tallied) bool {
	x.matched++
	var ok bool
	switch {
	case len(r.Nth) > 0:
		ok = slices.Contains(r.Nth, x.matched)
	case r.Every > 0:
		ok = x.matched%r.Every == 0
	case r.Probability > 0:
		ok = r.rng.IntN(1_000_000) < r.Probability
	default:
		ok = true
	}
	if !ok || r.over() {
		return false
	}
	r.matched++
	return true
}

// over reports whether the rule has struck as often as it may.
func (r *rule) over() bool { return r.Times > 0 && r.struck >= uint64(r.Times) }

// meet decides on the frame as a whole, and tells whether it is struck.
func (j *judgement) meet(r *rule, t *tally) bool {
	return r.chosen(t.of(r)) && j.hit(r, &strike{rule: r, what: j.describe()})
}

// hit has the frame as a whole suffer a strike; false if it has not what a flip is for.
func (j *judgement) hit(r *rule, s *strike) bool {
	if r.Effect == Flip {
		octet, mask, ok := 0, byte(0), false
		switch r.kind.class {
		case ofRoCE:
			octet, mask, ok = r.placeRoCE(&j.t.roce)
		case ofFrame:
			octet, mask, ok = r.pick(0, len(j.frame), false, r.rng.IntN)
		default:
			octet, mask, ok = r.placeHeader(j)
		}
		if !ok {
			return false
		}
		j.flip(octet, mask, r)
	}
	j.strike(s)
	return true
}

// visit judges an item when the first octets of it come that tell what it is,
// and lets it have what was decided: those from place from to place to are in
// this segment.
func (j *judgement) visit(i *item, from, to uint64) {
	j.decide(i)
	for _, s := range i.strikes {
		j.suffer(s, from, to)
	}
}

// miss judges an item that has passed already.
func (j *judgement) miss(i *item, _, _ uint64) {
	if i.judged {
		return
	}
	j.decide(i)
	for _, s := range i.strikes {
		s.rule.missed++
	}
	i.strikes = nil
}

// decide asks the rules about an item.
func (j *judgement) decide(i *item) {
	if i.judged {
		return
	}
	i.judged = true
	j.t.item = i
	for _, r := range j.e.rules {
		if r.of(j) && r.about(j.t, i) && r.ofQP(j) && (r.Effect != Flip || r.Field == "" || r.fieldIn(i) != nil) {
			if s := j.choose(r, i); s != nil {
				j.aim(r, i, s)
			}
		}
	}
	j.t.item = nil
}

// about reports whether the kind of r is that of the item.
func (r *rule) about(t *thing, i *item) bool {
	switch r.kind.class {
	case ofStartup:
		return i.startup && (r.What == "mpa-request") == (i.kind == mpa.Request)
	case ofFPDU:
		return !i.startup && i.pdu == nil
	case ofPDU:
		return i.pdu != nil && r.kind.is(&thing{item: i})
	case ofMessage:
		return !i.startup && i.pdu == nil && r.kind.is(&thing{item: i, src: t.src, dst: t.dst})
	}
	return false
}

// choose decides on an item, and of a message with its first segment on all of
// them.
func (j *judgement) choose(r *rule, i *item) *strike {
	x := j.h.tally.of(r)
	if r.kind.class != ofMessage {
		if i.start < r.After || !r.chosen(x) {
			return nil
		}
		return &strike{rule: r}
	}
	if i.segment == 1 {
		x.messages[i.opcode] = nil
		if i.start >= r.After && r.chosen(x) {
			x.messages[i.opcode] = &strike{rule: r}
		}
	}
	whole := x.messages[i.opcode]
	if whole == nil || !r.wants(i) || !whole.counted && r.over() {
		return nil
	}
	s := *whole
	whole.counted = true
	return &s
}

// wants reports whether a segment of a message is one that r strikes.
func (r *rule) wants(i *item) bool {
	switch {
	case r.Segment == LastSegment:
		return i.last
	case r.Segment == 0 && (r.Effect == Flip || r.Effect == Reset):
		return i.segment == 1
	}
	return r.Segment == 0 || r.Segment == i.segment
}

// aim notes what is to happen to an item.
func (j *judgement) aim(r *rule, i *item, s *strike) {
	s.from, s.to, s.what, s.left = i.start, i.end, j.describe(), max(r.Transmissions, 1)-1
	if r.Effect == Flip {
		octet, mask, ok := r.place(i, r.rng.IntN)
		if !ok {
			return
		}
		s.flip, s.mask = i.offset(octet), mask
	}
	i.strikes = append(i.strikes, s)
	if s.left > 0 && len(j.h.again) < mostStrikes {
		j.h.again = append(j.h.again, s)
	}
}

// suffer lets the octets of a segment have a strike.
func (j *judgement) suffer(s *strike, from, to uint64) {
	if s.rule.Effect == Flip {
		if s.flip < from || s.flip >= to {
			return
		}
		j.flip(j.t.payloadAt()+int(int64(s.flip)-j.segmentAt()), s.mask, s.rule)
	}
	j.strike(s)
}

// again strikes what is transmitted once more.
func (j *judgement) again() {
	at := j.segmentAt()
	end := min(at+int64(len(j.t.payload)), int64(j.h.off))
	if !j.h.begun || at < 0 || len(j.h.again) == 0 {
		return
	}
	j.h.again = slices.DeleteFunc(j.h.again, func(s *strike) bool {
		if at <= int64(s.from) && int64(s.from) < end {
			if s.active = s.left > 0; !s.active {
				return true
			}
			s.left--
		}
		if s.active && at < int64(s.to) && int64(s.from) < end {
			j.suffer(s, uint64(at), uint64(end))
		}
		return false
	})
}
