package capture

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"tapir/wire/pcapng"
)

// Exporter is Export as a writer: it takes a capture as it is made.
type Exporter struct {
	*io.PipeWriter
	done chan error
	st   Exported
}

// NewExporter returns an exporter to w. The caller finishes it.
func NewExporter(w io.Writer, form Form) *Exporter {
	r, pipe := io.Pipe()
	e := &Exporter{PipeWriter: pipe, done: make(chan error, 1)}
	go func() {
		var err error
		e.st, err = Export(w, r, form)
		r.CloseWithError(err)
		e.done <- err
	}()
	return e
}

// Finish ends the capture, which failed with err if that is not nil, and
// returns what was exported.
func (e *Exporter) Finish(err error) (Exported, error) {
	e.CloseWithError(err)
	if failed := <-e.done; failed != nil {
		err = failed
	}
	return e.st, err
}

// Only returns a function that exports the packets that keep wants.
func Only(keep Keep) func(w io.Writer, r io.Reader) (Exported, error) {
	return func(w io.Writer, r io.Reader) (Exported, error) {
		seen := 0
		n, err := Select(w, r, func(i *pcapng.Interface, p *pcapng.Packet) bool {
			seen++
			return keep(i, p)
		})
		if err == nil && n == 0 {
			err = errors.New("no packet is there; tapir inspect lists the ends of links")
		}
		return Exported{Written: uint64(n), Left: uint64(seen - n)}, err
	}
}

// ExpandFile replaces the compact capture f by what it stands for.
func ExpandFile(f *os.File) error {
	name, err := filepath.EvalSymlinks(f.Name())
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	whole, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	_, err = io.Copy(NewExpander(whole), f)
	if err = errors.Join(err, whole.Close()); err == nil {
		err = os.Rename(whole.Name(), name)
	}
	if err != nil {
		os.Remove(whole.Name())
	}
	return err
}
