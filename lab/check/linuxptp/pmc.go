package linuxptp

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Reply is one answer that pmc has printed.
type Reply struct {
	From     string // port identity: "123456.fffe.780102-1"
	Sequence int
	Action   string // "RESPONSE", "ACKNOWLEDGE"
	Kind     string // "MANAGEMENT", "MANAGEMENT_ERROR_STATUS"
	ID       string // "PORT_DATA_SET"; of NULL_MANAGEMENT ""
	Fields   []Field
}

// Field is one row of an answer.
type Field struct{ Name, Value string }

// Get returns the value of a field, or "".
func (r Reply) Get(name string) string {
	if i := slices.IndexFunc(r.Fields, func(f Field) bool { return f.Name == name }); i >= 0 {
		return r.Fields[i].Value
	}
	return ""
}

// PMC runs pmc(8) with args, which say how to reach whom, and returns the
// answers. A request that pmc does not know is an error.
func (h *Host) PMC(ctx context.Context, args []string, requests ...string) ([]Reply, error) {
	if slices.Contains(args, "-u") {
		args = append([]string{"-i", h.Path("pmc")}, args...)
	}
	lines, err := h.Run(ctx, Command{Name: "pmc", Args: append(args, requests...)})
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		if strings.HasPrefix(l, "bad command") {
			return nil, fmt.Errorf("pmc: %s", l)
		}
	}
	return ParseReplies(lines), nil
}

var head = regexp.MustCompile(`^\t([0-9a-f.]+-\d+) seq (\d+) (\w+) (\w+) ?(.*?) *$`)

// ParseReplies reads pmc's output.
func ParseReplies(lines []string) (list []Reply) {
	for _, l := range lines {
		if m := head.FindStringSubmatch(l); m != nil {
			seq, _ := strconv.Atoi(m[2])
			// Old versions leave out an E.
			kind := strings.Replace(m[4], "MANAGMENT", "MANAGEMENT", 1)
			list = append(list, Reply{From: m[1], Sequence: seq, Action: m[3], Kind: kind, ID: m[5]})
			continue
		}
		row, indented := strings.CutPrefix(l, "\t\t")
		if !indented || len(list) == 0 {
			continue
		}
		name, value, _ := strings.Cut(row, " ")
		r := &list[len(list)-1]
		r.Fields = append(r.Fields, Field{name, strings.TrimSpace(value)})
	}
	return list
}
