package docs

import (
	"os"
	"testing"

	"tapir/lab/check/siw"
)

// TestInterop checks that interop.md and interop-roce.md have a row for each cell of
// the matrix, and that each passed.
func TestInterop(t *testing.T) {
	for name, cells := range map[string][]siw.Cell{
		"evidence/interop.md": append(siw.Smoke(), siw.All()...), "evidence/interop-roce.md": append(siw.SmokeRoCE(), siw.RoCE()...),
	} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := siw.CheckPage(string(page), cells); err != nil {
			t.Errorf("%s: %v\nrun: make interop", name, err)
		}
	}
}
