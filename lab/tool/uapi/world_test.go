package uapi_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/dcb"
	"tapir/lab/tool/uapi"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/trap"
)

// programEnv makes this binary a program of the tests, by its name.
const programEnv = "TAPIR_TEST_PROGRAM"

func TestMain(m *testing.M) {
	trap.Launched()
	if name := os.Getenv(programEnv); name != "" {
		os.Exit(programs[name]())
	}
	os.Exit(testenv.Apart(m, "tapir-uapi"))
}

// nic is one that serves programs from this process.
type nic struct {
	*nicnode.Node
	t       *testing.T
	ctl     *ctl.Client
	control *ctl.Server
	steps   steps
	empty   map[string]int // its counters of objects when nobody uses it
}

// newNICs starts a pair of these names, 10.0.0.1 and 10.0.0.2.
func newNICs(t *testing.T, first, second string) (a, b *nic) {
	t.Helper()
	one, two, err := link.NewWire(first, second, false)
	if err != nil {
		t.Fatal(err)
	}
	return newNIC(t, one, "10.0.0.1/24"), newNIC(t, two, "10.0.0.2/24")
}

func newNIC(t *testing.T, wire *link.WireEnd, ip string) *nic {
	t.Helper()
	s, err := ctl.Listen(wire.Name(), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	n := &nic{t: t, control: s}
	if n.Node, err = nicnode.Start(t.Context(), nicconf.Config{Name: wire.Name(), IP: []netip.Prefix{netip.MustParsePrefix(ip)}}, node.Env{Wire: wire}); err != nil {
		t.Fatal(err)
	}
	r, err := relay.Listen(ctl.RunPath(n.Name()))
	if err != nil {
		t.Fatal(err)
	}
	programs := nicnode.NewPrograms()
	programs.Add(n.Node)
	r.Serve(n.steps.counted(programs.Devices))
	s.Serve((&ctl.Device{Device: n.Device, Thread: n.Node, Version: "test", LocalMAD: n.LocalMAD(), Clients: func() any { return r.Clients() }, OnStop: func() {},
		Commands: dcb.Commands(n.Device, n.Node)}).Served())
	if n.ctl, err = ctl.Dial(n.Name()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.ctl.Close()
		r.Close()
		_ = n.Close() // says only why it ended
		if l := n.Leaks(); len(l) > 0 {
			t.Errorf("%s: left at the end: %v", n.Name(), l)
		}
	})
	n.empty = n.objects()
	return n
}

// steps are what programs do to the devices of a NIC: each opening, and each
// command.
type steps struct {
	mu   sync.Mutex
	made int
	last int  // the step at which its program is killed; 0: none
	off  bool // nothing is counted, and posts may come by doorbells
}

// begin counts from zero. The program that makes step last does not live to
// see the end of it.
func (s *steps) begin(last int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made, s.last = 0, last
}

func (s *steps) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

func (s *steps) step(c abi.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made++; s.made != s.last {
		return
	}
	if pid := c.Process(); pid > 0 { // else it is gone
		_ = syscall.Kill(pid, syscall.SIGKILL) // as above
	}
}

func (s *steps) counted(devices relay.Devices) relay.Devices {
	return func(a relay.Ask) (map[string]relay.Device, error) {
		found, err := devices(a)
		if s.off {
			return found, err
		}
		for name, d := range found {
			open := d.Open
			d.Open = func(c abi.Caller, flags int) (abi.File, int, error) {
				s.step(c)
				f, fd, err := open(c, flags)
				if err != nil {
					return nil, -1, err
				}
				return &countedFile{f, s}, fd, nil
			}
			found[name] = d
		}
		return found, err
	}
}

type countedFile struct {
	abi.File
	steps *steps
}

func (f *countedFile) Command(c abi.Caller, b []byte) error {
	f.steps.step(c)
	return f.File.Command(c, b)
}

// objects are how many of each kind the NIC has, as tapir show says.
func (n *nic) objects() map[string]int {
	n.t.Helper()
	var rows []struct {
		Name string
		Now  int
	}
	if err := n.ctl.Show(n.t.Context(), "stats", &rows); err != nil {
		n.t.Fatal(err)
	}
	m := map[string]int{}
	for _, r := range rows {
		m[r.Name] = r.Now
	}
	return m
}

// until waits for a condition, which says what is missing.
func until(t *testing.T, missing func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		what := missing()
		switch {
		case what == "":
			return
		case ctx.Err() != nil:
			t.Fatalf("%s\n%s", what, testenv.Goroutines())
		}
		time.Sleep(time.Millisecond)
	}
}

// has waits until the NIC's counters of objects are those.
func (n *nic) has(want map[string]int) {
	n.t.Helper()
	until(n.t, func() string {
		if have := n.objects(); !maps.Equal(have, want) {
			return fmt.Sprintf("%s has %v, want %v", n.Name(), have, want)
		}
		return ""
	})
}

// programs are what this binary is beside a test.
var programs = map[string]func() int{"umode server": umodeServer, "umode client": umodeClient, "clock": clockProgram}

// run is a program that runs on a NIC.
type run struct {
	ended chan struct{}
	code  int // once it has ended
	err   error
	out   string // the name of the file of what it says
}

// killed is the exit code of a program that was.
const killed = 128 + int(syscall.SIGKILL)

func (n *nic) start(o uapi.Options) *run {
	n.t.Helper()
	out, err := os.CreateTemp(n.t.TempDir(), "out")
	if err != nil {
		n.t.Fatal(err)
	}
	r := &run{ended: make(chan struct{}), out: out.Name()}
	o.NICs, o.Stdout, o.Stderr = []string{n.Name()}, out, out
	go func() {
		defer close(r.ended)
		defer out.Close()
		r.code, r.err = uapi.Run(n.t.Context(), o)
	}()
	n.t.Cleanup(func() { testenv.Await(n.t, r.ended, "the end of "+strings.Join(o.Argv, " ")) })
	return r
}

// startOwn starts a program of this binary with the NIC's name and an argument.
func (n *nic) startOwn(name, arg string) *run {
	n.t.Helper()
	out, err := os.CreateTemp(n.t.TempDir(), "out")
	if err != nil {
		n.t.Fatal(err)
	}
	defer out.Close()
	exe, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.Command(exe, n.Name(), arg)
	cmd.Env = append(os.Environ(), programEnv+"="+name)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	r := &run{ended: make(chan struct{}), out: out.Name()}
	go func() {
		defer close(r.ended)
		_ = cmd.Wait() // its state says it
		if r.code = cmd.ProcessState.ExitCode(); r.code < 0 {
			r.code = 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		}
	}()
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended if the test went well
		<-r.ended
	})
	return r
}

func (r *run) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// leaves waits for its end for a while.
func (r *run) leaves() bool {
	select {
	case <-r.ended:
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}

// end waits for it and returns the exit code.
func (r *run) end(t *testing.T) int {
	t.Helper()
	testenv.Await(t, r.ended, "the program's end")
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.code
}

// said is what it has said so far.
func (r *run) said() string {
	text, _ := os.ReadFile(r.out)
	return string(text)
}
