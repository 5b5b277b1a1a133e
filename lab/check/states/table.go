package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tapir/lab/tool/live"
	"tapir/lab/tool/script"
)

// Row is a script's line of the table of states.
type Row struct {
	Name           string // of the script, below the library
	Clause         string
	Frames, Inside string // what those of siw or rxe are: holds, differs, n/a
	Unseen         string
	Why            string
}

// deviation is something known that siw or rxe does otherwise.
type deviation struct {
	what  string
	shows *regexp.Regexp // in a difference
}

// deviations are numbered from 1 on, in the table.
var deviations = []deviation{
	{"siw raises other asynchronous events than those of the script, or none",
		regexp.MustCompile(`^no async |^more has happened than the script says: expect async [a-z-]+$`)},
	{"the Terminate for a wrong version, opcode or length comes without the DDP header (RFC 5040 section 4.8)",
		regexp.MustCompile(`M bit, D bit`)},
	{"the header of a Read Request that a Terminate quotes holds the size in place of the MSN",
		regexp.MustCompile(`^wrong DDP header: terminate`)},
	{"what was being received completes with another error than \"flushed\"",
		regexp.MustCompile(`^not so: completion .*: completion .* (general|local-length|local-qp-operation)$`)},
	{"another layer, type or code", regexp.MustCompile(`^wrong error`)},
	{"octets are placed before the CRC is verified", regexp.MustCompile(`^not so: memory untouched: memory changed`)},
	{"the stream ends with FIN where this NIC resets it, or the other way round",
		regexp.MustCompile(`^wrong message: not (rst: fin|fin: rst)$`)},
	{"the completion of a user program does not name the STag that was invalidated",
		regexp.MustCompile(`^not so: completion .* inv \S+: completion`)},
	{"a message is cut to segments of another length: siw fills no segment to the last octet",
		regexp.MustCompile(`length: \d+ octets`)},
	{"a Read that the peer's Terminate names is flushed like the others",
		regexp.MustCompile(`^not so: completion read .* remote-access: completion read .* flushed$`)},
	{"rxe raises no asynchronous event when the responder fails",
		regexp.MustCompile(`^not so: event qp-(request|access)-error: nothing has happened$`)},
	{"rxe answers with another syndrome or at another PSN: a Send that is too long is NAKed with 0x63, a receive is " +
		"looked for before lengths are checked, an invalidation of nothing is acknowledged",
		regexp.MustCompile(`^wrong (psn, )?(syndrome|msn)|^wrong syndrome, msn`)},
	{"rxe completes the request with another status",
		regexp.MustCompile(`^not so: completion \d+ \S+ [a-z-]+: completion \d+ \S+ [a-z-]+( len \d+)?$`)},
	{"rxe takes a response that nobody has asked for as an acknowledgement",
		regexp.MustCompile(`^not so: quiet: expect completion \d+ send success$`)},
	{"the queue pair of rxe lives on", regexp.MustCompile(`^not so: state err: state rts$`)},
}

// explain is the cell about the differences: the numbers of what is known, and
// what else there is, shortened.
func explain(why []string) string {
	var known []int
	var other []string
	for _, w := range why {
		i := slices.IndexFunc(deviations, func(d deviation) bool { return d.shows.MatchString(w) })
		switch {
		case i >= 0 && !slices.Contains(known, i+1):
			known = append(known, i+1)
		case i < 0 && len(other) < 2:
			if len(w) > 110 {
				w = w[:110] + "..."
			}
			other = append(other, strings.ReplaceAll(w, "|", "/"))
		}
	}
	slices.Sort(known)
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(known), " ", ", "), "[]")
	if len(other) == 0 {
		return text
	}
	if text != "" {
		text += "; "
	}
	return text + strings.Join(other, "; ")
}

// row is the line of a result; root is the library.
func row(root string, r live.Result) (Row, error) {
	o := &r.Outcome
	w := Row{Name: NameIn(root, r.Script), Frames: o.Frames.String(), Inside: o.Inside.String(),
		Why: strings.Join(o.Why, "; ")}
	if o.State() == script.Differs {
		w.Why = explain(o.Why)
	}
	if o.State() != script.NotApplicable {
		w.Unseen = fmt.Sprint(o.Unseen)
	}
	var err error
	w.Clause, err = clauseOf(r.Script.Name)
	return w, err
}

// NameIn is what rows call a script of a library.
func NameIn(root string, s *script.Script) string {
	return strings.TrimPrefix(s.Name, filepath.Clean(root)+string(filepath.Separator))
}

