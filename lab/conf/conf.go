// Package conf reads strict YAML: whoever takes a value says what it expected,
// unknown keys are errors, and every error has its place.
package conf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Error is a mistake in a configuration file.
type Error struct {
	File         string
	Line, Column int // from 1; 0: not known
	What         string
	source       string // of the line
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.What)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.What)
}

// Excerpt is the line of the file with a caret under the place, in two lines;
// empty if there is none to show. Of a long line it is the part at the place.
func (e *Error) Excerpt() string {
	if e.source == "" {
		return ""
	}
	const before, after = 60, 80
	line := []rune(e.source)
	at := min(e.Column-1, len(line))
	line, at = line[max(at-before, 0):min(at+after, len(line))], min(at, before)
	number := fmt.Sprint(e.Line)
	indent := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(line[:at]))
	return fmt.Sprintf("  %s | %s\n  %*s | %s^\n", number, string(line), len(number), "", indent)
}

// file is what all nodes of one file share.
type file struct {
	path  string
	lines []string
}

func (f *file) at(pos *token.Position, what string) error {
	e := &Error{File: f.path, Line: 1, Column: 1, What: what}
	if pos != nil {
		e.Line, e.Column = pos.Line, pos.Column
	}
	if e.Line >= 1 && e.Line <= len(f.lines) {
		e.source = strings.TrimRight(f.lines[e.Line-1], "\r")
	}
	return e
}

// Node is a value of the file: a mapping, a list or a scalar.
type Node struct {
	f *file
	n ast.Node
}

// What a file may have: the parser takes up to 600 octets for each of the file,
// and for deep nesting memory that grows with the square of the depth.
const (
	MaxSize  = 1 << 20 // octets
	MaxDepth = 32      // mappings and lists in each other
)

// Read parses data, whose name for messages is path. expect says what an empty
// file lacks. Aliases are no values: whoever takes one says what it expected.
func Read(path string, data []byte, expect string) (Node, error) {
	f := &file{path: path, lines: strings.Split(string(data), "\n")}
	if err := f.bounds(data); err != nil {
		return Node{}, err
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return Node{}, f.syntax(err)
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return Node{}, f.at(nil, "the file is empty: expected "+expect)
	}
	if len(tree.Docs) > 1 {
		return Node{}, Node{f, tree.Docs[1].Body}.Errorf("expected one YAML document only")
	}
	return Node{f, tree.Docs[0].Body}, nil
}

// bounds refuses what would cost too much to parse.
func (f *file) bounds(data []byte) error {
	if len(data) > MaxSize {
		return f.at(nil, fmt.Sprintf("too long: expected at most %d octets", MaxSize))
	}
	flow, block := 0, []int{} // open brackets, columns of open lists and mappings
	for _, t := range lexer.Tokenize(string(data)) {
		column := t.Position.Column
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.MappingValueType:
			if t.Prev != nil {
				column = t.Prev.Position.Column
			}
			fallthrough
		case token.SequenceEntryType:
			if flow == 0 {
				block = append(slices.DeleteFunc(block, func(c int) bool { return c >= column }), column)
			}
		}
		if flow+len(block) > MaxDepth {
			return f.at(t.Position, fmt.Sprintf("nested too deeply: expected at most %d levels", MaxDepth))
		}
	}
	return nil
}

func (f *file) syntax(err error) error {
	var y yaml.Error
	if errors.As(err, &y) && y.GetToken() != nil {
		return f.at(y.GetToken().Position, y.GetMessage())
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return &Error{File: f.path, What: first}
}

func (n Node) position() *token.Position {
	if n.n == nil || n.n.GetToken() == nil {
		return nil
	}
	return n.n.GetToken().Position
}

// Errorf is an error at the node's place.
func (n Node) Errorf(format string, args ...any) error {
	return n.f.at(n.position(), fmt.Sprintf(format, args...))
}

// ErrorIf is Errorf if something is so, else nil. cmp.Or of several is the first
// mistake.
func (n Node) ErrorIf(is bool, format string, args ...any) error {
	if !is {
		return nil
	}
	return n.Errorf(format, args...)
}

// Problem says what is wrong if something is so, else nothing. cmp.Or of several
// is the first mistake.
func Problem(is bool, format string, args ...any) string {
	if !is {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// Line is the number of the node's line.
func (n Node) Line() int {
	if pos := n.position(); pos != nil {
		return pos.Line
	}
	return 1
}

// Entry is one member of a mapping.
type Entry struct {
	Name       string
	Key, Value Node
}

// Map returns the members of a mapping, in order, no key twice. what says what
// was expected instead of anything else.
func (n Node) Map(what string) ([]Entry, error) {
	var list []*ast.MappingValueNode
	switch m := n.n.(type) {
	case *ast.MappingNode:
		list = m.Values
	case *ast.MappingValueNode:
		list = []*ast.MappingValueNode{m}
	default:
		return nil, n.Errorf("expected %s", what)
	}
	seen := map[string]bool{}
	var entries []Entry
	for _, m := range list {
		e := Entry{m.Key.GetToken().Value, Node{n.f, m.Key}, Node{n.f, m.Value}}
		if seen[e.Name] {
			return nil, e.Key.Errorf("%s: given twice", e.Name)
		}
		seen[e.Name] = true
		entries = append(entries, e)
	}
	return entries, nil
}

// List returns the elements of a list; false if the node is none.
func (n Node) List() (all []Node, ok bool) {
	s, ok := n.n.(*ast.SequenceNode)
	if !ok {
		return nil, false
	}
	for _, v := range s.Values {
		all = append(all, Node{n.f, v})
	}
	return all, true
}

// Each passes the elements of a list of at least so many to take, with their
// numbers. expected is the error if the node is none.
func (n Node) Each(least int, expected string, take func(n Node, i int) error) error {
	list, ok := n.List()
	if !ok || len(list) < least {
		return n.Errorf("%s", expected)
	}
	for i, n := range list {
		if err := take(n, i); err != nil {
			return err
		}
	}
	return nil
}

// Text is a plain or quoted scalar as it is written; false if the node is
// none.
func (n Node) Text() (string, bool) {
	switch n.n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.n.GetToken().Value, true
	}
	return "", false
}

// Texts are the scalars of a list, or the one that the node is; false if it is
// neither.
func (n Node) Texts() (all []string, ok bool) {
	list, ok := n.List()
	if !ok {
		list = []Node{n}
	}
	for _, n := range list {
		text, ok := n.Text()
		if !ok {
			return nil, false
		}
		all = append(all, text)
	}
	return all, true
}

// Value is the value for yaml.Marshal, mappings in their order, scalars as
// strings: what reads the same here, in a file of its own.
func (n Node) Value() any {
	if entries, err := n.Map(""); err == nil {
		m := yaml.MapSlice{}
		for _, e := range entries {
			m = append(m, yaml.MapItem{Key: e.Name, Value: e.Value.Value()})
		}
		return m
	}
	if list, ok := n.List(); ok {
		all := make([]any, len(list))
		for i, n := range list {
			all[i] = n.Value()
		}
		return all
	}
	text, _ := n.Text()
	return text
}
