package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tapir/nic"
)

// TestParameters compares parameters.md with the parameters that there are:
// each has a row with its default, whether it may change at run time, its
// effect, and a test that exists.
func TestParameters(t *testing.T) {
	page, err := os.ReadFile("parameters.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	namedTests(t, text)
	runtime := map[bool]string{true: "yes", false: "no"}
	for _, p := range nic.Params() {
		head := fmt.Sprintf("| `%s` | %s | %s | %s | ", p.Name, p.Get(&nic.Config{}), runtime[p.Runtime], p.Help)
		_, row, found := strings.Cut(text, head)
		row, _, _ = strings.Cut(row, "\n")
		if !found || !testName.MatchString(row) {
			t.Errorf("no row %q with a test, but %q", head, row)
		}
	}
	if rows := strings.Count(text, "\n| `"); rows != len(nic.Params()) {
		t.Errorf("%d rows for %d parameters", rows, len(nic.Params()))
	}
}
