package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// seedSystem is one of the five systems, with the number of rows of each of
// its chapters.
type seedSystem struct {
	name string
	rows map[string]int
}

var seedSystems = []seedSystem{
	{"FastLinQ driver core", map[string]int{"OV": 13, "HW": 15, "IN": 29, "IT": 19, "MF": 46, "L2": 25, "CM": 10, "IS": 17,
		"FC": 7, "RD": 26, "IW": 28, "LL": 10, "IO": 34, "ST": 6, "PT": 10, "XX": 10}},
	{"InfiniBand HCA driver kit", map[string]int{"HCA-2.2": 8, "HCA-2.3": 17, "HCA-2.4": 7}},
	{"OPA VNIC", map[string]int{"OPA-1": 5, "OPA-2": 7, "OPA-3": 11}},
	{"Solaris Open Fabrics", map[string]int{"SOL-1.0": 11, "SOL-1.1.1": 20, "SOL-1.1.2": 3, "SOL-1.1.3": 3, "SOL-1.1.4": 3, "SOL-2.0": 1}},
	{"SoftiWARP", map[string]int{"SIW-1": 4, "SIW-2": 3, "SIW-3": 2, "SIW-4": 3, "SIW-5": 1, "SIW-6": 3, "SIW-7": 6, "SIW-8": 2, "SIW-9": 5}},
}

// corePointless are the rows of the driver core that have no meaning in software.
var corePointless = []string{"HW-05"}

var (
	coreID  = regexp.MustCompile(`\b(?:OV|HW|IN|IT|MF|L2|CM|IS|FC|RD|IW|LL|IO|ST|PT|XX)-\d\d\b`)
	seedRow = regexp.MustCompile(`(?m)^\| ([A-Z0-9]{2,3}-[0-9.]+(?:-\d\d)?) \| (.+?) \| (in the NIC|(?:model|not yet|pointless): [^|]+?) \| (.*?) ?\|$`)
	// rowLike is what looks like a row; each must be one.
	rowLike = regexp.MustCompile(`(?m)^\| [A-Z0-9]{2,3}-[0-9].*$`)
)

// rowsOfTests returns, by id, the tests that say in a comment which rows of
// the driver core they prove: `package.TestName`, in order.
func rowsOfTests(t *testing.T) map[string][]string {
	t.Helper()
	proved := map[string][]string{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && name != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "seed_rows_test.go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || !coreID.Match(text) {
			return err
		}
		dir, _ := filepath.Rel("..", filepath.Dir(name))
		return commentsOf(dir, name, text, proved)
	})
	if err != nil {
		t.Fatal(err)
	}
	for id := range proved {
		slices.Sort(proved[id])
		proved[id] = slices.Compact(proved[id])
	}
	return proved
}

// commentsOf adds the ids in the comments above and inside the test functions
// of a file.
func commentsOf(dir, name string, text []byte, proved map[string][]string) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
			continue
		}
		from := f.Pos()
		if f.Doc != nil {
			from = f.Doc.Pos()
		}
		for _, c := range file.Comments {
			if c.Pos() < from || c.End() > f.End() {
				continue
			}
			for _, id := range coreID.FindAllString(c.Text(), -1) {
				proved[id] = append(proved[id], fmt.Sprintf("`%s.%s`", filepath.ToSlash(dir), f.Name.Name))
			}
		}
	}
	return nil
}

// inNIC is the status of what a running NIC does. The others are "model", "not yet"
// and "pointless", each with its reason.
const inNIC = "in the NIC"

