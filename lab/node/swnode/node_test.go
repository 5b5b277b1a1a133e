package swnode

import (
	"bytes"
	"encoding/json"
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
		for _, kind := range []string{"nic", "port", "queue", "mac", "counters"} {
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
