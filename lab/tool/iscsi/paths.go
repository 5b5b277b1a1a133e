package iscsi

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/wire/frame"
)

// Times of a disk with several paths.
const (
	silence  = 3 * time.Second // with commands outstanding; the path is lost then
	tryAgain = time.Second     // after a path was lost
)

// maxPaths is how many paths a disk has at most.
const maxPaths = 8

// paths is the job of an initiator that reaches a disk by several portals: commands go by all
// paths in turn, those of a path that is lost go again by another. It belongs to the NIC's thread.
type paths struct {
	nic     *NIC
	task    Task
	done    func(any, error)
	all     []*path
	run     *disk.Runner // nil: no path has been there
	waiting []*disk.IO   // for a path
	turn    int          // of the path that is next
	none    frame.Time   // since when there is no path
	lost    int
	ended   bool
	told    bool
	err     error
}

// path is one of the ways, with one session at a time.
type path struct {
	of     *paths
	portal netip.AddrPort
	s      *session // nil: it is begun later
	up     bool
	out    []*disk.IO // outstanding, in order
	timer  func()
}

// begin connects by all portals.
func (p *paths) begin(now frame.Time) error {
	p.none = now
	for _, portal := range append([]netip.AddrPort{p.task.Portal}, p.task.Paths...) {
		p.all = append(p.all, &path{of: p, portal: portal, timer: func() {}})
	}
	for _, w := range p.all {
		if err := w.connect(now); err != nil {
			for _, o := range p.all[:slices.Index(p.all, w)] {
				o.s.finish(err, now)
			}
			return err
		}
	}
	return nil
}

// connect begins a session.
func (w *path) connect(now frame.Time) error {
	task := w.of.task
	task.Portal = w.portal
	s := &session{nic: w.of.nic, task: task, timer: func() {}, path: w}
	err := s.connect(now)
	if err == nil {
		w.s = s
	}
	return err
}

// ready takes a path into service.
func (w *path) ready(size int64, block int, now frame.Time) {
	p := w.of
	w.up = true
	if p.run != nil {
		waiting := p.waiting
		p.waiting = nil
		for _, t := range waiting {
			p.submit(t, now)
		}
		return
	}
	run, err := disk.NewRunner(p.task.Work, size, block, p.submit, p.finish)
	if err != nil {
		p.finish(err, now)
		return
	}
	p.run = run
	run.Start(now)
}

// submit sends a command by the next path.
func (p *paths) submit(t *disk.IO, now frame.Time) {
	for range p.all {
		w := p.all[p.turn%len(p.all)]
		p.turn++
		if w.up {
			w.out = append(w.out, t)
			w.s.submit(t, now)
			return
		}
	}
	p.waiting = append(p.waiting, t)
}

// complete takes the end of a command.
func (w *path) complete(t *disk.IO, err error, now frame.Time) {
	w.out = slices.DeleteFunc(w.out, func(o *disk.IO) bool { return o == t })
	w.of.run.Done(t, err, now)
}

// gone takes the end of the path's session. What was outstanding goes by the other paths.
func (w *path) gone(err error, now frame.Time) {
	p, out := w.of, w.out
	wasUp := w.up
	w.s, w.up, w.out = nil, false, nil
	if p.ended {
		p.tell()
		return
	}
	alive := func(o *path) bool { return o.up }
	if wasUp {
		p.lost++
		if !slices.ContainsFunc(p.all, alive) {
			p.none = now
		}
	}
	for _, t := range out {
		t.Tag = nil // the old session may still hold what it was
		p.submit(t, now)
	}
	never := p.run == nil && !slices.ContainsFunc(p.all, func(o *path) bool { return o.s != nil })
	if never || !slices.ContainsFunc(p.all, alive) && now.Sub(p.none) > patience {
		p.stop(err, now)
		return
	}
	w.retry(now)
}

// retry begins another session a little later.
func (w *path) retry(now frame.Time) {
	w.timer = w.of.nic.Device.Schedule(now.Add(tryAgain), func(now frame.Time) {
		if err := w.connect(now); err != nil {
			w.gone(err, now)
		}
	})
}

// stop ends the job.
func (p *paths) stop(err error, now frame.Time) {
	if p.run != nil {
		p.run.Stop(err, now) // which calls finish
	}
	p.finish(err, now)
}

// finish ends the sessions of all paths.
func (p *paths) finish(err error, now frame.Time) {
	if p.ended {
		return
	}
	p.ended, p.err = true, err
	for _, w := range p.all {
		w.timer()
		if w.s != nil {
			w.s.finish(err, now)
		}
	}
	p.tell()
}

// tell tells the result when the last session has ended.
func (p *paths) tell() {
	if p.told || slices.ContainsFunc(p.all, func(w *path) bool { return w.s != nil }) {
		return
	}
	p.told = true
	if p.err != nil {
		p.done(nil, &ctl.Error{What: p.err.Error()})
		return
	}
	out := p.run.Outcome
	out.PathsLost = p.lost
	p.done(out, nil)
}

// validatePaths checks what is said of several paths.
func (k *Task) validatePaths() error {
	switch {
	case len(k.Paths) == 0:
		return nil
	case k.Verb == disk.Discover:
		return errors.New("--path: discover asks one portal")
	case len(k.Paths) >= maxPaths:
		return fmt.Errorf("--path: a disk has at most %d paths", maxPaths)
	case k.Offload:
		return errors.New("--path and --offload exclude each other")
	}
	for i, p := range k.Paths {
		if !p.IsValid() || p == k.Portal || slices.Contains(k.Paths[:i], p) {
			return fmt.Errorf("--path %v: two paths are the same", p)
		}
	}
	return nil
}
