package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// index knows the module's tests.
type index struct {
	root string
	// tests maps "room.TestName" to the clauses that its comment names.
	tests map[string][]string
	// barred says why a test does not count as run.
	barred map[string]string
	// scripts are the wire scripts, relative to the script room's testdata.
	scripts map[string]bool
	// tags maps every clause id in a test file or script to a place.
	tags map[string]string
}

var tag = regexp.MustCompile(`\b(?:5040|5041|5044|6581|7306|7143|IBTA)-[0-9A-Z][0-9A-Z.]*-[0-9]+\b`)

// indexTests reads all test files and scripts of the module at root. Nested
// modules and folders that the go tool leaves out are left out.
func indexTests(root string) (*index, error) {
	x := &index{root: root, tests: map[string][]string{}, barred: map[string]string{},
		scripts: map[string]bool{}, tags: map[string]string{}}
	skips, err := os.ReadFile(filepath.Join(root, ".ci/skips"))
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir():
			if rel != "." && leftOut(name, d.Name()) {
				return fs.SkipDir
			}
		case strings.HasSuffix(rel, "_test.go"):
			return x.goFile(name, rel, string(skips))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x, x.findScripts()
}

func leftOut(path, base string) bool {
	if base == "testdata" || base == "out" || base == "bin" || base[0] == '.' || base[0] == '_' {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}

func (x *index) goFile(name, rel, skips string) error {
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	room := rel[:max(strings.LastIndexByte(rel, '/'), 0)]
	for _, id := range tag.FindAllString(string(src), -1) {
		x.tags[id] = rel
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		test := room + "." + f.Name.Name
		x.tests[test] = expandTags(f.Doc.Text())
		switch {
		case bytes.Contains(src, []byte("//go:build")):
			x.barred[test] = "its file has a build constraint"
		case regexp.MustCompile(`\b` + f.Name.Name + `\b`).MatchString(skips):
			x.barred[test] = ".ci/skips lets it be skipped"
		case callsSkip(f):
			x.barred[test] = "it calls Skip"
		}
	}
	return nil
}

func callsSkip(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Skip") {
			found = true
		}
		return true
	})
	return found
}

var tagRange = regexp.MustCompile(`(` + tag.String() + `)\s+to\s+(` + tag.String() + `)`)

// expandTags returns the clause ids in a comment; "a to b" stands for all from
// a to b.
func expandTags(comment string) []string {
	ids := tag.FindAllString(comment, -1)
	for _, m := range tagRange.FindAllStringSubmatch(comment, -1) {
		cut := strings.LastIndexByte(m[1], '-')
		var from, to int
		fmt.Sscan(m[1][cut+1:], &from)
		fmt.Sscan(m[2][strings.LastIndexByte(m[2], '-')+1:], &to)
		for i := from + 1; i < to; i++ {
			ids = append(ids, fmt.Sprintf("%s-%d", m[1][:cut], i))
		}
	}
	return ids
}

func (x *index) findScripts() error {
	base := filepath.Join(x.root, scriptRoom, "testdata")
	return filepath.WalkDir(base, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".wire") {
			return err
		}
		rel, _ := filepath.Rel(base, name)
		rel = filepath.ToSlash(rel)
		x.scripts[rel] = true
		src, err := os.ReadFile(name)
		for _, id := range tag.FindAllString(string(src), -1) {
			x.tags[id] = rel
		}
		return err
	})
}

// missing says what is wrong with a test's name, "" if it exists and is run.
func (x *index) missing(name string) string {
	if strings.HasSuffix(name, ".wire") {
		if !x.scripts[name] {
			return "no such script"
		}
		return ""
	}
	if _, ok := x.tests[name]; !ok {
		return "no such test"
	}
	return x.barred[name]
}
