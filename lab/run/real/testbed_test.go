package real

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/tool/capture"
	"tapir/lab/topo"
	"tapir/nic/uapi/rundir"
)

// tapir is the program under test, built once.
var tapir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		panic(err)
	}
	// Of other labs of this machine nothing is found; another user gets in.
	if err := errors.Join(os.Setenv("TMPDIR", dir), os.Chmod(dir, 0o755)); err != nil {
		panic(err)
	}
	if tapir, err = testenv.Build(dir); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// nothingLeft checks that no directory and no process of a lab is there.
func nothingLeft(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if left := marked(nil); len(left) > 0 {
		t.Errorf("processes left: %d", left)
	}
}

func run(t *testing.T, text, out string) (*result.Result, string) {
	t.Helper()
	lab, err := topo.Parse("lab.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	r, err := Run(t.Context(), lab, Options{Options: steps.Options{Out: out, Print: &said}, Tapir: tapir, Echo: true})
	if err != nil {
		t.Fatal(err)
	}
	nothingLeft(t)
	return r, said.String()
}

// TestExamples runs every example as its README says.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/lab.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%q %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			lab, err := topo.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(lab.Nodes, func(n topo.Node) bool { return n.Kind == topo.Peer }) {
				return // a guest takes its time: make interop runs it
			}
			if lab.Clock == topo.Virtual {
				return // lab/run/virtual runs it
			}
			if readme, err := os.ReadFile(filepath.Join(filepath.Dir(file), "README.md")); err != nil || !strings.Contains(string(readme), "tapir lab run") {
				t.Errorf("the README: %v", err)
			}
			out, r, said := again(t, lab)
			if r.Verdict != result.Passed || r.Done() != len(lab.Steps) {
				t.Error(said)
			}
			checkCapture(t, lab, r, filepath.Join(out, capture.LabFile))
			var written result.Result
			data, err := os.ReadFile(filepath.Join(out, "result.json"))
			if err := errors.Join(err, json.Unmarshal(data, &written)); err != nil || written.Verdict != result.Passed || len(written.Links) != len(lab.Links) {
				t.Errorf("%v: %s", err, data)
			}
			nothingLeft(t)
		})
	}
}

// again runs a lab, once more if an error of a program's own has ended it:
// perftest's second connection may come before its server listens anew.
func again(t *testing.T, lab *topo.Lab) (out string, r *result.Result, said string) {
	t.Helper()
	for range 5 {
		out = t.TempDir()
		var b bytes.Buffer
		var err error
		if r, err = Run(t.Context(), lab, Options{Options: steps.Options{Out: out, Print: &b}, Tapir: tapir}); err != nil {
			t.Fatal(err)
		}
		if said = b.String(); !strings.Contains(said, "RDMA_CM_EVENT_REJECTED; error: -111") {
			break
		}
	}
	return out, r, said
}

const pair = `
nodes:
  a: {kind: nic, ip: 10.0.0.1/24}
  h: {kind: host, ip: 10.0.0.2/24, ip6: "fd00::2/64"}
links: [[a, h]]
steps:
`

// A step that fails ends the lab, and says at which line, and why.
func TestFailures(t *testing.T) {
	for _, tt := range []struct{ step, want string }{
		{"- {run: [sh, -c, 'echo so; exit 3'], on: h}", "line 7: h: sh -c echo so; exit 3: h/sh: exit code 3, expected exit code 0: so"},
		{"- {run: echo no, on: h, output: ^yes$}", `h/echo: its output does not match "^yes$": no`},
		{"- {run: no-such-program, on: h}", `exec: "no-such-program": executable file not found in $PATH`},
		{"- {run: sleep 100, on: h, timeout: 200ms}", "not done after 200ms: h/sleep does not end"},
		{"- {run: [sh, -c, 'kill -9 $$'], on: a}", "a/sh: signal: killed, expected exit code 0"},
		{"- {run: 'false', on: h, background: true}\n- wait: {node: a, listening: 99}", "line 8: wait: a listens on port 99: h/false: exit code 1, expected exit code 0"},
		{"- {run: 'false', on: h, background: true}\n- {run: sleep 0.5, on: h}", "line 7: h: false: h/false: exit code 1, expected exit code 0"},
		{"- {run: sleep 100, on: h, background: true, name: s}\n- {wait: {step: s, output: x}, timeout: 200ms}", `not done after 200ms: the output of s does not match "x"`},
		{"- {run: echo y, on: h, background: true, name: s}\n- wait: {step: s, output: x}", `the output of s does not match "x": y`},
		{"- {run: sleep 100, on: h, background: true, name: s}\n- {wait: s, timeout: 200ms}", "not done after 200ms: s does not end"},
		{"- {kill: a, after: 1h}", "line 7: kill a after 1h0m0s: the lab has ended before: it never happened"},
		{"- {kill: a}\n- expect: {node: a, counter: rx_packets}", "rx_packets: 1 or more: a was killed"},
		{"- expect: {node: a, counter: no_such}", "a has no counter no_such"},
		{"- expect: {link: a-h, counter: corrupted}", "line 7: expect: a-h: corrupted: 1 or more: it is 0"},
		{"- {run: ping -c 1 10.0.0.1, on: h}\n- expect: {link: a-h, filter: icmp, max: 0}", `line 8: expect: a-h: frames with "icmp": 0: it is 2`},
		{"- expect: {link: a-h, filter: no.such.field}", "no.such.field"},
	} {
		text := pair + "  " + strings.ReplaceAll(tt.step, "\n", "\n  ") + "\n"
		r, said := run(t, text, "")
		if r.Verdict != result.Failed || !strings.Contains(said, tt.want) {
			t.Errorf("%s\n%s\nwant %q", tt.step, said, tt.want)
		}
	}
}

