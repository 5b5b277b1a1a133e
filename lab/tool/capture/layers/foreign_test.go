package layers_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/check/testenv/nics"
)

// documentedPrograms are the Go programs of docs/howto/go.md.
func documentedPrograms(t *testing.T, root string) (programs []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/howto/go.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "```go\n")[1:] {
		if program, _, _ := strings.Cut(part, "```"); strings.HasPrefix(program, "package main") {
			programs = append(programs, program)
		}
	}
	return programs
}

// writeForeignModule makes a module in dir that imports tapir by replacement,
// with the versions that tapir has, so that nothing new is fetched.
func writeForeignModule(t *testing.T, dir, root, program string) {
	t.Helper()
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	_, requirements, _ := strings.Cut(string(gomod), "\nrequire ")
	for name, content := range map[string]string{
		"go.mod": fmt.Sprintf("module example.com/foreign\n\ngo 1.26.0\n\nrequire tapir v0.0.0\n\nreplace tapir => %s\n\nrequire %s",
			root, requirements),
		"go.sum":  string(sum),
		"main.go": program,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForeignModuleUsesTheLayers(t *testing.T) {
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	programs := documentedPrograms(t, root)
	capture := filepath.Join(root, "lab/tool/capture/layers/testdata/siw-rping.pcap")
	wants := [][]string{
		{"MPA request rev 2", "MPA reply rev 2", "10.78.0.3->10.78.0.2 Send, 16 octets, last true", "RDMA Read Request, 0 octets", "RDMA Read Response", "RDMA Write"},
		{"Send: hello"},
		{"client: WR 2 send: success\nserver: WR 1 recv: success\nhello\n"},
		{"client: WR 2 send: success\nserver: WR 1 recv: success\nhello\n"}, // on NICs that run here
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	_, _, stop, err := nics.Pair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if len(programs) != len(wants) {
		t.Fatalf("docs/howto/go.md has %d programs, this test knows %d", len(programs), len(wants))
	}
	for i, program := range programs {
		dir := t.TempDir()
		writeForeignModule(t, dir, root, program)
		cmd := exec.Command("go", "run", ".", capture)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("program %d: %v\n%s", i+1, err, out)
		}
		for _, want := range wants[i] {
			if !strings.Contains(string(out), want) {
				t.Errorf("program %d prints no %q:\n%s", i+1, want, out)
			}
		}
	}
}
