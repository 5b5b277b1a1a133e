package topo

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/lab/host/fault"
)

// SeedOf gives each link a sequence of its own.
func (l *Lab) SeedOf(k *Link) uint64 {
	i := slices.IndexFunc(l.Links, func(other Link) bool { return other.Name == k.Name })
	return l.Seed<<16 + uint64(max(i, 0))
}

// impaired is what happens to the frames of a link while it is read.
type impaired struct {
	both fault.Impairment
	from conf.Node // faults by the name of the end that frames come from
	list conf.Node // of rules
	some struct{ from, rules bool }
}

// faultFields are the settings of a link that a fault step changes, too.
var faultFields = append(conf.Part(faults, func(i *impaired) *fault.Impairment { return &i.both }),
	conf.Field[impaired]{Name: "from",
		Expect: "faults of the frames from one end, by its name, such as {a: {loss: 1%}}, " +
			"in the place of those of both",
		Schema: conf.Schema{"type": "object", "additionalProperties": conf.Object(faults)},
		Node:   func(i *impaired, n conf.Node) error { i.from, i.some.from = n, true; return nil }},
	conf.Field[impaired]{Name: "rules",
		Expect: "a list of rules that strike exact things, such as {drop: fpdu, nth: 3}", Schema: ruleSchema(),
		Node: func(i *impaired, n conf.Node) error { i.list, i.some.rules = n, true; return nil }})

// finish reads what needs to know the link's ends.
func (i *impaired) finish(d *draft, l *Link) (each [2]fault.Impairment, rules []fault.Rule, err error) {
	i.both.All = true
	each = [2]fault.Impairment{i.both, i.both}
	if i.some.from {
		entries, err := i.from.Map("faults by the end that frames come from, such as {a: {loss: 1%}}")
		if err != nil {
			return each, nil, err
		}
		for _, e := range entries {
			side := slices.Index(l.Ends[:], e.Name)
			if side < 0 {
				return each, nil, e.Key.Errorf("%s: the link's ends are %s and %s", e.Name, l.Ends[0], l.Ends[1])
			}
			if err := conf.Decode(e.Value, &each[side], "faults, such as {loss: 1%}", faults); err != nil {
				return each, nil, err
			}
		}
	}
	if !i.some.rules {
		return each, nil, nil
	}
	list, ok := i.list.List()
	if !ok {
		return each, nil, i.list.Errorf("rules: expected a list of rules, such as {drop: fpdu, nth: 3}")
	}
	for _, n := range list {
		r, err := d.readRule(n, l)
		if err != nil {
			return each, nil, err
		}
		rules = append(rules, r)
	}
	return each, rules, nil
}

// ruleDraft is a rule while it is read.
type ruleDraft struct {
	*draft
	fault.Rule
	ends [2]string
}

// readRule reads one rule of a link.
func (d *draft) readRule(n conf.Node, l *Link) (r fault.Rule, err error) {
	entries, err := n.Map("a rule, such as {drop: fpdu, nth: 3}")
	if err != nil {
		return r, err
	}
	if len(entries) == 0 || !slices.Contains(fault.Effects, fault.Effect(entries[0].Name)) {
		return r, n.Errorf("a rule begins with one of %s", effectNames())
	}
	e := fault.Effect(entries[0].Name)
	x := ruleDraft{d, fault.NewRule(e, ""), l.Ends}
	if err := conf.Decode(n, &x, "a rule", ruleFields(e)); err != nil {
		return r, err
	}
	x.finishQP(entries)
	if key, err := x.Check(); err != nil {
		at := slices.IndexFunc(entries, func(e conf.Entry) bool { return e.Name == key })
		return r, entries[max(at, 0)].Key.Errorf("%s: %v", key, err)
	}
	return x.Rule, d.nameRule(&x.Rule, l.Name, n)
}

// nameRule gives a rule a name of its own.
func (d *draft) nameRule(r *fault.Rule, link string, n conf.Node) error {
	names := d.rules[link]
	if names == nil {
		names = map[string]bool{}
		d.rules[link] = names
	}
	if r.Name != "" && (names[r.Name] || isLinkCounter(r.Name)) {
		return n.Errorf("%s: the link has another counter of that name", r.Name)
	}
	if r.Name == "" {
		r.Name = r.String()
		for i := 2; names[r.Name]; i++ {
			r.Name = fmt.Sprintf("%s-%d", r.String(), i)
		}
	}
	names[r.Name] = true
	return nil
}

func effectNames() string {
	var names []string
	for _, e := range fault.Effects {
		names = append(names, string(e))
	}
	return strings.Join(names, ", ")
}

func whatNames() (names []string) {
	whats, _ := fault.Whats()
	for _, w := range whats {
		names = append(names, string(w))
	}
	return names
}

// ruleFields are the keys of a rule with that effect.
func ruleFields(e fault.Effect) []conf.Field[ruleDraft] {
	what := conf.Field[ruleDraft]{Name: string(e), Expect: "one of " + strings.Join(whatNames(), ", "),
		Schema: conf.Choice(whatNames()...),
		Set: func(r *ruleDraft, s string) error {
			r.What = fault.What(s)
			if !slices.Contains(whatNames(), s) {
				return conf.ErrValue
			}
			return nil
		}}
	return slices.Concat([]conf.Field[ruleDraft]{what}, effectFields[e], choiceFields)
}

