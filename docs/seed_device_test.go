package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// deviceMakers are the functions that put a whole device to work: a NIC, an HFI, a
// node or a lab of them, or the program tapir.
var deviceMakers = map[string][]string{
	"nic":                     {"New"},
	"opa/hfi":                 {"New"},
	"lab/node/nicnode":        {"Start"},
	"lab/node/hfinode":        {"NewHFI", "Start"},
	"lab/run/real":            {"Run", "Up"},
	"lab/run/virtual":         {"Run", "Up"},
	"lab/labtest":             {"Run", "Start"},
	"lab/tool/script":         {"Parse", "RunAll"},
	"lab/check/opabed":        {"New"},
	"lab/check/testenv":       {"Build"},
	"lab/check/testenv/nics":  {"Pair"},
	"lab/check/testenv/vpair": {"New"},
}

// deviceTests knows which tests drive a device: they call one of deviceMakers, or a
// function or method of their package's test files that does.
type deviceTests struct {
	t        *testing.T
	packages map[string]map[string]*testFunc
}

// testFunc is a function of test files, or all methods of a name.
type testFunc struct {
	makes bool            // it calls a maker
	names map[string]bool // that it mentions
}

// any tells whether one of the tests that a row names drives a device.
func (d *deviceTests) any(tests string) bool {
	d.t.Helper()
	return slices.ContainsFunc(testName.FindAllStringSubmatch(tests, -1), func(m []string) bool {
		return d.drives(m[1], m[2], map[string]bool{})
	})
}

func (d *deviceTests) drives(dir, name string, seen map[string]bool) bool {
	d.t.Helper()
	f := d.functions(dir)[name]
	if f == nil || seen[name] {
		return false
	}
	seen[name] = true
	return f.makes || slices.ContainsFunc(slices.Collect(maps.Keys(f.names)), func(to string) bool {
		return d.drives(dir, to, seen)
	})
}

// functions are those of the test files of a directory.
func (d *deviceTests) functions(dir string) map[string]*testFunc {
	d.t.Helper()
	if all, ok := d.packages[dir]; ok {
		return all
	}
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		d.t.Fatal(err)
	}
	all := map[string]*testFunc{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			d.t.Fatal(err)
		}
		imports := importsOf(file)
		if !strings.HasSuffix(file.Name.Name, "_test") {
			imports[""] = dir
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				if all[f.Name.Name] == nil {
					all[f.Name.Name] = &testFunc{names: map[string]bool{}}
				}
				all[f.Name.Name].read(f, imports)
			}
		}
	}
	if d.packages == nil {
		d.packages = map[string]map[string]*testFunc{}
	}
	d.packages[dir] = all
	return all
}

// importsOf are the directories of this module that a file imports, by local name.
func importsOf(file *ast.File) map[string]string {
	imports := map[string]string{}
	for _, i := range file.Imports {
		dir, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "tapir/")
		if name := filepath.Base(dir); ok && i.Name == nil {
			imports[name] = dir
		} else if ok {
			imports[i.Name.Name] = dir
		}
	}
	return imports
}

// read adds what a function mentions.
func (f *testFunc) read(decl *ast.FuncDecl, imports map[string]string) {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imports[x.Name] != "" {
				f.makes = f.makes || slices.Contains(deviceMakers[imports[x.Name]], n.Sel.Name)
				return false
			}
			f.names[n.Sel.Name] = true
		case *ast.Ident:
			f.names[n.Name] = true
		case *ast.CallExpr:
			id, ok := n.Fun.(*ast.Ident)
			f.makes = f.makes || ok && slices.Contains(deviceMakers[imports[""]], id.Name)
		}
		return true
	})
}

// uncalledRows compares the rows with .ci/unreached: what the driver core exports and
// nothing in a running NIC calls has a reason there, which may be a row; then that is
// no row of the NIC.
func uncalledRows(t *testing.T, rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../.ci/unreached")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^(nic/fastlinq\S*) # model (.*)$`).FindAllStringSubmatch(string(text), -1) {
		for _, id := range coreID.FindAllString(m[2], -1) {
			if slices.ContainsFunc(rows, func(r []string) bool { return r[1] == id && r[3] == inNIC }) {
				t.Errorf("%s is in the NIC, and nothing calls %s", id, m[1])
			}
		}
	}
}
