// Package fault strikes exact things on a link: the third FPDU of a queue
// pair, the packet with a given PSN, a connection after 1 MiB. An Engine sees each
// frame of one link, follows TCP, MPA, DDP, RDMAP and RoCE in it, and judges it by
// rules. It does no I/O, owns no clock, starts no goroutine and takes no lock:
// a cable in real time and a lab in virtual time drive it alike. The same
// frames and seed give the same verdicts.
//
// A frame passes these stages:
//
//  1. what it is: TCP, RoCE, PTP, a packet of a fabric (thing.go, roce.go)
//  2. its connection, and the octets that are new in order (conn.go)
//  3. the MPA frames and FPDUs that these belong to (stream.go)
//  4. which rules strike, and what they do (judge.go, verdict.go)
package fault

import (
	"fmt"
	"math/rand/v2"

	"tapir/rdmap"
	"tapir/wire/frame"
	"tapir/wire/stream"
)

// Engine judges the frames of one link. It belongs to one goroutine.
type Engine struct {
	seed   uint64
	rules  []*rule // in force
	all    []*rule // that ever were, in order
	conns  map[stream.Ends]*conn
	order  []stream.Ends // as they were opened
	opened int
	// flows are those of RoCE, flowOrder as they began.
	flows     map[flowKey]*flow
	flowOrder []flowKey
	tally     [2]tally // of what is not in a connection
	names     [2]string
	// find tells whose connections are, unasked is why it once could not.
	find    FindQP
	unasked error
}

// rule is a Rule at work.
type rule struct {
	Rule
	kind    *kind
	rng     *rand.Rand
	number  int // in Engine.all
	matched uint64
	struck  uint64
	missed  uint64
	seen    bool // something of its queue pair
}

// tally counts, for each rule, what has met it in one direction; messages are
// what is to happen to the rest of those under way.
type tally map[*rule]*tallied

type tallied struct {
	matched  int
	messages [rdmap.NumOpcodes]*strike
}

func (t *tally) of(r *rule) *tallied {
	if *t == nil {
		*t = tally{}
	}
	x := (*t)[r]
	if x == nil {
		x = &tallied{}
		(*t)[r] = x
	}
	return x
}

// New returns an engine. names are those of the link's ends, for comments. It
// follows connections from their SYN on, so it has to see the frames from the
// start even if rules come later.
func New(seed uint64, names [2]string) *Engine {
	return &Engine{seed: seed, conns: map[stream.Ends]*conn{}, flows: map[flowKey]*flow{}, names: names}
}

// SetRules puts rules in force in the place of those before. Counting begins
// anew. The error is of a rule that Check refuses.
func (e *Engine) SetRules(rules []Rule) error {
	for i := range rules {
		if key, err := rules[i].Check(); err != nil {
			return fmt.Errorf("rule %s: %s: %w", rules[i].Name, key, err)
		}
	}
	e.rules = nil
	for _, r := range rules {
		n := len(e.all)
		x := &rule{Rule: r, kind: r.What.kind(), number: n, rng: rand.New(rand.NewPCG(e.seed, uint64(n)))}
		if x.Name == "" {
			x.Name = r.String()
		}
		e.rules, e.all = append(e.rules, x), append(e.all, x)
	}
	return nil
}

// Count is what became of a rule.
type Count struct {
	Name    string `json:"name"`
	Matched uint64 `json:"matched"` // things of which one or more were to be struck
	Struck  uint64 `json:"struck"`  // of them
	// to be struck, but passed behind a gap of the stream before they were known
	Missed   uint64 `json:"missed,omitempty"`
	Optional bool   `json:"optional,omitempty"`
	Why      string `json:"why,omitempty"` // of a rule for a queue pair of which nothing passed
}

// Silent is what is wrong with a rule that never struck and should have.
func (c *Count) Silent() error {
	switch {
	case c.Struck > 0 || c.Optional:
		return nil
	case c.Missed > 0:
		return fmt.Errorf(
			"rule %s never struck: %d passed behind a gap of the stream, where nobody knew yet what they were", c.Name,
			c.Missed)
	}
	if c.Why != "" {
		return fmt.Errorf("rule %s never struck: %s", c.Name, c.Why)
	}
	return fmt.Errorf("rule %s never struck; if it need not, it is `optional: true`", c.Name)
}

// Counts are those of all rules that ever were in force, in order; those of no
// engine are none.
func (e *Engine) Counts() (all []Count) {
	if e == nil {
		return nil
	}
	for _, r := range e.all {
		all = append(all, Count{r.Name, r.matched, r.struck, r.missed, r.Optional, e.unseen(r)})
	}
	return all
}

// Judge decides on a frame (borrowed) that enters the link at end from: nil if
// it passes as it is. A super-frame has to be split before. now bounds
// nothing: it is for what the verdict tells.
func (e *Engine) Judge(from Side, b []byte, now frame.Time) *Verdict {
	t := look(b)
	j := judgement{e: e, from: from, t: &t, frame: b, now: now}
	switch {
	case t.class == ofRoCE:
		j.packet()
	case t.class != ofTCP:
		j.frame0()
	case t.broken:
		j.broken()
	default:
		j.segment()
	}
	return j.verdict()
}
