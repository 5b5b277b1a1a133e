package hfinode_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/opabed"
	"tapir/lab/conf/hficonf"
	"tapir/lab/node"
	"tapir/lab/node/hfinode"
	"tapir/wire/frame"
)

func TestTwoHFIs(t *testing.T) {
	b := opabed.New(t)
	a := b.Start(opabed.Number(1, hficonf.VNIC{VESW: 2, IP: ips("10.0.0.1/24", "fd00::1/64")}))
	c := b.Start(opabed.Number(2, hficonf.VNIC{VESW: 2, IP: ips("10.0.0.2/24", "fd00::2/64")}))
	a.Ping(t, "10.0.0.2")
	c.Ping(t, "fd00::1")
	a.Ping(t, "10.0.0.2", "-s", "1472", "-M", "do")
	if n := a.Counter(t, "opa-vesw2", "tx_unicast"); n < 6 {
		t.Errorf("tx_unicast %d", n)
	}
}

// The bridge that stands for the fabric comes with the first HFI and goes with
// the last; the hosts lie where a path says.
func TestFabricBridgeAndNetns(t *testing.T) {
	b, hosts := opabed.NewSpace(t), opabed.NewSpace(t)
	var nodes []*hfinode.Node
	for i := 1; i <= 2; i++ {
		c := opabed.Number(i, hficonf.VNIC{VESW: 2, TAP: fmt.Sprint("host", i)})
		c.TAP, c.Bridge = fmt.Sprint("fab", i), "fabric"
		c.Netns = fmt.Sprintf("/proc/self/fd/%d", hosts.NS.Fd())
		n, err := hfinode.Start(t.Context(), c, node.Env{NS: b.NS})
		must(t, err)
		nodes = append(nodes, n)
	}
	if !b.Net.Exists("fabric") || !hosts.Net.Exists("host1") || b.Net.Exists("host1") {
		t.Error("a link is not where it belongs")
	}
	ports, err := b.Net.Ports("fabric")
	if err != nil || len(ports) != 2 {
		t.Errorf("ports %v, %v", ports, err)
	}
	must(t, nodes[0].Close())
	if !b.Net.Exists("fabric") {
		t.Error("the bridge went with the first HFI")
	}
	must(t, nodes[1].Close())
	if b.Net.Exists("fabric") || hosts.Net.Exists("host2") {
		t.Error("something is left")
	}
	c := opabed.Number(1, hficonf.VNIC{VESW: 2})
	c.Netns = "no-such-namespace"
	if _, err := hfinode.Start(t.Context(), c, node.Env{NS: b.NS}); err == nil || !strings.Contains(err.Error(), "ip netns add") {
		t.Error(err)
	}
	c.Netns = "/etc/passwd"
	if _, err := hfinode.Start(t.Context(), c, node.Env{NS: b.NS}); err == nil || !strings.Contains(err.Error(), "no network namespace") {
		t.Error(err)
	}
}

// The bottom half is at work while an HFI ends, and has nothing to complain of.
func TestEndsInSilence(t *testing.T) {
	b := opabed.New(t)
	for i := range 10 {
		s, c := opabed.NewSpace(t), opabed.Number(i+1, hficonf.VNIC{VESW: 2}, hficonf.VNIC{VESW: 3}, hficonf.VNIC{VESW: 4})
		var log bytes.Buffer
		b.Log = &log
		n, err := b.Launch(s, c)
		must(t, err)
		over, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for up := false; ; up = !up {
				select {
				case <-over:
					return
				default:
					n.Carrier(up)
					n.Poke()
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
