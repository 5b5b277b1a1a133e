package phc

import (
	"regexp"
	"testing"
	"time"

	"tapir/nic/uapi/trap"
)

// matches fails unless each pattern is found in out, in this order.
func matches(t *testing.T, out string, patterns ...string) {
	t.Helper()
	rest := out
	for _, p := range patterns {
		at := regexp.MustCompile("(?m)" + p).FindStringIndex(rest)
		if at == nil {
			t.Errorf("%q is missing in\n%s", p, out)
			return
		}
		rest = rest[at[1]:]
	}
}

func TestPHCCtl(t *testing.T) {
	t.Parallel()
	for _, via := range []trap.Via{trap.Seccomp, trap.Preload} {
		w := newWorld(t, 37_000, time.Millisecond)
		w.via = via
		w.phcCtl(t)
	}
}

func (w *world) phcCtl(t *testing.T) {
	t.Helper()
	matches(t, w.output(t, "phc_ctl", dutNetdev, "--", "caps", "freq", "12000.5", "freq", "cmp"),
		"^ +291666666 maximum frequency", "^ +0 programable alarms", "^ +1 external time stamp", "^ +0 programmable periodic",
		"^ +0 configurable", "doesn't have pulse per second", "doesn't have cross timestamping",
		"adjusted clock frequency offset to 12000.500", "clock frequency offset is 12000.", "offset from CLOCK_REALTIME is -[0-9]+ns")
	matches(t, w.output(t, "phc_ctl", "/dev/ptp7", "--", "set", "1000.25", "adj", "3600", "get", "adj", "-60.5", "get"),
		"set clock time to 1000.25", `clock time is 4600\.2`, `clock time is 4539\.[78]`)
	matches(t, w.output(t, "phc_ctl", "/dev/ptp7", "--", "freq", "300000000"), "failed to adjust frequency|Numerical result out of range")
}
