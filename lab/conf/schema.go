package conf

import "maps"

// Schema is a JSON Schema (draft 2020-12), for editors that complete and check
// YAML.
type Schema map[string]any

// Object is the schema of a mapping of the fields, of which those called
// required must be there.
func Object(fields []Field, required ...string) Schema {
	properties := map[string]any{}
	for i := range fields {
		properties[fields[i].Name] = fields[i].schema()
	}
	s := Schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func (f *Field) schema() Schema {
	s := f.Schema
	if s == nil {
		s = scalar()
	}
	if f.Many || f.Words {
		s = Schema{"anyOf": []Schema{s, {"type": "array", "items": s}}}
	}
	if f.Expect == "" {
		return s
	}
	described := Schema{"description": f.Expect}
	maps.Copy(described, s)
	return described
}

func scalar() Schema { return Schema{"type": []string{"string", "number", "boolean"}} }

// Choice is the schema of one of a few words.
func Choice(words ...string) Schema { return Schema{"enum": words} }

// ListOf is the schema of a list.
func ListOf(items Schema) Schema { return Schema{"type": "array", "items": items} }
