// Package docs holds the tests that keep the documents and the layout true.
package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

const module = "tapir"

// pkg is one package directory; its tests are left out.
type pkg struct {
	path    string              // "nic/toe", relative to the module
	lines   int                 // of all its files
	files   map[string]int      // lines of each file
	wide    map[string][]string // places of lines over maxColumns, by file
	funcs   map[string]int      // lines of each function
	methods map[string]int      // methods of each type
	imports map[string][]string // import path -> places
	goStmts []string            // places of go statements
	clocks  []string            // places of time.Now and the like
}

// under reports whether path is one of the directories or lies below one.
func under(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return path == d || strings.HasPrefix(path, d+"/") })
}

// matches reports whether path is the pattern or, with a pattern that ends in
// "/...", the directory before it or one below.
func matches(path, pattern string) bool {
	dir, below := strings.CutSuffix(pattern, "/...")
	return path == dir || below && under(path, dir)
}

// ownImport is the module-relative form of an import of this module.
func ownImport(imp string) (string, bool) { return strings.CutPrefix(imp, module+"/") }

// packages lists all packages of the module and of the modules nested in it.
func packages(t *testing.T) []*pkg {
	t.Helper()
	list, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Fatalf("found only %d packages; does the walk start at the module's root?", len(list))
	}
	return list
}

var readTree = sync.OnceValues(func() ([]*pkg, error) {
	all := map[string]*pkg{}
	fset := token.NewFileSet()
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel("..", name)
		base := d.Name()
		if d.IsDir() {
			hidden := strings.HasPrefix(base, ".") && base != ".ci"
			if rel != "." && (hidden || slices.Contains([]string{"testdata", "out", "bin"}, base)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		if all[dir] == nil {
			all[dir] = &pkg{path: dir, files: map[string]int{}, wide: map[string][]string{}, funcs: map[string]int{},
				methods: map[string]int{}, imports: map[string][]string{}}
		}
		return all[dir].read(fset, name)
	})
	list := slices.Collect(maps.Values(all))
	slices.SortFunc(list, func(a, b *pkg) int { return strings.Compare(a.path, b.path) })
	return list, err
})

var clockFuncs = []string{"Now", "Since", "Until", "After", "Sleep", "NewTimer", "Tick", "NewTicker", "AfterFunc"}

func (p *pkg) read(fset *token.FileSet, name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(fset, name, text, 0)
	if err != nil {
		return err
	}
	base := filepath.Base(name)
	for n, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		p.lines++
		p.files[base]++
		if columns(line) > maxColumns {
			p.wide[base] = append(p.wide[base], fmt.Sprintf("%s:%d", name, n+1))
		}
	}
	at := func(n ast.Node) string { return fset.Position(n.Pos()).String() }
	for _, spec := range file.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value)
		p.imports[imp] = append(p.imports[imp], at(spec))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			p.goStmts = append(p.goStmts, at(n))
		case *ast.SelectorExpr:
			id, ok := n.X.(*ast.Ident)
			if ok && id.Name == "time" && slices.Contains(clockFuncs, n.Sel.Name) {
				p.clocks = append(p.clocks, at(n))
			}
		case *ast.FuncDecl:
			name := n.Name.Name
			if n.Recv != nil {
				recv := receiver(n.Recv.List[0].Type)
				p.methods[recv]++
				name = recv + "." + name
			}
			p.funcs[name] = fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
		}
		return true
	})
	return nil
}

// columns counts a line's columns; a tab has four.
func columns(line string) int { return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t") }

// receiver is the name of a method's type.
func receiver(x ast.Expr) string {
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y.Name
		default:
			return fmt.Sprintf("%T", x)
		}
	}
}

