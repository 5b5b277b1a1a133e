package interop

import (
	"context"
	"testing"
	"time"
)

// patience bounds a cell; it only ends one that is stuck.
const patience = time.Minute

// TestPairwise runs some cells. How good the stamps are is measured by make
// bench-ptp: here a machine may be busy, so that only half of the measurements
// have to be within 200 us, where a wrong sign, unit or correction would show.
func TestPairwise(t *testing.T) {
	for _, c := range Pairwise() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r, err := Run(ctx, c, 24)
			if err != nil {
				t.Fatal(err)
			}
			if s := r.Summary(); s.P50 > 200e3 {
				t.Errorf("half of the offsets are beyond %.0f ns: %.0f", s.P50, r.Offsets)
			} else {
				t.Logf("p50 %.0f ns, p99 %.0f ns", s.P50, s.P99)
			}
		})
	}
}
