package toe

import "testing"

// The FastLinQ driver core states the scale as the whole part of log2 of the
// window, less 15.
func TestWindowScaleFollowsTheWindow(t *testing.T) {
	for wnd, scale := range map[int]uint8{1: 1, 64 << 10: 1, 90_000: 1, 100_000: 1, 150_000: 2, 200_000: 2, 1 << 20: 5, 1 << 30: 14} {
		if got := wndScale(Config{RcvWnd: wnd}.withDefaults().RcvWnd); got != scale {
			t.Errorf("window %d: scale %d, want %d", wnd, got, scale)
		}
	}
	if got := (Config{}).withDefaults().RcvWnd; got != 1<<20 {
		t.Errorf("default window %d", got)
	}
}
