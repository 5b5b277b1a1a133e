package conf

import (
	"fmt"
	"slices"
	"strings"
)

// Field is one key of a mapping that fills a T. Either Set or Node is given.
type Field[T any] struct {
	Name   string
	Expect string // what a good value is, for messages
	// Many lets the value be a list, or words with commas, and the flag be
	// given several times: each value is passed to Set.
	Many bool
	// Words lets the value be a list that Set gets as one, with commas.
	Words bool
	Set   func(v *T, text string) error
	// Node takes a value with a structure. An error that is no *Error is
	// placed at the value.
	Node func(v *T, n Node) error
	// Schema describes a value that Node takes, or one that not every scalar is.
	Schema Schema
}

// Part makes the fields of a part those of the whole.
func Part[T, P any](fields []Field[P], part func(*T) *P) []Field[T] {
	var all []Field[T]
	for _, p := range fields {
		f := Field[T]{Name: p.Name, Expect: p.Expect, Many: p.Many, Words: p.Words, Schema: p.Schema}
		if p.Set != nil {
			f.Set = func(v *T, s string) error { return p.Set(part(v), s) }
		}
		if p.Node != nil {
			f.Node = func(v *T, n Node) error { return p.Node(part(v), n) }
		}
		all = append(all, f)
	}
	return all
}

// Decode fills v from a mapping of the fields; what says what the mapping is.
func Decode[T any](n Node, v *T, what string, fields []Field[T]) error {
	entries, err := n.Map(what)
	if err != nil {
		return err
	}
	for _, e := range entries {
		i := slices.IndexFunc(fields, func(f Field[T]) bool { return f.Name == e.Name })
		if i < 0 {
			return e.Key.Errorf("%s: unknown key; expected one of %s", e.Name, names(fields))
		}
		if err := fields[i].take(v, e); err != nil {
			return err
		}
	}
	return nil
}

func names[T any](fields []Field[T]) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.Name)
	}
	return strings.Join(all, ", ")
}

func (f *Field[T]) take(v *T, e Entry) error {
	if f.Node != nil {
		err := f.Node(v, e.Value)
		if _, placed := err.(*Error); err != nil && !placed {
			return e.Value.Errorf("%s: %v", f.Name, err)
		}
		return err
	}
	list, ok := e.Value.List()
	if ok && f.Words {
		return f.takeWords(v, e.Value, list)
	}
	if !ok || !f.Many {
		list = []Node{e.Value}
	}
	for _, n := range list {
		text, ok := n.Text()
		if !ok || f.set(v, text) != nil {
			return n.Errorf("%s: expected %s", f.Name, f.Expect)
		}
	}
	return nil
}

func (f *Field[T]) takeWords(v *T, whole Node, list []Node) error {
	words := make([]string, len(list))
	for i, n := range list {
		var ok bool
		if words[i], ok = n.Text(); !ok {
			return n.Errorf("%s: expected %s", f.Name, f.Expect)
		}
	}
	if f.Set(v, strings.Join(words, ",")) != nil {
		return whole.Errorf("%s: expected %s", f.Name, f.Expect)
	}
	return nil
}

// set takes one word, or several with commas if there may be many.
func (f *Field[T]) set(v *T, text string) error {
	words := []string{text}
	if f.Many {
		words = strings.Split(text, ",")
	}
	for _, w := range words {
		if err := f.Set(v, strings.TrimSpace(w)); err != nil {
			return err
		}
	}
	return nil
}

// Set sets the scalar field called name, in which `-` stands for `_`, as a flag
// of the command line does. The error names field and expectation.
func Set[T any](v *T, fields []Field[T], name, text string) error {
	key := strings.ReplaceAll(name, "-", "_")
	for i := range fields {
		if f := &fields[i]; f.Name == key && f.Set != nil {
			if f.set(v, text) != nil {
				return fmt.Errorf("%s: %q: expected %s", name, text, f.Expect)
			}
			return nil
		}
	}
	return fmt.Errorf("%s: unknown setting; known are %s", name, names(fields))
}
