// Package record reads what a lab has left in its directory, as the page of `tapir ui`
// and reports show it.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/lab/tool/capture"
	"tapir/wire/pcapng"
)

// Schema is the version of the documents.
const Schema = 1

// ResultFile is the file of the result.
const ResultFile = "result.json"

// Record is a recorded lab.
type Record struct {
	Schema int             `json:"schema"`
	Name   string          `json:"name"`   // of its directory
	Result json.RawMessage `json:"result"` // result.json
	Log    []Line          `json:"log"`
	// Traffic is what passed each link end, in slices of the lab's time; nil
	// without a capture.
	Traffic *Traffic `json:"traffic,omitempty"`
	Tables  []byte   `json:"tables,omitempty"` // a TablesFile of at most tablesMost octets
}

// Line is one of the lab's log.
type Line struct {
	At   float64 `json:"at"` // seconds
	Text string  `json:"text"`
}

// Traffic counts frames of a lab's capture over time.
type Traffic struct {
	Start int64   `json:"start_ns"` // of the lab, since the epoch
	Slice float64 `json:"slice"`    // seconds
	Links []Flow  `json:"links"`
	// First is the number of the first packet of each slice or of a later one, as
	// Wireshark counts; behind the last slice the number after the last packet.
	First []int `json:"first"`
	// Partial: what comes later in the capture is not counted, for it is long.
	Partial bool `json:"partial,omitempty"`
}

// Flow is what entered a link at one end, in the slices in which there was something.
type Flow struct {
	End    string `json:"end"` // LINK:NODE
	Slices []int  `json:"slices"`
	Frames []int  `json:"frames"`
	Octets []int  `json:"octets"`
	Struck []int  `json:"struck"` // lost, corrupted, duplicated or reordered on the link
}

// tablesMost bounds the tables of a page.
const tablesMost = 2 << 20

// maxSlices bounds the slices of time.
const maxSlices = 400

// Read reads the record in a directory. raw is its result; nil: that in the directory. Of
// the capture it reads so many octets.
func Read(dir string, raw json.RawMessage, octets int64) (r Record, err error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return r, err
	}
	r = Record{Schema: Schema, Name: filepath.Base(full), Result: raw, Log: []Line{}}
	if raw == nil {
		if r.Result, err = os.ReadFile(filepath.Join(dir, ResultFile)); err != nil {
			return r, err
		}
	}
	var about struct {
		Seconds float64
		Began   time.Time
	}
	if err := json.Unmarshal(r.Result, &about); err != nil {
		return r, fmt.Errorf("%s: %w", ResultFile, err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log.txt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	for l := range strings.Lines(string(log)) {
		at, text, _ := strings.Cut(strings.TrimSpace(l), "  ")
		if seconds, err := strconv.ParseFloat(at, 64); err == nil {
			r.Log = append(r.Log, Line{seconds, text})
		}
	}
	tables, err := os.ReadFile(filepath.Join(dir, TablesFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	if len(tables) <= tablesMost {
		r.Tables = tables
	}
	f, err := os.Open(filepath.Join(dir, capture.LabFile))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer f.Close()
	start := int64(0)
	if !about.Began.IsZero() {
		start = about.Began.UnixNano()
	}
	limited := &io.LimitedReader{R: f, N: octets}
	r.Traffic, err = traffic(limited, start, about.Seconds)
	if limited.N <= 0 {
		r.Traffic.Partial, err = true, nil
	}
	return r, err
}

// traffic counts what a capture has of a lab of that length, in seconds. start is that of
// the lab; 0: the first packet.
func traffic(r io.Reader, start int64, seconds float64) (*Traffic, error) {
	t := &Traffic{Start: start, Slice: max(seconds/maxSlices, 1e-6), Links: []Flow{}, First: make([]int, maxSlices+2)}
	next, err := capture.Blocks(r)
	if err != nil {
		return t, err
	}
	for n := 1; ; {
		b, err := next()
		if err != nil {
			t.end(n)
			if err == io.EOF {
				err = nil
			}
			return t, err
		}
		switch b := b.(type) {
		case *pcapng.Interface:
			t.Links = append(t.Links, Flow{End: b.Name, Slices: []int{}, Frames: []int{}, Octets: []int{},
				Struck: []int{}})
		case *pcapng.Journal: // which Wireshark numbers, too
			n++
		case *pcapng.Packet:
			if t.Start == 0 {
				t.Start = b.Stamp
			}
			if slice := t.slice(b); t.First[slice] == 0 {
				t.First[slice] = n
			}
			n++
			if int(b.Interface) < len(t.Links) {
				t.count(&t.Links[b.Interface], b)
			}
		}
	}
}

// end completes the numbers of packets; n is that after the last.
func (t *Traffic) end(n int) {
	for i := len(t.First) - 1; i >= 0; i-- {
		if t.First[i] == 0 {
			t.First[i] = n
		}
		n = min(n, t.First[i])
	}
}

func (t *Traffic) slice(p *pcapng.Packet) int {
	return min(max(int(float64(p.Stamp-t.Start)/1e9/t.Slice), 0), maxSlices)
}

// count counts a frame that entered the link.
func (t *Traffic) count(f *Flow, p *pcapng.Packet) {
	if p.ID == 0 || p.Flags.Direction() != pcapng.Outbound {
		return // it never was on the link, or has entered it elsewhere
	}
	slice := t.slice(p)
	i, ok := slices.BinarySearch(f.Slices, slice)
	if !ok { // stamps of one end may go back a little
		f.Slices = slices.Insert(f.Slices, i, slice)
		for _, list := range []*[]int{&f.Frames, &f.Octets, &f.Struck} {
			*list = slices.Insert(*list, i, 0)
		}
	}
	f.Frames[i]++
	f.Octets[i] += int(p.OrigLen)
	if Struck(p) {
		f.Struck[i]++
	}
}

// Struck tells whether a link lost, corrupted, duplicated or reordered a frame.
func Struck(p *pcapng.Packet) bool {
	return slices.ContainsFunc(p.Comments, func(c string) bool { return strings.Contains(c, "on the link") })
}
