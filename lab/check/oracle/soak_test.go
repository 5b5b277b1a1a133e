//go:build soak

package oracle

import (
	"os"
	"testing"

	"tapir/lab/check/interop"
)

// TestSoak runs the full product up to 1 % loss; see interop.SoakFromEnv.
func TestSoak(t *testing.T) {
	s, out, err := interop.SoakFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if n := s.Run(t.Context(), out, os.Stderr, "gvisor", interop.Product(), attach); n > 0 {
		t.Errorf("%d cells failed", n)
	}
}
