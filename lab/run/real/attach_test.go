package real

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/host/netns"
	"tapir/lab/host/process"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/lab/topo"
)

// attachLab has nodes that the test starts, and steps for them.
const attachLab = `
nodes:
  a: {kind: nic, ip: 10.0.0.1/24}
  b: {kind: nic, ip: 10.0.0.2/24}
  s: {kind: switch}
links: [[a, s], [b, s]]
steps:
  - {run: ping -c 1 -w 10 10.0.0.2, on: a}
  - {run: rping -s -C 1, on: a, rdma: true, name: server, background: true}
  - wait: {node: a, listening: 7174}
  - {run: rping -c -v -a 10.0.0.1 -C 1, on: b, rdma: true, output: rdma-ping-0}
  - wait: server
  - {run: tapir show a nic, on: a, output: a}
  - {perf: verify, server: a, client: b, size: 4096}
  - expect: {node: b, counter: tcp_retransmits, max: 1000}
`

func parsed(t *testing.T, text string) *topo.Lab {
	t.Helper()
	lab, err := topo.Parse("lab.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// Steps of a lab run against nodes that are up, and leave them up.
func TestAttach(t *testing.T) {
	lab := parsed(t, attachLab)
	up, err := Up(t.Context(), parsed(t, attachLab), Options{Tapir: tapir})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", filepath.Dir(up.Sockets()))
	var said bytes.Buffer
	out := t.TempDir()
	o := Options{Options: steps.Options{Out: out, Print: &said}, Tapir: tapir, Echo: true}
	for range 2 {
		if err := Attachable(lab); err != nil {
			t.Fatal(err)
		}
		r, err := Attach(t.Context(), lab, o)
		if err != nil || r.Verdict != result.Passed || r.Done() != len(lab.Steps) {
			t.Errorf("%v\n%s", err, &said)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "result.json")); err != nil {
		t.Error(err)
	}
	if up := ctl.List(); len(up) != 3 {
		t.Errorf("up: %q", up)
	}
	if err := up.Down(); err != nil {
		t.Error(err)
	}
	nothingLeft(t)
	r, err := Attach(t.Context(), lab, o)
	if err != nil || r.Verdict != result.Failed || !strings.Contains(r.Error, "a: NIC a is not running") {
		t.Errorf("%v %q", err, r.Error)
	}
}

// The command that enters the namespaces of a process names those that differ.
func TestEntering(t *testing.T) {
	if command, away := entering(os.Getpid()); command != nil || away {
		t.Errorf("of this process: %q %v", command, away)
	}
	here, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	p, err := process.Start(t.Context(), here, process.Options{Argv: []string{"unshare", "-rmn", "sh", "-c",
		"echo up; exec sleep 60"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if err := p.Await(t.Context(), "up"); err != nil {
		t.Skip("no user namespaces: ", err)
	}
	command, away := entering(p.PID())
	if got := strings.Join(command, " "); !away || !strings.HasPrefix(got, "nsenter --target ") ||
		!strings.HasSuffix(got, " --user --preserve-credentials --mount --root --wd --net --") {
		t.Errorf("%q %v", got, away)
	}
}

// Steps that need more than control sockets are refused with their line.
func TestAttachable(t *testing.T) {
	const links = "links that are not the lab's have no faults, counters or captures here"
	for step, want := range map[string]string{
		"{fault: a-s, loss: 1%}":                         links,
		"{link: a-s, state: down}":                       links,
		"{expect: {link: a-s, counter: lost}}":           links,
		"{kill: a}":                                      "a node that somebody else has started is not killed or started",
		"{run: ping -c 1 10.0.0.1, on: h}":               "h: a host has no control socket to find it by",
		"{expect: {node: a, counter: tcp_segs_tx}}":      "",
		"{run: sleep 1, on: a, name: x, background: on}": "",
	} {
		text, _, _ := strings.Cut(attachLab, "links:")
		err := Attachable(parsed(t, text+"  h: {kind: host, ip: 10.0.0.9/24}\nlinks: [[a, s], [b, s], [h, s]]\nsteps:\n  - "+
			strings.Replace(step, ": on}", ": true}", 1)))
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.HasPrefix(got, "lab.yaml:9: ") || !strings.HasSuffix(got, want) {
				t.Errorf("%s: %s", step, got)
			}
		} else if want != "" {
			t.Errorf("%s: not refused", step)
		}
	}
	lab := parsed(t, attachLab)
	lab.Clock = topo.Virtual
	if err := Attachable(lab); err == nil {
		t.Error("the virtual clock is not refused")
	}
}
