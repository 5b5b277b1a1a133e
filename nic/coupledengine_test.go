package nic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/selftest"
	"tapir/nic/nicdrop"
)

// Rules steer and drop on the engine that a flow comes to, whichever that is.
func TestRulesOfTwoEngines(t *testing.T) {
	e := newTwoEngines(t, 3, Config{})
	e.set("rss_table", "0")
	e.set("ntuple", "0 tcp4 dst-port 1000 action 2, 1 tcp4 dst-port 1001 action -1, 2 tcp4 dst-port 1002 action 1")
	seen, dropped := [cmt.Engines]int{}, "rx_drop_"+nicdrop.Rule.Counter()
	for i := range 40 { // each key sends the flows elsewhere
		e.set("rss_key", strings.Repeat(fmt.Sprintf("%02x%02x", i+1, 91*i&0xff), 20))
		q := e.flows(4)
		if q[1] != -1 || cmt.Local(q[0]) != 2 || cmt.Local(q[2]) != 1 || cmt.Local(q[3]) != 0 {
			t.Fatalf("queues %v", q)
		}
		seen[cmt.Hwfn(q[0])]++
	}
	if seen[0] == 0 || seen[1] == 0 || e.n.counter(dropped) != 40 {
		t.Errorf("engines %v, %d dropped", seen, e.n.counter(dropped))
	}
}

// What the queues of both engines send together is shaped: to the rate of the host
// TAP, and to the function's share of the port.
func TestRatesOfTwoEngines(t *testing.T) {
	e := newTwoEngines(t, 2, Config{})
	for _, c := range []struct {
		set  [2]string
		want [2]int // frames of 1000 octets in 20 ms
	}{
		{[2]string{"tx_maxrate", "80"}, [2]int{195, 225}},
		{[2]string{"bw_max", "10"}, [2]int{195, 225}}, // of 1000 Mb/s; the lower counts
		{[2]string{"tx_maxrate", "0"}, [2]int{245, 280}},
	} {
		e.set("link_speed", "1G")
		e.set(c.set[0], c.set[1])
		e.w.run(10 * time.Millisecond)
		before := [2]uint64{e.n.counter("engine0_tx_packets"), e.n.counter("engine1_tx_packets")}
		n := e.sent(20 * time.Millisecond)
		first, second := e.n.counter("engine0_tx_packets")-before[0], e.n.counter("engine1_tx_packets")-before[1]
		if n < c.want[0] || n > c.want[1] || first < uint64(n)*4/10 || second < uint64(n)*4/10 {
			t.Errorf("%v: %d frames, want %v; engines %d and %d", c.set, n, c.want, first, second)
		}
	}
}

// The log has what the second engine drops.
func TestDropsOfTwoEnginesAreLogged(t *testing.T) {
	e := newTwoEngines(t, 2, Config{})
	lines := func() (n int) {
		from := e.n.dev.Log().Next()
		e.set("ntuple", "0 tcp4 dst-port 1000 action -1,1 tcp4 dst-port 1001 action -1,2 tcp4 dst-port 1002 action -1,"+
			"3 tcp4 dst-port 1003 action -1")
		if missed(e.flows(4)) != 4 {
			t.Fatal("the rules drop nothing")
		}
		for _, l := range e.n.dev.Log().Since(from) {
			if strings.Contains(l.Text, "10.0.0.2 > 10.0.0.1 protocol 6") {
				n++
			}
		}
		e.set("ntuple", "none")
		return n
	}
	if n := lines(); n != 0 {
		t.Errorf("%d lines without the topic", n)
	}
	e.set("dprint", "drop")
	if n := lines(); n != 4 || e.w.pool.Lent() != 0 {
		t.Errorf("%d lines of 4 drops, %d frames lent", n, e.w.pool.Lent())
	}
}

// The management firmware tests the registers of the second engine itself.
func TestRegistersOfTwoEngines(t *testing.T) {
	e := newTwoEngines(t, 2, Config{})
	for engine := range cmt.Engines {
		for _, stuck := range []bool{true, false} {
			e.n.dev.StickRegister(engine, stuck)
			for _, r := range selftests(t, e.w, e.n, false) {
				if r.Test == selftest.Registers && (r.Err != nil) != stuck {
					t.Errorf("engine %d, stuck %v: %v", engine, stuck, r.Err)
				}
			}
		}
	}
}
