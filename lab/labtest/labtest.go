// Package labtest runs labs in `go test`: one call brings up the NICs, hosts,
// switches and links of a topology file (docs/reference/lab.md), and the test's end takes
// them down.
//
//	func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }
//
//	func TestWrite(t *testing.T) {
//		lab := labtest.Start(t, "testdata/pair.yaml")
//		lab.Step("{perf: verify, server: a, client: b}")
//	}
//
// A test that fails keeps a directory with the report of the lab, report.html,
// and its captures, and says where it is.
package labtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"tapir/lab/conf"
	"tapir/lab/host/netns"
	"tapir/lab/host/process"
	"tapir/lab/run/real"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/tool/ctl"
	"tapir/lab/topo"
	"tapir/nic/umode"
)

// OutEnv is the environment variable that names a directory in which the
// reports of all labs are kept, whether they fail or not.
const OutEnv = "TAPIR_LABTEST_OUT"

// Main runs the tests of a package, as m.Run does, with the rights to make
// network namespaces: a user who is not root gets them in a user namespace, in
// which the tests run again as a process of their own. Call it from TestMain.
func Main(m *testing.M) (code int) {
	if netns.Privileged() || netns.Reexeced() {
		return m.Run()
	}
	err := netns.Reexec(context.Background(), os.Args[1:]...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(1, exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "labtest:", err)
		return 1
	}
	return 0
}

// Option says how to run a lab.
type Option func(*options)

type options struct {
	tapir, out string
	edit       []func(*topo.Lab) error
}

// Tapir names the program tapir that the nodes are processes of. Without it
// that is $TAPIR, else one that is built from the module tapir as the test's
// module requires it, else one that $PATH has.
func Tapir(path string) Option {
	return func(o *options) { o.tapir = path }
}

// Out keeps reports and captures in dir even of a test that passes.
func Out(dir string) Option { return func(o *options) { o.out = dir } }

// Seed sets the seed of the lab's faults.
func Seed(seed uint64) Option {
	return func(o *options) {
		o.edit = append(o.edit, func(l *topo.Lab) error { l.Seed = seed; return nil })
	}
}

// Clock sets the lab's clock, for Run: topo.Real or topo.Virtual.
func Clock(clock string) Option {
	return func(o *options) {
		o.edit = append(o.edit, func(l *topo.Lab) error { return l.SetClock(clock) })
	}
}

// Lab is a lab that is up. Its methods fail the test at once if something goes
// wrong; they belong to the goroutine of the test.
type Lab struct {
	t   testing.TB
	ctx context.Context
	lab *topo.Lab
	bed *real.Bed
	res *result.Result
	dir string // of the reports
}

// Start brings up the lab of a topology file, in real time, and runs the file's
// steps, if it has any. It ends with the test.
func Start(t testing.TB, file string, opts ...Option) *Lab {
	t.Helper()
	lab, o := load(t, file, opts)
	if lab.Clock != topo.Real {
		t.Fatalf("labtest: %s runs by the virtual clock: use labtest.Run", file)
	}
	if !netns.Privileged() {
		t.Fatal("labtest: this process may not make network namespaces: call labtest.Main from TestMain")
	}
	l := &Lab{t: t, ctx: t.Context(), lab: lab}
	l.dir = keep(t, o)
	bed, err := real.Up(l.ctx, lab, real.Options{Options: steps.Options{Out: l.dir}, Tapir: program(t, o)})
	if err != nil {
		t.Fatalf("labtest: lab %s: %v", lab.Name, err)
	}
	l.bed = bed
	t.Cleanup(l.end)
	l.res = bed.Steps(l.ctx)
	l.check()
	return l
}

// Run runs the lab of a topology file from its start to its end, by the clock
// that the file or an option says, and fails the test if the lab fails.
func Run(t testing.TB, file string, opts ...Option) *result.Result {
	t.Helper()
	lab, o := load(t, file, opts)
	dir := keep(t, o)
	var r *result.Result
	var err error
	if lab.Clock == topo.Virtual {
		r, err = virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Out: dir}})
	} else {
		r, err = real.Run(t.Context(), lab, real.Options{Options: steps.Options{Out: dir}, Tapir: program(t, o)})
	}
	if why := r.Why(); why != "" {
		t.Fatalf("labtest: lab %s: %s\nreport: %s", lab.Name, why, filepath.Join(dir, "report.html"))
	}
	if err != nil {
		t.Fatalf("labtest: %v", err)
	}
	return r
}

func load(t testing.TB, file string, opts []Option) (*topo.Lab, *options) {
	t.Helper()
	o := &options{out: os.Getenv(OutEnv)}
	for _, opt := range opts {
		opt(o)
	}
	lab, err := topo.Load(file)
	for _, edit := range o.edit {
		if err == nil {
			err = edit(lab)
		}
	}
	fatal(t, err)
	return lab, o
}

