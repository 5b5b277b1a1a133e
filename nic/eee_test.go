package nic

import (
	"testing"
	"time"

	"tapir/wire/frame"
)

// With EEE the transmitter sleeps when it had nothing to send for the LPI timer, and
// the first frame after that waits until it has woken up; without the partner's
// consent, the media, or the transmitter's, no frame waits.
//
// MF-15 MF-16 MF-17 MF-18 MF-19
func TestEEEWakesUp(t *testing.T) {
	for _, c := range []struct {
		media string
		set   []string // one after the other
		wait  time.Duration
	}{
		{"base-t", []string{"link_speed=1G", "partner_eee=1G", "link_speed=auto", "link_advertise=1G"}, 16500},
		{"base-t", []string{"partner_eee=all"}, 7360},
		{"base-t", []string{"partner_eee=all", "eee_advertise=1G"}, 0},
		{"base-t", []string{"partner_eee=all", "eee_tx_lpi=0"}, 0},
		{"base-t", []string{"partner_eee=all", "eee=off"}, 0},
		{"base-t", []string{"partner_eee=1G"}, 0},
		{"base-t", []string{"partner_eee=all", "link_advertise=10G"}, 7360},
		{"module", []string{"partner_eee=all", "link_advertise=10G"}, 0},
	} {
		e := newEthernetHost(t, setting(t, "media="+c.media))
		e.set("eee_tx_timer", "100")
		e.n.set(c.set...)
		send := func(after time.Duration) time.Duration {
			e.w.run(after)
			e.n.leaving()
			at := e.w.now
			e.flood(1)
			e.w.run(50 * time.Microsecond)
			return time.Duration(e.n.leaving()[0].System - frame.Stamp(at))
		}
		send(time.Millisecond)
		slept := e.n.counter("tx_lpi_entry_count")
		if got := send(40 * time.Microsecond); got != 0 {
			t.Errorf("%v: a frame within the timer waits for %v", c.set, got)
		}
		if got := send(200 * time.Microsecond); got != c.wait {
			t.Errorf("%v: a frame after the timer waits for %v, want %v", c.set, got, c.wait)
		}
		if n := e.n.counter("tx_lpi_entry_count") - slept; (n == 1) != (c.wait > 0) || n > 1 {
			t.Errorf("%v: asleep %d times", c.set, n)
		}
	}
}