// TestImports holds each package to its line in the table of allowed imports.
func TestImports(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		line, ok := lineOf(p.path)
		if !ok {
			t.Errorf("%s has no line in the table of allowed imports (docs/layout_table_test.go)", p.path)
			continue
		}
		used[line.path] = true
		for imp, at := range p.imports {
			sub, own := ownImport(imp)
			if own && !under(sub, line.may...) && !excepted(crossings, p.path+" -> "+sub, used) {
				t.Errorf("%s: %s may import only %v of this module, not %s", at[0], p.path, line.may, sub)
			}
			for lib, dirs := range reserved {
				if under(imp, lib) && !under(p.path, dirs...) {
					t.Errorf("%s: %s is reserved for %v", at[0], lib, dirs)
				}
			}
		}
	}
	for _, line := range layout {
		if !used[line.path] {
			t.Errorf("%s: no package has this line of the table", line.path)
		}
	}
	for name := range crossings {
		if !used[name] {
			t.Errorf("%s: the exception is not needed any more", name)
		}
	}
}

// lineOf finds the line of a package: its own, or the longest pattern that matches.
func lineOf(path string) (best line, ok bool) {
	for _, l := range layout {
		if l.path == path {
			return l, true
		}
		if matches(path, l.path) && len(l.path) >= len(best.path) {
			best, ok = l, true
		}
	}
	return best, ok
}

// excepted reports whether a name has an exception, and marks it as used.
func excepted(table map[string]string, name string, used map[string]bool) bool {
	used[name] = true
	return table[name] != ""
}

// TestWalls holds the rules of design.md that are about all packages at once.
func TestWalls(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		for imp, at := range p.imports {
			sub, own := ownImport(imp)
			if !own {
				bytesOnly(t, p.path, imp, at[0])
				if imp == "text/template" || imp == "html/template" {
					t.Errorf("%s: %s: with it the linker leaves out no method: the program is 4 MB longer", at[0], imp)
				}
				continue
			}
			for _, rule := range []struct {
				broken bool
				text   string
			}{
				{under(sub, "cmd", "docs", "examples"), "nothing imports cmd, docs or examples"},
				{under(sub, "lab") && !under(p.path, "lab", "cmd", "examples"), "nothing below lab imports lab"},
				{under(sub, "lab/check") && !under(p.path, "lab/check"), "the product never imports lab/check"},
				{sub == "nic" && under(p.path, "nic"), "no nic/x imports nic"},
				{under(sub, "nic/fastlinq") && sub != "nic/fastlinq" && !under(p.path, "nic/fastlinq"),
					"nothing outside nic/fastlinq imports below it"},
				{under(sub, driverCore...) && p.path != "nic/fastlinq" && !under(p.path, "nic/fastlinq/ecore"),
					"the parts of the driver core are its own"},
			} {
				if rule.broken && !excepted(crossings, p.path+" -> "+sub, used) {
					t.Errorf("%s: %s imports %s: %s", at[0], p.path, sub, rule.text)
				}
			}
		}
	}
}

// bytesOnly keeps wire to bytes. wire/crc and wire/ip may ask the processor what it
// can: without vector instructions, CRC32C is a third of the time of bulk traffic,
// and the checksum an eighth.
func bytesOnly(t *testing.T, path, imp, at string) {
	if (path == "wire/crc" || path == "wire/ip") && imp == "golang.org/x/sys/cpu" {
		return
	}
	if under(path, "wire") && (strings.Contains(imp, ".") || slices.Contains([]string{"os", "log", "log/slog", "net"}, imp)) {
		t.Errorf("%s: wire is bytes only and may not import %s", at, imp)
	}
}

// TestOnlySomePackagesRun keeps goroutines, clocks, locks and unseeded
// randomness out of the protocols and the engine.
func TestOnlySomePackagesRun(t *testing.T) {
	for _, p := range packages(t) {
		if under(p.path, mayRun...) {
			continue
		}
		for _, at := range p.goStmts {
			t.Errorf("%s: %s may not start a goroutine", at, p.path)
		}
		for _, at := range p.clocks {
			t.Errorf("%s: %s owns no clock; time is an argument", at, p.path)
		}
		for _, lib := range []string{"sync", "math/rand", "math/rand/v2"} {
			if at := p.imports[lib]; at != nil && p.path != "nic/secret" { // its numbers follow from a key
				t.Errorf("%s: %s may not import %s: no locks, no unseeded randomness", at[0], p.path, lib)
			}
		}
	}
}

