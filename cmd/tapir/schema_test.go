package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/schema"
	"tapir/lab/tool/show"
)

// Each command that prints JSON has a schema, unless it prints what another tool does; and each schema is of a command.
func TestSchemas(t *testing.T) {
	used := map[*schema.Document]bool{}
	each(newRoot(), func(c *cobra.Command) {
		if c.Flags().Lookup("json") == nil {
			return
		}
		words := strings.TrimPrefix(c.CommandPath(), "tapir ")
		d := schema.Find(words)
		if d == nil && !face(c) && words != "em show" {
			t.Errorf("%s: its JSON has no schema: add it to package schema", words)
		}
		used[d] = true
	})
	for _, d := range schema.All() {
		if words := strings.Fields(d.Command); !used[d] && words[0] != "show" && words[0] != "em" {
			t.Errorf("%s: no such command prints JSON", d.Command)
		}
	}
}

// documentOf is what a command line prints: the schema, and whether it is one row of the table that the schema is of.
// Nil: what another tool prints.
func documentOf(args []string) (d *schema.Document, row bool) {
	root := newRoot()
	cmd, rest, err := root.Find(cli.Join(root, args))
	if err != nil || face(cmd) || cmd.ParseFlags(rest) != nil {
		return nil, false
	}
	words, targets := strings.TrimPrefix(cmd.CommandPath(), "tapir "), cmd.Flags().Args()
	switch words {
	case "show":
		if len(targets) > 0 {
			t, err := show.ParseTarget(targets)
			if err != nil {
				return nil, false
			}
			words, row = words+" "+t.Kind, t.Row != ""
		}
	case "em show":
		kind := show.ManagerTables[0]
		if n := len(targets); n > 0 && slices.Contains(show.ManagerTables, targets[n-1]) {
			kind = targets[n-1]
		}
		words += " " + kind
	}
	return schema.Find(words), row
}

// checkJSON says what of the JSON that a command line has printed is not as its schema says.
func checkJSON(args []string, printed []byte) error {
	d, row := documentOf(args)
	if d == nil {
		return nil
	}
	raw, err := json.Marshal(d.Schema())
	var s map[string]any
	if err := errors.Join(err, json.Unmarshal(raw, &s)); err != nil {
		return err
	}
	for decoder := json.NewDecoder(bytes.NewReader(printed)); ; {
		var v any
		if err := decoder.Decode(&v); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if row {
			v = []any{v}
		}
		if err := conforms(v, s); err != nil {
			return fmt.Errorf("%s: %w", d.Name(), err)
		}
	}
}

// conforms says how a value differs from a schema, of those that package schema makes.
func conforms(v any, s map[string]any) error {
	if forms, ok := s["anyOf"].([]any); ok {
		var all []error
		for _, f := range forms {
			err := conforms(v, f.(map[string]any))
			if err == nil {
				return nil
			}
			all = append(all, err)
		}
		return errors.Join(all...)
	}
	types, many := s["type"].([]any)
	if one, ok := s["type"].(string); ok {
		types, many = []any{one}, true
	}
	kind := kindOf(v)
	if many && !slices.Contains(types, any(kind)) && (kind != "integer" || !slices.Contains(types, any("number"))) {
		return fmt.Errorf("%v is %s, not %v", v, kind, types)
	}
	switch v := v.(type) {
	case []any:
		items, _ := s["items"].(map[string]any)
		for i, x := range v {
			if err := conforms(x, items); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
	case map[string]any:
		return members(v, s)
	}
	return nil
}

func members(v map[string]any, s map[string]any) error {
	properties, _ := s["properties"].(map[string]any)
	other, open := s["additionalProperties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(v)) {
		of, ok := properties[name].(map[string]any)
		if !ok && !open && s["additionalProperties"] != nil {
			return fmt.Errorf("%s is not in the schema", name)
		}
		if !ok {
			of = other
		}
		if err := conforms(v[name], of); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return nil
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
	}
	return "number"
}

// A value that is not as the schema says is found.
func TestConforms(t *testing.T) {
	for printed, want := range map[string]string{
		`[{"name":"a","kind":"nic","pid":3,"version":"x"}]`:          "",
		`[{"name":"a","kind":"nic","pid":"3","version":"x"}]`:        "pid: 3 is string, not [integer]",
		`[{"name":"a","kind":"nic","pid":3}]`:                        "version is missing",
		`[{"name":"a","kind":"nic","pid":3,"version":"x","more":1}]`: "more is not in the schema",
		`{}`: "is object",
	} {
		err := checkJSON([]string{"ls", "--json"}, []byte(printed))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", printed, err, want)
		}
	}
	if d, row := documentOf([]string{"show", "nic0", "cep", "3", "--json"}); d.Command != "show cep" || !row {
		t.Error(d, row)
	}
	if d, _ := documentOf([]string{"devlink", "-j", "dev", "info"}); d != nil {
		t.Error(d)
	}
}

// checkedMain is main; what it prints as JSON has to be as its schema says.
func checkedMain() {
	if !slices.Contains(os.Args, "--json") || os.Getenv("TAPIR_TEST_FAKE") != "" {
		main()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var out bytes.Buffer
	code := run(ctx, os.Args[1:], os.Stdin, io.MultiWriter(os.Stdout, &out), os.Stderr)
	if err := checkJSON(os.Args[1:], out.Bytes()); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "JSON that is not as its schema says:", err)
		code = 3
	}
	os.Exit(code)
}
