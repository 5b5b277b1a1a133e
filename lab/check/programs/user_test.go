package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
)

// asUser names, in the environment, an ordinary user's copy of tapir.
const asUser = "TAPIR_TEST_USER"

// user runs NICs and programs as the user who calls and returns the exit code.
func user(tapir string) int {
	dir, err := os.MkdirTemp(filepath.Dir(tapir), "run")
	if err == nil {
		err = errors.Join(os.Setenv("XDG_RUNTIME_DIR", dir), userCells(tapir, dir))
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("all of user", os.Getuid())
	return 0
}

func userCells(tapir, dir string) (err error) {
	ctx := context.Background()
	l, err := New(ctx, tapir, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for _, c := range few() {
		_, failed := l.Run(ctx, c, Auto)
		err = errors.Join(err, failed)
	}
	return err
}

// few are cells that use most of what there is: rping and ib_write_bw.
func few() []Cell {
	return slices.DeleteFunc(Cells(0), func(c Cell) bool { return c.Name != "rping" && c.Name != "write_bw -n 100 -s 2" })
}

// TestOrdinaryUser: NICs, launcher and programs are a user's without rights, in
// a user namespace and a network namespace of his own.
func TestOrdinaryUser(t *testing.T) {
	dir := testenv.PublicDir(t)
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // which is this test's own
		t.Fatal(err)
	}
	his := testenv.Copy(t, dir, tapir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exe = testenv.Copy(t, dir, exe)
	for _, as := range [][]string{{"-Urn"}, {"-cn", "--keep-caps"}} { // as root of the namespace, and under his own number
		cmd := testenv.Unprivileged(t, t.Context(), dir, slices.Concat([]string{"unshare"}, as, []string{exe})...)
		cmd.Env = append(cmd.Env, asUser+"="+his)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "all of user") {
			t.Errorf("%v: %v\n%s", as, err, out)
		}
		if err := os.Remove(filepath.Join(dir, "tun")); err != nil {
			t.Fatal(err)
		}
	}
}
