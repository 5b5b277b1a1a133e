package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/doctor"
	"tapir/lab/tool/perf"
	"tapir/nic/uapi/trap"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// inNamespace marks the test process that has a network namespace of its own.
const inNamespace = "TAPIR_TEST_NAMESPACE"

// TestMain runs the tests in a new network namespace where that is possible,
// so that the TAPs of the scripts meet nothing of this machine.
func TestMain(m *testing.M) {
	trap.Launched()
	if strings.HasSuffix(os.Args[0], ".test") && os.Getenv(inNamespace) == "" {
		os.Exit(again())
	}
	testscript.Main(m, map[string]func(){"tapir": checkedMain, "fakenic": fakeMain})
}

// again starts this test binary in a new network namespace, for an ordinary
// user inside a new user namespace, and returns its exit code. Where that is
// not allowed it runs here, and scripts that need a TAP are skipped.
func again() int {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	for _, mark := range []string{"new", "none"} {
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
		cmd.Args[0] = os.Args[0]
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		// linuxptp lies where the PATH of some does not lead.
		cmd.Env = append(os.Environ(), inNamespace+"="+mark, "PATH="+os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
		if mark == "new" {
			cmd.SysProcAttr = attr
		}
		if err := cmd.Start(); err != nil {
			continue
		}
		_ = cmd.Wait() // its exit code says it
		return cmd.ProcessState.ExitCode()
	}
	return 1
}

// canTAP tells whether a script can make TAPs.
func canTAP() bool {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	return os.Getenv(inNamespace) == "new"
}

// TestScripts runs the command lines of testdata/script against the real main
// function. Each has a runtime directory of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			run := filepath.Join(env.WorkDir, "run")
			env.Setenv("XDG_RUNTIME_DIR", run)
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, "cache"))
			captures, err := filepath.Abs("../../lab/tool/capture/layers/testdata")
			if err != nil {
				return err
			}
			env.Setenv("SIW_CAPTURES", captures)
			driver, err := filepath.Abs("../../nic/fastlinq/iov/testdata/vf.py")
			if err != nil {
				return err
			}
			env.Setenv("VF_DRIVER", driver)
			return os.Mkdir(run, 0o700)
		},
		Condition: func(cond string) (bool, error) {
			if cond == "tap" {
				return canTAP(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fails": fails, "waitfile": waitFile, "doctor-agrees": doctorAgrees,
			"pair": pair, "waitcep": waitCEP, "waitsync": waitSync, "nocep": noCEP, "waitptp": waitPTP, "waitlog": waitLog,
			"waitup": waitUp, "until": until,
		},
	})
}

// fails CODE PATTERN ARGS... runs tapir and wants that exit code, nothing on
// standard output and one line that matches on standard error, before the two
// of an excerpt.
func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: fails CODE PATTERN ARGS...")
	}
	err := ts.Exec("tapir", args[2:]...)
	code := 0
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		code = e.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("tapir %q: exit code %d, want %s: %v", args[2:], code, args[0], err)
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("tapir %q: standard output %q", args[2:], out)
	}
	line := regexp.MustCompile(`\n  +\d+ \| .*\n +\| *\^\n$`).ReplaceAllString(ts.ReadFile("stderr"), "\n")
	if strings.Count(line, "\n") != 1 || !regexp.MustCompile("^"+args[1]).MatchString(line) {
		ts.Fatalf("tapir %q: %q does not match %q in one line", args[2:], line, args[1])
	}
}

// doctorAgrees wants the exit code and the remedies of tapir doctor to follow
// from its findings, whatever they are on this machine.
func doctorAgrees(ts *testscript.TestScript, _ bool, _ []string) {
	err := ts.Exec("tapir", "doctor", "--json")
	var checks []doctor.Check
	if jerr := json.Unmarshal([]byte(ts.ReadFile("stdout")), &checks); jerr != nil {
		ts.Fatalf("not JSON: %v", jerr)
	}
	if bad := len(doctor.Failing(checks)) > 0; bad != (err != nil) {
		ts.Fatalf("exit %v with findings %+v", err, checks)
	}
	for _, c := range checks {
		if (c.State == doctor.OK) != (c.Remedy == "") {
			ts.Fatalf("remedy does not fit: %+v", c)
		}
	}
	if len(checks) < 8 {
		ts.Fatalf("only %d checks", len(checks))
	}
}

