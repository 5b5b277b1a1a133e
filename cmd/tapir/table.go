package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// field is one member of a JSON object; the order of members is kept, so that
// the NIC decides the order of columns.
type field struct{ key, text string }

// printTable writes JSON from a NIC for people: an array of objects as a
// table, one object as a list. only, if not nil, names the columns that fit a
// screen; the rest is for --json.
func printTable(w io.Writer, raw json.RawMessage, only []string) error {
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
	var objects []json.RawMessage
	if err := json.Unmarshal(raw, &objects); err != nil {
		return err
	}
	if len(objects) == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	rows := make([][]field, len(objects))
	for i, o := range objects {
		var err error
		if rows[i], err = members(o); err != nil {
			return err
		}
	}
	if only == nil {
		only = keys(rows)
	}
	printRows(tw, only, rows)
	return tw.Flush()
}

// keys is the union of the rows' keys, in the order of their first appearance.
func keys(rows [][]field) (all []string) {
	for _, r := range rows {
		for _, f := range r {
			if !slices.Contains(all, f.key) {
				all = append(all, f.key)
			}
		}
	}
	return all
}

func printRows(w io.Writer, columns []string, rows [][]field) {
	cells := make([]string, len(columns))
	for i, key := range columns {
		cells[i] = strings.ToUpper(strings.ReplaceAll(key, "_", "-"))
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
	for _, r := range rows {
		for i, key := range columns {
			cells[i] = "-" // a member that the NIC left out
			for _, f := range r {
				if f.key == key {
					cells[i] = f.text
				}
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
}

// members splits one JSON object into its members, in order. Objects inside it
// are for --json only.
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
		if v[0] != '{' {
			all = append(all, field{fmt.Sprint(key), keyCell(fmt.Sprint(key), v)})
		}
	}
	return all, nil
}

// hexKeys are the numbers that everybody writes in hexadecimal.
var hexKeys = []string{"stag", "addr", "lid", "mlid", "dlid", "digest", "pkey"}

func keyCell(key string, v json.RawMessage) string {
	var n uint64
	if slices.Contains(hexKeys, key) && json.Unmarshal(v, &n) == nil {
		return fmt.Sprintf("%#x", n)
	}
	return cell(v)
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
	if json.Unmarshal(v, &list) == nil {
		if len(list) == 0 {
			return "-"
		}
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

// printLines writes the objects of an array one per line: the time and what
// follows it as they are, the rest with their names.
func printLines(w io.Writer, raw json.RawMessage) {
	var objects []json.RawMessage
	_ = json.Unmarshal(raw, &objects) // else there is nothing to print
	for _, o := range objects {
		fields, _ := members(o)
		var parts []string
		for _, f := range fields {
			switch f.key {
			case "seq":
			case "time", "level", "topic", "text", "event":
				parts = append(parts, f.text)
			default:
				parts = append(parts, f.key+"="+f.text)
			}
		}
		fmt.Fprintln(w, strings.Join(parts, " "))
	}
}
