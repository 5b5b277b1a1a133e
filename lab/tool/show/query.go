package show

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"tapir/lab/conf"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/view"
)

// Client is what queries need of a control socket; *ctl.Client implements it.
type Client interface {
	Show(ctx context.Context, kind string, v any) error
}

// Target is what the arguments of tapir show name.
type Target struct {
	Name string // of a NIC; empty: the only one
	Kind string // of the table
	Row  string // its number; empty: all rows
}

// ParseTarget reads [NAME] [KIND] [ROW].
func ParseTarget(args []string) (Target, error) {
	if ctl.KnownKind(args[0]) { // a table alone: of the only NIC
		args = append([]string{""}, args...)
	}
	t := Target{Name: args[0], Kind: ctl.Kinds[0]}
	if len(args) > 1 {
		t.Kind = args[1]
	}
	if len(args) > 2 {
		t.Row = args[2]
	}
	switch {
	case !ctl.KnownKind(t.Kind):
		return t, knownTable(t.Kind)
	case len(args) > 3:
		return t, usage.Errorf("unexpected argument %q: see: tapir show --help", args[3])
	case t.Row != "" && rowKeys[t.Kind] == "":
		return t, usage.Errorf("%s has no numbered rows: leave %q out", t.Kind, t.Row)
	}
	return t, nil
}

// rowKeys are the columns that number the rows of tables.
var rowKeys = map[string]string{"qp": "qp", "cq": "cq", "mr": "mr", "mw": "mw", "cep": "id", "gid": "gid_index",
	"ah": "ah", "counters": "name", "params": "name"}

// Rows are the numbers or names of the rows of a table; none if it has none.
func Rows(ctx context.Context, c Client, kind string) (all []string) {
	if rowKeys[kind] == "" {
		return nil
	}
	rows, _ := asRows(ctx, c, kind) // else there is nothing to offer
	for _, r := range rows {
		all = append(all, valueOf(r, rowKeys[kind], ""))
	}
	return all
}

