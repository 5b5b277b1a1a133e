package fabric

import (
	"fmt"
	"testing"

	"tapir/opa"
	"tapir/vnic"
)

// Two gateways join a vESW to one network: every flow works, both have a
// share, nothing comes twice or goes round.
func TestTwoGateways(t *testing.T) {
	b := newBed(t)
	policy := vnic.DefaultPolicy()
	policy.Unknown, policy.Suppress = vnic.ToDefaultPort, false
	ports := []opa.LID{2, 3}
	lan := newSpace(t) // of both gateways
	must(t, lan.net.AddBridge("lan"))
	host := newSpace(t)
	must(t, lan.net.AddVeth("eth", host.net, "eth0"), lan.net.Join("eth", "lan"), lan.net.Up("eth"))
	for i := range 8 {
		must(t, host.net.AddAddr("eth0", prefix(fmt.Sprintf("10.9.0.%d/24", 100+i))))
	}
	must(t, host.net.Up("eth0"))
	a := b.start(number(1, VNIC{VESW: 9, IP: ips("10.9.0.1/24"), Ports: ports, Policy: policy}))
	var g [2]*station
	for i := range g {
		g[i] = b.startIn(lan, number(2+i, VNIC{VESW: 9, TAP: fmt.Sprint("gw", i), Ports: ports, Policy: policy, Gateway: &Gateway{Bridge: "lan"}}))
	}
	for i := range 8 {
		a.ping(t, fmt.Sprintf("10.9.0.%d", 100+i))
	}
	transfer(t, a.space, host, "10.9.0.101", 1<<18)
	transfer(t, host, a.space, "10.9.0.1", 1<<18)
	for i, s := range g {
		tap := fmt.Sprint("gw", i)
		if in, out := s.counter(t, tap, "host_tx_packets"), s.counter(t, tap, "tx_unicast"); in == 0 || out == 0 {
			t.Errorf("gateway %d passed %d frames out and %d in", i, in, out)
		}
		if s.counter(t, tap, "tx_drop_other_gateway") == 0 {
			t.Errorf("gateway %d left nothing to the other one", i)
		}
	}
	if n := a.counter(t, "opa-vesw9", "rx_mcastbcast"); n > 60 {
		t.Errorf("%d broadcasts: they go round", n)
	}
}
