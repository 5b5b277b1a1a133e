// Package schema describes the JSON that commands print: a JSON Schema (draft 2020-12) of each kind of document,
// made from the Go types that are printed. Packages add theirs when the program starts.
package schema

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Document is one kind of document.
type Document struct {
	Command string // without tapir, such as "show qp"; it stands for the commands below it, too
	// Version grows when a member goes, or changes its type or meaning. New members do not change it.
	Version int
	types   []reflect.Type
}

var all = map[string]*Document{}

// Add adds what a command prints: values of all types that it may have. A document may be added to.
func Add(command string, version int, values ...any) *Document {
	var types []reflect.Type
	for _, v := range values {
		types = append(types, reflect.TypeOf(v))
	}
	return add(command, version, types)
}

// Results is Add of the types that functions return first.
func Results(command string, version int, functions ...any) *Document {
	var types []reflect.Type
	for _, f := range functions {
		types = append(types, reflect.TypeOf(f).Out(0))
	}
	return add(command, version, types)
}

func add(command string, version int, types []reflect.Type) *Document {
	d := all[command]
	if d == nil {
		d = &Document{Command: command}
		all[command] = d
	}
	d.Version = max(d.Version, version)
	for _, t := range types {
		if !slices.Contains(d.types, t) {
			d.types = append(d.types, t)
		}
	}
	slices.SortFunc(d.types, func(a, b reflect.Type) int { return cmp.Compare(a.String(), b.String()) })
	return d
}

// All are all documents, in the order of their commands.
func All() (list []*Document) {
	for _, d := range all {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b *Document) int { return cmp.Compare(a.Command, b.Command) })
	return list
}

// Find is what a command prints, given with all its words; nil: nothing, or what another tool prints.
func Find(command string) *Document {
	for words := strings.Fields(command); len(words) > 0; words = words[:len(words)-1] {
		if d := all[strings.Join(words, " ")]; d != nil {
			return d
		}
	}
	return nil
}

// Name is command and version, such as tapir:show-qp/1.
func (d *Document) Name() string {
	return fmt.Sprintf("tapir:%s/%d", strings.ReplaceAll(d.Command, " ", "-"), d.Version)
}

// Schema is the document's.
func (d *Document) Schema() map[string]any {
	s := map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": d.Name(),
		"title": "tapir " + d.Command}
	types := d.types
	lists := !slices.ContainsFunc(types, func(t reflect.Type) bool { return t.Kind() != reflect.Slice })
	if lists { // whose rows may be of several types
		types = nil
		for _, t := range d.types {
			types = append(types, t.Elem())
		}
	}
	form := either(types)
	if lists {
		form = map[string]any{"type": []any{"array", "null"}, "items": form}
	}
	maps.Copy(s, form)
	return s
}

// either is the schema of one of several types.
func either(types []reflect.Type) map[string]any {
	var forms []any
	for _, t := range types {
		forms = append(forms, of(t, nil))
	}
	if len(forms) == 1 {
		return forms[0].(map[string]any)
	}
	return map[string]any{"anyOf": forms}
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	instant       = reflect.TypeFor[time.Time]()
)

// has tells whether a type, or a pointer to it, has the methods.
func has(t, methods reflect.Type) bool {
	return t.Implements(methods) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(methods)
}

// of is the schema of a type; above are the structs that it lies in.
func of(t reflect.Type, above []reflect.Type) any {
	typed := func(name string) any { return map[string]any{"type": name} }
	switch {
	case t == instant:
		return map[string]any{"type": "string", "format": "date-time"}
	case has(t, marshaler):
		return map[string]any{}
	case has(t, textMarshaler):
		return typed("string")
	}
	switch t.Kind() {
	case reflect.Bool:
		return typed("boolean")
	case reflect.String:
		return typed("string")
	case reflect.Float32, reflect.Float64:
		return typed("number")
	case reflect.Pointer:
		return map[string]any{"anyOf": []any{of(t.Elem(), above), typed("null")}}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
			return map[string]any{"type": []any{"string", "null"}}
		}
		list := map[string]any{"type": "array", "items": of(t.Elem(), above)}
		if t.Kind() == reflect.Slice {
			list["type"] = []any{"array", "null"}
		}
		return list
	case reflect.Map:
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": of(t.Elem(), above)}
	case reflect.Struct:
		if slices.Contains(above, t) {
			return typed("object")
		}
		o := object{properties: map[string]any{}}
		o.add(t, append(above, t))
		slices.Sort(o.required)
		return map[string]any{"type": "object", "properties": o.properties, "required": o.required,
			"additionalProperties": false}
	case reflect.Interface:
		return map[string]any{}
	}
	return typed("integer")
}

// object are the members of a struct.
type object struct {
	properties map[string]any
	required   []string
}

// add adds the fields of a struct as encoding/json has them. What an outer struct has counts before an inner one's.
func (o *object) add(t reflect.Type, above []reflect.Type) {
	var inner []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case name == "-":
		case f.Anonymous && name == "" && embedded.Kind() == reflect.Struct && !has(embedded, marshaler):
			inner = append(inner, embedded)
		case f.IsExported():
			o.member(cmp.Or(name, f.Name), strings.Split(options, ","), f.Type, above)
		}
	}
	for _, t := range inner {
		o.add(t, append(above, t))
	}
}

func (o *object) member(name string, options []string, t reflect.Type, above []reflect.Type) {
	if o.properties[name] != nil {
		return
	}
	o.properties[name] = of(t, above)
	if slices.Contains(options, "string") {
		o.properties[name] = map[string]any{"type": "string"}
	}
	if !slices.Contains(options, "omitempty") && !slices.Contains(options, "omitzero") {
		o.required = append(o.required, name)
	}
}
