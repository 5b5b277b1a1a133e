package virtual

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/fcoe"
	"tapir/lab/tool/iscsi"
	"tapir/lab/tool/nvme"
	"tapir/lab/tool/usage"
	"tapir/lab/topo"
	"tapir/nic/al"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// tool is a command of tapir that has a NIC do a job. In real time it is a process that asks the
// NIC by its socket and waits; here it runs until it waits, and goes on when the NIC has done it.
type tool struct {
	lab    *lab
	name   string
	said   strings.Builder
	code   int
	ended  bool
	node   *node                   // whose NIC does the job
	cancel func()                  // of the job; nil: none runs
	resume func() (*request, bool) // until it waits for the next job, or ends
	stop   func()
}

// request is a job that the command waits for.
type request struct {
	node   *node
	job    json.RawMessage
	begun  func()
	report any // the result is decoded into it
	err    error
}

// startTool starts the command of a step.
func (l *lab) startTool(s *topo.Step) (steps.Program, error) {
	t := &tool{lab: l, name: s.Name}
	t.resume, t.stop = iter.Pull(func(ask func(*request) bool) { t.run(s.Argv[1:], ask) })
	t.next()
	return t, nil
}

// run is the command. It says what the process would, and ends with its exit code.
func (t *tool) run(argv []string, ask func(*request) bool) {
	on := func(name, _ string, do func(*ctl.Client) error) error {
		n := t.lab.named[name]
		if n == nil || n.dev == nil || n.dead {
			return fmt.Errorf("NIC %s is not running", name)
		}
		return do(ctl.Inside(name, func(job any, begun func(), report any) error {
			raw, err := json.Marshal(job)
			r := &request{node: n, job: raw, begun: begun, report: report}
			if err != nil || !ask(r) {
				return errors.Join(err, errEnded)
			}
			return r.err
		}))
	}
	out := io.MultiWriter(&t.said, t.lab.log.Voice(t.name, true))
	command := iscsi.Command(on, nil)
	switch argv[0] {
	case "nvme":
		command = nvme.Command(on, nil)
	case "fcoe":
		command = fcoe.Command(on, nil)
	}
	err := disk.Execute(command, argv[1:], out)
	if err == nil || errors.Is(err, errEnded) {
		return
	}
	fmt.Fprintln(out, "tapir: "+usage.OneLine(err))
	if t.code = 1; usage.Is(err) {
		t.code = 2
	}
}

// errEnded is what a command is told that a step, or the end of the lab, ends.
var errEnded = errors.New("the command was ended")

// next lets the command go on, and starts the job that it waits for then.
func (t *tool) next() {
	for {
		r, ok := t.resume()
		if !ok {
			t.ended = true
			return
		}
		if r.err = t.start(r); r.err == nil {
			return
		}
	}
}

func (t *tool) start(r *request) error {
	var of struct{ Op string }
	if err := json.Unmarshal(r.job, &of); err != nil {
		return err
	}
	t.node = r.node
	cancel, err := r.node.storage().job(of.Op)(r.job, nil, func(out any, err error) { t.done(r, out, err) })
	if err != nil {
		return err
	}
	t.cancel = cancel
	if r.begun != nil {
		r.begun()
	}
	return nil
}

// done takes the result of a job.
func (t *tool) done(r *request, out any, err error) {
	if t.ended {
		return
	}
	if r.err = err; err == nil {
		raw, err := json.Marshal(out)
		r.err = errors.Join(err, json.Unmarshal(raw, r.report))
	}
	t.cancel = nil
	t.next()
}

// end ends the command, and its job if cancel is.
func (t *tool) end(code int, cancel func()) {
	if t.ended {
		return
	}
	t.ended, t.code, t.cancel = true, code, nil
	if cancel != nil {
		cancel()
	}
	t.stop()
}

// HasEnded and the methods below make it a steps.Program.
func (t *tool) HasEnded() bool { return t.ended }

