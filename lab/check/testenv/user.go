// Package testenv helps the tests of this project: the program built, waits that
// end, ordinary users.
package testenv

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nobody is the user that Unprivileged runs commands as.
const nobody = "65534"

// Unprivileged returns a command that runs as the user nobody in dir, a new
// directory of that user's. The machine's TUN device is made accessible to
// the command alone, as distributions ship it: in a mount namespace of its
// own. It needs root. Other files that the command names must be readable by
// everybody; Copy helps.
func Unprivileged(t testing.TB, ctx context.Context, dir string, argv ...string) *exec.Cmd {
	t.Helper()
	return asNobody(t, ctx, "666", dir, argv)
}

// UnprivilegedNoTUN is Unprivileged on a machine that keeps its TUN device to
// root.
func UnprivilegedNoTUN(t testing.TB, ctx context.Context, dir string, argv ...string) *exec.Cmd {
	t.Helper()
	return asNobody(t, ctx, "600", dir, argv)
}

func asNobody(t testing.TB, ctx context.Context, mode, dir string, argv []string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("testenv: only root can become nobody")
	}
	node := filepath.Join(dir, "tun")
	script := strings.Join([]string{
		"set -e",
		"mknod -m " + mode + " " + node + " c 10 200",
		"mount --bind " + node + " /dev/net/tun",
		"exec setpriv --reuid " + nobody + " --regid " + nobody + " --clear-groups --no-new-privs -- \"$@\"",
	}, "\n")
	args := append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh"}, argv...)
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LANG=C"}
	return cmd
}

// PublicDir returns a new directory that belongs to the user nobody and is
// removed when the test ends.
func PublicDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tapir-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chown(dir, 65534, 65534)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Copy copies an executable into dir, readable by everybody, and returns its
// new name.
func Copy(t testing.TB, dir, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, filepath.Base(file))
	if err := WriteProgram(name, data); err != nil {
		t.Fatal(err)
	}
	return name
}
