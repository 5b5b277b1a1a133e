package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestModules holds device.md's table of modules against the packages: each is
// there, and what is below the driver core is imported by nobody else.
//
// OV-03
func TestModules(t *testing.T) {
	page, err := os.ReadFile("device.md")
	if err != nil {
		t.Fatal(err)
	}
	rooms := map[string]*room{}
	for _, r := range readHouse(t) {
		rooms[r.path] = r
		for imp, at := range r.imports {
			sub, ours := houseImport(imp)
			if ours && under(sub, "nic/fastlinq/ecore/chain", "nic/fastlinq/ecore/cxt", "nic/fastlinq/ecore/hw", "nic/fastlinq/ecore/rt", "nic/fastlinq/ecore/spq") &&
				r.path != "nic" && !under(r.path, "nic/fastlinq/ecore") {
				t.Errorf("%s: %s is the driver core's own", at[0], imp)
			}
		}
	}
	_, table, _ := strings.Cut(string(page), "### Modules")
	table, _, _ = strings.Cut(table, "### ")
	list := regexp.MustCompile("(?m)^\\| `.*`tapir/(.*)` \\|$").FindAllStringSubmatch(table, -1)
	if len(list) < 10 {
		t.Fatalf("%d modules in the table", len(list))
	}
	for _, m := range list {
		if rooms[m[1]] == nil {
			t.Errorf("there is no package tapir/%s", m[1])
		}
	}
}