// TestSeedRows holds seed-rows.md against the code: all rows are there, once;
// they name tests that exist, and all that say that they prove them; a row in the
// NIC names one that drives a NIC; no function that nothing calls belongs to it;
// the counts are right. With -update it writes what follows from the
// tests' comments.
func TestSeedRows(t *testing.T) {
	const page = "evidence/seed-rows.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	proved, text, devices := rowsOfTests(t), string(b), &deviceTests{t: t}
	if *update {
		text = withProved(text, proved, devices)
		text = withCounts(text)
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if namedTests(t, text) < 150 {
		t.Error("too few tests are named")
	}
	if want := withCounts(text); want != text {
		t.Errorf("the counts are not those of the rows: go test ./docs -run TestSeedRows -update")
	}
	rows := seedRow.FindAllStringSubmatch(text, -1)
	if n := len(rowLike.FindAllString(text, -1)); n != len(rows) {
		t.Errorf("%d lines look like rows, %d are", n, len(rows))
	}
	seen := checkRows(t, rows, proved, devices)
	uncalledRows(t, rows)
	for id := range proved {
		if !seen[id] {
			t.Errorf("%s proves %s, which is no row", strings.Join(proved[id], " "), id)
		}
	}
	for _, s := range seedSystems {
		if !strings.Contains(text, "\n| "+s.name+" | ") {
			t.Errorf("%s: no counts", s.name)
		}
		for chapter, n := range s.rows {
			for i := range n {
				id := fmt.Sprintf("%s-%02d", chapter, i+1)
				if !seen[id] {
					t.Errorf("no row %s", id)
				}
				delete(seen, id)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		t.Errorf("row %s is of no system", id)
	}
}

// checkRows checks one row after the other and returns their ids.
func checkRows(t *testing.T, rows [][]string, proved map[string][]string, devices *deviceTests) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range rows {
		id, tests := r[1], r[4]
		status, _, _ := strings.Cut(r[3], ":")
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		if has := status == inNIC || status == "model"; has != testName.MatchString(tests) {
			t.Errorf("%s: %s, tests: %q", id, status, tests)
		}
		if status == inNIC && !devices.any(tests) {
			t.Errorf("%s: none of %s drives a NIC (seed_device_test.go): it is a model, or needs a test that does", id, tests)
		}
		if status == "pointless" && coreID.FindString(id) == id && !slices.Contains(corePointless, id) {
			t.Errorf("%s: %s", id, status)
		}
		for _, name := range proved[id] {
			if !strings.Contains(tests, name) {
				t.Errorf("%s proves %s by its comment, the row says %q and names %q: go test ./docs -run TestSeedRows -update", name, id, status, tests)
			}
		}
	}
	return seen
}

// withProved is text with the tests that say which rows they prove. A row that was
// not there is in the NIC if one of them drives one.
func withProved(text string, proved map[string][]string, devices *deviceTests) string {
	return seedRow.ReplaceAllStringFunc(text, func(line string) string {
		r := seedRow.FindStringSubmatch(line)
		status, tests := r[3], r[4]
		for _, name := range proved[r[1]] {
			if !strings.Contains(tests, name) {
				tests = strings.TrimSpace(tests + " " + name)
			}
		}
		if strings.HasPrefix(status, "not yet") && devices.any(tests) {
			status = inNIC
		}
		return fmt.Sprintf("| %s | %s | %s | %s |", r[1], r[2], status, tests)
	})
}

// withCounts is text with the number of rows of each status in the table at
// its top.
func withCounts(text string) string {
	for _, s := range seedSystems {
		_, part, _ := strings.Cut(text, "\n## "+s.name+"\n")
		part, _, _ = strings.Cut(part, "\n## ")
		count := map[string]int{}
		for _, r := range seedRow.FindAllStringSubmatch(part, -1) {
			status, _, _ := strings.Cut(r[3], ":")
			count[status]++
		}
		sum, line := 0, ""
		for _, status := range []string{inNIC, "model", "not yet", "pointless"} {
			sum += count[status]
			line += fmt.Sprintf(" %d |", count[status])
		}
		line = fmt.Sprintf("| %s | %d |%s", s.name, sum, line)
		text = regexp.MustCompile(`(?m)^\| `+s.name+` \| \d+ \|.*$`).ReplaceAllLiteralString(text, line)
	}
	return text
}
