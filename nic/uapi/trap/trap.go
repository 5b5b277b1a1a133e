// Package trap runs a program and serves chosen system calls of it, and of
// everything it forks or executes, in this process: a supervisor over
// seccomp's user notification (seccomp_unotify(2)), without a kernel module, C
// code or root; or, where that is forbidden, by a preloaded library (preload.go,
// directory library). It knows no ABI; Handlers do.
//
//	handler rules -> filter.go: a BPF program for this architecture
//	Start         -> launch.go: the child installs it, hands over the listener, executes the program
//	a trapped call -> listener.go, supervise.go: the thread that receives it asks the handlers
//	handler       -> call.go, paths.go, memory.go: arguments, the program's memory and descriptors
//	answer        -> a value, an errno, a new descriptor (reserved.go), or "let the kernel do it"
//	later         -> park.go: a call that waits ends at its thread's signals
//	made again    -> repeats.go: what an old kernel's signals do to the others
//
// Two handlers are here and in a package below: Files, of devices that the program
// opens, and mirror, of files that it finds elsewhere.
//
// Everything that no rule names runs at native speed: the kernel caches that
// the filter allows it. It is a cooperative device model, no security
// boundary: a program may change a path after it was looked at.
package trap

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Handler serves system calls. Serve runs on the supervisor's thread, one
// call at a time, and must not block: what has to wait returns Later.
type Handler interface {
	// Rules says which calls the handler wants to see. It may be shown others
	// too, those of other handlers' rules, and passes on what is not its own.
	Rules() []Rule
	Serve(c *Call) Answer
}

// Options says what to run and how.
type Options struct {
	Argv     []string // program and arguments; the program is found as a shell does
	Env      []string // nil: this process's
	Dir      string   // working directory; empty: this process's
	Stdin    *os.File // nil: /dev/null, as with the other two
	Stdout   *os.File
	Stderr   *os.File
	Handlers []Handler
	// KeepSystemClock leaves the program the right to set the machine's clock
	// (CAP_SYS_TIME), which it otherwise loses.
	KeepSystemClock bool
	// ProcMem reads and writes arguments of system calls by /proc/PID/mem alone.
	ProcMem bool
	// Repeats has signals interrupt trapped calls, as kernels before Linux 5.19
	// do (Terms.Repeats).
	Repeats bool
	Via     Via
	// Library is one that the program loads before any other (LD_PRELOAD, ld.so(8)),
	// and so does what it executes; empty: none.
	Library string
	// Logf is told what the user should know, such as a program that was
	// refused; nil: nobody is.
	Logf func(format string, args ...any)
}

// Via is how system calls come to the supervisor.
type Via uint8

const (
	Seccomp Via = iota // all of any program, by a filter in the kernel
	// Preload: those that a dynamic program makes through functions of libc, by
	// a library that is compiled when it is first needed. It works where the
	// kernel or another supervisor forbids the filter.
	Preload
)

// String is what --via calls it.
func (v Via) String() string { return [...]string{"trap", "preload"}[v] }

// Program is a supervised program.
type Program struct {
	process *os.Process
	cmd     *exec.Cmd
	served  chan error // the supervisor's end: no process is left
	exited  chan error
}

// NotFoundError says that there is no such program, or none that this user
// may execute.
type NotFoundError struct {
	Name string
	Err  error
}

func (e *NotFoundError) Error() string { return e.Name + ": " + e.Err.Error() }
func (e *NotFoundError) Unwrap() error { return e.Err }

// Start runs the program. The calling program must have called Launched at
// the beginning of its main. Errors: NotFoundError, or why the kernel refuses
// to supervise, with a remedy.
func Start(o Options) (*Program, error) {
	if len(o.Argv) == 0 {
		return nil, &NotFoundError{Name: "program", Err: errors.New("no name is given")}
	}
	path, err := exec.LookPath(o.Argv[0])
	if err != nil {
		var why *exec.Error
		if errors.As(err, &why) {
			err = why.Err
		}
		return nil, &NotFoundError{Name: o.Argv[0], Err: err}
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if o.Via == Seccomp {
		if err := kernelError(); err != nil {
			return nil, err
		}
	}
	p := &Program{served: make(chan error, 1), exited: make(chan error, 1)}
	started := make(chan error)
	go p.run(o, path, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run is the supervisor's thread: it starts the program, so that the program
// dies with it, and serves its calls until no process is left. The thread
// outlives them, as others may have started processes on it that die with it
// too.
func (p *Program) run(o Options, path string, started chan<- error) {
	runtime.LockOSThread()
	s, err := newSupervisor(o)
	if err == nil && o.Via == Preload {
		s.preload, err = newPreload(s, path)
	}
	if err == nil {
		p.cmd, p.process, err = s.launch(o, path)
	}
	if err != nil {
		s.ended()
		runtime.UnlockOSThread()
		started <- err
		return
	}
	started <- nil
	go func() {
		err := p.cmd.Wait()
		s.ended()
		p.exited <- err
	}()
	err = s.loop()
	if err == nil {
		runtime.UnlockOSThread()
	}
	p.served <- err
}

// PID is the program's process id.
func (p *Program) PID() int { return p.process.Pid }

// Signal sends the program a signal.
func (p *Program) Signal(sig syscall.Signal) error { return p.process.Signal(sig) }

// Wait returns when the program and every process that it started have ended,
// with the program's exit code: 128 and the signal's number if one killed it.
func (p *Program) Wait() (code int, err error) {
	err = <-p.exited
	if serving := <-p.served; serving != nil {
		return 0, serving
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 0, err
	}
	if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// TerminalSignals tells whether the terminal's interrupt and quit keys reach
// the program by themselves: it is in the terminal's foreground with us.
func TerminalSignals() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false // there is none
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
