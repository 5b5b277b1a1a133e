package interop

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds a cell; it only ends one that is stuck.
const patience = 3 * time.Minute

// TestLinux holds the NIC's TCP against the kernel's.
func TestLinux(t *testing.T) {
	for i, c := range Of("linux", Pairwise()) {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r, err := Run(ctx, c, c.Octets(), uint64(i), Linux)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r)
		})
	}
}
