// Package docs holds the tests that keep the documents true.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "tapir"

// room is one package folder with what its files do.
type room struct {
	path    string              // "nic/toe", relative to the module
	imports map[string][]string // import path -> files, tests left out
	goStmts []string            // positions of go statements
	clocks  []string            // positions of time.Now and friends
}

// under tells whether path is folder or lies below it.
func under(path string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return path == f || strings.HasPrefix(path, f+"/")
	})
}

// houseImport is the module-relative form of an import, if it is one of ours.
func houseImport(imp string) (string, bool) {
	return strings.CutPrefix(imp, module+"/")
}

func readHouse(t *testing.T) []*room {
	t.Helper()
	rooms := map[string]*room{}
	fset := token.NewFileSet()
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel("..", name)
		if d.IsDir() {
			if base := d.Name(); rel != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "out" || base == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		r := rooms[dir]
		if r == nil {
			r = &room{path: dir, imports: map[string][]string{}}
			rooms[dir] = r
		}
		r.read(fset, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []*room
	for _, r := range rooms {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *room) int { return strings.Compare(a.path, b.path) })
	if len(list) < 20 {
		t.Fatalf("found only %d rooms; is the walk looking at the module?", len(list))
	}
	return list
}

func (r *room) read(fset *token.FileSet, file *ast.File) {
	for _, spec := range file.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value)
		r.imports[imp] = append(r.imports[imp], fset.Position(spec.Pos()).String())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			r.goStmts = append(r.goStmts, fset.Position(n.Pos()).String())
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "Sleep", "NewTimer", "Tick", "NewTicker", "AfterFunc"}, n.Sel.Name) {
				r.clocks = append(r.clocks, fset.Position(n.Pos()).String())
			}
		}
		return true
	})
}

var (
	protocols = []string{"mpa", "ddp", "rdmap", "opa", "vnic", "ptp"}
	// mayRun are the rooms that own threads and clocks.
	mayRun = []string{"nic/loop", "nic/uapi", "nic/umode", "lab", "cmd", "examples"}
)

// allowedHouseImports says, for the rooms with a short list, what else of the
// house they may import directly. A room without an entry is judged by the
// other rules alone.
func allowedHouseImports(path string) ([]string, bool) {
	switch {
	case under(path, "wire"):
		return []string{"wire"}, true
	case under(path, "rdmap"):
		return []string{"wire", "ddp"}, true
	case under(path, "vnic"):
		return []string{"wire", "opa", "vnic"}, true
	case under(path, "mpa", "ddp", "ptp"):
		return []string{"wire", strings.SplitN(path, "/", 2)[0]}, true
	case under(path, "opa"):
		return []string{"wire", "opa"}, true
	case path == "nic/verbs", path == "nic/cm", path == "nic/al":
		return []string{"wire", "nic/verbs", "nic/cm"}, true
	case path == "nic/ptp":
		return []string{"wire", "ptp"}, true
	case under(path, "nic/fastlinq/mfw"):
		return []string{"wire", "nic/fastlinq/status", "nic/fastlinq/mfw"}, true
	case under(path, "nic/fastlinq/l2"):
		return []string{"wire", "nic/fastlinq/status", "nic/fastlinq/l2"}, true
	case under(path, "nic/toe"):
		return []string{"wire", "nic/toe"}, true
	case path == "nic/buf", path == "nic/tap":
		return []string{"wire"}, true
	}
	return nil, false
}

// reserved names the rooms that may import a package directly; everything
// else may not.
var reserved = map[string][]string{
	"golang.org/x/sys/unix":          {"nic/tap", "nic/loop", "nic/sched", "nic/ring", "nic/uapi", "nic/umode", "lab/host/netns", "lab/host/link", "lab/host/peer"},
	"github.com/vishvananda/netlink": {"nic/tap", "nic/loop", "nic/ring", "nic/uapi", "lab/host/netns", "lab/host/link", "lab/host/peer"},
	"github.com/songgao/water":       {"nic/tap", "nic/loop", "nic/ring", "nic/uapi", "lab/host/netns", "lab/host/link", "lab/host/peer"},
	"github.com/google/gopacket":     {"lab/tool/capture", "lab/tool/inspect"},
	"net/http":                       {"lab/tool/ctl"},
	"github.com/prometheus":          {"lab/tool/ctl"},
	"github.com/spf13/cobra":         {"cmd"},
	"gonum.org/v1/plot":              {"lab/run/result"},
}

