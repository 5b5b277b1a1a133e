package port_test

import (
	"testing"

	"tapir/nic/port"
	"tapir/wire/frame"
)

// A stamp that the observer missed is that of the moment, never one of the end of time.
func TestStampedAt(t *testing.T) {
	for seen, want := range map[frame.Time]frame.Time{0: 7, 5: 5, frame.Never: 7} {
		if at := port.StampedAt(&frame.Frame{Seen: seen}, 7); at != want {
			t.Errorf("seen %v: %v", seen, at)
		}
	}
}