// ExitCode implements steps.Program.
func (t *tool) ExitCode() int { return t.code }

// Err implements steps.Program.
func (t *tool) Err() error { return failed(t.code) }

// Said implements steps.Program.
func (t *tool) Said() string { return t.said.String() }

// Tail implements steps.Program.
func (t *tool) Tail() string { return t.said.String() }

// Kill implements steps.Program: the NIC notices, and cancels the job.
func (t *tool) Kill() { t.end(128+9, t.cancel) }

// Stop implements steps.Program, as Ctrl-C does.
func (t *tool) Stop() { t.end(t.code, t.cancel) }

// endTools ends the commands that have a job at a NIC, which was killed.
func (l *lab) endTools(n *node) {
	for _, p := range l.programs {
		if t, ok := p.(*tool); ok && t.node == n {
			t.end(1, nil)
		}
	}
}

// disks are those of a NIC and those that it uses.
type disks struct {
	*iscsi.NIC
	nvme *nvme.NIC // nil: the NIC has no RDMA
	fcoe *fcoe.NIC
}

func (n *node) storage() *disks {
	d := n.dev
	if n.disks != nil && n.disks.Device == d {
		return n.disks
	}
	n.disks = &disks{NIC: &iscsi.NIC{Device: d, Thread: thread{n}, Files: n.lab.disks},
		fcoe: &fcoe.NIC{Device: d, Thread: thread{n}, Files: n.lab.disks}}
	if !d.Verbs.Started() {
		return n.disks
	}
	l := al.New(nil)
	var err error
	if n.disks.CA, err = l.RegisterCI(d.CI(nil, n.lab.world.Now)); err == nil { // which has a GUID: it cannot fail
		n.disks.nvme = &nvme.NIC{Device: d, Thread: thread{n}, Files: n.lab.disks, Layer: layer{l},
			Later: func(fn func()) { d.Schedule(n.lab.world.Now(), func(frame.Time) { fn() }) }}
	}
	return n.disks
}

// job is one of a kind.
func (d *disks) job(kind string) ctl.Job {
	for _, jobs := range []map[string]ctl.Job{d.Jobs(), d.fcoe.Jobs()} {
		if job := jobs[kind]; job != nil {
			return job
		}
	}
	if d.nvme == nil {
		return func(json.RawMessage, func(any), func(any, error)) (func(), error) {
			return nil, fmt.Errorf("%s has no RDMA", d.Device.Config().Name)
		}
	}
	return d.nvme.Jobs()[kind]
}

// counters are those of all targets.
func (d *disks) counters() []view.Counter {
	list := d.Counters()
	if d.nvme != nil {
		list = append(list, d.nvme.Counters()...)
	}
	return list
}

// layer is an access layer for a world without threads.
type layer struct{ *al.Layer }

// RegisterClient implements nvme.Layer.
func (l layer) RegisterClient(c al.Client, ids ...al.ID) (unregister func()) {
	leave := l.Layer.RegisterClient(c, ids...)
	return func() { leave(nil) }
}

// thread is a ctl.Thread: the lab has one for all.
type thread struct{ n *node }

// Do implements ctl.Thread.
func (t thread) Do(fn func(now frame.Time)) bool {
	fn(t.Now())
	t.n.lab.world.Touch(t.n.place)
	return true
}

// DoWait implements ctl.Thread.
func (t thread) DoWait(fn func(now frame.Time)) error {
	t.Do(fn)
	return nil
}

// Now implements ctl.Thread.
func (t thread) Now() frame.Time { return t.n.lab.world.Now() }

// Realtime implements ctl.Thread.
func (t thread) Realtime(at frame.Time) int64 { return int64(t.n.lab.world.At(at)) }

// FromRealtime implements ctl.Thread.
func (t thread) FromRealtime(ns int64) frame.Time { return frame.Time(ns - t.Realtime(0)) }