// bare lets wire ask the processor what it can: CRC32C is a third of the time
// of bulk traffic without carry-less multiplication.
func bare(path, imp string) bool { return path == "wire/crc" && imp == "golang.org/x/sys/cpu" }

func TestDirectImports(t *testing.T) {
	for _, r := range readHouse(t) {
		allowed, listed := allowedHouseImports(r.path)
		for imp, at := range r.imports {
			sub, ours := houseImport(imp)
			if ours && listed && !under(sub, allowed...) {
				t.Errorf("%s: %s may import only %v of the house, not %s", at[0], r.path, allowed, imp)
			}
			if ours && under(sub, "cmd") {
				t.Errorf("%s: nothing imports cmd", at[0])
			}
			if ours && under(sub, "lab") && !under(r.path, "lab", "cmd", "examples") {
				t.Errorf("%s: nothing below lab imports lab", at[0])
			}
			if sub == "nic" && under(r.path, "nic") && r.path != "nic" {
				t.Errorf("%s: no nic/x imports nic", at[0])
			}
			if !ours && under(r.path, "wire") && !bare(r.path, imp) && (strings.Contains(imp, ".") || slices.Contains([]string{"os", "log", "log/slog", "net"}, imp)) {
				t.Errorf("%s: wire is bytes only and may not import %s", at[0], imp)
			}
			for lib, rooms := range reserved {
				if under(imp, lib) && !under(r.path, rooms...) {
					t.Errorf("%s: %s is reserved for %v", at[0], lib, rooms)
				}
			}
		}
	}
}

func TestOnlySomeRoomsRun(t *testing.T) {
	for _, r := range readHouse(t) {
		if under(r.path, mayRun...) {
			continue
		}
		for _, at := range r.goStmts {
			t.Errorf("%s: %s may not start a goroutine", at, r.path)
		}
		for _, at := range r.clocks {
			t.Errorf("%s: %s owns no clock; time is an argument", at, r.path)
		}
		for _, lib := range []string{"sync", "math/rand", "math/rand/v2"} {
			if at := r.imports[lib]; at != nil {
				t.Errorf("%s: %s may not import %s: no locks, no unseeded chance", at[0], r.path, lib)
			}
		}
	}
}

// TestLayers checks what a room reaches in any number of steps.
func TestLayers(t *testing.T) {
	never := map[string][]string{
		"wire/frame": {"mpa", "ddp", "rdmap", "nic", "lab"},
		"mpa":        {"ddp", "rdmap", "nic", "lab"},
		"ddp":        {"mpa", "rdmap", "nic", "lab"},
		"rdmap":      {"mpa", "nic", "lab"},
		"nic/toe":    {"mpa", "ddp", "rdmap", "nic/verbs", "nic/cm", "nic/iwarp", "lab"},
		"nic/verbs":  {"mpa", "ddp", "rdmap", "nic/toe", "nic/iwarp", "lab"},
		"nic/cm":     {"mpa", "ddp", "rdmap", "nic/toe", "nic/iwarp", "nic/al", "lab"},
		"nic/al":     {"mpa", "ddp", "rdmap", "nic/toe", "nic/iwarp", "lab"},
		"nic":        {"nic/tap", "nic/loop", "lab", "cmd"},
	}
	for path, banned := range never {
		out, err := exec.Command("go", "list", "-deps", module+"/"+path).Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", path, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			if sub, ours := houseImport(dep); ours && sub != path && under(sub, banned...) {
				t.Errorf("%s reaches %s", path, dep)
			}
		}
	}
}

// TestFileLength keeps files readable in one sitting.
func TestFileLength(t *testing.T) {
	const most = 600
	for _, f := range goFiles(t) {
		if n := countLines(t, f); n > most {
			t.Errorf("%s has %d lines; at most %d", f, n, most)
		}
	}
}
