package vnic

import (
	"bytes"
	"errors"
	"testing"

	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// wants checks that exactly those frames arrived.
func (h *host) wants(t *testing.T, what string, frames ...[]byte) {
	t.Helper()
	got := h.take()
	if len(got) != len(frames) {
		t.Fatalf("%s: %d frames arrived, want %d", what, len(got), len(frames))
	}
	for i := range got {
		if !bytes.Equal(got[i], frames[i]) {
			t.Errorf("%s: frame %d is\n%x, want\n%x", what, i, got[i], frames[i])
		}
	}
}

func TestUnicastAndBroadcast(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 3, make)
		var hosts []*host
		for i, n := range fab.nodes {
			hosts = append(hosts, n.join(t, uint8(i), 2, Policy{}))
		}
		a, b, c := hosts[0], hosts[1], hosts[2]
		uni, all := eth(b.mac, a.mac, 200, 1), eth(ether.Broadcast, a.mac, 60, 2)
		a.send(uni)
		a.send(all)
		fab.run()
		a.wants(t, "sender")
		b.wants(t, "receiver", uni, all)
		c.wants(t, "third", all)
		short := eth(b.mac, a.mac, 30, 3)
		a.send(short)
		fab.run()
		b.wants(t, "padded", append(short, bytes.Repeat([]byte{0}, 30)...))
		if n := fab.pool.Lent(); n != 0 {
			t.Errorf("%d frames lost", n)
		}
	})
}

func TestStates(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 2, make)
		a, b := fab.nodes[0].join(t, 0, 2, Policy{}), fab.nodes[1].join(t, 0, 2, Policy{})
		send := func() { a.send(eth(b.mac, a.mac, 60, 1)); fab.run() }
		cfg := b.nd.Config()
		steps := []struct {
			name     string
			do       func()
			arrives  int
			oper     State
			carrier  bool
			dormant  bool
			rx, sent frame.DropReason // what b, what a counts
		}{
			{"as it was", func() {}, 1, Forwarding, true, false, 0, 0},
			{"DROP_ALL", func() { c := cfg; c.ConfigState = DropAll; must(t, b.nd.Configure(c)) }, 0, DropAll, true, true, opa.DropState, 0},
			{"FORWARDING", func() { must(t, b.nd.Configure(cfg)) }, 1, Forwarding, true, false, 0, 0},
			{"closed", b.nd.Close, 0, DropAll, true, false, 0, 0},
			{"open", b.nd.Open, 1, Forwarding, true, false, 0, 0},
			{"port down", func() { fab.nodes[1].setPort(false) }, 0, Forwarding, false, false, 0, 0},
			{"port up", func() { fab.nodes[1].setPort(true) }, 1, Forwarding, true, false, 0, 0},
			{"sender closed", a.nd.Close, 0, Forwarding, true, false, 0, opa.DropState},
			{"sender open", a.nd.Open, 1, Forwarding, true, false, 0, 0},
			{"sender's port down", func() { fab.nodes[0].setPort(false) }, 0, Forwarding, true, false, 0, opa.DropState},
			{"sender's port up", func() { fab.nodes[0].setPort(true) }, 1, Forwarding, true, false, 0, 0},
			{"without vESW", func() { must(t, b.nd.Configure(PowerOn())) }, 0, DropAll, true, true, 0, 0},
		}
		for _, s := range steps {
			s.do()
			rx, sent := b.nd.Stats().RxDrops, a.nd.Stats().TxDrops
			send()
			if got := len(b.take()); got != s.arrives {
				t.Errorf("%s: %d frames arrived", s.name, got)
			}
			if o, c, d := b.nd.OperState(), b.nd.Carrier(), b.nd.Dormant(); o != s.oper || c != s.carrier || d != s.dormant {
				t.Errorf("%s: %v, carrier %v, dormant %v", s.name, o, c, d)
			}
			if s.rx != 0 {
				rx.Count(s.rx)
			}
			if s.sent != 0 {
				sent.Count(s.sent)
			}
			if b.nd.Stats().RxDrops != rx || a.nd.Stats().TxDrops != sent {
				t.Errorf("%s: drops of %v and %v", s.name, b.nd.Stats().RxDrops, a.nd.Stats().TxDrops)
			}
		}
		if n := fab.pool.Lent(); n != 0 {
			t.Errorf("%d frames lost", n)
		}
	})
}

