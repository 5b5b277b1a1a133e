package topo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
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
	from *conf.Node // faults by the name of the end that frames come from; nil: none
	list *conf.Node // of rules; nil: none
}

// fields are the settings of a link that a fault step changes, too.
func (i *impaired) fields() []conf.Field {
	return append(faults(&i.both),
		conf.Field{Name: "from", Expect: "faults of the frames from one end, by its name, such as {a: {loss: 1%}}, " +
			"in the place of those of both",
			Schema: conf.Schema{"type": "object", "additionalProperties": conf.Object(faults(new(fault.Impairment)))},
			Node:   func(n conf.Node) error { i.from = &n; return nil }},
		conf.Field{Name: "rules", Expect: "a list of rules that strike exact things, such as {drop: fpdu, nth: 3}",
			Schema: ruleSchema(), Node: func(n conf.Node) error { i.list = &n; return nil }})
}

// Faults are the names of the faults of a link.
func Faults() (names []string) {
	for _, f := range new(impaired).fields() {
		names = append(names, f.Name)
	}
	return names
}

// finish reads what needs to know the link's ends.
func (i *impaired) finish(d *draft, l *Link) (each [2]fault.Impairment, rules []fault.Rule, err error) {
	i.both.All = true
	each = [2]fault.Impairment{i.both, i.both}
	if i.from != nil {
		entries, err := i.from.Map("faults by the end that frames come from, such as {a: {loss: 1%}}")
		if err != nil {
			return each, nil, err
		}
		for _, e := range entries {
			side := slices.Index(l.Ends[:], e.Name)
			if side < 0 {
				return each, nil, e.Key.Errorf("%s: the link's ends are %s and %s", e.Name, l.Ends[0], l.Ends[1])
			}
			if err := conf.Decode(e.Value, "faults, such as {loss: 1%}", faults(&each[side])); err != nil {
				return each, nil, err
			}
		}
	}
	if i.list == nil {
		return each, nil, nil
	}
	const expected = "rules: expected a list of rules, such as {drop: fpdu, nth: 3}"
	err = i.list.Each(0, expected, func(n conf.Node, _ int) error {
		r, err := d.readRule(n, l)
		rules = append(rules, r)
		return err
	})
	return each, rules, err
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
		return r, n.Errorf("a rule begins with one of %s", join(fault.Effects))
	}
	e := fault.Effect(entries[0].Name)
	x := ruleDraft{d, fault.NewRule(e, ""), l.Ends}
	if err := conf.Decode(n, "a rule", x.fields(e)); err != nil {
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

func whatNames() []string {
	whats, _ := fault.Whats()
	return texts(whats, func(w fault.What) string { return string(w) })
}

// fields are the keys of a rule with that effect.
func (r *ruleDraft) fields(e fault.Effect) []conf.Field {
	what := conf.Field{Name: string(e), Expect: "one of " + strings.Join(whatNames(), ", "),
		Schema: conf.Choice(whatNames()...), Set: conf.Word((*string)(&r.What), whatNames()...)}
	return slices.Concat([]conf.Field{what}, r.effectFields(e), r.choiceFields())
}

// choiceFields say which things a rule strikes.
func (r *ruleDraft) choiceFields() []conf.Field {
	return []conf.Field{
		{Name: "nth",
			Expect: "which one, from 1, or a list; counted for each direction, and for each TCP connection or " +
				"pair of queue pairs of RoCE",
			Many: true, Set: func(s string) error {
				n := 0
				err := conf.Int(&n, 1, math.MaxInt32)(s)
				r.Nth = append(r.Nth, n)
				return err
			}},
		{Name: "every", Expect: "a number n: each nth one", Set: conf.Int(&r.Every, 1, math.MaxInt32)},
		{Name: "probability", Expect: chance, Set: conf.Parsed(&r.Probability, conf.Chance)},
		{Name: "times", Expect: "how many the rule strikes at most", Set: conf.Int(&r.Times, 1, math.MaxInt32)},
		{Name: "after",
			Expect: "octets of TCP payload that pass before in that direction of the connection, such as 1MiB",
			Set: func(s string) error {
				n, err := conf.Octets(s)
				r.After = uint64(n)
				return err
			}},
		{Name: "from", Expect: "the end of the link that it comes from", Set: conf.Parsed(&r.From, r.side)},
		{Name: "connection", Expect: "which TCP connection of the link, from 1, by its SYN",
			Set: conf.Int(&r.Connection, 1, math.MaxInt32)},
		{Name: "port", Expect: "a TCP port of either end", Set: conf.Int(&r.Port, 1, 65535)},
		{Name: "qp", Expect: "a QP of the NIC that it comes from (from), or of any other, such as {nic: a, qpn: 5}",
			Schema: qpSchema(), Node: r.readQP},
		{Name: "segment",
			Expect: "which DDP segment of the message, from 1, or last (default all; to flip or reset, the first)",
			Set: func(s string) error {
				if s == "last" {
					r.Segment = fault.LastSegment
					return nil
				}
				return conf.Int(&r.Segment, 1, math.MaxInt32)(s)
			}},
		{Name: "l4", Expect: "an L4 type of 16B packets, such as 0x78", Set: conf.Number(&r.L4, 0, 255)},
		{Name: "match", Expect: "values of fields of RoCE packets, such as {psn: 5, dest-qp: 17}",
			Schema: conf.Schema{"type": "object", "additionalProperties": conf.Schema{"type": "integer"}},
			Node:   r.readMatch},
		{Name: "transmissions",
			Expect: "how many transmissions of the same octets, or of the same RoCE packet, it strikes (default 1)",
			Set:    conf.Int(&r.Transmissions, 1, 1000)},
		{Name: "name", Expect: nameExpect + ": of its counter (default effect and thing, such as drop-fpdu)",
			Set: conf.Name(&r.Name)},
		conf.Truth("optional", "true: it need not strike", &r.Optional),
	}
}

// effectFields say what a rule of that effect does.
func (r *ruleDraft) effectFields(e fault.Effect) []conf.Field {
	return map[fault.Effect][]conf.Field{
		fault.Delay: {{Name: "by", Expect: "a time up to 1h such as 20ms", Set: conf.Time(&r.By, 0, time.Hour)}},
		fault.Duplicate: {{Name: "copies", Expect: "how many copies follow it, from 1 to 100 (default 1)",
			Set: conf.Int(&r.Copies, 1, 100)}},
		fault.Reorder: {{Name: "behind", Expect: "how many later frames overtake it, from 1 to 1000 (default 1)",
			Set: conf.Int(&r.Behind, 1, 1000)}},
		fault.Reset: {{Name: "to", Expect: "the end that gets an RST, or both (default both)",
			Set: func(s string) error {
				if s == "both" {
					r.To = fault.Either
					return nil
				}
				return conf.Parsed(&r.To, r.side)(s)
			}}},
		fault.Flip: {
			{Name: "field", Expect: fault.FieldNames(), Set: conf.String(&r.Field)},
			{Name: "octet",
				Expect: "an octet of the field or thing, from 0, negative from its end (default: drawn from the seed)",
				Set: func(s string) error {
					r.AnyOctet = false
					return conf.Int(&r.Octet, -1<<16, 1<<16)(s)
				}},
			{Name: "bit",
				Expect: "a bit of the field, or of the octet, 0 is the least significant " +
					"(default: drawn from the seed)",
				Set: conf.Int(&r.Bit, 0, 127)},
			{Name: "checksum",
				Expect: "stale: the receiver's TCP or UDP drops it; mended: the layer above sees it (default)",
				Schema: conf.Choice("stale", "mended"),
				Set:    conf.Choose(&r.Stale, map[string]bool{"stale": true, "mended": false})},
			{Name: "icrc",
				Expect: "mended: the receiver takes the RoCE packet; stale: it finds a wrong ICRC (default)",
				Schema: conf.Choice("stale", "mended"),
				Set:    conf.Choose(&r.MendICRC, map[string]bool{"stale": false, "mended": true})},
		},
	}[e]
}

// readMatch reads values of fields.
func (r *ruleDraft) readMatch(n conf.Node) error {
	entries, err := n.Map("values of fields, such as {psn: 5, dest-qp: 17}")
	for _, e := range entries {
		m := fault.Match{Field: e.Name}
		text, brief := e.Value.Text()
		if !brief || conf.Uint64(&m.Value)(text) != nil {
			return e.Value.Errorf("%s: expected a number, such as 17 or 0x11", e.Name)
		}
		r.Match = append(r.Match, m)
	}
	return err
}

// side reads the name of an end of the link.
func (r *ruleDraft) side(name string) (fault.Side, error) {
	i := slices.Index(r.ends[:], name)
	if i < 0 {
		return r.From, conf.ErrValue
	}
	return fault.Side(i), nil
}

// ruleSchema is made once: each link has it.
var ruleSchema = sync.OnceValue(func() conf.Schema {
	var all []conf.Schema
	for _, e := range fault.Effects {
		all = append(all, conf.Object(new(ruleDraft).fields(e), string(e)))
	}
	return conf.Schema{"type": "array", "items": conf.Schema{"anyOf": all}}
})
