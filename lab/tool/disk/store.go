// Package disk is what the tools of all storage protocols share: the disks that a target serves,
// with their files and threads, and what an initiator does with a disk.
package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"tapir/lab/conf/targetconf"
	"tapir/nic/scsi"
)

// LUN is a disk that a target serves.
type LUN = targetconf.LUN

// file is a scsi.Store in a file, whose calls a worker makes.
type file struct {
	*os.File
	size int64
}

// Modes of fallocate(2) and of lseek(2).
const (
	keepSize  = 1
	punchHole = 2
	seekData  = 3
	seekHole  = 4
)

// openLUN makes the store of a LUN and fills in its size. w, which does what may block, is nil if
// the store never blocks; stopping it closes the file.
func openLUN(l *LUN) (s scsi.Store, w *Worker, err error) {
	if l.Kind == targetconf.Mem {
		return scsi.NewMemory(l.Size), nil, nil
	}
	f, err := openFile(l)
	if err != nil {
		return nil, nil, err
	}
	return f, newWorker(func() { f.Close() }), nil
}

// openFile opens or makes the file of a LUN, and fills in its size.
func openFile(l *LUN) (*file, error) {
	flags := os.O_RDWR
	if l.ReadOnly {
		flags = os.O_RDONLY
	} else if l.Kind == targetconf.Sparse {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(l.Path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	is, err := f.Seek(0, io.SeekEnd)
	if err == nil && l.Kind == targetconf.Sparse && !l.ReadOnly && is < l.Size {
		is, err = l.Size, f.Truncate(l.Size)
	}
	if l.Size == 0 {
		l.Size = is / int64(l.Block) * int64(l.Block)
	}
	if err == nil && (is < l.Size || l.Size == 0) {
		err = fmt.Errorf("%s has %d octets, need %d", l.Path, is, max(l.Size, int64(l.Block)))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &file{f, l.Size}, nil
}

// ReadAt reads.
func (f *file) ReadAt(p []byte, off int64) error {
	_, err := f.File.ReadAt(p, off)
	return err
}

// WriteAt writes.
func (f *file) WriteAt(p []byte, off int64) error {
	_, err := f.File.WriteAt(p, off)
	return err
}

// Unmap makes a hole, or writes zeros where the file system has none.
func (f *file) Unmap(off, n int64) error {
	if n == 0 {
		return nil
	}
	err := syscall.Fallocate(int(f.Fd()), keepSize|punchHole, off, n)
	if !errors.Is(err, syscall.EOPNOTSUPP) {
		return err
	}
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 && err != nil {
		k := min(n, int64(len(zeros)))
		if err := f.WriteAt(zeros[:k], off); err != nil {
			return err
		}
		off, n = off+k, n-k
	}
	return nil
}

// Mapped asks the file system for holes.
func (f *file) Mapped(off int64) (mapped bool, n int64) {
	next, err := f.Seek(off, seekData)
	switch {
	case err != nil: // no data behind off
		return false, f.size - off
	case next > off:
		return false, next - off
	}
	if next, err = f.Seek(off, seekHole); err != nil {
		next = f.size
	}
	return true, next - off
}

// Worker does the work of one disk on a thread of its own, in order.
type Worker struct {
	mu    sync.Mutex
	wake  sync.Cond
	queue []func()
	over  bool
}

// Workers are those of units; a unit in memory has none.
type Workers map[*scsi.Unit]*Worker

// Offload has the worker of a unit do work and then call back, which goes on with done on the
// thread of the NIC. Without a worker work and done are done at once.
func (w Workers) Offload(u *scsi.Unit, work, back, done func()) {
	o := w[u]
	if o == nil {
		work()
		done()
		return
	}
	o.Do(func() {
		work()
		back()
	})
}

// Stop ends the workers, which close the files.
func (w Workers) Stop() {
	for _, o := range w {
		o.Stop()
	}
}

// newWorker starts one; end is the last that it does.
func newWorker(end func()) *Worker {
	w := &Worker{}
	w.wake.L = &w.mu
	go w.run(end)
	return w
}

func (w *Worker) run(end func()) {
	defer end()
	for {
		w.mu.Lock()
		for len(w.queue) == 0 && !w.over {
			w.wake.Wait()
		}
		queue := w.queue
		w.queue = nil
		w.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, work := range queue {
			work()
		}
	}
}

// Do queues work. The commands that may be outstanding bound the queue.
func (w *Worker) Do(work func()) {
	w.mu.Lock()
	w.queue = append(w.queue, work)
	w.mu.Unlock()
	w.wake.Signal()
}

// Stop ends the worker when the queue is empty.
func (w *Worker) Stop() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.wake.Signal()
}

// Files, unless nil, are disks in memory in place of the file system's, by path. NICs share them.
type Files map[string]struct {
	size  int64
	store scsi.Store
}

// Open makes or finds what a LUN has its octets in; w is nil if the store never blocks.
func (f Files) Open(l *LUN) (s scsi.Store, w *Worker, err error) {
	if f == nil || l.Kind == targetconf.Mem {
		return openLUN(l)
	}
	d := f[l.Path]
	switch {
	case l.Kind == targetconf.File:
		return nil, nil, fmt.Errorf("%s: there are no files in virtual time: give mem:SIZE, or sparse:PATH:SIZE for a "+
			"disk that NICs share", l.Path)
	case d.store == nil:
		d.size, d.store = l.Size, scsi.NewMemory(l.Size)
		f[l.Path] = d
	case d.size != l.Size:
		return nil, nil, fmt.Errorf("%s has %d octets, not %d", l.Path, d.size, l.Size)
	}
	return d.store, nil, nil
}
