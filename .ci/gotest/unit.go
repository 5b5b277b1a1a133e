package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// unit is a package as go list prints it, and what its files say.
type unit struct {
	Dir, ImportPath                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string

	starts, testStarts bool     // goroutines, in its files and in its tests
	fuzz               []string // its fuzz targets, by name
}

// load reads pkgs, in the order of go list.
func load(pkgs []string) (all []*unit, err error) {
	const fields = "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"
	out, err := exec.Command("go", slices.Concat([]string{"list", fields}, pkgs)...).Output()
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		u := new(unit)
		if err := dec.Decode(u); err != nil {
			return nil, err
		}
		if err := u.parse(); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

func (u *unit) parse() error {
	fset := token.NewFileSet()
	for _, name := range slices.Concat(u.GoFiles, u.TestGoFiles, u.XTestGoFiles) {
		file, err := parser.ParseFile(fset, filepath.Join(u.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(name, "_test.go") {
			u.starts = u.starts || startsGoroutines(file)
			continue
		}
		u.testStarts = u.testStarts || startsGoroutines(file)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				u.fuzz = append(u.fuzz, f.Name.Name)
			}
		}
	}
	return nil
}

// startsGoroutines tells whether the file has a go statement, or calls for a
// goroutine: of a WaitGroup, a timer or an HTTP server. Tests that run in
// parallel do not count: packages without goroutines have no variables to share.
func startsGoroutines(file *ast.File) (yes bool) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		yes = yes || path == "net/http"
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			yes = true
		case *ast.SelectorExpr:
			yes = yes || slices.Contains([]string{"Go", "AfterFunc"}, n.Sel.Name)
		}
		return !yes
	})
	return yes
}

// concurrent picks from list, a part of all, the packages with tests in which
// goroutines meet: they or what they import starts them.
func concurrent(list, all []*unit) (paths []string) {
	units := map[string]*unit{}
	for _, u := range all {
		units[u.ImportPath] = u
	}
	known := map[string]bool{}
	var starts func(path string) bool
	starts = func(path string) bool {
		u := units[path]
		if u == nil {
			return false
		}
		if _, ok := known[path]; !ok {
			known[path] = u.starts || slices.ContainsFunc(u.Imports, starts)
		}
		return known[path]
	}
	for _, u := range list {
		tests := len(u.TestGoFiles)+len(u.XTestGoFiles) > 0
		if tests && (u.testStarts || starts(u.ImportPath) ||
			slices.ContainsFunc(slices.Concat(u.TestImports, u.XTestImports), starts)) {
			paths = append(paths, u.ImportPath)
		}
	}
	return paths
}
