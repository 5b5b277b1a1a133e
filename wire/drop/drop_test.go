package drop

import (
	"testing"

	"tapir/wire/frame"
)

// Every reason has a name that no other has. Other packages' reasons may have
// the same name, as two kinds of device can have a port.
func TestEveryReasonHasAName(t *testing.T) {
	seen, want := map[string]bool{}, Truncated
	for r := range frame.DropReasons() {
		if r != want || seen[r.String()] {
			t.Errorf("reason %d, want %d: name %q", r, want, r)
		}
		seen[r.String()] = true
		want++
	}
	if want != FCLogin+1 {
		t.Errorf("names up to reason %d, want %d", want-1, FCLogin)
	}
}
