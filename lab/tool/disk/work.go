package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"tapir/lab/conf/targetconf"
	"tapir/wire/frame"
)

// Verb is what an initiator does.
type Verb string

// Verbs.
const (
	Discover Verb = "discover" // lists targets
	Read     Verb = "read"     // gives the SHA-256 of what it reads
	Write    Verb = "write"    // writes what follows from a seed
	Verify   Verb = "verify"   // reads that, and compares
	Bench    Verb = "bench"    // reads, or writes, for some time
)

// Verbs are all of them, with a line of help each.
var Verbs = []struct {
	Verb  Verb
	Short string
}{
	{Discover, "List the targets of a portal"},
	{Read, "Read a range and print its SHA-256"},
	{Write, "Write octets that follow from a seed"},
	{Verify, "Read a range and compare it with the octets of write"},
	{Bench, "Read or write for some time and print the rate"},
}

// Work is what an initiator is to do with a disk.
type Work struct {
	Verb     Verb
	Offset   int64 // octets
	Length   int64 // octets; 0: to the end, at most 64 MiB
	Size     int   // octets of a command
	Depth    int   // commands outstanding
	Seed     uint64
	Writes   bool // bench
	Duration time.Duration
}

// DefaultWork is what a verb does unless flags say otherwise.
func DefaultWork(v Verb) Work {
	return Work{Verb: v, Size: 64 << 10, Depth: 16, Duration: 5 * time.Second}
}

// Outcome is what an initiator has done.
type Outcome struct {
	Verb     Verb          `json:"verb"`
	Targets  []string      `json:"targets,omitempty"`
	Octets   int64         `json:"octets"`
	Commands int64         `json:"commands"`
	Time     time.Duration `json:"ns"`
	SHA256   string        `json:"sha256,omitempty"`
	// PathsLost is how often one of several paths to the disk was lost.
	PathsLost int `json:"paths_lost,omitempty"`
}

// Limits of work.
const (
	maxDepth   = 64
	mostLength = 64 << 20
)

// Validate refuses what no disk could do.
func (w *Work) Validate() error {
	switch {
	case w.Offset < 0 || w.Length < 0:
		return errors.New("offset and length are not negative")
	case w.Verb == Discover:
		return nil
	case w.Size < 512 || w.Size > 1<<20 || w.Size&(w.Size-1) != 0:
		return fmt.Errorf("--size %d: a power of 2 from 512 to 1M", w.Size)
	case w.Depth < 1 || w.Depth > maxDepth:
		return fmt.Errorf("--depth %d: 1 to %d", w.Depth, maxDepth)
	case w.Verb == Bench && (w.Duration < time.Second || w.Duration > time.Hour):
		return errors.New("--duration: 1s to 1h")
	}
	return nil
}

// IO is one command of a workload. Its place belongs to one of the commands that are
// outstanding at a time and is used again.
type IO struct {
	Write bool
	Off   int64  // octets
	Data  []byte // to write, or to read into: always at the same place
	// Tag is the submitter's own, and stays as the place is used again.
	Tag any

	done bool
}

// Runner does the work of an initiator on a disk, in virtual or real time: it submits commands
// and is told their end. It belongs to the NIC's thread.
type Runner struct {
	Outcome
	work    Work
	submit  func(*IO, frame.Time)
	finish  func(error, frame.Time)
	begun   frame.Time
	ended   bool
	slots   []IO
	head    int   // of the slots: the one whose end is next
	next    int64 // offset of the next command
	end     int64
	pending int
	sum     hash.Hash
	want    []byte
}

// NewRunner makes a runner for a disk of size octets in blocks. submit sends a command, whose end
// Done tells; finish is called once, with nil when all is done. What does not fit the disk is an
// error.
func NewRunner(w Work, size int64, block int, submit func(*IO, frame.Time),
	finish func(error, frame.Time)) (*Runner, error) {
	if block < 512 || block > w.Size || size <= 0 || size > targetconf.MaxSize {
		return nil, fmt.Errorf("the disk has blocks of %d octets: give a --size of that or more", block)
	}
	if w.Length == 0 {
		w.Length = min(size-w.Offset, mostLength)
	}
	r := &Runner{work: w, submit: submit, finish: finish, next: w.Offset, end: w.Offset + w.Length,
		slots: make([]IO, w.Depth), sum: sha256.New(), want: make([]byte, w.Size)}
	r.Verb = w.Verb
	if b := int64(block); r.end > size || w.Length <= 0 || r.next%b != 0 || r.end%b != 0 {
		return nil, fmt.Errorf("octets %d to %d are not whole blocks of %d in a disk of %d octets", r.next, r.end,
			block, size)
	}
	return r, nil
}

