package ctl

import (
	"cmp"
	"encoding/json"
	"net/http"
	"path/filepath"

	"tapir/lab/tool/ptprun"
	"tapir/lab/tool/ptpuds"
	unit "tapir/nic/ptp"
	"tapir/wire/frame"
)

// Clock is the hardware clock and the PTP unit of a port, with its thread.
type Clock struct {
	ptprun.Node
	Thread Thread
}

// clock is that of the wire port.
func (d *served) clock() *Clock { return &Clock{ptprun.Of(d.Device), d.Thread} }

// clockCommand is what only a hardware clock can do: args and the answer are
// JSON.
type clockCommand func(d *Clock, args json.RawMessage) (any, error)

// Command runs a command, if it is one of a hardware clock's.
func (d *Clock) Command(name string, args json.RawMessage) (answer any, known bool, err error) {
	run := phcCommands[name]
	if run == nil {
		return nil, false, nil
	}
	answer, err = run(d, args)
	return answer, true, err
}

// on runs fn on the thread and returns its error.
func (d *Clock) on(fn func(now frame.Time) error) error { return onThread(d.Thread, d.Name, fn) }

// asking is a command without arguments that runs on the thread.
func asking(ask func(d *Clock, now frame.Time) any) clockCommand {
	return with(func(d *Clock, _ nothing, now frame.Time) (any, error) { return ask(d, now), nil })
}

// with is a command with arguments that runs on the thread.
func with[T any](run func(d *Clock, args T, now frame.Time) (any, error)) clockCommand {
	return func(d *Clock, raw json.RawMessage) (answer any, err error) {
		args, err := arguments[T](raw)
		if err != nil {
			return nil, err
		}
		err = d.on(func(now frame.Time) (err error) {
			answer, err = run(d, args, now)
			return withErrno(err)
		})
		return answer, err
	}
}

// changing is a command with arguments and no answer.
func changing[T any](run func(d *Clock, args T, now frame.Time) error) clockCommand {
	return with(func(d *Clock, args T, now frame.Time) (any, error) { return nothing{}, run(d, args, now) })
}

// Perf runs a PTP instance, as a ptprun.Job says, until the client leaves.
func (d *Clock) Perf(raw json.RawMessage, progress func(any), done func(any, error)) (cancel func(), err error) {
	job, err := ptprun.ParseJob(raw)
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, What: err.Error()}
	}
	if err := d.on(func(frame.Time) error {
		if d.PTP.Instance() != nil {
			return ptpError(unit.ErrPTPRuns)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	uds, err := ptpuds.Listen(cmp.Or(job.UDS, PTPSocket(d.Name)))
	if err != nil {
		return nil, &Error{What: err.Error(), Remedy: "choose another path with --uds"}
	}
	var run *ptprun.Run
	if err = d.on(func(now frame.Time) (err error) {
		run, err = ptprun.Start(d.Node, d.Thread, job, now, func(r ptprun.Report) {
			progress(r)
		}, func(r ptprun.Report, err error) {
			go func() { // Close waits for the thread that calls us
				_ = uds.Close()
				done(r, err)
			}()
		})
		if err == nil {
			d.PTP.Manager().SetLocal(uds)
		}
		return ptpError(err)
	}); err != nil {
		_ = uds.Close() // the error that counts is the other
		return nil, err
	}
	uds.Serve(d.Thread.Do, pmc{d.PTP})
	return func() {
		d.Thread.Do(run.Cancel)
		_ = uds.Close() // the socket is gone, whatever it says
	}, nil
}

// PTPSocket is the path of the socket by which linuxptp's pmc manages the PTP
// instance of a NIC, unless its start named another.
func PTPSocket(nic string) string { return filepath.Join(Dir(), nic+".ptp") }

// pmc hands what comes by such a socket to the instance that runs.
type pmc struct{ s *unit.Service }

func (p pmc) Local(client string, b []byte, now frame.Time) {
	if m := p.s.Manager(); m != nil {
		m.Local(client, b, now)
	}
}
