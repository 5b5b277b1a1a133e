package figures

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{5, 1, 3}, 3}, {[]float64{4, 1, 2, 9}, 3}, {[]float64{4, 1}, 2.5}} {
		given := slices.Clone(c.v)
		if got := Median(c.v); got != c.want || !slices.Equal(given, c.v) {
			t.Errorf("median of %v: %v, %v afterwards", given, got, c.v)
		}
	}
}

func TestChoose(t *testing.T) {
	all := []string{"a", "b", "c"}
	for list, want := range map[string][]string{"": all, "c,a": {"c", "a"}} {
		if got, err := Choose(list, all); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", list, got, err)
		}
	}
	if _, err := Choose("a,d", all); err == nil {
		t.Error("a name that is none of all")
	}
}
