package trap

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
)

// Programs whose system calls are libc's, as no Go program's are.
var (
	libcProgram    = sync.OnceValues(func() (string, error) { return build("cc", "program") })
	muslProgram    = sync.OnceValues(func() (string, error) { return build("musl-gcc", "program") })
	commandProgram = sync.OnceValues(func() (string, error) { return build("cc", "commands") })
)

func build(cc, name string) (string, error) {
	file := filepath.Join(testDir, cc+"-"+name)
	if out, err := exec.Command(cc, "-pthread", "-o", file, "testdata/"+name+".c").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return file, nil
}

// preloaded makes argv one of the C program's parts, served by the library.
func (w *world) preloaded(t testing.TB, part string, args ...string) *world {
	t.Helper()
	file, err := libcProgram()
	if err != nil {
		t.Fatal(err)
	}
	w.opt.Argv, w.opt.Via = append([]string{file, part}, args...), Preload
	return w
}

// usedByC is what the part "use" prints; %s is libc's text of ENOTTY.
const usedByC = "store 0 42 77\nstore nowhere -1 Bad address\nnot the device -1 %s\nread 4 ping\n" +
	"fstat 0 20600\nsyscall 1 1\nopen 0 1\n"

func TestPreload(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{
		"use":     fmt.Sprintf(usedByC, "Inappropriate ioctl for device"),
		"threads": "count 4001\n",
		"forks":   "count 302\ncount 303\nothers 200\n", // executes "closed"
		"timer":   "each once\n",
		"waits":   "wait -1 Interrupted system call 1\n",
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			w := newWorld().preloaded(t, part)
			w.want(t, want)
			opened := 1
			if part == "use" || part == "forks" {
				opened = 2
			}
			w.allReleased(t, opened)
			if n := w.dev.interruptions.Load(); part == "waits" && n < 1 {
				t.Errorf("%d interruptions", n)
			}
		})
	}
}

func TestPreloadEnd(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"exit 7":                            "7 ",
		"kill -9 $$":                        "137 ",
		"sleep 0; kill -TERM $$; sleep 100": "143 ",
		"(while kill -0 $$; do sleep 0.01; done 2>/dev/null; test -c " + nodePath + " && echo late) & exit 3": "3 late\n",
	} {
		w := newWorld()
		w.opt.Argv, w.opt.Via = []string{"sh", "-c", script}, Preload
		if out, code := w.run(t); strconv.Itoa(code)+" "+out != want {
			t.Errorf("%s: %d %q, want %q", script, code, out, want)
		}
	}
}

func TestPreloadSignal(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.opt.Argv, w.opt.Via, w.opt.Stdout = []string{"sh", "-c", "trap 'exit 5' TERM; echo $$; while :; do sleep 0.01; done"}, Preload, pw
	p, err := Start(w.opt)
	pw.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer testenv.Guard(t, p.PID(), r)()
	var pid int
	if _, err := fmt.Fscan(r, &pid); err != nil || pid != p.PID() {
		t.Errorf("process %d, not %d: %v", p.PID(), pid, err)
	}
	if err := p.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if code, err := p.Wait(); code != 5 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
}

// TestPreloadSystemClock: the right to set the machine's clock is gone here too.
func TestPreloadSystemClock(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		w := newWorld()
		w.opt.Argv, w.opt.Via, w.opt.KeepSystemClock = []string{"sh", "-c", "sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status"}, Preload, keep
		out, _ := w.run(t)
		set, err := strconv.ParseUint(strings.TrimSpace(out), 16, 64)
		if has := set>>unix.CAP_SYS_TIME&1 == 1; err != nil || has != (keep && capEff()>>unix.CAP_SYS_TIME&1 == 1) {
			t.Errorf("keep %v: %q, %v", keep, out, err)
		}
	}
}

func TestPreloadRefusals(t *testing.T) {
	t.Parallel()
	static := staticELF(t, 0xf4)
	script := filepath.Join(t.TempDir(), "script")
	if err := testenv.WriteProgram(script, []byte("#! "+static+" -x\n")); err != nil {
		t.Fatal(err)
	}
	for argv0, want := range map[string]string{static: "static program", script: "static program"} {
		_, err := Start(Options{Argv: []string{argv0}, Via: Preload})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--via trap") {
			t.Errorf("%s: %v", argv0, err)
		}
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := testenv.WriteProgram(plain, []byte("\x7fELF no program")); err != nil {
		t.Fatal(err)
	}
	_, err := Start(Options{Argv: []string{plain}, Via: Preload})
	var e *NotFoundError
	if !errors.As(err, &e) || !errors.Is(err, unix.ENOEXEC) {
		t.Error(err)
	}
	w := newWorld()
	w.opt.Argv, w.opt.Via = []string{"true"}, Preload
	for range maxRuleWords / 2 {
		w.opt.Handlers = append(w.opt.Handlers, NewFiles())
	}
	if _, err := Start(w.opt); err == nil || !strings.Contains(err.Error(), "room for") {
		t.Error(err)
	}
}

// TestPreloadCompiler: without a compiler the error has the remedy; with one
// the library is made once, and one that others can write is not loaded.
func TestPreloadCompiler(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	run := func(path string) string {
		cmd := exec.Command(self(), "test -c "+nodePath+" && echo served")
		cmd.Env = []string{programEnv + "=preload", "PATH=" + path, "XDG_CACHE_HOME=" + cache, "TMPDIR=" + testDir}
		out, _ := output(t, cmd)
		return out
	}
	if out := run("/nonexistent"); !strings.Contains(out, "no C compiler") || !strings.Contains(out, "apt install") {
		t.Error(out)
	}
	if out := run(os.Getenv("PATH")); out != "served\n" {
		t.Error(out)
	}
	if out := run("/nonexistent"); out != "served\n" {
		t.Error(out)
	}
	made, err := filepath.Glob(cache + "/tapir/*")
	if err != nil || len(made) != 1 || !strings.HasSuffix(made[0], ".so") || !strings.Contains(made[0], runtime.GOARCH) {
		t.Errorf("%v, %v", made, err)
	}
	if err := os.Chmod(made[0], 0o777); err != nil {
		t.Fatal(err)
	}
	if out := run("/nonexistent"); !strings.Contains(out, "no C compiler") {
		t.Error("a library that anybody can write was loaded:", out)
	}
}

// BenchmarkPreloadedCall measures calls of libc with the library before them:
// clock and ioctl are decided in it, open is asked about and then done by the
// kernel, served is answered here.
func BenchmarkPreloadedCall(b *testing.B) {
	for _, kind := range []string{"clock", "ioctl", "open", "served"} {
		b.Run(kind, func(b *testing.B) {
			out, code := newWorld().preloaded(b, "loop", kind, strconv.Itoa(b.N)).run(b)
			if code != 0 {
				b.Fatal(out)
			}
			report(b, out)
		})
	}
}
