package programs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tapir/lab/host/process"
	"tapir/lab/tool/ctl"
)

// rdmaCore are the places of rdma-core's tests of pyverbs: Debian's package has
// them among its documents, which some images leave out.
var rdmaCore = []string{"/usr/share/doc/rdma-core/tests", "/usr/local/share/rdma-core/tests"}

// TestPyverbs runs rdma-core's tests of pyverbs against testdata/pyverbs.
func TestPyverbs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir := t.TempDir()
	unpack(t, filepath.Join(dir, "tests"))
	l, err := New(ctx, tapir, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	run, err := filepath.Abs("testdata/run.py")
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(ctx, l.pair.A.NS, process.Options{Dir: dir, Argv: []string{l.tapir, "run", "--nic", server, "--gid", "ip", "--",
		"/usr/bin/python3", run, dir, "rxe0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.Wait(ctx); err != nil {
		t.Fatalf("%v: %s", err, p.Tail())
	}
	compare(t, expected(t), outcomes(p.Said()))
	if err := l.empty(ctx); err != nil {
		t.Error(err)
	}
}

// TestPyverbsDevice runs rdma-core's test_device.py, of whose tests those of device
// memory are skipped: 13 pass, each verb that libibverbs tries by ioctl(2) first is
// served so, by the trap and by the preloaded library.
func TestPyverbsDevice(t *testing.T) {
	dir := t.TempDir()
	unpack(t, filepath.Join(dir, "tests"))
	l := newLab(t)
	if err := l.ctls[0].Set(t.Context(), []ctl.Setting{{Name: "dprint", Value: "cmd"}}, nil); err != nil {
		t.Fatal(err)
	}
	run, err := filepath.Abs("testdata/run.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, via := range []string{"trap", "preload"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p, err := process.Start(ctx, l.pair.A.NS, process.Options{Dir: dir, Argv: []string{l.tapir, "run", "--nic", server, "--gid",
			"ip", "--via", via, "--", "/usr/bin/python3", run, dir, "rxe0", "test_device"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Stop()
		if err := p.Wait(ctx); err != nil {
			t.Fatalf("%v: %s", err, p.Tail())
		}
		passed := 0
		for name, what := range outcomes(p.Said()) {
			switch what {
			case "ok":
				passed++
			case "skipped":
			default:
				t.Errorf("%s: %s %s", via, name, what)
			}
		}
		if passed != 13 {
			t.Errorf("%s: %d tests of devices pass, want 13\n%s", via, passed, p.Said())
		}
	}
	var lines []any
	if err := l.ctls[0].Show(t.Context(), "log", &lines); err != nil {
		t.Fatal(err)
	}
	log := fmt.Sprint(lines)
	for _, method := range []string{"QUERY_GID_TABLE", "QUERY_GID_ENTRY", "ASYNC_EVENT_ALLOC"} {
		if !strings.Contains(log, method) {
			t.Errorf("%s was not asked for by ioctl: %.2000s", method, log)
		}
	}
}

// compare reports what is not as expected. Tests that are skipped need not be
// expected.
func compare(t *testing.T, want map[string]string, got map[string]string) {
	t.Helper()
	for name, w := range want {
		if g := got[name]; g == "" || w != "any" && g != w {
			t.Errorf("%s: %s, expected %s", name, g, w)
		}
	}
	n := 0
	for name, g := range got {
		if g != "skipped" && want[name] == "" {
			t.Errorf("%s: %s, not expected", name, g)
		}
		if g == "ok" {
			n++
		}
	}
	t.Logf("%d tests, %d ok", len(got), n)
}

// outcomes reads what run.py prints.
func outcomes(text string) map[string]string {
	got := map[string]string{}
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		what, name, ok := strings.Cut(line, " ")
		switch {
		case ok && (what == "ok" || what == "skipped" || what == "error"):
			got[name], last = what, name
		case strings.HasPrefix(line, "   ") && strings.Contains(line, "modify QP state to RTR"):
			got[last] = "connect"
		}
	}
	return got
}

// expected reads testdata/pyverbs.
func expected(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/pyverbs")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if what, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && what != "#" {
			want[name] = what
		}
	}
	return want
}

// unpack copies rdma-core's tests, which are partly compressed.
func unpack(t *testing.T, dir string) {
	t.Helper()
	for _, from := range rdmaCore {
		files, _ := filepath.Glob(filepath.Join(from, "*.py*"))
		for _, f := range files {
			if err := copyPlain(f, dir); err != nil {
				t.Fatal(err)
			}
		}
		if len(files) > 0 {
			return
		}
	}
	t.Fatal(fmt.Errorf("rdma-core's tests are in none of %v: they are in the package python3-pyverbs", rdmaCore))
}