// Fetch asks for the table, or the one row of it.
func (t Target) Fetch(ctx context.Context, c Client) (raw json.RawMessage, err error) {
	if err := c.Show(ctx, t.Kind, &raw); err != nil || t.Row == "" {
		return raw, err
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err != nil {
		return nil, err
	}
	key := rowKeys[t.Kind]
	var all []string
	for _, r := range rows {
		fields, err := members(r)
		if err != nil {
			return nil, err
		}
		all = append(all, valueOf(fields, key, ""))
		if slices.Contains(fields, field{key, t.Row}) {
			return r, nil
		}
	}
	if key == "name" {
		return nil, fmt.Errorf("%s has no %s: %s", t.Kind, t.Row, conf.OneOf(t.Row, all))
	}
	return nil, fmt.Errorf("there is no %s %s", key, t.Row)
}

// Row is a row of a table that is waited for: the columns that it must have, by name, whose texts match
// patterns as path.Match has them.
type Row struct {
	Kind    string
	Columns map[string]string
}

// ParseRow reads TABLE COLUMN=VALUE...
func ParseRow(text string) (Row, error) {
	words := strings.Fields(text)
	r := Row{Columns: map[string]string{}}
	for i, w := range words {
		column, value, ok := strings.Cut(w, "=")
		if _, err := path.Match(value, ""); i > 0 && (!ok || err != nil) {
			return r, usage.Errorf("%q: expected COLUMN=VALUE, such as phase=listening", w)
		}
		if i > 0 {
			r.Columns[column] = value
		}
	}
	if len(words) < 2 {
		return r, usage.Errorf("%q: expected a table and what a row of it has, such as 'cep phase=listening'", text)
	}
	r.Kind = words[0]
	return r, knownTable(r.Kind)
}

func knownTable(kind string) error {
	if ctl.KnownKind(kind) {
		return nil
	}
	return usage.Errorf("there is no table %q: %s", kind, conf.OneOf(kind, ctl.Kinds))
}

// Columns are those of a table as it is now.
func Columns(ctx context.Context, c Client, kind string) []string {
	rows, _ := asRows(ctx, c, kind) // else there is nothing to offer
	return keys(rows)
}

// asRows asks for a table, or for one row as a table.
func asRows(ctx context.Context, c Client, kind string) ([][]field, error) {
	var raw json.RawMessage
	if err := c.Show(ctx, kind, &raw); err != nil {
		return nil, err
	}
	if raw = bytes.TrimSpace(raw); len(raw) > 0 && raw[0] == '{' {
		raw = slices.Concat([]byte{'['}, raw, []byte{']'})
	}
	return objects(raw)
}

// In tells whether the table has the row now. A column that no row has is an error.
func (r Row) In(ctx context.Context, c Client) (bool, error) {
	rows, err := asRows(ctx, c, r.Kind)
	if err != nil {
		return false, err
	}
	for column := range r.Columns {
		if all := keys(rows); len(all) > 0 && !slices.Contains(all, column) {
			return false, usage.Errorf("%s has no column %q: %s", r.Kind, column, conf.OneOf(column, all))
		}
	}
	return slices.ContainsFunc(rows, func(row []field) bool {
		for column, pattern := range r.Columns {
			if ok, _ := path.Match(pattern, valueOf(row, column, "")); !ok { // the pattern was checked
				return false
			}
		}
		return true
	}), nil
}

// FetchAll asks for a row of each running NIC.
func FetchAll(ctx context.Context) (json.RawMessage, error) {
	names := ctl.List()
	if len(names) == 0 {
		_, err := ctl.Dial("")
		return nil, err
	}
	rows := make([]json.RawMessage, len(names))
	for i, name := range names {
		c, err := ctl.Dial(name)
		if err != nil {
			return nil, err
		}
		err = c.Show(ctx, ctl.Kinds[0], &rows[i])
		c.Close()
		if err != nil {
			return nil, err
		}
	}
	return json.Marshal(rows)
}

// ManagerTables are the tables of an Ethernet Manager, in the order of the
// help text.
var ManagerTables = []string{"vesw", "port", "member", "mac", "traffic", "congestion", "switch", "audit", "counters"}

// managerQueries are what can be asked about: for each the tables to look into,
// and the columns that must hold the value.
var managerQueries = map[string][]struct {
	table   string
	columns []string
}{
	"vesw": {{"vesw", []string{"id", "name"}}, {"member", []string{"vesw"}}, {"mac", []string{"vesw"}}},
	"node": {{"port", []string{"guid", "name", "lid"}}, {"member", []string{"guid", "node", "lid"}},
		{"mac", []string{"node", "dlid"}}},
	"mac": {{"mac", []string{"mac"}}},
}

// CanQuery tells whether Query knows that kind of thing.
func CanQuery(kind string) bool { return managerQueries[kind] != nil }

// Query prints the rows of an Ethernet Manager's tables that concern one
// virtual switch, node or MAC address. A virtual switch's name stands for its
// id.
func Query(ctx context.Context, w io.Writer, c Client, kind, what string) error {
	separator := ""
	for _, q := range managerQueries[kind] {
		var rows, hits []json.RawMessage
		if err := c.Show(ctx, q.table, &rows); err != nil {
			return err
		}
		for _, r := range rows {
			fields, err := members(r)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(fields, func(f field) bool {
				return slices.Contains(q.columns, f.key) && sameValue(f.text, what)
			}) {
				continue
			}
			hits = append(hits, r)
			if q.table == "vesw" {
				what = valueOf(fields, "id", "")
			}
		}
		if len(hits) == 0 {
			continue
		}
		fmt.Fprint(w, separator)
		separator = "\n"
		raw, err := json.Marshal(hits)
		if err != nil {
			return err
		}
		if err := Print(w, q.table, raw, false); err != nil {
			return err
		}
	}
	if separator == "" {
		return fmt.Errorf("the Ethernet Manager knows no %s %s", kind, what)
	}
	return nil
}

// sameValue compares names, addresses in any case, and numbers in any notation.
func sameValue(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	x, errA := strconv.ParseUint(a, 0, 64)
	y, errB := strconv.ParseUint(b, 0, 64)
	return errA == nil && errB == nil && x == y
}

// Changed are the rows of a table of parameters that settings name.
func Changed(raw json.RawMessage, settings []ctl.Setting) (json.RawMessage, error) {
	var rows []view.ParamInfo
	if err := json.Unmarshal(raw, &rows); err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r view.ParamInfo) bool {
		return !slices.ContainsFunc(settings, func(s ctl.Setting) bool { return s.Name == r.Name })
	})
	return json.Marshal(rows)
}
