package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// calls is who mentions whom among the functions of a program. deadcode takes a
// method for called when a value of its type may reach reflection, so that the
// model of a device, whose values are printed, never shows what nobody calls.
type calls struct {
	mentions map[string][]string        // by function; "" are the initializers
	named    map[string]map[string]bool // functions by the name of a method
	at       map[string]string
}

// outside are methods of the standard library's interfaces, which it calls.
var outside = []string{"Error", "Unwrap", "Is", "String", "Format", "Read", "Write", "Close", "Len", "Less", "Swap",
	"Push", "Pop", "MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "MarshalYAML", "UnmarshalYAML",
	"Set", "IsBoolFlag", "ServeHTTP", "Timeout", "Temporary", "Uint64"}

// uncalled lists the exported functions of packages below a path that the programs do
// not mention, directly or by others, as deadcode lists others.
func uncalled(below string, programs ...string) (found string, err error) {
	args := append([]string{"list", "-pgo=off", "-export", "-deps",
		"-json=ImportPath,Dir,GoFiles,Export,Standard,Module"}, programs...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return "", err
	}
	type pkg struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		Module                  *struct{ Main bool }
	}
	var list []pkg
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", err
		}
		if exports[p.ImportPath] = p.Export; p.Module != nil && p.Module.Main {
			list = append(list, p)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	c := &calls{mentions: map[string][]string{}, named: map[string]map[string]bool{}, at: map[string]string{}}
	for _, p := range list {
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return "", err
			}
			files = append(files, f)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
		cfg := types.Config{Importer: imports}
		if _, err := cfg.Check(p.ImportPath, fset, files, info); err != nil {
			return "", fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		for _, f := range files {
			c.file(fset, f, info)
		}
	}
	return c.missing(below), nil
}

// file notes what the functions of a file mention.
func (c *calls) file(fset *token.FileSet, file *ast.File, info *types.Info) {
	for _, decl := range file.Decls {
		from := ""
		if f, ok := decl.(*ast.FuncDecl); ok {
			fn := info.Defs[f.Name].(*types.Func)
			if f.Name.Name != "init" && f.Name.Name != "main" && f.Name.Name != "_" {
				from = fn.FullName()
				c.at[from] = fset.Position(f.Name.Pos()).String()
			}
			if f.Recv != nil {
				if c.named[f.Name.Name] == nil {
					c.named[f.Name.Name] = map[string]bool{}
				}
				c.named[f.Name.Name][from] = true
			}
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			fn, ok := info.Uses[id].(*types.Func)
			if !ok {
				return true
			}
			fn = fn.Origin()
			to := fn.FullName()
			if r := fn.Signature().Recv(); r != nil && types.IsInterface(r.Type()) {
				to = "." + fn.Name() // any method of this name
			}
			c.mentions[from] = append(c.mentions[from], to)
			return true
		})
	}
}

// plain is the full name of a method without what marks its receiver.
var plain = strings.NewReplacer("(", "", "*", "", ")", "")

// missing follows the mentions from the initializers.
func (c *calls) missing(below string) string {
	seen := map[string]bool{}
	var follow func(fn string)
	follow = func(fn string) {
		if seen[fn] {
			return
		}
		seen[fn] = true
		for _, to := range c.mentions[fn] {
			follow(to)
		}
		if name, ok := strings.CutPrefix(fn, "."); ok {
			for m := range c.named[name] {
				follow(m)
			}
		}
	}
	follow("")
	for _, name := range outside {
		follow("." + name)
	}
	var list []string
	for full, at := range c.at {
		fn := plain.Replace(full)
		name := fn[strings.LastIndexByte(fn, '.')+1:]
		if !seen[full] && ast.IsExported(name) && strings.HasPrefix(fn, below) {
			list = append(list, at+" "+fn+"\n")
		}
	}
	slices.Sort(list)
	return strings.Join(list, "")
}
