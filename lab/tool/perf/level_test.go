package perf

import (
	"net/netip"
	"strings"
	"testing"

	"tapir/lab/check/testenv/vpair"
	"tapir/lab/conf/perfconf"
	"tapir/lab/host/link"
	"tapir/nic"
	"tapir/nic/ip"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// levels counts the priorities of IPv4 packets on VLAN 100, both ways.
type levels [2][8]int

// Trace implements frame.Tracer.
func (l *levels) Trace(r *frame.Record) {
	h, _, err := ether.Parse(r.Data)
	if err == nil && h.NTags == 1 && h.Tags[0].VID() == 100 && h.Type == ether.TypeIPv4 {
		l[r.Dir][h.Tags[0].PCP()]++
	}
}

// TestServiceLevel: the client's service level is the priority of the job's frames on a
// VLAN, both ways; a NIC without RoCE has no use for it.
func TestServiceLevel(t *testing.T) {
	var cfg [2]nic.Config
	for i, host := range []string{"1", "2"} {
		cfg[i] = nic.Config{Name: "nic" + host, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0." + host + "/24")},
			Seed: 7, RDMA: nic.RDMA{Personality: verbs.RoCE},
			VLANs: []ip.VLAN{{ID: 100, Addrs: []netip.Prefix{netip.MustParsePrefix("10.1.0." + host + "/24")}}}}
	}
	w := &world{vpair.New(t, cfg, link.Impairment{}), t}
	var seen levels
	w.NICs[0].SetTracer(&seen)
	server := w.start(0, perfconf.Job{Op: perfconf.SendBW})
	client := w.start(1, perfconf.Job{Op: perfconf.SendBW, Iters: 50, SL: 5, Remote: netip.MustParseAddr("10.1.0.1")})
	w.until(func() bool { return server.done && client.done })
	if server.err != nil || client.err != nil {
		t.Fatal(server.err, client.err)
	}
	for dir, n := range seen {
		if n[5] < 50 || n[0] > 0 {
			t.Errorf("direction %d: priorities %v", dir, n)
		}
	}
	iwarp := newWorld(t, nic.Wire, link.Impairment{})
	_, err := Start(iwarp.NICs[1], perfconf.Job{Op: perfconf.SendBW, SL: 5, Remote: serverAddr}, 0, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "not roce") {
		t.Errorf("with iWARP: %v", err)
	}
}
