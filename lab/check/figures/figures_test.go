package figures

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestPutKeepsWhatIsWrittenByHand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.md")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n<!-- a -->\nold\n<!-- b -->\nafter\n")
	for range 2 {
		if err := Put(file, "<!-- a -->", "<!-- b -->", []byte("new\n")); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(file); string(got) != "before\n<!-- a -->\nnew\n<!-- b -->\nafter\n" {
		t.Errorf("%s", got)
	}
	for _, s := range []string{"no marks\n", "<!-- b -->\n<!-- a -->\n"} {
		write(s)
		if err := Put(file, "<!-- a -->", "<!-- b -->", nil); err == nil {
			t.Errorf("%q was written to", s)
		}
	}
	if err := Put(file+"x", "<!-- a -->", "<!-- b -->", nil); err == nil {
		t.Error("a document that is not there")
	}
}

func TestMachineAndLoad(t *testing.T) {
	if got := Machine(); !regexp.MustCompile(`^\d+ CPUs \(.+\), Linux \d+\.\d+.*, go\d`).MatchString(got) {
		t.Error(got)
	}
	if got := Load(); !regexp.MustCompile(`^\d+\.\d\d \d+\.\d\d \d+\.\d\d$`).MatchString(got) {
		t.Error(got)
	}
}
