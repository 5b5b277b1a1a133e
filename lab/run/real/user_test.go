package real

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
)

// An ordinary user without a TUN device runs a lab whose links lie in shared memory.
func TestLabWithoutTUN(t *testing.T) {
	dir := testenv.PublicDir(t)
	program := testenv.Copy(t, dir, tapir)
	text, err := os.ReadFile("../../examples/shared-memory/lab.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "lab.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := testenv.UnprivilegedNoTUN(t, t.Context(), dir, program, "lab", "run", file).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, want := range []string{"pass after 11 of 11 steps", "a: no /dev/net/tun: without eth0"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q: %s", want, out)
		}
	}
}

// An ordinary user runs a lab with stock RDMA programs.
func TestOrdinaryUser(t *testing.T) {
	dir := testenv.PublicDir(t)
	program := testenv.Copy(t, dir, tapir)
	text, err := os.ReadFile("../../examples/rping/lab.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Without the judgment of the capture: that is not the user's business.
	steps, _, _ := strings.Cut(string(text), "  - expect:")
	file := filepath.Join(dir, "rping.yaml")
	if err := os.WriteFile(file, []byte(steps), 0o644); err != nil {
		t.Fatal(err)
	}
	// The lab's process lies in a user namespace, which exec has to enter.
	const session = `set -e
"$0" lab run "$1"
"$0" lab up "$1" >up &
until grep -q ready up; do sleep .05; done
"$0" lab exec rping b -- ping -c 1 10.0.0.1
"$0" lab exec rping a -- "$0" show
"$0" lab down
wait`
	out, err := testenv.Unprivileged(t, t.Context(), dir, "sh", "-c", session, program, file).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, want := range []string{"lab rping: pass after 8 of 8 steps", "1 received", "10.0.0.1/24"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q: %s", want, out)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, prefix+"*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
