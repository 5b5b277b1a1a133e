package docs

import (
	"os"
	"testing"
)

// TestDevice looks for the tests that device.md names.
func TestDevice(t *testing.T) {
	page, err := os.ReadFile("reference/device.md")
	if err != nil {
		t.Fatal(err)
	}
	namedTests(t, string(page))
}
