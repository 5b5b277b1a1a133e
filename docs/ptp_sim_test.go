package docs

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
)

var update = flag.Bool("update", false, "write into pages what their commands print now")

// TestPTPSim runs the commands of ptp-sim.md: each prints to the last octet
// what is shown below it, and may go on.
func TestPTPSim(t *testing.T) {
	const page = "howto/ptp-sim.md"
	bin := t.TempDir()
	if _, err := testenv.Build(bin); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	list := samples(t, page)
	if len(list) < 4 {
		t.Fatalf("found %d commands", len(list))
	}
	for _, s := range list {
		cmd := exec.Command("sh", "-c", s.command)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("$ %s\n%v\n%s", s.command, err, out)
		}
		shown := strings.Join(s.lines, "")
		printed := strings.SplitAfter(string(out), "\n")
		now := strings.Join(printed[:min(len(s.lines), len(printed))], "")
		switch {
		case len(s.lines) < 3:
			t.Errorf("$ %s\nshows %d lines", s.command, len(s.lines))
		case *update:
			text = []byte(strings.Replace(string(text), shown, now, 1))
		case shown != now:
			t.Errorf("$ %s\nprints\n%snot\n%sgo test ./docs -run TestPTPSim -update writes it", s.command, now, shown)
		}
	}
	if *update {
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
