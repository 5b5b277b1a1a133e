package fabric

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"tapir/opa"
	"tapir/wire/frame"
)

func lid(i int) opa.LID { return opa.LID(i) }

func TestTwoHFIs(t *testing.T) {
	b := newBed(t)
	a := b.start(number(1, VNIC{VESW: 2, IP: ips("10.0.0.1/24", "fd00::1/64")}))
	c := b.start(number(2, VNIC{VESW: 2, IP: ips("10.0.0.2/24", "fd00::2/64")}))
	a.ping(t, "10.0.0.2")
	c.ping(t, "fd00::1")
	a.ping(t, "10.0.0.2", "-s", "1472", "-M", "do")
	if n := a.counter(t, "opa-vesw2", "tx_unicast"); n < 6 {
		t.Errorf("tx_unicast %d", n)
	}
}

// The bridge that stands for the fabric comes with the first HFI and goes with
// the last; the hosts lie where a path says.
func TestFabricBridgeAndNetns(t *testing.T) {
	b, hosts := newSpace(t), newSpace(t)
	var nodes []*Node
	for i := 1; i <= 2; i++ {
		c := number(i, VNIC{VESW: 2, TAP: fmt.Sprint("host", i)})
		c.TAP, c.Bridge, c.NS = fmt.Sprint("fab", i), "fabric", b.ns
		c.Netns = fmt.Sprintf("/proc/self/fd/%d", hosts.ns.Fd())
		n, err := Start(t.Context(), c)
		must(t, err)
		nodes = append(nodes, n)
	}
	if !b.net.Exists("fabric") || !hosts.net.Exists("host1") || b.net.Exists("host1") {
		t.Error("a link is not where it belongs")
	}
	ports, err := b.net.Ports("fabric")
	if err != nil || len(ports) != 2 {
		t.Errorf("ports %v, %v", ports, err)
	}
	must(t, nodes[0].Close())
	if !b.net.Exists("fabric") {
		t.Error("the bridge went with the first HFI")
	}
	must(t, nodes[1].Close())
	if b.net.Exists("fabric") || hosts.net.Exists("host2") {
		t.Error("something is left")
	}
	c := number(1, VNIC{VESW: 2})
	c.NS, c.Netns = b.ns, "no-such-namespace"
	if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "ip netns add") {
		t.Error(err)
	}
	c.Netns = "/etc/passwd"
	if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no network namespace") {
		t.Error(err)
	}
}

// The bottom half is at work while an HFI ends, and has nothing to complain of.
func TestEndsInSilence(t *testing.T) {
	b := newBed(t)
	for i := range 10 {
		s, c := newSpace(t), number(i+1, VNIC{VESW: 2}, VNIC{VESW: 3}, VNIC{VESW: 4})
		n, err := b.launch(s, c)
		must(t, err)
		var log bytes.Buffer
		n.logMu.Lock()
		n.Log = &log
		n.logMu.Unlock()
		over, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for up := false; ; up = !up {
				select {
				case <-over:
					return
				default:
					n.carrier(up)
					n.poke()
					_ = n.DoWait(func(frame.Time) {}) // one at a time
				}
			}
		}()
		time.Sleep(time.Duration(i) * time.Millisecond)
		must(t, n.Close())
		close(over)
		<-stopped
		if log.Len() > 0 {
			t.Fatalf("it said %q", log.String())
		}
	}
}

// The examples are what they say.
func TestExamples(t *testing.T) {
	for _, file := range []string{"fabric.yaml", "managed.yaml"} {
		if all, err := Load("../../examples/" + file); err != nil || len(all) != 2 {
			t.Errorf("%s: %d HFIs, %v", file, len(all), err)
		}
	}
	if c, err := LoadEM("../../examples/vesw.yaml"); err != nil || len(c.Fabric.VESWs) != 2 || c.Port.Bridge != "fabric" {
		t.Errorf("%+v %v", c, err)
	}
}
