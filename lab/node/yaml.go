package node

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"tapir/wire/ether"
)

// Load reads the NICs that a nics.yaml describes:
//
//	nics:
//	  - name: nic0
//	    tap: tap0
//	    ip: 10.0.0.1/24
//	    tap_ip: [10.0.0.254/24, fd00::fe/64]
//
// Unknown keys, wrong values and conflicts between NICs are errors of the
// form file:line:column: key: what was expected.
func Load(path string) ([]Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse is Load of a file already read; path is for messages only.
func Parse(path string, data []byte) ([]Config, error) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, syntaxError(path, err)
	}
	d := decoder{path: path}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, fmt.Errorf("%s:1:1: the file is empty: expected `nics:` with a list", path)
	}
	if len(file.Docs) > 1 {
		return nil, d.at(file.Docs[1].Body, "expected one YAML document only")
	}
	return d.file(file.Docs[0].Body)
}

func syntaxError(path string, err error) error {
	var y yaml.Error
	if errors.As(err, &y) && y.GetToken() != nil {
		pos := y.GetToken().Position
		return fmt.Errorf("%s:%d:%d: %s", path, pos.Line, pos.Column, y.GetMessage())
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("%s: %s", path, first)
}

// decoder walks the tree, so that each error has its place.
type decoder struct {
	path  string
	where []ast.Node // of each NIC, for conflicts
}

func (d *decoder) at(n ast.Node, format string, args ...any) error {
	pos := &token.Position{Line: 1, Column: 1}
	if n != nil && n.GetToken() != nil {
		pos = n.GetToken().Position
	}
	return fmt.Errorf("%s:%d:%d: %s", d.path, pos.Line, pos.Column, fmt.Sprintf(format, args...))
}

// entries are the key-value pairs of a mapping, keys unique.
func (d *decoder) entries(n ast.Node, what string) ([]*ast.MappingValueNode, error) {
	var list []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		list = n.Values
	case *ast.MappingValueNode:
		list = []*ast.MappingValueNode{n}
	default:
		return nil, d.at(n, "expected %s", what)
	}
	seen := map[string]bool{}
	for _, e := range list {
		name := keyOf(e)
		if seen[name] {
			return nil, d.at(e.Key, "%s: given twice", name)
		}
		seen[name] = true
	}
	return list, nil
}

func keyOf(e *ast.MappingValueNode) string { return e.Key.GetToken().Value }

func (d *decoder) file(body ast.Node) ([]Config, error) {
	top, err := d.entries(body, "`nics:` with a list of NICs")
	if err != nil {
		return nil, err
	}
	var list *ast.SequenceNode
	for _, e := range top {
		if keyOf(e) != "nics" {
			return nil, d.at(e.Key, "%s: unknown key; expected nics", keyOf(e))
		}
		s, ok := e.Value.(*ast.SequenceNode)
		if !ok || len(s.Values) == 0 {
			return nil, d.at(e.Key, "nics: expected a list with at least one NIC")
		}
		list = s
	}
	if list == nil {
		return nil, d.at(body, "expected `nics:` with a list of NICs")
	}
	var all []Config
	for i, n := range list.Values {
		c, err := d.nic(n)
		if err != nil {
			return nil, err
		}
		if c.Name == "" {
			c.Name = fmt.Sprint("nic", i)
		}
		if err := c.Validate(); err != nil {
			return nil, d.at(n, "%v", err)
		}
		all = append(all, c)
		d.where = append(d.where, n)
	}
	return all, d.conflicts(all)
}

func (d *decoder) nic(n ast.Node) (c Config, err error) {
	entries, err := d.entries(n, "the settings of a NIC")
	if err != nil {
		return c, err
	}
	for _, e := range entries {
		k := findKey(keyOf(e))
		if k == nil {
			return c, d.at(e.Key, "%s: unknown key; expected one of %s", keyOf(e), keyNames())
		}
		if err := d.setting(&c, k, e.Value); err != nil {
			return c, err
		}
	}
	return c, nil
}

// setting takes the value v of k, or each one of a list.
func (d *decoder) setting(c *Config, k *key, v ast.Node) error {
	list, ok := v.(*ast.SequenceNode)
	if !ok || !k.many && !k.list {
		text, ok := scalar(v)
		if !ok || k.set(c, text) != nil {
			return d.at(v, "%s: expected %s", k.name, k.expect)
		}
		return nil
	}
	var texts []string
	for _, v := range list.Values {
		text, ok := scalar(v)
		if !ok || k.many && k.set(c, text) != nil {
			return d.at(v, "%s: expected %s", k.name, k.expect)
		}
		texts = append(texts, text)
	}
	if k.list && k.set(c, strings.Join(texts, ",")) != nil {
		return d.at(v, "%s: expected %s", k.name, k.expect)
	}
	return nil
}

// scalar is the text of a plain or quoted value.
func scalar(n ast.Node) (string, bool) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// Conflict is a pair of NICs that cannot run in one process and namespace.
type Conflict struct {
	A, B   int // their places in the list, A before B
	Reason string
}

// FindConflict returns the first pair of NICs that exclude each other, or nil.
func FindConflict(all []Config) *Conflict {
	for b := range all {
		for a := range b {
			if why := exclude(&all[a], &all[b]); why != "" {
				return &Conflict{a, b, why}
			}
		}
	}
	return nil
}

func (d *decoder) conflicts(all []Config) error {
	if c := FindConflict(all); c != nil {
		first := d.where[c.A].GetToken().Position.Line
		return d.at(d.where[c.B], "%s (the other one is at line %d)", c.Reason, first)
	}
	return nil
}

func exclude(a, b *Config) string {
	if a.Name == b.Name {
		return fmt.Sprintf("name: two NICs are called %s", a.Name)
	}
	if a.MAC == b.MAC && a.MAC != (ether.Addr{}) {
		return fmt.Sprintf("mac: %s and %s both have %v", a.Name, b.Name, a.MAC)
	}
	if a.TAPFD != 0 && a.TAPFD == b.TAPFD {
		return fmt.Sprintf("tap_fd: %s and %s both have %d", a.Name, b.Name, a.TAPFD)
	}
	for _, s := range []string{a.TAP, a.HostTAP} {
		if s != "" && (s == b.TAP || s == b.HostTAP) {
			return fmt.Sprintf("tap: %s and %s both use %s", a.Name, b.Name, s)
		}
	}
	for _, p := range addresses(a) {
		for _, q := range addresses(b) {
			if p == q {
				return fmt.Sprintf("ip: %s and %s both use %v", a.Name, b.Name, p)
			}
		}
	}
	return ""
}

func addresses(c *Config) (all []netip.Addr) {
	for _, p := range append(c.Addrs(), c.TAPIP...) {
		all = append(all, p.Addr())
	}
	return all
}
