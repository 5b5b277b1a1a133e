// Package clause holds what an inspector knows of standards: rules, each with the
// clause that demands it.
package clause

// Rule is something that a packet can break.
type Rule struct {
	Clause string // of the standard that demands it
	Says   string // what is wrong with a packet that breaks it
	Siw    bool   // Linux siw is known to break it
	Should bool   // the standard says SHOULD: what breaks it is a note
	Last   bool   // what the same side sends behind it is not judged
	Lost   bool   // nor can it be told where its messages begin
}

// Book is the rules of a protocol, in their order.
type Book []*Rule

// Rule adds a rule.
func (b *Book) Rule(clause, says string) *Rule {
	r := &Rule{Clause: clause, Says: says}
	*b = append(*b, r)
	return r
}

// Should adds a rule that the standard merely recommends.
func (b *Book) Should(clause, says string) *Rule {
	r := b.Rule(clause, says)
	r.Should = true
	return r
}
