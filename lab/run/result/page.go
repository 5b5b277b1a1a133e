package result

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"tapir/lab/tool/ui/page"
	"tapir/lab/tool/ui/record"
)

// pageRead bounds the octets of a capture that are counted for a report.
const pageRead = 64 << 20

// HTML writes results as one page that needs nothing else: that of `tapir ui`, without what
// lives.
func HTML(w io.Writer, all ...*Result) error {
	records := []record.Record{}
	for _, r := range all {
		raw, err := r.forPage()
		if err != nil {
			return err
		}
		records = append(records, record.Record{Schema: record.Schema, Name: r.Lab, Result: raw, Log: []record.Line{}})
	}
	return write(w, all, records...)
}

// page writes the page of one lab that was recorded in a directory.
func (r *Result) page(w io.Writer, dir string) error {
	raw, err := r.forPage()
	if err != nil {
		return err
	}
	one, err := record.Read(dir, raw, pageRead)
	if err != nil {
		return err
	}
	one.Name = r.Lab // the same page in any directory
	return write(w, []*Result{r}, one)
}

func write(w io.Writer, all []*Result, records ...record.Record) error {
	return page.Write(w, title(all), map[string]any{"records": records})
}

func title(all []*Result) string {
	var names []string
	counts := map[string]int{}
	for _, r := range all {
		names = append(names, r.Lab+": "+r.Verdict)
		counts[r.Verdict]++
	}
	if len(all) > 3 {
		return fmt.Sprintf("%d labs: %d pass, %d fail", len(all), counts[Passed], counts[Failed])
	}
	return strings.Join(names, ", ")
}

// pageStep is a step with its ladders.
type pageStep struct {
	Step
	Summary string   `json:"summary,omitempty"` // of its workload
	Ladders []Ladder `json:"ladders,omitempty"`
}

// pageResult is a result with all that a page has.
type pageResult struct {
	Result
	Steps   []pageStep `json:"steps"`
	Ladders []Ladder   `json:"ladders,omitempty"`
	Compare string     `json:"compare,omitempty"` // the workloads side by side
}

// forPage is the result as the page gets it: with ladders, long output clipped.
func (r *Result) forPage() (json.RawMessage, error) {
	p := pageResult{Result: *r, Ladders: r.Ladders, Compare: r.Compare(), Steps: []pageStep{}}
	p.Error = clip(r.Error)
	for _, s := range r.Steps {
		x := pageStep{Step: *s, Ladders: s.Ladders}
		x.Output, x.Error = clip(s.Output), clip(s.Error)
		if s.Perf != nil {
			x.Summary = s.Perf.String()
		}
		p.Steps = append(p.Steps, x)
	}
	p.Nodes = slices.Clone(r.Nodes)
	for i := range p.Nodes {
		n := &p.Nodes[i]
		n.Output, n.Error = clip(n.Output), clip(n.Error)
	}
	return json.Marshal(p)
}
