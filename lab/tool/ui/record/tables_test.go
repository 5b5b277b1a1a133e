package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"tapir/nic/view"
)

// at are the rows of a table at a sample, as the page makes them.
func (h *History) at(node int, kind string, sample int) map[string]string {
	rows := map[string]string{}
	for _, c := range h.Nodes[1+node].Tables[kind] {
		if c.Sample > sample {
			break
		}
		for key, row := range c.Rows {
			if rows[key] = string(row); rows[key] == "null" {
				delete(rows, key)
			}
		}
	}
	return rows
}

// TestTables: at each sample that is kept the tables are what they were then, whatever was dropped.
func TestTables(t *testing.T) {
	for _, n := range []int{1, 199, 200, 201, 402, 1777} {
		tables := NewTables([]string{"a"}, time.Millisecond)
		at := func(i int) (any, any) {
			list := []map[string]int{}
			for k := range i % 5 {
				list = append(list, map[string]int{"k": k, "v": i / 3})
			}
			return list, map[string]int{"n": i, "even": 1 - i%2}
		}
		for i := range n {
			tables.Take(time.Duration(i)*time.Millisecond, func(string) map[string]any {
				list, object := at(i)
				return map[string]any{"list": list, "object": object, "counters": []any{
					map[string]any{"name": "c", "value": i % 2}}}
			})
		}
		var b bytes.Buffer
		if err := tables.Write(&b); err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(&b)
		if err != nil {
			t.Fatal(err)
		}
		var h History
		if err := json.NewDecoder(z).Decode(&h); err != nil {
			t.Fatal(err)
		}
		if len(h.At) > samplesMost || len(h.At) < min(n, samplesMost/2) || h.At[len(h.At)-1] != float64(n-1)/1000 {
			t.Errorf("of %d samples %d, the last at %v", n, len(h.At), h.At[len(h.At)-1])
		}
		for sample, seconds := range h.At {
			i := int(seconds*1000 + 0.5)
			if got := h.at(0, "object", sample); got["n"] != fmt.Sprint(i) || got["even"] != fmt.Sprint(1-i%2) {
				t.Fatalf("of %d samples, at %v: %v", n, seconds, got)
			}
			if got := h.at(0, "counters", sample); len(got) != i%2 {
				t.Fatalf("of %d samples, at %v: %v", n, seconds, got)
			}
			got := h.at(0, "list", sample)
			if len(got) != i%5 || len(got) > 0 && got["0"] != fmt.Sprintf(`{"k":0,"v":%d}`, i/3) {
				t.Fatalf("of %d samples, at %v: %v", n, seconds, got)
			}
		}
	}
}

// TestTablesAreBounded: a long list is cut, and of many nodes with large tables few samples stay.
func TestTablesAreBounded(t *testing.T) {
	var nodes []string
	for i := range 1000 {
		nodes = append(nodes, fmt.Sprint("n", i))
	}
	tables := NewTables(nodes, time.Millisecond)
	list := make([]string, rowsMost+7)
	for i := range 10 {
		for k := range list {
			list[k] = fmt.Sprint(i, " and ", k)
		}
		tables.Take(time.Duration(i)*time.Second, func(string) map[string]any { return map[string]any{"list": list} })
	}
	if c := tables.h.Nodes[8].Tables["list"][0]; c.More != 7 || len(c.Rows) != rowsMost {
		t.Errorf("%d rows and %d more", len(c.Rows), c.More)
	}
	var b bytes.Buffer
	if err := tables.Write(&b); err != nil || b.Len() > 2<<20 || len(tables.h.At) > samplesLeast || tables.octets > octetsMost {
		t.Errorf("%d samples, %d octets, %d in the file: %v", len(tables.h.At), tables.octets, b.Len(), err)
	}
}

