package docs

import (
	"os"
	"testing"

	"tapir/lab/check/siw"
)

// TestInterop checks that interop.md has a row for each cell of the matrix, and
// that each passed.
func TestInterop(t *testing.T) {
	page, err := os.ReadFile("interop.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := siw.CheckPage(string(page), append(siw.Smoke(), siw.All()...)); err != nil {
		t.Errorf("%v\nrun: make interop", err)
	}
}
