package script

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// library returns the names of all scripts.
func library(t testing.TB) (names []string) {
	t.Helper()
	err := filepath.WalkDir("testdata", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".wire") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	count := func(protocol string) (n int) {
		for _, name := range names {
			if strings.HasPrefix(name, "testdata/"+protocol+"/") {
				n++
			}
		}
		return n
	}
	for protocol, least := range map[string]int{"tcp": 150, "iwarp": 150, "16b": 12, "ptp": 12, "roce": 180} {
		if n := count(protocol); n < least {
			t.Fatalf("only %d scripts of %s", n, protocol)
		}
	}
	return names
}

// folder is what a folder of scripts is named after: an RFC and its section, a
// section of IEEE 1588, or a topic of Omni-Path.
var folder = regexp.MustCompile(`^testdata/(?:(?:tcp|iwarp)/([0-9]+)-[A-Za-z0-9.]+|(ptp)/[0-9.]+|(16b)/[a-z]+|(roce)/a?[0-9.]+)/[a-z0-9-]+\.wire$`)

// clauseOf is what the head of a script in that folder begins with.
func clauseOf(f []string) string {
	switch {
	case f == nil:
		return "a clause"
	case f[2] != "":
		return "IEEE 1588-2019 section "
	case f[3] != "":
		return "OPA "
	case f[4] != "":
		return "IBTA "
	}
	return "RFC "
}

func TestScripts(t *testing.T) {
	for _, name := range library(t) {
		t.Run(strings.TrimPrefix(name, "testdata/"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			f := folder.FindStringSubmatch(name)
			head, _, _ := strings.Cut(string(text), "\n\n")
			head = strings.Join(strings.Fields(strings.ReplaceAll(head, "#", " ")), " ")
			if !strings.HasPrefix(head, clauseOf(f)) || f[1] != "" && !strings.Contains(head, "RFC "+f[1]) || !strings.Contains(head, ":") {
				t.Errorf("the script does not begin with the clause that it shows, or its folder names none: %q", head)
			}
			s, err := Parse(name, string(text))
			if err != nil {
				t.Fatal(err)
			}
			var first, second bytes.Buffer
			if err := s.Run(&first); err != nil {
				t.Fatal(err)
			}
			if err := s.Run(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
				t.Errorf("the second run differs: %v", err)
			}
		})
	}
}

// mutation changes one field of a line, and reports whether it has that field.
type mutation struct {
	name   string
	mutate func(line string) (string, bool)
}

var packetMutations = []mutation{
	{"time", bump(`^\+([0-9.]+)() `, 0.37)},
	{"first number", func(l string) (string, bool) {
		return edit(l, `(-?\d+):(-?\d+)(\(\d+\))`, func(m []string) string {
			return fmt.Sprintf("%d:%d%s", number(m[1])+1, number(m[2])+1, m[3])
		})
	}},
	{"length", func(l string) (string, bool) {
		return edit(l, `(-?\d+:)(-?\d+)\((\d+)\)`, func(m []string) string {
			return fmt.Sprintf("%s%d(%d)", m[1], number(m[2])+1, number(m[3])+1)
		})
	}},
	{"flags", func(l string) (string, bool) {
		return edit(l, ` ([FSRP.UEWe]+) (-?\d+:)`, func(m []string) string {
			if rest := strings.ReplaceAll(m[1], "P", ""); rest != m[1] {
				return " " + rest + " " + m[2]
			}
			return " P" + m[1] + " " + m[2]
		})
	}},
	{"acknowledgement", bump(`ack (\d+)()`, 1)},
	{"window", bump(`win (\d+)()`, -1)},
	{"MSS", bump(`mss (\d+)()`, 1)},
	{"scale", bump(`wscale (\d+)()`, 1)},
	{"timestamp", bump(`val (\d+)()`, 1)},
	{"echo", bump(`ecr (\d+)()`, 1)},
	{"left edge", bump(`sack (\d+)(:)`, 1)},
	{"right edge", bump(`:(\d+)(>)`, -1)},
	{"segment size", bump(`gso (\d+)(\])`, 1)},
	{"congestion mark", func(l string) (string, bool) {
		return edit(l, `\[(ect0|noecn)\]`, func(m []string) string {
			return "[" + map[string]string{"ect0": "noecn", "noecn": "ect0"}[m[1]] + "]"
		})
	}},
	{"an option more", func(l string) (string, bool) {
		return edit(l, `<([^<>.]+)>`, func(m []string) string { return "<" + m[1] + ",mss 9>" })
	}},
	// Without a line that takes time the lines after it would move.
	{"line: none", func(l string) (string, bool) { return "", strings.HasPrefix(l, "+0 ") }},
}

var expectMutations = []mutation{
	{"value", bump(`(?:acked|cwnd|ssthresh|flight|mss|sndwnd|held|read|retransmits|timeouts|connections|recoveries) (\d+)()`, 1)},
	{"time", bump(`(?:srtt|rttvar|rto) ([0-9.]+)()`, 0.01)},
	{"state", func(l string) (string, bool) {
		return edit(l, `state [A-Z0-9-]+`, func(m []string) string {
			if m[0] == "state CLOSING" {
				return "state LAST-ACK"
			}
			return "state CLOSING"
		})
	}},
	{"error", func(l string) (string, bool) {
		return edit(l, `closed(.*)$`, func(m []string) string {
			if m[1] == " refused" {
				return "closed"
			}
			return "closed refused"
		})
	}},
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// edit replaces the first match of pattern.
func edit(line, pattern string, replace func(m []string) string) (string, bool) {
	re := regexp.MustCompile(pattern)
	at := re.FindStringSubmatchIndex(line)
	if at == nil {
		return line, false
	}
	return line[:at[0]] + replace(re.FindStringSubmatch(line)) + line[at[1]:], true
}

// bump adds d to the number in the first group; the second is kept.
func bump(pattern string, d float64) func(string) (string, bool) {
	return func(line string) (string, bool) {
		return edit(line, pattern, func(m []string) string {
			n, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				panic(err)
			}
			return strings.Replace(m[0], m[1], strconv.FormatFloat(n+d, 'f', -1, 64), 1)
		})
	}
}

// TestMutations changes what scripts expect, one field at a time: each must
// then fail.
func TestMutations(t *testing.T) {
	tried := map[string]int{}
	for _, name := range library(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for n, l := range lines {
			f := strings.Fields(l)
			var all []mutation
			switch {
			case slices.Contains(f, ">") && !strings.HasPrefix(l, "#"):
				all = packetMutations
				if strings.Contains(name, "/iwarp/") {
					all = slices.Concat(all, messageMutations)
				}
			case slices.Contains(f, "expect") && !strings.HasPrefix(l, "#"):
				all = expectMutations
				if strings.Contains(name, "/iwarp/") {
					all = happeningMutations
				}
			}
			for _, m := range all {
				changed, ok := m.mutate(l)
				if !ok {
					continue
				}
				tried[m.name]++
				mutant := slices.Clone(lines)
				mutant[n] = changed
				s, err := Parse(name, strings.Join(mutant, "\n"))
				if err != nil {
					continue // the number is impossible
				}
				if s.Run(nil) == nil {
					t.Errorf("%s:%d: still holds with another %s: %s", name, n+1, m.name, changed)
				}
			}
		}
	}
	for _, m := range slices.Concat(packetMutations, expectMutations, messageMutations, happeningMutations) {
		if tried[m.name] < 3 {
			t.Errorf("only %d mutations of the %s", tried[m.name], m.name)
		}
	}
}