// Start submits the first commands.
func (r *Runner) Start(now frame.Time) {
	r.begun = now
	for k := range r.slots {
		r.fill(&r.slots[k], now)
	}
}

// Stop ends the work; it submits nothing more.
func (r *Runner) Stop(err error, now frame.Time) {
	if r.ended {
		return
	}
	r.ended = true
	r.Time = now.Sub(r.begun)
	if r.work.Verb == Read && err == nil {
		r.SHA256 = hex.EncodeToString(r.sum.Sum(nil))
	}
	r.finish(err, now)
}

// fill sends the next command, if there is one.
func (r *Runner) fill(t *IO, now frame.Time) {
	if r.ended {
		return
	}
	over := r.work.Verb == Bench && now.Sub(r.begun) >= r.work.Duration
	if r.work.Verb == Bench && r.next >= r.end && !over {
		r.next = r.work.Offset
	}
	if r.next >= r.end || over {
		if r.pending == 0 {
			r.Stop(nil, now)
		}
		return
	}
	n := int(min(int64(r.work.Size), r.end-r.next))
	if t.Data == nil {
		t.Data = make([]byte, r.work.Size)
	}
	t.Off, t.Data, t.done = r.next, t.Data[:n], false
	if t.Write = r.work.Verb == Write || r.work.Verb == Bench && r.work.Writes; t.Write {
		pattern(t.Data, r.work.Seed, r.next)
	}
	r.next += int64(n)
	r.pending++
	r.submit(t, now)
}

// Done tells of the end of a command; the work goes on in the order of the submissions.
func (r *Runner) Done(t *IO, err error, now frame.Time) {
	if err != nil {
		r.Stop(err, now)
		return
	}
	t.done = true
	for r.slots[r.head].done && !r.ended {
		t := &r.slots[r.head]
		t.done = false
		r.head = (r.head + 1) % len(r.slots)
		r.pending--
		if r.check(t, now) {
			r.fill(t, now)
		}
	}
}

// check looks at what a command has moved.
func (r *Runner) check(t *IO, now frame.Time) bool {
	r.Commands++
	r.Octets += int64(len(t.Data))
	switch r.work.Verb {
	case Read:
		r.sum.Write(t.Data)
	case Verify:
		want := r.want[:len(t.Data)]
		if pattern(want, r.work.Seed, t.Off); bytes.Equal(want, t.Data) {
			return true
		}
		k := 0
		for want[k] == t.Data[k] {
			k++
		}
		r.Stop(fmt.Errorf("octet %d is %#02x, want %#02x", t.Off+int64(k), t.Data[k], want[k]), now)
		return false
	}
	return true
}

// pattern is what write writes at an offset, a multiple of 8.
func pattern(p []byte, seed uint64, off int64) {
	for k := 0; k+8 <= len(p); k += 8 {
		x := (seed + uint64(off+int64(k))/8) * 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		binary.LittleEndian.PutUint64(p[k:], x^x>>27)
	}
}

// Print prints an outcome for people, or as JSON.
func (o *Outcome) Print(w io.Writer, asJSON bool) (err error) {
	if asJSON {
		return json.NewEncoder(w).Encode(o)
	}
	for _, t := range o.Targets {
		_, err = fmt.Fprintln(w, t)
	}
	if o.Verb == Discover {
		return err
	}
	seconds := max(o.Time.Seconds(), 1e-9)
	_, err = fmt.Fprintf(w, "%s: %d octets in %d commands, %.0f commands/s, %.1f MB/s\n", o.Verb, o.Octets, o.Commands,
		float64(o.Commands)/seconds, float64(o.Octets)/seconds/1e6)
	if o.PathsLost > 0 {
		_, err = fmt.Fprintln(w, "paths lost:", o.PathsLost)
	}
	if o.SHA256 != "" {
		_, err = fmt.Fprintln(w, "sha256", o.SHA256)
	}
	return err
}
