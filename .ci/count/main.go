// Command count counts statements and lines of Go sources by group of packages,
// tests left out: of this tree and, if a revision is given, of that one beside it.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// sum is what a group has: statements, blocks not counted, and lines.
type sum struct{ statements, lines int }

func main() {
	if err := count(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
}

func count(revisions []string) error {
	now := map[string]sum{}
	if err := tree(now); err != nil {
		return err
	}
	old := map[string]sum{}
	for _, revision := range revisions {
		if err := archive(revision, old); err != nil {
			return err
		}
	}
	table(os.Stdout, old, now)
	return nil
}

// tree counts the files of the current directory.
func tree(sums map[string]sum) error {
	return fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !counts(name) {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return file(name, text, sums)
	})
}

// archive counts the files of a revision.
func archive(revision string, sums map[string]sum) error {
	cmd := exec.Command("git", "archive", revision)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for r := tar.NewReader(bytes.NewReader(out)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if counts(h.Name) {
			text, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			if err := file(h.Name, text, sums); err != nil {
				return err
			}
		}
	}
}

// counts reports whether a file is source of a package, and no test.
func counts(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
		!strings.HasPrefix(name, ".") && !strings.Contains(name, "/testdata/") && !strings.Contains(name, "/.")
}

func file(name string, text []byte, sums map[string]sum) error {
	f, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil {
		return err
	}
	s := sums[group(name)]
	s.lines += bytes.Count(text, []byte("\n"))
	ast.Inspect(f, func(n ast.Node) bool {
		if _, ok := n.(ast.Stmt); ok {
			if _, block := n.(*ast.BlockStmt); !block {
				s.statements++
			}
		}
		return true
	})
	sums[group(name)] = s
	return nil
}

// group is what a file is counted with: its top directory, and below nic and lab
// one level more.
func group(name string) string {
	dir := strings.Split(path.Dir(name), "/")
	if len(dir) > 1 && (dir[0] == "nic" || dir[0] == "lab") {
		return dir[0] + "/" + dir[1]
	}
	return dir[0]
}

func table(w io.Writer, old, now map[string]sum) {
	groups := maps.Clone(old)
	maps.Copy(groups, now)
	names := slices.Sorted(maps.Keys(groups))
	if len(old) == 0 {
		fmt.Fprintln(w, "| packages | statements | lines |\n|---|---|---|")
	} else {
		fmt.Fprintln(w, "| packages | statements before | now | lines before | now |\n|---|---|---|---|---|")
	}
	var a, b sum
	for _, g := range names {
		tableRow(w, "`"+g+"`", old[g], now[g], len(old) > 0)
		a.statements, a.lines = a.statements+old[g].statements, a.lines+old[g].lines
		b.statements, b.lines = b.statements+now[g].statements, b.lines+now[g].lines
	}
	tableRow(w, "all", a, b, len(old) > 0)
}

func tableRow(w io.Writer, name string, old, now sum, both bool) {
	if both {
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d |\n", name, old.statements, now.statements, old.lines, now.lines)
		return
	}
	fmt.Fprintf(w, "| %s | %d | %d |\n", name, now.statements, now.lines)
}
