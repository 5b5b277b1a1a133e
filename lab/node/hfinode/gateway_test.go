package hfinode_test

import (
	"fmt"
	"testing"

	"tapir/lab/check/opabed"
	"tapir/lab/conf/hficonf"
	"tapir/opa"
	"tapir/vnic"
)

// Two gateways join a vESW to one network: every flow works, both have a
// share, nothing comes twice or goes round.
func TestTwoGateways(t *testing.T) {
	b := opabed.New(t)
	policy := vnic.DefaultPolicy()
	policy.Unknown, policy.Suppress = vnic.ToDefaultPort, false
	ports := []opa.LID{2, 3}
	lan := opabed.NewSpace(t) // of both gateways
	must(t, lan.Net.AddBridge("lan"))
	host := opabed.NewSpace(t)
	must(t, lan.Net.AddVeth("eth", host.Net, "eth0"), lan.Net.Join("eth", "lan"), lan.Net.Up("eth"))
	for i := range 8 {
		must(t, host.Net.AddAddr("eth0", prefix(fmt.Sprintf("10.9.0.%d/24", 100+i))))
	}
	must(t, host.Net.Up("eth0"))
	a := b.Start(opabed.Number(1, hficonf.VNIC{VESW: 9, IP: ips("10.9.0.1/24"), Ports: ports, Policy: policy}))
	var g [2]*opabed.Station
	for i := range g {
		g[i] = b.StartIn(lan, opabed.Number(2+i, hficonf.VNIC{VESW: 9, TAP: fmt.Sprint("gw", i), Ports: ports, Policy: policy, Gateway: &hficonf.Gateway{Bridge: "lan"}}))
	}
	for i := range 8 {
		a.Ping(t, fmt.Sprintf("10.9.0.%d", 100+i))
	}
	transfer(t, a.Space, host, "10.9.0.101", 1<<18)
	transfer(t, host, a.Space, "10.9.0.1", 1<<18)
	for i, s := range g {
		tap := fmt.Sprint("gw", i)
		if in, out := s.Counter(t, tap, "host_tx_packets"), s.Counter(t, tap, "tx_unicast"); in == 0 || out == 0 {
			t.Errorf("gateway %d passed %d frames out and %d in", i, in, out)
		}
		if s.Counter(t, tap, "tx_drop_other_gateway") == 0 {
			t.Errorf("gateway %d left nothing to the other one", i)
		}
	}
	if n := a.Counter(t, "opa-vesw9", "rx_mcastbcast"); n > 60 {
		t.Errorf("%d broadcasts: they go round", n)
	}
}
