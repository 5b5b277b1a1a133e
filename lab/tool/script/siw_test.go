package script

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/evidence/siw-differences.md again")

const differencesHead = `# Where Linux siw answers differently

This table is made from the heads of the wire scripts in
` + "`lab/tool/script/testdata/iwarp`" + ` ([scripts.md](../reference/scripts.md)): what the NIC answers
is what the script states, and each script names the clause that decides. What
siw does was observed with the driver of Linux 6.1.

Besides, every Terminate of siw has another layout than RFC 5040 section 4.8
asks for: layer and type have changed places in the first octet, and M, D and R
are the lowest bits of the third one. The DDP Segment Length counts the payload
alone. Tapir sends the RFC's layout and understands both.

| clause | case | Tapir | siw |
|---|---|---|---|
`

// TestDifferencesOfSiw makes the table of docs/evidence/siw-differences.md. After a
// change of the scripts: go test ./lab/tool/script -run Siw -update
func TestDifferencesOfSiw(t *testing.T) {
	var b strings.Builder
	b.WriteString(differencesHead)
	rows := 0
	for _, name := range library(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if row := differenceRow(t, name, string(text)); row != "" {
			rows++
			b.WriteString(row)
		}
	}
	if rows < 40 {
		t.Errorf("only %d differences", rows)
	}
	const doc = "../../../docs/evidence/siw-differences.md"
	if *update {
		if err := os.WriteFile(doc, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(doc)
	if err != nil || string(have) != b.String() {
		t.Errorf("%s is not what the scripts say; run: go test ./lab/tool/script -run Siw -update (%v)", doc, err)
	}
}

var (
	clause  = regexp.MustCompile(`^RFC (\d+) (?:sections? (\S+?)|appendix (\S+?))(?: and \S+?)?(?:,[^:]*| [^:]*)?: `)
	answers = regexp.MustCompile(`(?m)^\S+ +(?:@\d+ )?> (terminate [0-9/*]+|rst|mpa reply.*)`)
)

// differenceRow is the line about one script, empty if siw does the same.
func differenceRow(t *testing.T, name, text string) string {
	var head []string
	for _, l := range strings.Split(text, "\n") {
		l, ok := strings.CutPrefix(l, "#")
		if !ok {
			break
		}
		if l = strings.TrimSpace(l); !strings.HasPrefix(l, "not live: ") && !strings.HasPrefix(l, "not verbs: ") {
			head = append(head, l)
		}
	}
	says, siw, ok := strings.Cut(strings.Join(head, " "), " siw: ")
	if !ok {
		return ""
	}
	m := clause.FindStringSubmatch(says)
	if m == nil {
		t.Errorf("%s: no clause in %q", name, says)
		return ""
	}
	siw, answer, ok := strings.Cut(siw, ". Tapir: ")
	if a := answers.FindStringSubmatch(text); !ok && a != nil {
		answer = "`" + a[1] + "`"
	}
	if answer == "" {
		t.Errorf("%s: it is not clear what the NIC does; expected: siw: ... . Tapir: ...", name)
	}
	section := "section " + m[2]
	if m[3] != "" {
		section = "appendix " + m[3]
	}
	file := strings.TrimPrefix(name, "testdata/iwarp/")
	what := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".wire"), "-", " ")
	return fmt.Sprintf("| RFC %s %s | [%s](../../lab/tool/script/%s) | %s | %s |\n", m[1], strings.TrimRight(section, ",:"), what, name, answer, siw)
}
