package vnic

import (
	"bytes"
	"testing"

	"tapir/opa"
	"tapir/wire/ether"
)

// gateways is a vESW of a station and of two gateways to one network, whose
// every frame both get.
func gateways(t *testing.T, make makeHFI) (fab *fabric, a *host, g [2]*host) {
	fab = newFabric(t, 3, make)
	join := func(i int, p Policy) *host {
		p.Learn, p.Unknown = true, ToDefaultPort
		h := fab.nodes[i].join(t, 1, 2, p)
		c := h.nd.Config()
		c.UcastDLID, c.DefPortMask = [DefaultPorts]opa.LID{3: 2, 9: 3}, 1<<3|1<<9
		must(t, h.nd.Configure(c))
		return h
	}
	return fab, join(0, Policy{}), [2]*host{join(1, Policy{Gateway: true}), join(2, Policy{Gateway: true})}
}

// Each flow has one gateway, the same both ways; nothing comes twice or goes
// round; the load is shared.
func TestGatewaysShare(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab, a, g := gateways(t, make)
		if a.nd.Shared() || !g[0].nd.Shared() {
			t.Error("who is one of several gateways?")
		}
		var share [2]int
		for i := range 200 {
			lan := ether.Addr{0x52, 0x54, 0, 0, byte(i >> 4), byte(i)} // a station behind the gateways
			out := eth(lan, a.mac, 100, uint32(i))
			a.send(out)
			fab.run()
			got := [2][][]byte{g[0].take(), g[1].take()}
			if len(got[0])+len(got[1]) != 1 {
				t.Fatalf("flow %d: %d and %d frames left the vESW", i, len(got[0]), len(got[1]))
			}
			one := 0
			if len(got[1]) == 1 {
				one = 1
			}
			if !bytes.Equal(got[one][0], out) {
				t.Fatalf("flow %d: %x left the vESW", i, got[one][0])
			}
			share[one]++

			back := eth(a.mac, lan, 100, uint32(i))
			before := g[1-one].nd.Stats().TxDrops[opa.DropShare]
			g[0].send(back)
			g[1].send(back)
			fab.run()
			a.wants(t, "answer", back)
			if n := g[1-one].nd.Stats().TxDrops[opa.DropShare]; n != before+1 {
				t.Fatalf("flow %d came back through the other gateway", i)
			}

			all := eth(ether.Broadcast, lan, 60, uint32(i))
			g[0].send(all)
			g[1].send(all)
			fab.run()
			a.wants(t, "broadcast in", all)
			g[0].wants(t, "broadcast round")
			g[1].wants(t, "broadcast round")

			fromA := eth(ether.Broadcast, ether.Addr{2, 0, 0, 0, 1, byte(i)}, 60, uint32(i))
			a.send(fromA)
			fab.run()
			if n := len(g[0].take()) + len(g[1].take()); n != 1 {
				t.Fatalf("broadcast %d left the vESW %d times", i, n)
			}
		}
		if min(share[0], share[1]) < 60 {
			t.Errorf("shares %v of 200 flows", share)
		}
		for _, s := range a.nd.Stations() {
			if s.LID != 0 {
				t.Errorf("a station behind gateways was learned: %+v", s)
			}
		}
		if n := fab.pool.Lent(); n != 0 {
			t.Errorf("%d frames lost", n)
		}
	})
}

// What a gateway does not know either goes to all ports of the vESW.
func TestGatewayFloodsWhatItDoesNotKnow(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab, a, g := gateways(t, make)
		b := eth(ether.Addr{2, 9, 9, 9, 9, 9}, ether.Addr{0x52, 0x54, 0, 0, 0, 1}, 100, 7)
		g[0].send(b)
		g[1].send(b)
		fab.run()
		a.wants(t, "unknown station", b)
	})
}

func TestStationsAreListed(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 2, make)
		a := fab.nodes[0].join(t, 1, 2, Policy{Learn: true})
		b := fab.nodes[1].join(t, 1, 2, Policy{Learn: true})
		second, first := ether.Addr{2, 0, 0, 0, 0, 2}, ether.Addr{2, 0, 0, 0, 0, 1}
		a.send(eth(ether.Broadcast, second, 60, 1))
		a.send(eth(ether.Broadcast, first, 60, 1))
		fab.run()
		b.take()
		for h, lid := range map[*host]opa.LID{a: 0, b: 1} {
			list := h.nd.Stations()
			if len(list) != 2 || list[0].MAC != first || list[1].MAC != second || list[0].LID != lid || list[0].VLAN != 0 {
				t.Errorf("%+v", list)
			}
		}
	})
}
