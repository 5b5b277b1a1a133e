package main

import (
	"fmt"
	"strings"
)

const preamble = `# The clause ledger

Every sentence with a requirement of the five iWARP RFCs, the rules of the InfiniBand
Architecture, volume 1 (IBTA), for RoCE and those of RFC 7143 for what iSCSI sends in
our own words, and the test that fails if the code violates it. This page is written by
` + "`go run ./lab/check/ledger`" + `
from ` + "`lab/check/ledger/clauses`" + `; a test there keeps it true: each MUST has a test
that exists and is run, or a reason why it is not a NIC's business, and these
are at most one MUST in ten. ` + "`make mutate`" + ` breaks the code clause by clause
and wants to see the named tests fail ([mutate.md](mutate.md)).

An id is RFC, section, and the sentence's number among those of its section
that hold a requirement. MUST stands for MUST NOT, SHALL and REQUIRED too,
SHOULD for SHOULD NOT and RECOMMENDED. Test names are Go tests by package
(` + "`go test ./ddp -run TestVersion`" + `) or scripts (` + "`lab/tool/script/testdata`" + `).

`

// page is docs/evidence/ledger.md.
func page(all []Clause) string {
	var b strings.Builder
	b.WriteString(preamble)
	b.WriteString("| RFC | MUST | SHOULD | tested | SHOULD not followed | not applicable | of these MUST |\n" +
		"|---|---|---|---|---|---|---|\n")
	var total tally
	for _, r := range rfcs {
		var t tally
		for i := range all {
			if all[i].RFC() == r.number {
				t.add(&all[i])
				total.add(&all[i])
			}
		}
		summary(&b, r.number+" "+r.title, t)
	}
	summary(&b, "all", total)
	for _, r := range rfcs {
		fmt.Fprintf(&b, "\n## %s: %s\n\n| id | clause | level | what | test | state |\n|---|---|---|---|---|---|\n",
			document(r.number), r.title)
		for i := range all {
			if c := &all[i]; c.RFC() == r.number {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.ID, cell(c.Quote), c.Level, cell(c.What),
					testCell(c), cell(c.state()))
			}
		}
	}
	return b.String()
}

// document is what a document is called.
func document(number string) string {
	if number == ibta {
		return number
	}
	return "RFC " + number
}

func summary(b *strings.Builder, name string, t tally) {
	fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d |\n", name, t.must, t.should, t.tested, t.not, t.na, t.mustNA)
}

func (c *Clause) state() string {
	switch {
	case c.NA != "":
		return "not applicable: " + c.NA
	case c.Not != "":
		return "no: " + c.Not
	}
	return "met"
}

func testCell(c *Clause) string {
	names := c.Tests()
	for i, n := range names {
		names[i] = "`" + n + "`"
	}
	return strings.Join(names, " ")
}

// cell makes s fit for a table.
func cell(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(s)
}