// choiceFields say which things a rule strikes.
var choiceFields = []conf.Field[ruleDraft]{
	{Name: "nth", Expect: "which one, from 1, or a list; counted for each direction, and for each TCP connection",
		Many: true, Set: func(r *ruleDraft, s string) error {
			n := 0
			err := conf.Int(&n, s, 1, math.MaxInt32)
			r.Nth = append(r.Nth, n)
			return err
		}},
	{Name: "every", Expect: "a number n: each nth one", Set: func(r *ruleDraft, s string) error {
		return conf.Int(&r.Every, s, 1, math.MaxInt32)
	}},
	{Name: "probability", Expect: chance, Set: func(r *ruleDraft, s string) error {
		return setChance(&r.Probability, s)
	}},
	{Name: "times", Expect: "how many the rule strikes at most", Set: func(r *ruleDraft, s string) error {
		return conf.Int(&r.Times, s, 1, math.MaxInt32)
	}},
	{Name: "after", Expect: "octets of TCP payload that pass before in that direction of the connection, such as 1MiB",
		Set: func(r *ruleDraft, s string) error {
			var n int64
			err := setScaled(&n, s, sizes)
			r.After = uint64(n)
			return err
		}},
	{Name: "from", Expect: "the end of the link that it comes from", Set: func(r *ruleDraft, s string) error {
		return r.side(&r.From, s)
	}},
	{Name: "connection", Expect: "which TCP connection of the link, from 1, by its SYN",
		Set: func(r *ruleDraft, s string) error {
			return conf.Int(&r.Connection, s, 1, math.MaxInt32)
		}},
	{Name: "port", Expect: "a TCP port of either end", Set: func(r *ruleDraft, s string) error {
		return conf.Int(&r.Port, s, 1, 65535)
	}},
	{Name: "qp", Expect: "a QP of the NIC that it comes from (from), or of any other, such as {nic: a, qpn: 5}",
		Schema: qpSchema, Node: (*ruleDraft).readQP},
	{Name: "segment",
		Expect: "which DDP segment of the message, from 1, or last (default all; to flip or reset, the first)",
		Set: func(r *ruleDraft, s string) error {
			if s == "last" {
				r.Segment = fault.LastSegment
				return nil
			}
			return conf.Int(&r.Segment, s, 1, math.MaxInt32)
		}},
	{Name: "l4", Expect: "an L4 type of 16B packets, such as 0x78", Set: func(r *ruleDraft, s string) error {
		return conf.Number(&r.L4, s, 0, 255)
	}},
	{Name: "transmissions", Expect: "how many transmissions of the same octets it strikes (default 1)",
		Set: func(r *ruleDraft, s string) error {
			return conf.Int(&r.Transmissions, s, 1, 1000)
		}},
	{Name: "name", Expect: nameExpect + ": of its counter (default effect and thing, such as drop-fpdu)",
		Set: func(r *ruleDraft, s string) error {
			return conf.Name(&r.Name, s)
		}},
	{Name: "optional", Expect: "true: it need not strike", Schema: truth, Set: func(r *ruleDraft, s string) error {
		return setBool(&r.Optional, s)
	}},
}

// effectFields say what a rule does.
var effectFields = map[fault.Effect][]conf.Field[ruleDraft]{
	fault.Delay: {{Name: "by", Expect: "a time up to 1h such as 20ms", Set: func(r *ruleDraft, s string) error {
		return conf.Time(&r.By, s, 0, time.Hour)
	}}},
	fault.Duplicate: {{Name: "copies", Expect: "how many copies follow it, from 1 to 100 (default 1)",
		Set: func(r *ruleDraft, s string) error {
			return conf.Int(&r.Copies, s, 1, 100)
		}}}, fault.Reorder: {{Name: "behind", Expect: "how many later frames overtake it, from 1 to 1000 (default 1)",
		Set: func(r *ruleDraft, s string) error {
			return conf.Int(&r.Behind, s, 1, 1000)
		}}},
	fault.Reset: {{Name: "to", Expect: "the end that gets an RST, or both (default both)",
		Set: func(r *ruleDraft, s string) error {
			if s == "both" {
				r.To = fault.Either
				return nil
			}
			return r.side(&r.To, s)
		}}},
	fault.Flip: {
		{Name: "field", Expect: flipFields(), Set: func(r *ruleDraft, s string) error { r.Field = s; return nil }},
		{Name: "octet",
			Expect: "an octet of the field or thing, from 0, negative from its end (default: drawn from the seed)",
			Set: func(r *ruleDraft, s string) error {
				r.AnyOctet = false
				return conf.Int(&r.Octet, s, -1<<16, 1<<16)
			}},
		{Name: "bit",
			Expect: "a bit of the field, or of the octet, 0 is the least significant (default: drawn from the seed)",
			Set: func(r *ruleDraft, s string) error {
				return conf.Int(&r.Bit, s, 0, 127)
			}},
		{Name: "checksum",
			Expect: "stale: the receiver's TCP or UDP drops it; mended: the layer above sees it (default)",
			Schema: conf.Choice("stale", "mended"), Set: func(r *ruleDraft, s string) error {
				if r.Stale = s == "stale"; !r.Stale && s != "mended" {
					return conf.ErrValue
				}
				return nil
			}},
	},
}

func flipFields() string {
	fpdu, startup := fault.FieldNames()
	return fmt.Sprintf("of FPDUs and messages: %s; of MPA frames: %s", strings.Join(fpdu, ", "),
		strings.Join(startup, ", "))
}

// side reads the name of an end of the link.
func (r *ruleDraft) side(s *fault.Side, name string) error {
	i := slices.Index(r.ends[:], name)
	if i < 0 {
		return errors.New("not an end of the link")
	}
	*s = fault.Side(i)
	return nil
}

func ruleSchema() conf.Schema {
	var all []conf.Schema
	for _, e := range fault.Effects {
		all = append(all, conf.Object(ruleFields(e), string(e)))
	}
	return conf.Schema{"type": "array", "items": conf.Schema{"anyOf": all}}
}
