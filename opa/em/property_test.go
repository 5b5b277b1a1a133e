package em

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/ether"
)

// randomConfig declares up to five vESWs over some of the nodes.
func randomConfig(r *rand.Rand, nodes int) Config {
	var c Config
	for i := 1; i <= nodes; i++ {
		e := NodeEntry{Name: fmt.Sprintf("h%d", i)}
		if r.IntN(2) == 0 {
			e.GUID = guidBase + uint64(i)
		}
		if r.IntN(4) == 0 {
			e.LID = opa.LID(20 + i)
		}
		c.Nodes = append(c.Nodes, e)
	}
	for _, id := range r.Perm(5)[:r.IntN(6)] {
		v := VESW{
			Name: fmt.Sprint("v", 1+256*id), ID: uint16(1 + 256*id), Fabric: uint16(r.IntN(1024)), PKey: uint16(1 + r.IntN(5)),
			MTU: uint16(68 + r.IntN(10000)), RC: opa.RCWord(r.Uint32() & maxRC),
		}
		v.QoS.Unicast.SC[r.IntN(8)] = uint8(r.IntN(32))
		for _, i := range r.Perm(nodes)[:r.IntN(nodes+1)] {
			n := Node{Name: fmt.Sprintf("h%d", i+1)}
			v.Members = append(v.Members, Member{Node: n, Limited: r.IntN(3) == 0})
			switch r.IntN(6) {
			case 0:
				v.Gateways = append(v.Gateways, n)
			case 1:
				v.DefaultPorts = append(v.DefaultPorts, n)
			}
		}
		c.VESWs = append(c.VESWs, v)
	}
	return c
}

// change is a small change of a configuration.
func change(r *rand.Rand, c Config, nodes int) Config {
	c.VESWs = slices.Clone(c.VESWs)
	if len(c.VESWs) == 0 || r.IntN(8) == 0 {
		return randomConfig(r, nodes)
	}
	i := r.IntN(len(c.VESWs))
	v := &c.VESWs[i]
	switch r.IntN(5) {
	case 0:
		v.MTU = uint16(68 + r.IntN(10000))
	case 1:
		v.PKey = uint16(1 + r.IntN(5))
	case 2:
		c.VESWs = slices.Delete(c.VESWs, i, i+1)
	case 3:
		if len(v.Members) > 0 {
			v.Members = slices.Clone(v.Members)
			v.Members[0].Limited = !v.Members[0].Limited
		}
	case 4:
		v.ID, v.Name = v.ID+1, fmt.Sprint("v", v.ID+1)
	}
	return c
}

// disturb does what happens to fabrics.
func disturb(r *rand.Rand, w *world, cfg *Config) {
	n := w.nodes[r.IntN(len(w.nodes))]
	switch r.IntN(8) {
	case 0:
		n.startAgent()
	case 1:
		if n.manager == nil {
			n.boot()
		}
	case 2:
		n.cut = true
		w.run(time.Duration(r.IntN(4000)) * time.Millisecond)
		n.cut = false
	case 3, 4, 5:
		for _, d := range n.vports.Netdevs() {
			var uc, mc []ether.Addr
			for range r.IntN(4) {
				uc = append(uc, ether.Addr{2, 0, 0, byte(d.Config().VESWID), n.name[1], byte(r.IntN(200))})
			}
			for range r.IntN(4) {
				mc = append(mc, ether.Addr{1, 0, 0x5e, 0, 0, byte(r.IntN(6))})
			}
			slices.SortFunc(uc, compareMAC)
			slices.SortFunc(mc, compareMAC)
			d.SetRxMode(slices.Compact(uc), slices.Compact(mc))
		}
	}
	n.poke()
}

// TestReconfigurations: however a fabric is changed and disturbed while MADs
// are lost and come twice, it ends as declared.
func TestReconfigurations(t *testing.T) {
	const fabrics, each, nodes = 10, 100, 5
	for seed := range uint64(fabrics) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			w := fabric(seed, nodes)
			w.loss, w.double = 0.05, 0.05
			cfg := randomConfig(w.rand, nodes)
			m := w.nodes[w.rand.IntN(nodes)].manage(cfg, Options{})
			for step := range each {
				cfg = change(w.rand, cfg, nodes)
				if err := m.Reconfigure(cfg); err != nil {
					t.Fatal(err)
				}
				disturb(w.rand, w, &cfg)
				w.run(time.Duration(w.rand.IntN(300)) * time.Millisecond)
				if !w.runUntil(w.now.Add(2*time.Minute), func() bool { return m.InSync() && w.check(&cfg) == nil }) {
					dump(t, m)
					t.Fatalf("change %d: in sync %v, %v", step, m.InSync(), w.check(&cfg))
				}
			}
		})
	}
}

// TestSameSeedSameBytes: nothing that leaves a manager depends on chance or on
// the order of a map.
func TestSameSeedSameBytes(t *testing.T) {
	run := func() string {
		w := fabric(7, 4)
		w.loss, w.double = 0.1, 0.1
		h := sha256.New()
		w.watch = func(from *node, to mad.Address, b []byte) bool {
			fmt.Fprintln(h, w.now, from.name, to, b)
			return false
		}
		m := w.nodes[0].manage(randomConfig(w.rand, 4), Options{})
		w.nodes[1].manage(randomConfig(w.rand, 4), Options{})
		for range 5 {
			w.run(3 * time.Second)
			disturb(w.rand, w, &m.cfg)
		}
		fmt.Fprintln(h, m.Events(0), m.VPorts(), m.Ports(), m.VESWs(), m.MACs(0))
		return fmt.Sprintf("%x", h.Sum(nil))
	}
	if a, b := run(), run(); a != b {
		t.Errorf("%s and %s", a, b)
	}
}
