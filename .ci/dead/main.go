// Command dead lists functions that neither the program tapir nor an example
// can reach: only tests, benchmarks or nobody calls them. In the FastLinQ device it
// does not count that reflection could call a method. docs/howto/go.md lists those
// that are public API for other modules, and .ci/unreached names the others that
// stay, each with its reason. Anything else, and an entry that is not needed any
// more, is an error.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

const (
	page    = "docs/howto/go.md"
	heading = "## Public functions that Tapir does not call"
	reasons = ".ci/unreached"
)

func main() {
	problems, err := check()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dead:", err)
		os.Exit(2)
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		fmt.Printf("remove them, or list them in %s (public API) or %s (with a reason)\n", page, reasons)
		os.Exit(1)
	}
}

func check() ([]string, error) {
	args := append([]string{"tool", "-modfile=.ci/lint/go.mod", "deadcode", "-f",
		`{{$p := .Path}}{{range .Funcs}}{{.Position}} {{$p}}.{{.Name}}{{"\n"}}{{end}}`}, roots()...)
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	found, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	more, err := uncalled("tapir/nic/fastlinq", roots()...)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	allowed := public(string(text))
	if text, err = os.ReadFile(reasons); err != nil {
		return nil, err
	}
	others, err := named(string(text))
	if err != nil {
		return nil, err
	}
	return compare(string(found)+more, append(allowed, others...)), nil
}

// roots are the programs whose functions count as called.
func roots() []string { return []string{"./cmd/tapir", "./examples/..."} }

var (
	row  = regexp.MustCompile("(?m)^\\| `tapir/([^`]+)` \\| (.*) \\|$")
	name = regexp.MustCompile("`([^`]+)`")
)

// public reads the table of docs/howto/go.md: a package and some of its functions,
// methods or types.
func public(text string) (entries []string) {
	_, text, _ = strings.Cut(text, heading)
	text, _, _ = strings.Cut(text, "\n## ")
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		for _, n := range name.FindAllStringSubmatch(m[2], -1) {
			entries = append(entries, m[1]+"."+n[1])
		}
	}
	return entries
}

// named reads lines "package.Name # reason".
func named(text string) (entries []string, err error) {
	for n, line := range strings.Split(text, "\n") {
		entry, reason, _ := strings.Cut(line, "#")
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s:%d: want 'package.Name # reason'", reasons, n+1)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// compare returns the functions without an entry and the entries without a
// function. The entry of a type stands for its methods. What lies in lab/check
// is there for tests.
func compare(found string, entries []string) (problems []string) {
	used := map[string]bool{}
	for line := range bytes.Lines([]byte(found)) {
		at, fn, ok := strings.Cut(strings.TrimSpace(string(line)), " tapir/")
		if !ok || strings.HasPrefix(fn, "lab/check/") {
			continue
		}
		i := slices.IndexFunc(entries, func(e string) bool { return fn == e || strings.HasPrefix(fn, e+".") })
		if i < 0 {
			problems = append(problems, at+": nothing calls "+fn)
			continue
		}
		used[entries[i]] = true
	}
	for _, e := range entries {
		if !used[e] {
			problems = append(problems, "the entry "+e+" is not needed")
		}
	}
	return problems
}
