package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"tapir/nic/view"
)

// TablesFile is the file of the tables over time: gzip of one JSON document, History.
const TablesFile = "tables.json.gz"

// History has the tables of nodes over the time of a lab.
type History struct {
	Schema int           `json:"schema"`
	At     []float64     `json:"at"` // of the samples, in seconds
	Nodes  []NodeHistory `json:"nodes"`
	// Full: what changed after the last sample is not kept, for it is too much.
	Full bool `json:"full,omitempty"`
}

// NodeHistory has the tables of one node, by kind, as they changed.
type NodeHistory struct {
	Name   string              `json:"name"`
	Tables map[string][]Change `json:"tables"`
}

// Change is what differs from the sample before. Rows of a list have their place as key, those
// of an object the names of its members; a row that is null has gone.
type Change struct {
	Sample int                        `json:"s"`
	Rows   map[string]json.RawMessage `json:"r"`
	More   int                        `json:"more,omitempty"` // rows of the list that are not kept
}

// Bounds of a history: samples of many nodes and of few, rows of a table, and octets of all.
const (
	samplesLeast = 8
	samplesMost  = 100
	samplesAll   = 4000
	rowsMost     = 200
	octetsMost   = 24 << 20
)

// Tables records a History. When there are many samples, every other is dropped, and they are
// taken half as often. Its methods may be called from any goroutine.
type Tables struct {
	// Changed tells whether a node's tables may have changed since it was asked last; those of others are
	// not read. Nil: all may have.
	Changed func(node string) bool

	mu          sync.Mutex
	every, next time.Duration
	most        int
	octets      int
	h           History
	last        []map[string][]byte // the tables of each node as they were last, by kind
	rows, were  map[string][]byte   // of the table in hand, now and last
	counted     [][]view.Counter    // the counters of each node as they were last
}

// Lab is the name of the lab among its nodes: its table of links has them by name.
const Lab = ""

// NewTables records the tables of a lab and its nodes: a sample at each interval of every at first.
func NewTables(nodes []string, every time.Duration) *Tables {
	nodes = append([]string{Lab}, nodes...)
	t := &Tables{every: every, most: max(samplesLeast, min(samplesMost, samplesAll/max(len(nodes), 1))),
		h: History{Schema: Schema, At: []float64{}, Nodes: []NodeHistory{}}, rows: map[string][]byte{},
		were: map[string][]byte{}}
	for _, n := range nodes {
		t.h.Nodes = append(t.h.Nodes, NodeHistory{Name: n, Tables: map[string][]Change{}})
		t.last = append(t.last, map[string][]byte{})
	}
	t.counted = make([][]view.Counter, len(nodes))
	return t
}

// Next is when the next sample is due.
func (t *Tables) Next() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next
}

// Take takes a sample. read returns the tables of a node by kind; one that is missing stays as it
// was.
func (t *Tables) Take(now time.Duration, read func(node string) map[string]any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next <= now {
		t.next = now + t.every
	}
	if t.h.Full {
		return
	}
	if n := len(t.h.At); n == 0 || t.h.At[n-1] < now.Seconds() {
		t.h.At = append(t.h.At, now.Seconds())
	}
	for i := range t.h.Nodes {
		if t.Changed != nil && !t.Changed(t.h.Nodes[i].Name) {
			continue
		}
		for kind, table := range read(t.h.Nodes[i].Name) {
			if list, ok := table.([]view.Counter); ok {
				t.count(i, list)
				continue
			}
			if raw, err := json.Marshal(table); err == nil { // what cannot be encoded is no table
				t.take(i, kind, raw)
			}
		}
	}
	for len(t.h.At) > t.most || t.octets > octetsMost && len(t.h.At) > 2 {
		t.halve()
	}
	t.h.Full = t.octets > octetsMost
}

// take keeps what has changed of a table. What it keeps of raw is copied: a row would hold all of it.
func (t *Tables) take(node int, kind string, raw []byte) {
	before := t.last[node][kind]
	if bytes.Equal(before, raw) {
		return
	}
	more := split(t.rows, kind, raw)
	split(t.were, kind, before)
	c := Change{Sample: len(t.h.At) - 1, Rows: map[string]json.RawMessage{}, More: more}
	for key, row := range t.rows {
		if !bytes.Equal(t.were[key], row) {
			c.Rows[key] = bytes.Clone(row)
		}
	}
	for key := range t.were {
		if t.rows[key] == nil {
			c.Rows[key] = json.RawMessage("null")
		}
	}
	t.last[node][kind] = raw
	t.add(node, kind, c)
}

