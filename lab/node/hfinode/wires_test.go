package hfinode_test

import (
	"testing"

	"tapir/lab/check/opabed"
	"tapir/lab/conf/hficonf"
	"tapir/lab/conf/swconf"
	"tapir/lab/node"
	"tapir/lab/node/hfinode"
	"tapir/lab/node/swnode"
)

// HFIs on wires need no fabric TAP: side by side, and through a switch with wires as ports.
func TestWires(t *testing.T) {
	dir := t.TempDir()
	for name, wires := range map[string][2]string{
		"shm":    {"shm:" + dir + "/a", "shm:" + dir + "/a"},
		"stream": {"stream:" + dir + "/b", "stream:" + dir + "/b"},
		"udp":    {"udp:127.0.0.1:7000,127.0.0.1:7001", "udp:127.0.0.1:7001,127.0.0.1:7000"},
		"switch": {"shm:" + dir + "/left", "stream:" + dir + "/right"},
	} {
		t.Run(name, func(t *testing.T) {
			b := opabed.NewSpace(t)
			if name == "switch" {
				s, err := swnode.Start(swconf.Config{Mode: swconf.E2ETransparent,
					Ports: []swconf.PortConfig{{Wire: wires[0]}, {Wire: wires[1]}}}, node.Env{NS: b.NS})
				must(t, err)
				t.Cleanup(func() { must(t, s.Close()) })
			}
			var hosts []opabed.Space
			for i, w := range wires {
				host := opabed.NewSpace(t)
				c := opabed.Number(i+1, hficonf.VNIC{VESW: 2, IP: ips([]string{"10.0.0.1/24", "10.0.0.2/24"}[i])})
				c.Wire = w
				n, err := hfinode.Start(t.Context(), c, node.Env{NS: b.NS, HostNS: host.NS})
				must(t, err)
				t.Cleanup(func() { must(t, n.Close()) })
				hosts = append(hosts, host)
			}
			hosts[0].Ping(t, "10.0.0.2", "-s", "1472")
			hosts[1].Ping(t, "10.0.0.1")
		})
	}
}