// The demultiplexer of the Linux driver looks at 8 of the 12 bits.
func TestIDsEqualModulo256(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 2, make)
		a := fab.nodes[0].join(t, 0, 257, Policy{})
		b, other := fab.nodes[1].join(t, 0, 257, Policy{}), fab.nodes[1].join(t, 1, 1, Policy{})
		f := eth(b.mac, a.mac, 60, 1)
		a.send(f)
		fab.run()
		b.wants(t, "vESW 257", f)
		other.wants(t, "vESW 1")
		b.nd.Close()
		a.send(f)
		fab.run()
		other.wants(t, "vESW 1 while 257 is closed")
		if s := b.nd.Stats(); s.UnknownVESW != 1 {
			t.Errorf("%d packets for an unknown vESW", s.UnknownVESW)
		}
		if s := other.nd.Stats(); s.UnknownVESW != 0 {
			t.Errorf("told twice")
		}
	})
}

func TestVPorts(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		n := newFabric(t, 1, make).nodes[0]
		for i := range MaxNetdevs {
			n.join(t, uint8(i), uint16(i+1), Policy{})
		}
		if _, err := n.Create(255, Policy{}); err == nil {
			t.Error("a 256th vport")
		}
		if _, err := n.Create(3, Policy{}); err == nil {
			t.Error("vport 3 twice")
		}
		if err := n.Netdev(3).Configure(veswConfig(9, 1)); err == nil || n.Netdev(3).Config().VESWID != 4 {
			t.Errorf("vESW 9 twice: %v", err)
		}
		n.Remove(8)
		n.Remove(8)
		must(t, n.Netdev(3).Configure(veswConfig(9, 1)))
		if len(n.Netdevs()) != MaxNetdevs-1 || n.VESW(9) != n.Netdev(3) || n.VESW(4) != nil {
			t.Errorf("%d vports", len(n.Netdevs()))
		}
		n.join(t, 8, 4000, Policy{})
	})
}

func TestConfigCheck(t *testing.T) {
	n := newFabric(t, 1, realHFI(hfi.Config{MTU: 8192})).nodes[0]
	nd := n.join(t, 0, 2, Policy{}).nd
	before := nd.Config()
	for field, change := range map[string]func(*Config){
		"FabricID":      func(c *Config) { c.FabricID = 1024 },
		"VESWID":        func(c *Config) { c.VESWID = 4096 },
		"ConfigState":   func(c *Config) { c.ConfigState = 2 },
		"EthMTU":        func(c *Config) { c.EthMTU = 8300 },
		"BaseMAC":       func(c *Config) { c.BaseMAC = ether.Broadcast },
		"EncapSLID":     func(c *Config) { c.EncapSLID = opa.FirstMulticast },
		"McastDLID":     func(c *Config) { c.McastDLID = opa.Permissive },
		"UcastDLID[15]": func(c *Config) { c.UcastDLID[15] = opa.FirstMulticast },
		"QoS.Unicast":   func(c *Config) { c.QoS.Unicast.SC[7] = 32 },
		"QoS.Multicast": func(c *Config) { c.QoS.Multicast.UntaggedVL = 32 },
	} {
		c := before
		change(&c)
		err := nd.Configure(c)
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != field {
			t.Errorf("%s: %v", field, err)
		}
		if nd.Config() != before {
			t.Fatalf("%s: something changed", field)
		}
	}
	good := before
	good.EthMTU = 8192
	must(t, nd.Configure(good))
}
