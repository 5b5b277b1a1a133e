package topo

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// valid judges a value by the keywords of JSON Schema that ours uses; any other
// is an error.
func valid(schema map[string]any, v any) error {
	for word, arg := range schema {
		if err := keyword(schema, word, arg, v); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	return nil
}

func keyword(schema map[string]any, word string, arg, v any) error {
	object, _ := v.(map[string]any)
	list, _ := v.([]any)
	bad := fmt.Errorf("%v does not suit %v", v, arg)
	switch word {
	case "$schema", "title", "description":
		return nil
	case "type":
		types, many := arg.([]any)
		if !many {
			types = []any{arg}
		}
		for _, t := range types {
			if n, ok := v.(float64); t == typeOf(v) || t == "integer" && ok && n == math.Trunc(n) {
				return nil
			}
		}
		return bad
	case "enum":
		for _, a := range arg.([]any) {
			if a == v {
				return nil
			}
		}
		return bad
	case "anyOf":
		for _, s := range arg.([]any) {
			if valid(s.(map[string]any), v) == nil {
				return nil
			}
		}
		return bad
	case "properties":
		for name, s := range arg.(map[string]any) {
			if member, ok := object[name]; ok {
				if err := valid(s.(map[string]any), member); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		return nil
	case "additionalProperties":
		known, _ := schema["properties"].(map[string]any)
		for name, member := range object {
			if s, ok := arg.(map[string]any); ok {
				if err := valid(s, member); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			} else if _, ok := known[name]; !ok {
				return fmt.Errorf("%s is unknown", name)
			}
		}
		return nil
	case "propertyNames":
		for name := range object {
			if err := valid(arg.(map[string]any), name); err != nil {
				return err
			}
		}
		return nil
	case "required":
		for _, name := range arg.([]any) {
			if _, ok := object[name.(string)]; v != nil && !ok {
				return fmt.Errorf("%v is missing", name)
			}
		}
		return nil
	case "items":
		for _, e := range list {
			if err := valid(arg.(map[string]any), e); err != nil {
				return err
			}
		}
		return nil
	case "minItems":
		if float64(len(list)) < arg.(float64) {
			return bad
		}
		return nil
	case "maxItems":
		if float64(len(list)) > arg.(float64) {
			return bad
		}
		return nil
	case "minProperties":
		if float64(len(object)) < arg.(float64) {
			return bad
		}
		return nil
	case "pattern":
		if s, ok := v.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(s) {
			return bad
		}
		return nil
	}
	return fmt.Errorf("this test does not know the keyword")
}

func typeOf(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case nil:
		return "null"
	}
	return "number"
}

// check judges a topology file by the schema.
func check(t *testing.T, schema map[string]any, text string) error {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return valid(schema, v)
}

func readSchema(t *testing.T) (schema map[string]any) {
	t.Helper()
	if err := json.Unmarshal(JSONSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// What the reader takes, the schema takes: every example, and a file with every
// key.
func TestSchemaTakesExamples(t *testing.T) {
	schema := readSchema(t)
	files, err := filepath.Glob("../examples/*/lab.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%q %v", files, err)
	}
	texts := map[string]string{"the test's own": good, "one with HFIs": onFabric, "one with clocks": withClocks, "one with node faults": ruled("", nodeFaults)}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(data)
	}
	for name, text := range texts {
		if _, err := Parse(name, []byte(text)); err != nil {
			t.Error(err)
		}
		if err := check(t, schema, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Mistakes that concern the shape alone, the schema finds, too.
func TestSchemaFindsMistakes(t *testing.T) {
	schema := readSchema(t)
	for _, edit := range [][2]string{
		{"clock: real", "clock: fast"},
		{"seed: 7", "sed: 7"},
		{"kind: host", "kind: bridge"},
		{"kind: host, ", ""},
		{"kind: host, ip", "kind: host, vlan"},
		{"mode: e2e-tc", "tap: e2e-tc"},
		{"[a, s]", "[a, s, b]"},
		{"loss: 1%", "los: 1%"},
		{"between: [b, s], ", ""},
		{"on: a, ", ""},
		{"background: true", "background: maybe"},
		{"perf: verify", "perf: quick"},
		{", server: a", ""},
		{"state: down", "state: gone"},
		{", state: down", ""},
		{"listening: 7174", "listens: 7174"},
		{"filter: tcp", "fliter: tcp"},
		{"  h: {", "  -h: {"},
	} {
		text := strings.Replace(good, edit[0], edit[1], 1)
		if text == good {
			t.Fatalf("%q is not there", edit[0])
		}
		if check(t, schema, text) == nil {
			t.Errorf("%q passes instead of %q", edit[1], edit[0])
		}
		if _, err := Parse("lab.yaml", []byte(text)); err == nil {
			t.Errorf("the reader takes %q instead of %q", edit[1], edit[0])
		}
	}
}
