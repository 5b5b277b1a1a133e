package record

import (
	"os"
	"path/filepath"
	"testing"

	"tapir/lab/tool/capture"
)

// TestLongCapture: of a capture that is longer than is read, the beginning is read; one that is broken off is an error.
func TestLongCapture(t *testing.T) {
	b, err := os.ReadFile("../../inspect/testdata/rxe-ops.pcap")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, c := range []struct {
		have  int
		limit int64
		bad   bool
	}{{len(b), 1 << 20, false}, {len(b), 5000, false}, {5000, 1 << 20, true}} {
		if err := os.WriteFile(filepath.Join(dir, capture.LabFile), b[:c.have], 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Read(dir, []byte(`{"lab": "x", "seconds": 1}`), c.limit)
		if (err != nil) != c.bad {
			t.Errorf("%d octets, %d are read: %+v, %v", c.have, c.limit, r, err)
		}
	}
}