// fatal ends the test if err is an error; one of a topology file shows its
// place.
func fatal(t testing.TB, err error) {
	t.Helper()
	if bad := (*conf.Error)(nil); errors.As(err, &bad) {
		t.Fatalf("labtest: %v\n%s", err, bad.Excerpt())
	}
	if err != nil {
		t.Fatalf("labtest: %v", err)
	}
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// keep makes the directory of the lab's reports, which is removed if the test
// passes and nobody asked for it.
func keep(t testing.TB, o *options) string {
	t.Helper()
	if o.out != "" {
		fatal(t, os.MkdirAll(o.out, 0o777))
	}
	dir, err := os.MkdirTemp(o.out, unfit.ReplaceAllString(t.Name(), "-")+"-")
	fatal(t, err)
	t.Cleanup(func() {
		switch {
		case t.Failed():
			t.Logf("labtest: the lab's report is %s", filepath.Join(dir, "report.html"))
		case o.out == "":
			os.RemoveAll(dir)
		}
	})
	return dir
}

// end takes the lab down and writes its report.
func (l *Lab) end() {
	said := l.res.Why() != ""
	if l.t.Failed() && !said {
		l.bed.Fail(fmt.Errorf("%s failed", l.t.Name()))
		said = true
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.bed.Finish(ctx, l.res); err != nil {
		l.t.Errorf("labtest: %v", err)
	}
	if why := l.res.Why(); why != "" && !said {
		l.t.Errorf("labtest: lab %s: %s", l.lab.Name, why)
	}
}

// check ends the test if a step has failed.
func (l *Lab) check() {
	l.t.Helper()
	for _, s := range l.res.Steps {
		if s.Verdict == result.Failed {
			l.t.Fatalf("labtest: %s: %s", s.Text, s.Error)
		}
	}
}

// Step does one step more, in the words of the topology file: a program, a
// workload, a fault, a link taken down, something waited for or expected. What
// is expected of a capture is judged when the test ends.
//
//	lab.Step("{fault: a-b, loss: 1%}")
//	lab.Step("{perf: write-bw, server: a, client: b, duration: 1s}").Perf.Gbps
func (l *Lab) Step(step string) *result.Step {
	l.t.Helper()
	fatal(l.t, l.lab.Extend(step))
	l.res.Extend()
	l.bed.Next(l.ctx, l.res)
	l.check()
	return l.res.Steps[len(l.res.Steps)-1]
}

// Exec runs a program on a node and returns what it said. It has to end within
// a minute with exit code 0.
func (l *Lab) Exec(node string, argv ...string) string {
	l.t.Helper()
	step, err := json.Marshal(struct {
		Run []string `json:"run"`
		On  string   `json:"on"`
	}{argv, node})
	fatal(l.t, err)
	return l.Step(string(step)).Output
}

// Dial connects to the control socket of a NIC, until the test ends: what tapir
// show, set and perf do (package lab/tool/ctl).
func (l *Lab) Dial(nic string) *ctl.Client {
	l.t.Helper()
	c := l.dial(nic)
	l.t.Cleanup(func() { c.Close() })
	return c
}

func (l *Lab) dial(nic string) *ctl.Client {
	l.t.Helper()
	c, err := ctl.DialIn(l.bed.Sockets(), nic)
	fatal(l.t, err)
	return c
}

// Open opens the RDMA device of a NIC, whose queues the test then shares with
// it (package nic/umode). The test closes it.
func (l *Lab) Open(nic string) *umode.Context {
	l.t.Helper()
	c, err := umode.Open(nic, umode.Options{Dir: l.bed.Sockets()})
	fatal(l.t, err)
	return c
}

// Counter is a counter of a NIC, as `tapir show NIC counters` has it.
func (l *Lab) Counter(nic, name string) uint64 {
	l.t.Helper()
	c := l.dial(nic)
	defer c.Close()
	var rows []result.Counter
	fatal(l.t, c.Show(l.ctx, "counters", &rows))
	for _, r := range rows {
		if r.Name == name {
			return r.Value
		}
	}
	l.t.Fatalf("labtest: %s has no counter %s", nic, name)
	return 0
}

// within bounds Until.
const within = time.Minute

// Until waits until done says that what is so, for a minute at most.
func (l *Lab) Until(what string, done func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, within)
	defer cancel()
	if err := process.Until(ctx, func() (bool, error) { return done(), nil }); err != nil {
		l.t.Fatalf("labtest: waited in vain until %s: %v", what, err)
	}
}