// TestSplit: rows are what encoding/json reads.
func TestSplit(t *testing.T) {
	rows := map[string][]byte{}
	for _, table := range []any{
		nil, 7, "a,[b", []string{}, map[string]int{}, []any{1, "x,\"]}\\", []any{[]int{1, 2}, map[string]any{"k": "}"}}, nil, true},
		map[string]any{"a\"b\\": 1, "ü<": []any{"{", map[string]any{}}, "": -1.5e3, "n": nil},
	} {
		raw, err := json.Marshal(table)
		if err != nil {
			t.Fatal(err)
		}
		more := split(rows, "table", raw)
		want := map[string]json.RawMessage{}
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			for i, row := range list {
				want[fmt.Sprint(i)] = row
			}
		} else {
			_ = json.Unmarshal(raw, &want) // any other value has no rows
		}
		if len(rows) != len(want) || more != 0 {
			t.Errorf("%s: %d rows and %d more, want %d", raw, len(rows), more, len(want))
		}
		for key, row := range want {
			if string(rows[key]) != string(row) {
				t.Errorf("%s: row %q is %s, want %s", raw, key, rows[key], row)
			}
		}
	}
	counters := `[{"name":"a","value":0},{"name":"b","value":12},{"help":"x","name":"c\"d","value":1}]`
	more := split(rows, "counters", []byte(counters))
	if more != 0 || len(rows) != 2 || string(rows["b"]) != "12" || string(rows[`c"d`]) != "1" {
		t.Errorf("counters: %q", rows)
	}
}

// TestSampleAllocates: a sample of tables that have not changed allocates little beside their JSON.
func TestSampleAllocates(t *testing.T) {
	counters := []map[string]any{}
	for i := range 300 {
		counters = append(counters, map[string]any{"name": fmt.Sprint("counter", i), "value": i % 2})
	}
	raw := [2][]byte{}
	for i := range raw {
		counters[0]["value"] = 5 + i
		raw[i], _ = json.Marshal(counters) // strings and numbers
	}
	tables := NewTables([]string{"a"}, time.Millisecond)
	i := 0
	n := testing.AllocsPerRun(100, func() {
		tables.h.Nodes[1].Tables["counters"] = nil
		tables.take(1, "counters", raw[i%2])
		i++
	})
	// The names of the counters that are not zero, now and last, and what has changed.
	if n > 2*150+20 {
		t.Errorf("a sample of 300 counters, one of which has changed, allocates %v times", n)
	}
}

// The counters of a NIC of this process are kept without JSON as others are with it, and a node of
// which nothing has changed is not read.
func TestCountersWithoutJSON(t *testing.T) {
	type asJSON []view.Counter
	plain, encoded := NewTables([]string{"a"}, time.Millisecond), NewTables([]string{"a"}, time.Millisecond)
	reads, idle := 0, false
	plain.Changed = func(node string) bool { return !idle }
	for i, list := range [][]view.Counter{
		{{Name: "x", Value: 1}, {Name: "y"}}, {{Name: "x", Value: 1}, {Name: "y"}}, {{Name: "x"}, {Name: "y", Value: 7}},
		{{Name: "y", Value: 7}, {Name: "z", Value: 3}}, {{Name: "y", Value: 7}, {Name: "z", Value: 3}},
		{{Name: "z"}}, {}, {{Name: "x", Value: 2}},
	} {
		now := time.Duration(i) * time.Millisecond
		idle = i == 1 || i == 4
		plain.Take(now, func(node string) map[string]any {
			if node == "a" {
				reads++
			}
			return map[string]any{"counters": list}
		})
		encoded.Take(now, func(string) map[string]any { return map[string]any{"counters": asJSON(list)} })
		clear(list) // it is the caller's
	}
	var a, b bytes.Buffer
	if err := errors.Join(plain.Write(&a), encoded.Write(&b)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Errorf("without JSON %+v, with it %+v", plain.h, encoded.h)
	}
	if reads != 6 {
		t.Errorf("read %d times", reads)
	}
}