// pair TEST ARGS... runs a test of perf from nicB to nicA; both sides must
// succeed.
func pair(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: pair TEST ARGS...")
	}
	server := make(chan error, 1)
	go func() { server <- command(ts, "perf", args[0], "nicA").Run() }()
	awaitCEP(ts, "nicA", "18515")
	ts.Check(ts.Exec("tapir", append(append([]string{"perf"}, args...), "nicB", "10.79.0.1")...))
	ts.Check(<-server)
}

// waitCEP NIC PORT waits for an end point with that port on either side.
func waitCEP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitcep NIC PORT")
	}
	awaitCEP(ts, args[0], args[1])
}

// noCEP NIC PORT waits until no end point has that port.
func noCEP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: nocep NIC PORT")
	}
	waitCEPs(ts, args[0], args[1], false)
}

func awaitCEP(ts *testscript.TestScript, nic, port string) { waitCEPs(ts, nic, port, true) }

func waitCEPs(ts *testscript.TestScript, nic, port string, want bool) {
	for range 6000 {
		out, err := command(ts, "show", nic, "cep", "--json").Output()
		if err == nil && strings.Contains(string(out), ":"+port+`"`) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("end point of %s with port %s after a minute: %v", nic, port, !want)
}

// waitSync NAME waits until an Ethernet Manager has the fabric as its file says.
func waitSync(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitsync NAME")
	}
	for range 6000 {
		out, err := command(ts, "show", args[0], "--json").Output()
		if err == nil && strings.Contains(string(out), `"in_sync": true`) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("the fabric of %s is not in sync after a minute", args[0])
}

// command is a tapir of the script's environment.
func command(ts *testscript.TestScript, args ...string) *exec.Cmd {
	cmd := exec.Command("tapir", args...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+ts.Getenv("XDG_RUNTIME_DIR"))
	return cmd
}

// waitFile FILE waits until the file is there and, if it is a capture, no
// longer empty.
func waitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfile FILE")
	}
	for range 6000 {
		fi, err := os.Stat(ts.MkAbs(args[0]))
		if err == nil && (fi.Size() > 0 || !strings.HasSuffix(args[0], ".pcapng")) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s did not appear in a minute", args[0])
}

