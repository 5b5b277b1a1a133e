package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/param"
	"tapir/nic/settings"
)

// TestParameters compares parameters.md with the parameters that there are:
// each has a row with its default, whether it may change at run time, its
// effect, and tests that exist, one of which drives a NIC.
func TestParameters(t *testing.T) {
	page, err := os.ReadFile("reference/parameters.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	namedTests(t, text)
	devices := &deviceTests{t: t}
	rows := (&nic.Config{Hardware: &fastlinq.Config{}}).Params()
	for _, p := range rows {
		head := parameterRow(p)
		_, row, found := strings.Cut(text, head)
		row, _, _ = strings.Cut(row, "\n")
		switch {
		case !found || !testName.MatchString(row):
			t.Errorf("no row %q with a test, but %q", head, row)
		case !devices.any(row):
			t.Errorf("%s: none of %s drives a NIC (seed_device_test.go)", p.Name, row)
		}
	}
	_, ethtool, _ := strings.Cut(text, "\n## What ethtool changes\n")
	ethtool, _, _ = strings.Cut(ethtool, "\n## ")
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(ethtool, -1) {
		if param.Find(rows, m[1]) == nil {
			t.Errorf("ethtool changes %s, which is no parameter", m[1])
		}
	}
	_, aliases, _ := strings.Cut(text, "\n### Aliases\n")
	aliases, _, _ = strings.Cut(aliases, "\n\nConstants")
	if n := strings.Count(aliases, "\n| `"); n != len(settings.Aliases) {
		t.Errorf("%d rows for %d aliases", n, len(settings.Aliases))
	}
	for _, a := range settings.Aliases {
		if !strings.Contains(aliases, "\n| `"+a.Name+"` | ") {
			t.Errorf("%s is not among the aliases", a.Name)
		}
	}
	if n := strings.Count(text, "\n| `"); n != len(rows) {
		t.Errorf("%d rows for %d parameters", n, len(rows))
	}
}
