package siw

import (
	"errors"
	"fmt"
	"strings"
)

// The marks around the generated part of a document.
const (
	beginMark = "<!-- generated: begin -->\n"
	endMark   = "<!-- generated: end -->\n"
)

// splice replaces what stands between the marks.
func splice(text, generated string) (string, error) {
	before, rest, ok := strings.Cut(text, beginMark)
	_, after, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return "", errors.New("the marks of the generated part are missing")
	}
	return before + beginMark + generated + endMark + after, nil
}

// Table is the results in Markdown: a row per topic and role, then every
// oddity of siw, then every failure.
func Table(results []Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| topic | server | cells | state | FPDUs | with good CRC | nudges |\n|---|---|---|---|---|---|---|\n")
	rows, order := sums(results)
	for _, k := range order {
		s := rows[k]
		state := "all pass"
		if s.failed > 0 {
			state = fmt.Sprintf("**%d fail**", s.failed)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %d | %d | %d |\n", k.topic, k.server, s.cells, state, s.fpdus, s.crcs, s.nudges)
	}
	oddities(&b, results)
	if failed := Failed(results); len(failed) > 0 {
		fmt.Fprintf(&b, "\nWhat failed:\n\n")
		for _, r := range failed {
			fmt.Fprintf(&b, "* %v: %s\n", r.Cell, strings.ReplaceAll(r.Err.Error(), "\n", "; "))
		}
	}
	return b.String()
}

type rowKey struct{ topic, server string }

type row struct {
	cells, failed, fpdus, crcs int
	nudges                     uint64
}

func sums(results []Result) (rows map[rowKey]*row, order []rowKey) {
	rows = map[rowKey]*row{}
	for _, r := range results {
		k := rowKey{r.Cell.Topic, "siw"}
		if r.Cell.NICServes {
			k.server = "NIC"
		}
		s := rows[k]
		if s == nil {
			s = &row{}
			rows[k], order = s, append(order, k)
		}
		s.cells++
		if r.Err != nil {
			s.failed++
		}
		s.fpdus += r.Verdict.FPDUs
		s.crcs += r.Verdict.GoodCRC
		s.nudges += r.Nudges
	}
	return rows, order
}

func oddities(b *strings.Builder, results []Result) {
	fmt.Fprintf(b, "\nWhere siw differs from the RFCs, and the cell still has to end as said:\n\n| cell | siw |\n|---|---|\n")
	for _, r := range results {
		if r.Cell.Oddity != "" {
			fmt.Fprintf(b, "| %v | %s |\n", r.Cell, r.Cell.Oddity)
		}
	}
}
