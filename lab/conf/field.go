package conf

import (
	"fmt"
	"slices"
	"strings"
)

// Field is one key of a mapping, bound to what its value fills. A mapping is
// read by a table of fields: a function of the variable that they are bound to.
// Either Set or Node is given.
type Field struct {
	Name   string
	Expect string // what a good value is, for messages
	// Many lets the value be a list, or words with commas, and the flag be
	// given several times: each value is passed to Set.
	Many bool
	// Words lets the value be a list that Set gets as one, with commas.
	Words bool
	// First has Decode read the key before all others, on which it has influence.
	First bool
	Set   func(text string) error
	// Node takes a value with a structure. An error that is no *Error is
	// placed at the value.
	Node func(n Node) error
	// Schema describes a value that Node takes, or one that not every scalar is.
	Schema Schema
}

// TrueOrFalse is the schema of a truth value.
var TrueOrFalse = Schema{"type": "boolean"}

// Truth is a field that is true or false.
func Truth(name, expect string, v *bool) Field {
	return Field{Name: name, Expect: expect, Schema: TrueOrFalse,
		Set: Choose(v, map[string]bool{"true": true, "false": false})}
}

// Without returns the fields but for those of these names.
func Without(fields []Field, names ...string) []Field {
	return slices.DeleteFunc(fields, func(f Field) bool { return slices.Contains(names, f.Name) })
}

// Decode reads a mapping of the fields; what says what the mapping is.
func Decode(n Node, what string, fields []Field) error {
	entries, err := n.Map(what)
	if err != nil {
		return err
	}
	oneOf := "expected one of "
	if len(fields) == 1 {
		oneOf = "expected "
	}
	for _, first := range [...]bool{true, false} {
		for _, e := range entries {
			i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == e.Name })
			if first != (i >= 0 && fields[i].First) {
				continue
			}
			if i < 0 {
				return e.Key.Errorf("%s: unknown key; %s", e.Name, choice(e.Name, oneOf, names(fields)))
			}
			if err := fields[i].Take(e.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func names(fields []Field) (all []string) {
	for _, f := range fields {
		all = append(all, f.Name)
	}
	return all
}

// Take reads the value of the field.
func (f *Field) Take(value Node) error {
	if f.Node != nil {
		err := f.Node(value)
		if _, placed := err.(*Error); err != nil && !placed {
			return value.Errorf("%s: %v", f.Name, err)
		}
		return err
	}
	list, ok := value.List()
	if ok && f.Words {
		return f.takeWords(value, list)
	}
	if !ok || !f.Many {
		list = []Node{value}
	}
	for _, n := range list {
		text, ok := n.Text()
		if !ok {
			return n.Errorf("%s: expected %s", f.Name, f.Expect)
		}
		if err := f.set(text); err != nil {
			return n.Errorf("%s: %s", f.Name, f.wrong(text, err))
		}
	}
	return nil
}

func (f *Field) takeWords(whole Node, list []Node) error {
	words := make([]string, len(list))
	for i, n := range list {
		var ok bool
		if words[i], ok = n.Text(); !ok {
			return n.Errorf("%s: expected %s", f.Name, f.Expect)
		}
	}
	text := strings.Join(words, ",")
	if err := f.Set(text); err != nil {
		return whole.Errorf("%s: %s", f.Name, f.wrong(text, err))
	}
	return nil
}

// Refusal is why a key cannot have any value here.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// legible is how many words Expect may list for people to find theirs.
const legible = 20

// wrong says why Set has refused a text.
func (f *Field) wrong(text string, err error) string {
	if r, ok := err.(Refusal); ok {
		return string(r)
	}
	if words, ok := f.Schema["enum"].([]string); ok && len(words) > legible {
		if hint := Near(text, words); hint != "" {
			return hint
		}
	}
	return "expected " + f.Expect
}

// set takes one word, or several with commas if there may be many.
func (f *Field) set(text string) error {
	words := []string{text}
	if f.Many {
		words = strings.Split(text, ",")
	}
	for _, w := range words {
		if err := f.Set(strings.TrimSpace(w)); err != nil {
			return err
		}
	}
	return nil
}

// Set sets the scalar field called name, in which `-` stands for `_`, as a flag
// of the command line does. The error names field and expectation.
func Set(fields []Field, name, text string) error {
	key := strings.ReplaceAll(name, "-", "_")
	for _, f := range fields {
		if f.Name == key && f.Set != nil {
			if err := f.set(text); err != nil {
				return fmt.Errorf("%s: %q: %s", name, text, f.wrong(text, err))
			}
			return nil
		}
	}
	return fmt.Errorf("%s: unknown setting; %s", name, choice(key, "known are ", names(fields)))
}