// TestLayers checks what a package reaches in any number of steps.
func TestLayers(t *testing.T) {
	direct := map[string][]string{}
	for _, p := range packages(t) {
		direct[p.path] = []string{}
		for imp := range p.imports {
			if sub, own := ownImport(imp); own {
				direct[p.path] = append(direct[p.path], sub)
			}
		}
	}
	for path, banned := range neverReaches {
		if direct[path] == nil {
			t.Errorf("there is no package %s", path)
		}
		seen := map[string]bool{path: true}
		for queue := []string{path}; len(queue) > 0; queue = queue[1:] {
			for _, next := range direct[queue[0]] {
				if seen[next] {
					continue
				}
				seen[next] = true
				queue = append(queue, next)
				if under(next, banned...) {
					t.Errorf("%s reaches %s through %s", path, next, queue[0])
				}
			}
		}
	}
}

// TestSizes keeps packages, types, files, functions and lines readable.
func TestSizes(t *testing.T) {
	used := map[string]bool{}
	check := func(name, unit string, n, most int) {
		if n > most && !excepted(oversize, name, used) {
			t.Errorf("%s has %d %s; at most %d", name, n, unit, most)
		}
	}
	for _, p := range packages(t) {
		most := maxPackageLines
		if p.path == "nic" {
			most = maxDeviceLines
		}
		check(p.path, "lines", p.lines, most)
		for f, n := range p.files {
			check(p.path+"/"+f, "lines", n, maxFileLines)
			if wide := p.wide[f]; wide != nil {
				t.Errorf("%s: %d lines of %s have more than %d columns", wide[0], len(wide), f, maxColumns)
			}
		}
		for f, n := range p.funcs {
			check(p.path+"."+f, "lines", n, maxFuncLines)
		}
		for typ, n := range p.methods {
			most := maxMethods
			if p.path == "nic" && typ == "Device" {
				most = maxDeviceMethods
			}
			check("type "+p.path+"."+typ, "methods", n, most)
		}
	}
	for name := range oversize {
		if !used[name] {
			t.Errorf("%s: the exception is not needed any more", name)
		}
	}
}

// TestModules holds device.md's table of modules against the packages.
//
// OV-03
func TestModules(t *testing.T) {
	page, err := os.ReadFile("reference/device.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, p := range packages(t) {
		exists[p.path] = true
	}
	_, table, _ := strings.Cut(string(page), "### Modules")
	table, _, _ = strings.Cut(table, "### ")
	list := regexp.MustCompile("(?m)^\\| `.*`tapir/(.*)` \\|$").FindAllStringSubmatch(table, -1)
	if len(list) < 10 {
		t.Fatalf("%d modules in the table", len(list))
	}
	for _, m := range list {
		if !exists[m[1]] {
			t.Errorf("there is no package tapir/%s", m[1])
		}
	}
}

// TestNoPrograms keeps what compilers make out of the repository, but the library that
// programs load, of which nic/uapi/doorbell compares each octet with its source's.
func TestNoPrograms(t *testing.T) {
	out, err := exec.Command("git", "-C", "..", "ls-files").Output()
	if err != nil {
		t.Log("not a checkout: ", err)
		return
	}
	for name := range strings.Lines(string(out)) {
		f, err := os.Open(filepath.Join("..", strings.TrimSpace(name)))
		if err != nil {
			continue // removed
		}
		magic := make([]byte, 4)
		_, _ = io.ReadFull(f, magic)
		f.Close()
		if string(magic) == "\x7fELF" && !strings.HasPrefix(name, "nic/uapi/doorbell/doorbell_") {
			t.Errorf("%s is a program: remove it", strings.TrimSpace(name))
		}
	}
}