// A node that dies fails the lab.
func TestNodeDies(t *testing.T) {
	lab, err := topo.Parse("lab.yaml", []byte(pair+"  - wait: 1ms\n"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Up(t.Context(), lab, Options{Tapir: tapir})
	if err != nil {
		t.Fatal(err)
	}
	a := b.bed.nodes["a"].proc
	if err := syscall.Kill(a.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-a.Ended()
	r := b.Steps(t.Context())
	if err := b.Finish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if r.Verdict != result.Failed || !strings.Contains(r.Error, "a has ended: signal: killed") {
		t.Errorf("%+v", r)
	}
	nothingLeft(t)
}

// A machine that cannot run a guest says what is missing.
func TestNoGuest(t *testing.T) {
	lab, err := topo.Parse("lab.yaml", []byte(strings.Replace(strings.TrimSuffix(pair, "steps:\n"), "kind: host", "kind: peer", 1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Up(t.Context(), lab, Options{Tapir: tapir}); err == nil || !strings.Contains(err.Error(), "h: a siw guest ") || !strings.Contains(err.Error(), "apt-get") {
		t.Error(err)
	}
	nothingLeft(t)
}

// A guest is built where the lab was started, before the lab enters a namespace in which
// no mirror is reached: also if an ordinary user starts it, who gets a user namespace.
func TestGuestIsBuiltOutside(t *testing.T) {
	dir := testenv.PublicDir(t)
	program, file, said := testenv.Copy(t, dir, tapir), filepath.Join(dir, "lab.yaml"), filepath.Join(dir, "said")
	text := strings.Replace(strings.TrimSuffix(pair, "steps:\n"), "kind: host", "kind: peer", 1)
	apt := "#!/bin/sh\nreadlink /proc/self/ns/net >>" + said + "\nexit 100\n"
	testenv.Must(t, os.WriteFile(file, []byte(text), 0o644), os.WriteFile(said, nil, 0o666), os.Chmod(said, 0o666),
		testenv.WriteProgram(filepath.Join(dir, "apt-get"), []byte(apt)))
	here, err := os.Readlink("/proc/self/ns/net")
	testenv.Must(t, err)
	env := []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + filepath.Join(dir, "cache")}
	user := testenv.Unprivileged(t, t.Context(), dir, program, "lab", "run", file)
	root := exec.CommandContext(t.Context(), program, "lab", "run", file)
	root.Env = append(os.Environ(), "TMPDIR="+dir)
	for _, cmd := range []*exec.Cmd{user, root} {
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "h: build the siw guest in "+dir) {
			t.Errorf("%v: %s", err, out)
		}
		all, err := os.ReadFile(said)
		testenv.Must(t, err, os.Truncate(said, 0))
		calls := strings.Fields(string(all))
		if len(calls) == 0 || slices.ContainsFunc(calls, func(ns string) bool { return ns != here }) {
			t.Errorf("apt-get was called in the namespaces %q, outside is %s", calls, here)
		}
	}
	nothingLeft(t)
}

// A lab that cannot start says why and leaves nothing.
func TestCannotStart(t *testing.T) {
	lab, err := topo.Parse("lab.yaml", []byte(strings.TrimSuffix(pair, "steps:\n")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), lab, Options{Tapir: "/bin/false"}); err == nil || !strings.Contains(err.Error(), "a: it has ended: exit status 1") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Up(ctx, lab, Options{Tapir: tapir}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	nothingLeft(t)
}

// Frame modes, families and MTUs meet at a switch.
func TestMixture(t *testing.T) {
	r, said := run(t, `
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, ip6: "fd00::1/64", frames: gso}
  b: {kind: nic, ip: 10.0.0.2/24, ip6: "fd00::2/64"}
  h: {kind: host, ip: 10.0.0.3/24, ip6: "fd00::3/64"}
  s: {kind: switch, mode: e2e-tc, queue: 4096}
links:
  - [a, s]
  - [b, s]
  - {between: [s, h], mtu: 1400, rate: 1Gbit}
steps:
  - {perf: verify, server: a, client: b, size: 1000000}
  - {perf: read-bw, server: b, client: a, size: 100000, iters: 10, qps: 2}
  - {perf: send-lat, server: a, client: b, to: "fd00::1", iters: 10}
  - {run: ping -c 1 fd00::1, on: h}
  - {run: ping -M do -c 1 -s 1372 10.0.0.2, on: h}
  - {run: ping -M do -c 1 -W 1 -s 1373 10.0.0.2, on: h, exit: 1}
  - {run: [cat, /sys/class/net/eth0/mtu], on: h, name: mtu}
  - {link: s-h, state: down}
  - {run: [sh, -c, "ip -o link show eth0 | grep NO-CARRIER"], on: h}
  - {link: s-h, state: up}
  - {run: ping -c 1 -W 5 10.0.0.1, on: h, name: again}
  - expect: {link: s-h, counter: refused, max: 9}
  - expect: {node: a, counter: rx_packets, min: 10}
`, "")
	if r.Verdict != result.Passed {
		t.Error(said)
	}
	if strings.Contains(said, "left at the end") {
		t.Error(said)
	}
}

// Many NICs share a machine.
func TestMany(t *testing.T) {
	const nics = 64
	var nodes, links strings.Builder
	for i := range nics {
		fmt.Fprintf(&nodes, "  n%d: {kind: nic, ip: 10.0.0.%d/24}\n", i, i+1)
		fmt.Fprintf(&links, "  - [n%d, s]\n", i)
	}
	r, said := run(t, "nodes:\n  s: {kind: switch}\n"+nodes.String()+"links:\n"+links.String()+
		"steps:\n  - {perf: verify, server: n0, client: n63, size: 4096}\n  - {perf: verify, server: n31, client: n32, size: 4096}\n", "")
	if r.Verdict != result.Passed {
		t.Error(said)
	}
}

// keeper starts tapir lab with args as a process of its own and waits until it
// says what.
func keeper(t *testing.T, what string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(tapir, append([]string{"lab"}, args...)...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { cmd.Process.Kill(); r.Close() })
	var said []byte
	for buf := make([]byte, 4096); !bytes.Contains(said, []byte(what)); {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatalf("%s does not come: %s%s", what, said, complaint.String())
		}
		said = append(said, buf[:n]...)
	}
	return cmd, &complaint
}

// labFile writes a lab with a program that stays.
func labFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kept.yaml")
	text := strings.Replace(pair, "links: [", "  x: {kind: hfi, vnics: [{vesw: 2}]}\n  m: {kind: manager, vesws: [{name: blue, id: 2, members: [x]}]}\nlinks: [[x, m], ", 1) +
		"  - {run: sleep 1000, on: h, background: true}\n  - {run: sleep 1000, on: a}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// However a lab ends, nothing of it stays.
func TestEnds(t *testing.T) {
	file := labFile(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		cmd, _ := keeper(t, "h: sleep 1000 (in the background)", "run", file)
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); s != syscall.SIGKILL && fmt.Sprint(err) != "exit status 1" {
			t.Errorf("%v: %v", s, err)
		}
		if s == syscall.SIGKILL {
			// Others may hold the lab's lock for a moment: a program that it was starting, or whoever looks.
			for got := Collect(); len(got) == 0 || !strings.Contains(got[len(got)-1], "removed "); got = Collect() {
				time.Sleep(time.Millisecond)
			}
			for len(marked(nil)) > 0 { // they have been killed
				time.Sleep(time.Millisecond)
			}
		}
		nothingLeft(t)
	}
}

// A lab that is up is found, entered, spared by Collect, and taken down.
func TestUpExecDown(t *testing.T) {
	file := labFile(t)
	cmd, _ := keeper(t, "ready kept nodes=a,h,x,m\n", "up", file)
	if got := Collect(); len(got) != 0 {
		t.Errorf("collected %q", got)
	}
	for _, tt := range []struct{ args, want string }{
		{"exec kept a -- tapir show a", "10.0.0.1/24"},
		{"exec kept h ping -c 1 10.0.0.1", "1 received"},
		{"exec kept z true", "lab kept has no node z; it has a, h, m, x"},
		{"exec kept h no-such", "no-such"},
		{"exec other h true", "lab other is not up: choose one of kept"},
		{"up " + file, "lab kept is up already"},
		{"down", ""},
	} {
		out, err := exec.Command(tapir, append([]string{"lab"}, strings.Fields(tt.args)...)...).CombinedOutput()
		if !strings.Contains(string(out), tt.want) || strings.Contains(tt.args, "ping") && err != nil {
			t.Errorf("lab %s: %v: %s", tt.args, err, out)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if len(rundir.Held(prefix)) > 0 || len(List()) > 0 {
		t.Error("it is still up")
	}
	nothingLeft(t)
}
