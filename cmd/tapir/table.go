package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// field is one member of a JSON object; the order of members is kept, so that
// the NIC decides the order of columns.
type field struct{ key, text string }

// printTable writes JSON from a NIC for people: an array of flat objects as a
// table, one object as a list.
func printTable(w io.Writer, raw json.RawMessage) error {
	raw = bytes.TrimSpace(raw)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(raw) > 0 && raw[0] == '{' {
		fields, err := members(raw)
		if err != nil {
			return err
		}
		for _, f := range fields {
			fmt.Fprintf(tw, "%s\t%s\n", f.key, f.text)
		}
		return tw.Flush()
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err != nil {
		return err
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	for i, r := range rows {
		fields, err := members(r)
		if err != nil {
			return err
		}
		if i == 0 {
			fmt.Fprintln(tw, joined(fields, func(f field) string { return strings.ToUpper(strings.ReplaceAll(f.key, "_", "-")) }))
		}
		fmt.Fprintln(tw, joined(fields, func(f field) string { return f.text }))
	}
	return tw.Flush()
}

func joined(fields []field, text func(field) string) string {
	cells := make([]string, len(fields))
	for i, f := range fields {
		cells[i] = text(f)
	}
	return strings.Join(cells, "\t")
}

// members splits one JSON object into its members, in order.
func members(raw json.RawMessage) (all []field, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		all = append(all, field{fmt.Sprint(key), cell(v)})
	}
	return all, nil
}

// cell is a JSON value as text: strings without quotes, lists with commas.
func cell(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		if s == "" {
			return "-"
		}
		return s
	}
	var list []json.RawMessage
	if json.Unmarshal(v, &list) == nil && list != nil {
		parts := make([]string, len(list))
		for i, e := range list {
			parts[i] = cell(e)
		}
		return strings.Join(parts, ",")
	}
	return string(v)
}

// printJSON writes JSON with indentation.
func printJSON(w io.Writer, raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}
