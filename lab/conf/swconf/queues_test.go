package swconf

import (
	"strings"
	"testing"
	"time"

	"tapir/nic/dcb"
)

// What classes of a file lack is filled in: priority n goes to class n, a DSCP to the
// priority of its upper bits, and buffers and watchdog have their defaults.
func TestQueueDefaults(t *testing.T) {
	if q := (Queues{}).withDefaults(false); q.DCB != (dcb.Config{}) || q.XON != q.XOFF/2 || q.Watchdog != 200*time.Millisecond {
		t.Errorf("%+v", q)
	}
	for _, c := range []struct {
		keys string
		tcs  int
	}{{"prio_pfc: '3:on'", 8}, {"tc_maxrate: '0:1G'", 8}, {"prio_tc: 'all:0'", 1}, {"prio_tc: ['all:0', '3:1'], prio_pfc: '3:on'", 2}} {
		all, err := Parse("f.yaml", []byte("switches: [{ports: [a, b], "+c.keys+"}]"))
		if err != nil {
			t.Fatal(err)
		}
		if got := all[0].WithDefaults(); got.DCB.TCs() != c.tcs {
			t.Errorf("%s: %d classes, want %d", c.keys, got.DCB.TCs(), c.tcs)
		}
	}
	all, err := Parse("f.yaml", []byte("switches: [{ports: [a, b], trust: dscp, dscp_prio: '26:3', pfc_watchdog: off}]"))
	if err != nil {
		t.Fatal(err)
	}
	if q := all[0].WithDefaults().Queues; q.Priority(26) != 3 || q.Priority(27) != 3 || q.Priority(46) != 5 || q.Watchdog >= 0 {
		t.Errorf("%+v", q)
	}
}

// Each mistake in the classes has its place, its key and its reason in one line.
func TestQueueErrors(t *testing.T) {
	for keys, want := range map[string]string{
		"tc_tsa: '0:ets,1:ets', tc_bw: '0:30,1:60'": "tc_bw: the weights of the ETS classes have the sum 90, not 100",
		"tc_bw: '0:30'":                      "tc_bw: class 0 is strict, and has no share: say tc_tsa 0:ets",
		"tc_tsa: '0:ets', tc_bw: '0:101'":    "1:52: tc_bw: expected CLASS:PERCENT",
		"tc_tsa: '8:ets'":                    "1:36: tc_tsa: expected CLASS:strict or CLASS:ets",
		"prio_tc: '3:8'":                     "prio_tc: expected PRIORITY:CLASS, each from 0 to 7",
		"prio_tc: ''":                        "prio_tc: expected PRIORITY:CLASS",
		"prio_tc: 'all:1', prio_pfc: '3:on'": "prio_pfc: priorities 0 and 3 share class 1, and only one of them has PFC",
		"prio_pfc: '8:on'":                   "prio_pfc: expected PRIORITY:on or off",
		"tc_maxrate: '0:5'":                  "tc_maxrate: expected CLASS:RATE",
		"dscp_prio: '64:1'":                  "dscp_prio: expected DSCP:PRIORITY",
		"trust: mac":                         "trust: expected pcp or dscp",
		"pfc_xoff: 10K, pfc_xon: 20K":        "pfc_xon 20000 is beyond pfc_xoff 10000",
		"pfc_watchdog: 0s":                   "pfc_watchdog: expected a time from 1ms such as 200ms, or off",
	} {
		_, err := Parse("f.yaml", []byte("switches: [{ports: [a, b], "+keys+"}]"))
		if err == nil || !strings.HasPrefix(err.Error(), "f.yaml:1:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", keys, err, want)
		}
	}
}
