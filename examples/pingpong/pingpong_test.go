package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tapir/lab/check/testenv/nics"
	"tapir/wire/frame"
)

// asProgram makes the test binary the program itself.
const asProgram = "PINGPONG_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// program is the example as a process of its own.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
}

func launch(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	p := &program{t: t, cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr, p.out = w, w, bufio.NewReader(r)
	t.Cleanup(func() { r.Close() })
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return p
}

func (p *program) line() string {
	p.t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("output ended with %q: %v", s, err)
	}
	return s
}

// end returns what is left of the output, and the exit code.
func (p *program) end() (rest string, code int) {
	p.t.Helper()
	b, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait() // the code says it
	return string(b), p.cmd.ProcessState.ExitCode()
}

const (
	serverAt = "10.0.0.2:7471"
	clientIP = "10.0.0.1"
)

// listening starts the program that answers.
func listening(t *testing.T) *program {
	t.Helper()
	s := launch(t, "-nic", "nic1", "-listen", serverAt, "-size", "3000")
	if got := s.line(); got != "listening at "+serverAt+"\n" {
		t.Fatalf("said %q", got)
	}
	return s
}

// Programs in processes of their own, of which one is killed, and whose NIC
// then ends.
func TestPrograms(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	one, two, stop, err := nics.Pair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)

	s := listening(t)
	if out, code := launch(t, "-nic", "nic0", "-connect", serverAt, "-n", "200", "-size", "3000").end(); code != 0 || !strings.Contains(out, "200 messages of 3000 octets came back unchanged") {
		t.Errorf("exit code %d, output %s", code, out)
	}
	if out, code := s.end(); code != 0 || out != clientIP+" sent 200 messages\n" {
		t.Errorf("server: exit code %d, output %s", code, out)
	}
	empty(t, two)

	s = listening(t)
	c := launch(t, "-nic", "nic0", "-connect", serverAt, "-n", "1000000000")
	for ctx := t.Context(); received(t, one) < 100; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.end()
	if out, code := s.end(); code != 0 || !strings.HasPrefix(out, clientIP+" sent ") {
		t.Errorf("server of a client that was killed: exit code %d, output %s", code, out)
	}
	empty(t, one)

	s = listening(t)
	two.Programs.Close()
	if out, code := s.end(); code != 1 || !strings.Contains(out, "device is gone") {
		t.Errorf("without its NIC: exit code %d, output %s", code, out)
	}
	for args, want := range map[string]string{
		"-nic nic1 -listen " + serverAt: "tapir nic --name nic1", "-nic zz -connect " + serverAt: "not running", "-nic nic0": "is needed",
	} {
		if out, code := launch(t, strings.Fields(args)...).end(); code != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, output %s", args, code, out)
		}
	}
}

func do(t *testing.T, n *nics.NIC, fn func()) {
	t.Helper()
	if err := n.DoWait(func(frame.Time) { fn() }); err != nil {
		t.Fatal(err)
	}
}

// received is how many completions the NIC's programs have had.
func received(t *testing.T, n *nics.NIC) (total uint64) {
	t.Helper()
	do(t, n, func() {
		for _, q := range n.Device.Verbs.CQs() {
			total += q.Total()
		}
	})
	return total
}

// empty waits until nothing of any program is left.
func empty(t *testing.T, n *nics.NIC) {
	t.Helper()
	left := -1
	for range 10000 {
		if do(t, n, func() { left = len(n.Device.Verbs.Objects()) }); left == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%s: %d objects left", n.Name(), left)
}
