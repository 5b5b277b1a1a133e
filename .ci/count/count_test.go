package main

import (
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	sums := map[string]sum{}
	text := "package x\n\nfunc f(a int) int {\n\tif a > 0 {\n\t\ta++\n\t}\n\treturn a\n}\n"
	for _, name := range []string{"nic/toe/ecn/x.go", "nic/toe/y.go", "wire/ip/z.go", "nic/n.go"} {
		if err := file(name, []byte(text), sums); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	table(&b, map[string]sum{"wire": {1, 2}}, sums)
	want := "| `nic` | 0 | 3 | 0 | 8 |\n| `nic/toe` | 0 | 6 | 0 | 16 |\n| `wire` | 1 | 3 | 2 | 8 |\n| all | 1 | 12 | 2 | 32 |\n"
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("table\n%s", b.String())
	}
	for name, want := range map[string]bool{"nic/a.go": true, "nic/a_test.go": false, ".ci/a.go": false, "x/testdata/a.go": false, "a.md": false} {
		if counts(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
