package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// remembered are the types of protocols and of the engine with a field for the
// present time, and why; everywhere else time is an argument.
var remembered = map[string]string{
	// Arguments with several parts.
	"nic/ip.Packet": "argument", "nic/ip.Notice": "argument",
	"ptp.Meta": "argument", "ptp/mgmt.request": "argument", "ptp.Outgoing": "argument", "ptp.Sample": "argument",
	// Models of hardware whose registers are written without a time.
	"nic/fastlinq.SecondEngine": "registers", "nic/fastlinq.coreMFW": "registers",
	"nic/fastlinq/ecore.Dev":  "registers",
	"nic/fastlinq/irq.Device": "registers", "nic/pacing.Tree": "registers",
	"nic/fastlinq/mfw.Firmware": "registers",
	// Clocks of a thread in real time.
	"nic/uapi/ucma.NIC": "clock", "nic/al.CI": "clock", "nic.Env": "clock", "nic/ptp.Env": "clock",
	// Instances whose timers start each other within one call.
	"ptp.Instance": "call", "opa/hfi.Port": "call", "opa/em.Manager": "call",
}

// TestTimeIsAnArgument finds fields named now of type frame.Time, or functions
// that return one.
func TestTimeIsAnArgument(t *testing.T) {
	seen := map[string]bool{}
	for _, root := range []string{"nic", "wire", "mpa", "ddp", "rdmap", "opa", "vnic", "ptp"} {
		err := filepath.WalkDir("../"+root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			dir, _ := filepath.Rel("..", filepath.Dir(path))
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.TypeSpec); ok && keepsTime(s) {
					seen[dir+"."+s.Name.Name] = true
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range seen {
		if remembered[name] == "" {
			t.Errorf("%s has a field for the present time: make it an argument of the calls that need it", name)
		}
	}
	for name := range remembered {
		if !seen[name] {
			t.Errorf("%s has no field for the present time any more: take it off the list", name)
		}
	}
}

// keepsTime tells whether a type is a structure with a field called now.
func keepsTime(s *ast.TypeSpec) bool {
	typ, ok := s.Type.(*ast.StructType)
	return ok && slices.ContainsFunc(typ.Fields.List, func(f *ast.Field) bool {
		if fn, ok := f.Type.(*ast.FuncType); ok && fn.Results != nil && len(fn.Params.List) == 0 {
			f = &ast.Field{Names: f.Names, Type: fn.Results.List[0].Type}
		}
		at, ok := f.Type.(*ast.SelectorExpr)
		return ok && at.Sel.Name == "Time" && slices.ContainsFunc(f.Names, func(n *ast.Ident) bool {
			return strings.EqualFold(n.Name, "now")
		})
	})
}
