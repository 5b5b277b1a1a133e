package siw

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tapir/lab/check/figures"
)

// The marks around the generated part of a document.
const (
	beginMark = "<!-- generated: begin -->"
	endMark   = "<!-- generated: end -->"
)

// WriteFile replaces the generated part of a document.
func WriteFile(name string, results []Result, head string) error {
	return figures.Put(name, beginMark, endMark, []byte(head+Table(results)))
}

// The columns of a cell's row.
const (
	columns = 6
	rowHead = "| cell | the NIC | circumstances | result | FPDUs | what siw does otherwise |\n" +
		"|---|---|---|---|---|---|\n"
	sumsHead = "| topic | cells, the NIC connects | serves | FPDUs | with a CRC |\n|---|---|---|---|---|\n"
)

// overRoCE are the words of the heads for cells with rxe.
var overRoCE = strings.NewReplacer("FPDUs", "packets", "with a CRC", "right ICRC", "siw", "rxe")

// Table is the results in Markdown: a row per topic, then a table per topic
// with a row per cell.
func Table(results []Result) string {
	var sums, rows strings.Builder
	words := strings.NewReplacer()
	if len(results) > 0 && results[0].Cell.RoCE {
		words = overRoCE
	}
	sums.WriteString(words.Replace(sumsHead))
	for len(results) > 0 {
		topic := results[0].Cell.Topic
		n := slices.IndexFunc(append(slices.Clip(results), Result{}),
			func(r Result) bool { return r.Cell.Topic != topic })
		sums.WriteString(sumRow(topic, results[:n]))
		fmt.Fprintf(&rows, "\n## %s\n\n%s", topic, words.Replace(rowHead))
		for _, r := range results[:n] {
			rows.WriteString(r.row())
		}
		results = results[n:]
	}
	return sums.String() + rows.String()
}

// sumRow is the row of a topic: what happened in all its cells.
func sumRow(topic string, results []Result) string {
	var cells, failed [2]int
	var fpdus, crcs int
	for _, r := range results {
		role := 0
		if r.Cell.NICServes {
			role = 1
		}
		cells[role]++
		if r.Err != nil {
			failed[role]++
		}
		fpdus += r.Verdict.FPDUs
		crcs += r.Verdict.GoodCRC
	}
	var state [2]string
	for i := range state {
		state[i] = fmt.Sprintf("%d pass", cells[i]-failed[i])
		if failed[i] > 0 {
			state[i] += fmt.Sprintf(", **%d fail**", failed[i])
		}
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %d |\n", topic, state[0], state[1], fpdus, crcs)
}

// key is the part of a row that tells which cell it is.
func (c *Cell) key() string {
	role := "connects"
	if c.NICServes {
		role = "serves"
	}
	return fmt.Sprintf("| %s | %s | %s |", c.Name, role, c.circumstances())
}

func (r *Result) row() string {
	result := "pass"
	if wants := r.Cell.wants(); wants != "" {
		result += ": " + wants
	}
	if r.Err != nil {
		result = "**fail**: " + strings.NewReplacer("\n", "; ", "|", "/").Replace(r.Err.Error())
	}
	differs := r.Cell.Differs
	if differs != "" {
		differs += " (" + r.Cell.Clause + ")"
	}
	return fmt.Sprintf("%s %s | %d | %s |\n", r.Cell.key(), result, r.Verdict.FPDUs, differs)
}

// wants is what the cell expects beyond success.
func (c *Cell) wants() string {
	var list []string
	driver := "siw"
	if c.RoCE {
		driver = "rxe"
	}
	for _, side := range []struct{ name, says string }{{"the NIC", c.NICSays}, {driver, c.GuestSays}} {
		if side.says != "" && side.says != anything {
			list = append(list, fmt.Sprintf(`%s reports "%s"`, side.name, strings.ReplaceAll(side.says, "|", `" or "`)))
		}
	}
	if c.Reads != nil {
		list = append(list, fmt.Sprintf("IRD %d, ORD %d", c.Reads.IRD, c.Reads.ORD))
	}
	return strings.Join(list, ", ")
}

// CheckPage tells whether the generated part of a document has a row, passed,
// for each cell and no other.
func CheckPage(text string, cells []Cell) error {
	_, between, err := figures.Between(text, beginMark, endMark)
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(between) {
		f := strings.Split(line, " | ")
		if len(f) != columns || f[1] != "connects" && f[1] != "serves" {
			continue
		}
		switch {
		case len(cells) == 0 || !strings.HasPrefix(line, cells[0].key()):
			return fmt.Errorf("%s is not the next cell", strings.Join(f[:3], " | "))
		case !strings.HasPrefix(f[3], "pass"):
			errs = append(errs, fmt.Errorf("%v: %s", cells[0], f[3]))
		}
		cells = cells[1:]
	}
	if len(cells) > 0 {
		errs = append(errs, fmt.Errorf("%v has no row, nor have %d others", cells[0], len(cells)-1))
	}
	return errors.Join(errs...)
}
