// Package show prints the JSON of control sockets for people: tables, lists,
// lines of a log, and rows that a query names.
package show

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

// roceQP is the kind of a table of queue pairs of RoCE.
const roceQP = "qp of RoCE"

// ofPort is the first column of what a switch tells of each of its ports, and a NIC of its
// only one.
const ofPort = "local_port"

// columns are those that fit a screen, by kind of table; "" is the list of
// NICs. Other kinds have all of theirs.
var columns = map[string][]string{
	"":       {"name", "mac", "addrs", "mtu", "frames", "tap", "qps", "ceps", "drops", "pid"},
	"device": {"attribute", "value", "used", "limit", "ever"},
	"link":   {"attribute", "value"},
	"mfw":    {"attribute", "value"},
	"dcb":    {"attribute", "value"},
	"lldp": {"agent", "state", "interval", "ttl", "chassis", "port", "system", "expires", "tx_frames", "rx_frames",
		"rx_errors", "ageouts"},
	"qp": {"qp", "state", "iwarp_state", "local", "remote", "sends_pending", "recvs_pending", "crc",
		"tx_fpdus", "tx_bytes", "rx_fpdus", "rx_bytes"},
	roceQP: {"qp", "type", "state", "local", "remote", "dest_qp", "path_mtu", "sends_pending", "recvs_pending",
		"next_psn", "unacked_psn", "expected_psn", "msn", "in_flight", "retries_left", "stuck"},
	"cep": {"id", "state", "phase", "local", "remote", "qp", "mpa_revision", "crc", "markers", "ird", "ord", "rtr"},
	"resource": {"kind", "num", "pid", "users", "ctx", "pd", "state", "entries", "stag", "len", "qp", "local",
		"remote"},
	"events": {"time", "event", "id", "qp", "qp_state", "local", "remote", "status", "reason", "ird", "ord",
		"private_data"},
	"log": {"time", "level", "topic", "text"},

	"traffic": {"vesw", "node", "vport", "tx_packets", "rx_packets", "tx_bytes", "rx_bytes", "tx_errors", "rx_errors",
		"tx_dlid_zero", "tx_smac_filt", "rx_bad_veswid"},
}

// Print writes a table of that kind for people, or as JSON: an array of
// objects as a table, one object as a list.
func Print(w io.Writer, kind string, raw json.RawMessage, asJSON bool) error {
	if asJSON {
		return JSON(w, raw)
	}
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
	rows, err := objects(raw)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	only := columns[kind]
	if kind == "qp" && slices.Contains(keys(rows[:1]), "dest_qp") {
		only = columns[roceQP]
	}
	if all := keys(rows); only == nil || kind == "link" && !slices.Contains(all, only[0]) { // links of a lab
		only = all
	} else if kind == "log" { // that of a lab has no levels and topics
		only = slices.DeleteFunc(slices.Clone(only), func(key string) bool { return !slices.Contains(all, key) })
	} else if len(all) > 0 && all[0] == ofPort {
		only = append([]string{ofPort}, only...)
	}
	printRows(tw, only, rows)
	return tw.Flush()
}

// objects splits an array of objects into their members.
func objects(raw json.RawMessage) (rows [][]field, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	rows = make([][]field, len(list))
	for i, o := range list {
		if rows[i], err = members(o); err != nil {
			return nil, err
		}
	}
	return rows, nil
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
			cells[i] = valueOf(r, key, "-") // a member that the NIC left out
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
}

// valueOf is the text of the field of that key, or missing.
func valueOf(fields []field, key, missing string) string {
	for _, f := range slices.Backward(fields) {
		if f.key == key {
			return f.text
		}
	}
	return missing
}

// members splits one JSON object into its members, in order. Objects inside it
// are left out.
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

// hexKeys are the numbers that are written in hexadecimal.
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
	var list []json.RawMessage
	if json.Unmarshal(v, &s) != nil {
		if v[0] == '{' { // in a list
			inside, err := members(v)
			parts := make([]string, len(inside))
			for i, f := range inside {
				parts[i] = f.key + "=" + f.text
			}
			if err == nil {
				return strings.Join(parts, " ")
			}
		}
		if json.Unmarshal(v, &list) != nil {
			return string(v)
		}
		parts := make([]string, len(list))
		for i, e := range list {
			parts[i] = cell(e)
		}
		s = strings.Join(parts, ",")
	}
	if s == "" {
		return "-"
	}
	return s
}

// JSON writes a value, or JSON as it is, with indentation.
func JSON(w io.Writer, v any) error {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// Lines writes the objects of an array one per line: the time and what follows
// it as they are, the rest with their names.
func Lines(w io.Writer, raw json.RawMessage) {
	rows, _ := objects(raw) // else there is nothing to print
	for _, fields := range rows {
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
