package swnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/swconf"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/lab/tool/ctl"
	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/wire/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// space is a namespace with its links.
func space(t *testing.T) (*netns.NS, *link.Net) {
	t.Helper()
	s := testenv.Space(t, link.Quiet)
	return s.NS, s.Net
}

// A switch makes its TAPs, brings found ones up, shows all its tables in every
// mode, and leaves nothing behind but what it found.
func TestNode(t *testing.T) {
	t.Parallel()
	for _, mode := range []swconf.Mode{swconf.Plain, swconf.E2ETransparent, swconf.P2PTransparent, swconf.Boundary} {
		ns, links := space(t)
		if err := links.AddTAP("found", false); err != nil {
			t.Fatal(err)
		}
		n, err := Start(swconf.Config{Name: "s", Mode: mode, Ports: []swconf.PortConfig{{TAP: "made"}, {TAP: "found"}}}, node.Env{NS: ns})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"made", "found"} {
			if up, err := links.IsUp(name); err != nil || !up {
				t.Errorf("%v: %s is up: %v, %v", mode, name, up, err)
			}
		}
		served := n.Served(func() {})
		for _, kind := range []string{"nic", "port", "queue", "fcf", "mac", "counters"} {
			v, err := served.Show(kind)
			text, _ := json.Marshal(v)
			if err != nil || len(text) < 2 {
				t.Errorf("%v: %s: %s, %v", mode, kind, text, err)
			}
			if kind == "port" && !bytes.Contains(text, []byte(`"tap":"found"`)) {
				t.Errorf("%v: %s", mode, text)
			}
		}
		if _, err := served.Show("qp"); err == nil {
			t.Error("a switch has queue pairs")
		}
		metrics, err := served.(ctl.Metered).Metrics()
		if err != nil || !slices.ContainsFunc(metrics, func(m ctl.Metric) bool {
			return m.Name == "tapir_switch_rx_frames_total" && m.Labels[1].Value == "found"
		}) {
			t.Errorf("%v: %+v, %v", mode, metrics, err)
		}
		if want := "ready s mode=" + mode.String() + " ports=made,found delay=0s"; n.Ready() != want {
			t.Errorf("%q", n.Ready())
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if links.Exists("made") || !links.Exists("found") {
			t.Errorf("%v: left behind: made %v, found %v", mode, links.Exists("made"), links.Exists("found"))
		}
		if up, _ := links.IsUp("found"); up {
			t.Errorf("%v: found stays up", mode)
		}
		if err := n.DoWait(func(frame.Time) {}); err == nil {
			t.Error("a closed switch runs functions")
		}
	}
}

// A switch ends with the TAP that goes away, and says so.
func TestLostTAP(t *testing.T) {
	t.Parallel()
	ns, links := space(t)
	n, err := Start(swconf.Config{Mode: swconf.E2ETransparent, Ports: []swconf.PortConfig{{TAP: "one"}, {TAP: "two"}}}, node.Env{NS: ns})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := links.Delete("two"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.Done():
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	if n.Err() == nil || !strings.Contains(n.Err().Error(), "two") {
		t.Errorf("error %v", n.Err())
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	ns, links := space(t)
	for want, ports := range map[string][]swconf.PortConfig{
		"ip netns add nowhere": {{TAP: "one"}, {TAP: "two", Netns: "nowhere"}},
		"descriptor":           {{TAP: "one"}, {TAPFD: 99999}},
	} {
		if _, err := Start(swconf.Config{Ports: ports}, node.Env{NS: ns}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %s", err, want)
		}
		if links.Exists("one") {
			t.Error("a TAP is left behind")
		}
	}
}

// The histogram of a queue is in the table of queues and in the metrics, whose buckets add up
// the smaller ones; so is what waits in a shared buffer.
func TestQueueDepths(t *testing.T) {
	t.Parallel()
	ns, _ := space(t)
	n, err := Start(swconf.Config{Ports: []swconf.PortConfig{{TAP: "one"}, {TAP: "two"}}, Delay: swconf.Delay{Dist: swconf.Fixed, Max: time.Hour},
		Queues: swconf.Queues{Buffer: 1_000_000}}, node.Env{NS: ns})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := n.DoWait(func(now frame.Time) {
		for range 3 {
			f := n.Loop.Pool().Get(200)
			f.Append(append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1}, make([]byte, 188)...))
			n.sw.Receive(0, []*frame.Frame{f}, now)
		}
	}); err != nil {
		t.Fatal(err)
	}
	served := n.Served(func() {})
	v, err := served.Show("queue")
	if text, _ := json.Marshal(v); err != nil || !bytes.Contains(text, []byte(`"depths":["0:1","256:1","512:1"]`)) {
		t.Errorf("%s, %v", text, err)
	}
	metrics, err := served.(ctl.Metered).Metrics()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range metrics {
		switch h := m.Histogram; {
		case m.Name == "tapir_switch_queue_depth_octets" && m.Labels[1].Value == "two":
			found++
			if h.Count != 3 || h.Sum != 600 || h.Buckets[0] != 1 || h.Buckets[128] != 1 || h.Buckets[256] != 2 || h.Buckets[16<<20] != 3 {
				t.Errorf("%+v", h)
			}
		case m.Name == "tapir_switch_shared_buffer_octets":
			found++
			if m.Value != 600 {
				t.Errorf("%v octets in the shared buffer", m.Value)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d metrics of 2", found)
	}
}

// Two switches learn of each other in real time, one follows the other's classes within two
// seconds, and forgets it as it ends.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	ns, _ := space(t)
	wire := filepath.Join(t.TempDir(), "wire")
	start := func(name string, l swconf.LLDP, pfc uint8) *Node {
		l.DCBX = dcbx.IEEE
		n, err := Start(swconf.Config{Name: name, LLDP: l, Queues: swconf.Queues{DCB: dcb.Config{PrioTC: [8]uint8{3: 1}, PFC: pfc}, Mapped: true},
			Ports: []swconf.PortConfig{{TAP: name}, {Wire: "shm:" + wire}}}, node.Env{NS: ns})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n
	}
	a := start("swa", swconf.LLDP{}, 1<<3)
	b := start("swb", swconf.LLDP{WillingPFC: true}, 0)
	until := func(what string, found bool) time.Duration {
		t.Helper()
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			rows, err := b.Served(func() {}).Show("dcb")
			if err != nil {
				t.Fatal(err)
			}
			if text, _ := json.Marshal(rows); bytes.Contains(text, []byte(what)) == found {
				return time.Since(began)
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%s is shown: %v", what, !found)
			}
		}
	}
	const follows = `"attribute":"oper_prio_pfc","value":"3:on (willing)"`
	t.Logf("in use after %v", until(follows, true))
	if rows, err := a.Served(func() {}).Show("lldp"); err != nil || !strings.Contains(fmt.Sprint(rows), "swb") {
		t.Errorf("%+v, %v", rows, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("forgotten after %v", until(follows, false))
}