var citation = regexp.MustCompile(
	`^(RFC \d+ (?:sections?|appendix|annex) [A-Za-z0-9.]+|IEEE 1588-2019 section [0-9.]+|` +
		`OPA [^:,]+|IBTA (?:section|annex) [A-Z0-9.]+)`)

// clauseOf is what the head of a script cites.
func clauseOf(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var head []string
	for _, l := range strings.Split(string(b), "\n") {
		l, ok := strings.CutPrefix(l, "#")
		if !ok {
			break
		}
		head = append(head, strings.TrimSpace(l))
	}
	m := citation.FindString(strings.Join(head, " "))
	if m == "" {
		return "", fmt.Errorf("%s: its head names no clause", file)
	}
	return strings.TrimRight(m, "."), nil
}

const head = `# The state of each wire script

This table is made by running the scripts of ` + "`lab/tool/script/testdata`" + `
([scripts.md](../reference/scripts.md)). In virtual time every one holds for this NIC: a test
runs them all. The columns of Linux come from runs against drivers of Linux 6.1 in a guest, siw
for scripts of iWARP and rxe for those of RoCE (` + "`make interop`" + `, which fails when a state has
changed).

"frames" is what Linux has sent: segments, start-up frames, FPDUs and the end of the
stream, or packets of RoCE. "inside" is what its application was told, and its memory. "not seen" counts the
statements about the inside that nothing in Linux tells of; they count as neither.
A Terminate of siw is read in its own order: layer and type changed, M, D and R in the lowest
bits, another segment length.

Numbers stand for what siw and rxe are known to do otherwise:

`

// Table is the document.
func Table(rows []Row) string {
	var b strings.Builder
	b.WriteString(head)
	for i, d := range deviations {
		fmt.Fprintf(&b, "%d. %s\n", i+1, d.what)
	}
	count := map[string]int{}
	for _, r := range rows {
		count[r.Frames+" "+r.Inside]++
	}
	fmt.Fprintf(&b, "\nOf %d scripts %d cannot be run against Linux. %d hold; of %d more the frames hold.\n\n",
		len(rows), count["n/a n/a"], count["holds holds"], count["holds differs"])
	b.WriteString("| script | clause | Tapir | Linux: frames | inside | not seen | differences, or why not |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| [%s](../../lab/tool/script/testdata/%s) | %s | holds | %s | %s | %s | %s |\n",
			strings.TrimSuffix(r.Name, ".wire"), r.Name, r.Clause, r.Frames, r.Inside, r.Unseen, r.Why)
	}
	return b.String()
}

var line = regexp.MustCompile(
	`^\| \[[^\]]+\]\(\.\./\.\./lab/tool/script/testdata/([^)]+)\) ` +
		`\| ([^|]*) \| holds \| (\S+) \| (\S+) \| (\d*) \| (.*) \|$`)

// Rows reads the rows of a document that Table has made.
func Rows(page string) (rows []Row) {
	for _, l := range strings.Split(page, "\n") {
		if m := line.FindStringSubmatch(l); m != nil {
			rows = append(rows, Row{m[1], m[2], m[3], m[4], m[5], m[6]})
		}
	}
	return rows
}

// Changes says which states are not those of the document any more, and which
// scripts one of the two does not have.
func Changes(had, have []Row) (list []string) {
	before := map[string]Row{}
	for _, r := range had {
		before[r.Name] = r
	}
	for _, r := range have {
		old, known := before[r.Name]
		delete(before, r.Name)
		switch {
		case !known:
			list = append(list, r.Name+": not in the table")
		case old.Frames != r.Frames || old.Inside != r.Inside:
			list = append(list, fmt.Sprintf("%s: frames %s, inside %s; the table says %s, %s: %s", r.Name, r.Frames,
				r.Inside, old.Frames, old.Inside, r.Why))
		}
	}
	for name := range before {
		list = append(list, name+": in the table only")
	}
	slices.Sort(list)
	return list
}

// Library reads all scripts below a directory, in order.
func Library(root string) (list []*script.Script, err error) {
	err = filepath.WalkDir(root, func(name string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".wire") {
			return err
		}
		s, err := script.ReadFile(name)
		list = append(list, s)
		return err
	})
	return list, err
}

// NewRows are the rows of results, in the order of their names.
func NewRows(root string, results []live.Result) (rows []Row, err error) {
	for _, r := range results {
		w, err := row(root, r)
		if err != nil {
			return nil, err
		}
		rows = append(rows, w)
	}
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	return rows, nil
}
