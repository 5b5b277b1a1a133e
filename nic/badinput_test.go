package nic

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"tapir/nic/ip"
	"tapir/wire/frame"
)

// What a setting cannot be is refused in one line that names it, and nothing
// changes: not the settings, not the function, not the link, not the interrupts.
func TestBadSettingsChangeNothing(t *testing.T) {
	e := newEthernetHost(t, Config{})
	snapshot := func() []any {
		return []any{e.n.dev.ShowParams(), e.n.dev.ShowVport(), e.n.dev.ShowQueues(), e.n.dev.ShowLink(), e.n.dev.Core().Show(), e.n.dev.ShowIRQ()}
	}
	for what, list := range map[string][]Setting{
		"a queue beyond the last":         {{"channels", "5"}},
		"less than no queue":              {{"channels", "-1"}},
		"a rule to a queue beyond":        {{"ntuple", "0 tcp4 dst-port 22 action 4"}},
		"a rule beyond the last":          {{"ntuple", "256 tcp4 dst-port 22 action 1"}},
		"a VLAN beyond the last":          {{"rx_vlans", "4095"}},
		"a filter that is no address":     {{"rx_macs", "02:00:00:00:00"}},
		"a group as unicast filter":       {{"rx_macs", "01:00:5e:00:00:01"}},
		"a speed that there is not":       {{"link_speed", "15G"}},
		"coalescing beyond 511 us":        {{"rx_usecs", "512"}},
		"coalescing below zero":           {{"tx_usecs", "-1"}},
		"two shares the wrong way round":  {{"bw_min", "50"}, {"bw_max", "10"}},
		"good settings beside a bad one":  {{"channels", "2"}, {"rx_usecs", "64"}, {"link_speed", "9"}},
		"a setting that there is not":     {{"vport", "208"}},
		"a timer of EEE beyond its limit": {{"eee_tx_timer", "268435456"}},
	} {
		before := snapshot()
		err := e.n.dev.Set(list...)
		if err == nil || strings.Contains(err.Error(), "\n") || what != "a setting that there is not" && strings.Contains(err.Error(), "unknown setting") {
			t.Errorf("%s: %v", what, err)
		}
		if !reflect.DeepEqual(snapshot(), before) {
			t.Errorf("%s: something has changed", what)
		}
	}
	for _, c := range []Config{{MTU: 575}, {MTU: ip.MaxMTU + 1}, {Queues: MaxQueues + 1}, {VLAN: 4095}} {
		c.Name = "bad"
		if d, err := newNIC(c, Env{Pool: e.w.pool, Wire: e.n}); err == nil || d != nil {
			t.Errorf("%d, %d, %d: a NIC", c.MTU, c.Queues, c.VLAN)
		}
	}
}

// Frames of 0 to 14 octets and those above the MTU with all headers are dropped
// and counted, each once, on either port; none gets through and no connection or
// neighbor comes of it.
func TestBadFramesAreCounted(t *testing.T) {
	e := newEthernetHost(t, Config{})
	good := e.frame(e.n.dev.cfg.MAC, 0, 9)
	var bad [][]byte
	for n := range 15 {
		bad = append(bad, good[:n])
	}
	for _, n := range []int{1500 + 23, 1500 + 100, 9000, 60000} {
		bad = append(bad, append(bytes.Clone(good[:14]), make([]byte, n-14)...))
	}
	for _, port := range []frame.Port{frame.Wire, frame.Host} {
		for _, b := range bad {
			before, vports, neighbors := e.n.dropped(), len(e.n.dev.ShowVport()), e.n.counter("neighbors")
			var heard int
			if port == frame.Wire {
				heard = len(e.in(b))
			} else {
				heard = len(e.out(b))
			}
			if got := e.n.dropped() - before; got != 1 || heard > 0 {
				t.Errorf("%v, %d octets: %d drops, %d heard", port, len(b), got, heard)
			}
			if len(e.n.dev.ShowVport()) != vports || e.n.counter("neighbors") != neighbors {
				t.Errorf("%v, %d octets: something has changed", port, len(b))
			}
		}
	}
	if len(e.in(good)) != 1 {
		t.Error("a good frame afterwards is lost")
	}
}
