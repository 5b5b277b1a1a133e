package trap

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
)

// TestPreloadMusl: programs of the other C library have a library of their own,
// and one that has none is told how to get it.
func TestPreloadMusl(t *testing.T) {
	t.Parallel()
	file, err := muslProgram()
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]string{
		"use": fmt.Sprintf(usedByC, "Not a tty"), "threads": "count 4001\n", "forks": "count 302\ncount 303\nothers 200\n",
		"timer": "each once\n", "waits": "wait -1 Interrupted system call 1\n",
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.opt.Argv, w.opt.Via = []string{file, part}, Preload
			w.want(t, want)
		})
	}
	cmd := exec.Command(self(), "exec "+file+" use")
	cmd.Env = []string{programEnv + "=preload", "PATH=" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + t.TempDir(), "TMPDIR=" + testDir}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != fmt.Sprintf(usedByC, "Not a tty") {
		t.Errorf("below a shell of glibc: %v\n%s", err, out)
	}
}

// TestPreloadMuslCompiler: cc of this system makes nothing for musl.
func TestPreloadMuslCompiler(t *testing.T) {
	t.Parallel()
	file, err := muslProgram()
	if err != nil {
		t.Fatal(err)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	if err := os.Symlink(cc, filepath.Join(path, "cc")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self(), file, "use")
	cmd.Env = []string{programEnv + "=preload", "PATH=" + path, "XDG_CACHE_HOME=" + t.TempDir(), "TMPDIR=" + testDir}
	if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), "linked with musl") || !strings.Contains(string(out), "musl-tools") {
		t.Errorf("%s", out)
	}
}

// rootOf makes a root directory that holds a program and its libraries.
func rootOf(t *testing.T, file string) string {
	t.Helper()
	text, err := exec.Command("readelf", "--program-headers", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	loader := regexp.MustCompile(`interpreter: ([^]]+)`).FindStringSubmatch(string(text))[1]
	out, err := exec.Command(loader, "--list", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, f := range append(regexp.MustCompile(`/[^ ]+`).FindAllString(string(out), -1), loader, file) {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(root+filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := testenv.WriteProgram(root+f, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(root+"/proc", 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestRoot: a program in a root directory that has nothing but itself is served
// as outside, by the preloaded library only if it has /proc.
func TestRoot(t *testing.T) {
	t.Parallel()
	glibc, err := libcProgram()
	if err != nil {
		t.Fatal(err)
	}
	musl, err := muslProgram()
	if err != nil {
		t.Fatal(err)
	}
	own := []string{"unshare", "-Ur", "--pid", "--fork", "--kill-child"}
	for file, tty := range map[string]string{glibc: "Inappropriate ioctl for device", musl: "Not a tty"} {
		root := rootOf(t, file)
		for _, c := range []struct {
			via  Via
			proc bool
		}{{Seccomp, false}, {Seccomp, true}, {Preload, true}} {
			w := newWorld()
			w.opt.Via, w.opt.Argv = c.via, append(own, "--root", root, file, "use")
			if c.proc {
				w.opt.Argv = append(own, "--mount", "--root", root, "--mount-proc", file, "use")
			}
			w.want(t, fmt.Sprintf(usedByC, tty))
			w.allReleased(t, 2)
		}
		w := newWorld()
		w.opt.Via, w.opt.Argv = Preload, append(own, "chroot", root, file, "use")
		if out, code := w.run(t); code != 1 || !strings.Contains(out, "open: No such file") {
			t.Errorf("%d: %s", code, out)
		}
	}
}
