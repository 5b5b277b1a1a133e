//go:build soak

package programs

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// soakRounds is how often TestSoak runs each cell.
const soakRounds = 50

// TestSoak runs every cell 50 times on the same two NICs, and appends what came
// of it to the file that SOAK_OUT names.
func TestSoak(t *testing.T) {
	out, err := os.OpenFile(os.Getenv("SOAK_OUT"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	l, err := New(t.Context(), tapir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	begun, failed := time.Now(), 0
	for range soakRounds {
		for _, c := range Cells() {
			if err := l.Run(t.Context(), c); err != nil {
				failed++
				t.Error(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	verdict := "in the end nothing was left"
	if t.Failed() {
		verdict = fmt.Sprintf("FAILED: %d", failed)
	}
	fmt.Fprintf(out, "%d stock RDMA programs, each %d times, in %v: %s.\n\n",
		len(Cells()), soakRounds, time.Since(begun).Round(time.Second), verdict)
}
