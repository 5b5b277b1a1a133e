//go:build soak

package interop

import (
	"os"
	"testing"
)

// TestSoak runs the full product up to 1 % loss; see SoakFromEnv.
func TestSoak(t *testing.T) {
	s, out, err := SoakFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if n := s.Run(t.Context(), out, os.Stderr, "linux", Product(10_000), Linux); n > 0 {
		t.Errorf("%d cells failed", n)
	}
}