// waitLog FILE PATTERN waits until a file that grows has the pattern.
func waitLog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitlog FILE PATTERN")
	}
	want := regexp.MustCompile(args[1])
	var text []byte
	for range 6000 {
		text, _ = os.ReadFile(ts.MkAbs(args[0])) // it appears in time
		if want.Match(text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s has no %q after a minute:\n%s", args[0], args[1], text)
}

// waitUp LAB waits until a lab is up.
func waitUp(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitup LAB")
	}
	for range 3000 {
		files, _ := filepath.Glob(filepath.Join(ts.Getenv("TMPDIR"), "tapir-lab*", "lab.json"))
		for _, f := range files {
			if strings.Contains(ts.ReadFile(f), `"name":"`+args[0]+`"`) {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("lab %s is not up after 30 s", args[0])
}

// until PATTERN ARGS... runs tapir until its standard output matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN ARGS...")
	}
	want := regexp.MustCompile(args[0])
	var out []byte
	var err error
	for range 600 {
		if out, err = command(ts, args[1:]...).Output(); err == nil && want.Match(out) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("tapir %q does not print %q in 30 s but, with error %v:\n%s", args[1:], args[0], err, out)
}

// fakeMain serves the control socket of a NIC without an engine, named by its
// argument, until it is interrupted.
func fakeMain() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := ctl.Listen(os.Args[1], "test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.Serve(fakeNIC{name: os.Args[1], stop: stop})
	if err := os.WriteFile(os.Args[1]+".ready", nil, 0o600); err != nil {
		panic(err)
	}
	<-ctx.Done()
	s.Close()
}

type fakeNIC struct {
	name string
	stop func()
}

func (f fakeNIC) Show(kind string) (any, error) {
	type tcp struct{ RTO int }
	type qp struct {
		QP     int    `json:"qp"`
		State  string `json:"state"`
		Remote string `json:"remote,omitempty"`
		TCP    tcp    `json:"tcp"`
	}
	type cq struct {
		CQ    int      `json:"cq"`
		Owner string   `json:"owner,omitempty"`
		Flags []string `json:"flag_list"`
	}
	switch kind {
	case "nic":
		return struct {
			Name     string   `json:"name"`
			MTU      int      `json:"mtu"`
			Gateways []string `json:"gateways"`
		}{f.name, 1500, []string{}}, nil
	case "qp":
		return []qp{{2, "RTS", "10.0.0.2:18515", tcp{}}, {13, "ERROR", "", tcp{}}}, nil
	case "cq":
		return []cq{{1, "", []string{"armed", "full"}}, {2, "perf", nil}}, nil
	case "mr":
		return nil, errors.New("the engine has ended")
	}
	return []qp{}, nil
}

func (f fakeNIC) Follow(string, uint64) (any, uint64, error) { return []struct{}{}, 0, nil }

func (f fakeNIC) Set(settings []ctl.Setting) error {
	for _, s := range settings {
		if s.Name != "ird" {
			return &ctl.Error{What: s.Name + ": unknown setting", Status: 400}
		}
	}
	return nil
}

func (f fakeNIC) Perf(raw json.RawMessage, progress func(any), done func(any, error)) (func(), error) {
	var job perfconf.Job
	if err := json.Unmarshal(raw, &job); err != nil {
		return nil, err
	}
	r := perf.Report{Op: job.Op, Size: job.Size, QPs: job.QPs, Depth: job.Depth, Messages: job.Iters, Elapsed: 2e9, Gbps: 12.5}
	switch {
	case job.Serves(): // no client comes
		return func() {}, os.WriteFile(f.name+".serving.ready", nil, 0o600)
	case job.Remote.String() == "10.0.0.9":
		done(nil, &ctl.Error{What: "10.0.0.9:18515 refused the connection", Remedy: "start the server there: tapir perf " + string(job.Op)})
		return func() {}, nil
	case job.Op.IsLatency():
		r.Latency = &perf.Latency{Min: 1000, Median: 2000, Mean: 2100, P99: 3000, P999: 4000, Max: 5000}
	case job.Op == perfconf.Verify:
		r.Checks = []perf.Check{{Operation: "RDMA Read", Size: 8, Elapsed: 1e6, SHA256: "aa", Want: "bb"}}
	}
	progress(perf.Progress{Elapsed: 1e9, Messages: 10, Bytes: 1e9})
	progress(perf.Progress{Elapsed: 1.5e9, Messages: 15, Bytes: 1.5e9})
	done(r, nil)
	return func() {}, nil
}

func (f fakeNIC) CaptureInfo() capture.Info {
	return capture.Info{Application: "tapir test", Name: f.name, MTU: 1500, Wire: "tap0"}
}

func (f fakeNIC) Attach(s *capture.Session, context bool) (func(), error) {
	r := frame.Record{Data: make([]byte, 60), Drop: drop.NotOurMAC}
	if context {
		r.Notes = frame.Say("replayed for dissection")
		s.Trace(&r)
		r.Notes = nil
	}
	s.Live()
	for range 5 {
		s.Trace(&r)
	}
	return func() {}, nil
}

func (f fakeNIC) Stop() { f.stop() }

// waitPTP NIC STATE waits until the port of the NIC's PTP instance is in that
// state.
func waitPTP(ts *testscript.TestScript, _ bool, args []string) {
	for range 3000 {
		if err := ts.Exec("tapir", "ptp", "status", args[0]); err == nil &&
			regexp.MustCompile(`(?m)^port 1 +`+args[1]+`,`).MatchString(ts.ReadFile("stdout")) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("the port of %s does not become %s", args[0], args[1])
}