// count keeps what has changed of the table of counters, as take does, without JSON: it is the largest. What
// it keeps of list is copied, for that is the caller's.
func (t *Tables) count(node int, list []view.Counter) {
	before := t.counted[node]
	if slices.Equal(before, list) {
		return
	}
	same := slices.EqualFunc(before, list, func(a, b view.Counter) bool { return a.Name == b.Name })
	were := map[string]uint64{} // if other counters have come
	if !same {
		for _, c := range before {
			were[c.Name] = c.Value
		}
	}
	rows := map[string]json.RawMessage{}
	for i, c := range list {
		was := were[c.Name]
		if same {
			was = before[i].Value
		}
		delete(were, c.Name)
		switch {
		case c.Value == was:
		case c.Value == 0:
			rows[c.Name] = json.RawMessage("null")
		default:
			rows[c.Name] = strconv.AppendUint(nil, c.Value, 10)
		}
	}
	for name, was := range were {
		if was != 0 {
			rows[name] = json.RawMessage("null")
		}
	}
	t.counted[node] = append(before[:0], list...)
	t.add(node, "counters", Change{Sample: len(t.h.At) - 1, Rows: rows})
}

// add adds a change of a table.
func (t *Tables) add(node int, kind string, c Change) {
	all := t.h.Nodes[node].Tables
	all[kind] = append(all[kind], c)
	t.octets += c.octets()
}

func (c *Change) octets() (n int) {
	for key, row := range c.Rows {
		n += len(key) + len(row)
	}
	return n
}

// split splits a table, as json.Marshal writes it, into rows (borrowed from raw), and counts those
// beyond rowsMost. Of counters it keeps those that are not zero, by name.
func split(rows map[string][]byte, kind string, raw []byte) (more int) {
	clear(rows)
	if len(raw) == 0 || raw[0] != '[' && raw[0] != '{' {
		return 0 // what is neither has no rows
	}
	var name, row []byte
	for i, list := 0, raw[1:len(raw)-1]; len(list) > 0; i++ {
		if raw[0] == '{' {
			name, list = cut(list)
		}
		row, list = cut(list)
		switch {
		case kind == "counters":
			if name, value := counter(row); string(value) != "0" {
				rows[text(name)] = value
			}
		case raw[0] == '{':
			rows[text(name)] = row
		case i < rowsMost:
			rows[strconv.Itoa(i)] = row
		default:
			more++
		}
	}
	return more
}

// counter is the name, with its quotes, and the value of a counter.
func counter(row []byte) (name, value []byte) {
	var key, of []byte
	for list := row[1 : len(row)-1]; len(list) > 0; {
		key, list = cut(list)
		of, list = cut(list)
		switch string(key) {
		case `"name"`:
			name = of
		case `"value"`:
			value = of
		}
	}
	return name, value
}

// cut takes the first value off a list of values without white space.
func cut(list []byte) (value, rest []byte) {
	n := length(list)
	return list[:n:n], list[min(n+1, len(list)):]
}

// text is a JSON string.
func text(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // what json.Marshal has written
	return s
}

// length is that of the first value in a list of values without white space.
func length(list []byte) int {
	depth := 0
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case '"':
			for i++; list[i] != '"'; i++ {
				if list[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return len(list)
}

// halve drops every other sample. What changed there has changed at the next.
func (t *Tables) halve() {
	n := len(t.h.At)
	at := make([]float64, 0, n/2+1)
	for i := range n/2 + 1 {
		at = append(at, t.h.At[min(2*i, n-1)])
	}
	if n%2 == 1 {
		at = at[:(n+1)/2]
	}
	t.h.At, t.every, t.octets = at, 2*t.every, 0
	for _, node := range t.h.Nodes {
		for kind, all := range node.Tables {
			merged := all[:0]
			for _, c := range all {
				c.Sample = (c.Sample + 1) / 2
				if last := len(merged) - 1; last >= 0 && merged[last].Sample == c.Sample {
					maps.Copy(merged[last].Rows, c.Rows)
					merged[last].More = c.More
				} else {
					merged = append(merged, c)
				}
			}
			clear(all[len(merged):])
			for i := range merged {
				t.octets += merged[i].octets()
			}
			node.Tables[kind] = merged
		}
	}
}

// Write writes the history as a TablesFile.
func (t *Tables) Write(w io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	z := gzip.NewWriter(w)
	if err := json.NewEncoder(z).Encode(t.h); err != nil {
		return err
	}
	return z.Close()
}
