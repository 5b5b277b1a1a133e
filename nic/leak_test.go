package nic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/verbs"
)

// cidsOf is the number of connection ids of a protocol that are taken.
func cidsOf(d *device, p cxt.Protocol) (used, count int) {
	for _, u := range d.Core().Lead().Contexts().CIDs(-1) {
		if u.Protocol == p {
			return u.Used, u.Count
		}
	}
	return 0, 0
}

// Each queue pair takes a connection id and gives it back; without one it cannot
// be made. A reload of the driver renews them.
func TestQueuePairsTakeConnectionIDs(t *testing.T) {
	w := newWorld(t)
	n := w.nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24")})
	pd, _ := n.dev.Verbs.AllocPD()
	cq, _ := n.dev.Verbs.CreateCQ(16, nil)
	create := func() (*verbs.QP, error) { return pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq}) }
	qp, err := create()
	used, count := cidsOf(n.dev, cxt.IWARP)
	if err != nil || used != 1 || count != ecore.DefaultQPs || qp.CID() == verbs.NoCID {
		t.Fatalf("%v: %d of %d in use, id %d", err, used, count, qp.CID())
	}
	contexts := n.dev.Core().Lead().Contexts()
	var others []int
	for range count - 1 {
		cid, _ := contexts.Acquire(cxt.IWARP)
		others = append(others, cid)
	}
	_, err = create()
	if want := "create QP: device limit reached: no free connection id of IWARP: all 8192 are in use: NORESOURCES"; !errors.Is(err, verbs.ErrLimit) || err.Error() != want {
		t.Errorf("%v", err)
	}
	_ = contexts.Release(others[7])
	second, err := create()
	if err != nil || second.CID() != others[7] {
		t.Errorf("the id that was given back: %v", err)
	}
	for i, cid := range others {
		if i != 7 {
			_ = contexts.Release(cid)
		}
	}
	set := func(name, value string) {
		if err := n.dev.Set(Setting{name, value}); err != nil {
			t.Fatal(err)
		}
		w.run(time.Millisecond)
	}
	set("driver", "unloaded")
	third, err := create()
	if err != nil || qp.CID() != verbs.NoCID || third.CID() != verbs.NoCID {
		t.Errorf("%v: ids %d and %d while the driver is unloaded", err, qp.CID(), third.CID())
	}
	if set("driver", "loaded"); qp.CID() == verbs.NoCID || third.CID() == verbs.NoCID || qp.CID() == third.CID() {
		t.Errorf("ids %d and %d after the load", qp.CID(), third.CID())
	}
	for _, q := range []*verbs.QP{qp, second, third} {
		if err := q.Destroy(); err != nil {
			t.Fatal(err)
		}
	}
	if used, _ := cidsOf(n.dev, cxt.IWARP); used != 0 {
		t.Errorf("%d ids leak", used)
	}
}

// Whatever has happened, a NIC that is closed has given everything back.
func TestNothingLeaks(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 5))
		modes := []string{"msix", "msi", "inta", "poll"}
		e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: modes[seed%4]}}})
		d := e.n.dev
		pd, _ := d.Verbs.AllocPD()
		cq, _ := d.Verbs.CreateCQ(64, nil)
		var qps []*verbs.QP
		for range 60 {
			switch r.IntN(6) {
			case 0:
				if q, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq}); err == nil {
					qps = append(qps, q)
				}
			case 1:
				if len(qps) > 0 {
					_ = qps[0].Destroy()
					qps = qps[1:]
				}
			case 2:
				_ = d.Set(Setting{"channels", fmt.Sprint(1 + r.IntN(4))}, Setting{"rss_table", "equal"})
			case 3:
				_ = d.Set(Setting{"rx_vlans", []string{"all", "5,6,7", "1"}[r.IntN(3)]}, Setting{"rx_mode", []string{"regular", "promisc"}[r.IntN(2)]})
			case 4:
				_ = d.Set(Setting{"driver", []string{"loaded", "unloaded"}[r.IntN(2)]}, Setting{"rx_usecs", fmt.Sprint(r.IntN(100))})
			case 5:
				e.in(e.frame(d.cfg.MAC, 5, uint16(r.IntN(1000))))
				e.out(e.frame(e.s.mac, 0, 9))
			}
			e.w.run(time.Duration(r.IntN(500)) * time.Microsecond)
		}
		_ = d.Set(Setting{"driver", "loaded"})
		e.w.run(5 * time.Millisecond)
		h := d.Core().Lead()
		contexts, fn := h.Contexts(), d.Netdev(0).Function()
		if s := d.Core().Show()[0]; s.SPQ.InUse != 0 || s.EQ.Waiting != 0 || fn.Asserts() != 0 || d.Core().HealthState() != "healthy" {
			t.Errorf("seed %d: %+v %+v, %d asserts", seed, s.SPQ, s.EQ, fn.Asserts())
		}
		if err := d.Close(e.w.now); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		macs, vlans := fn.Filters()
		num := d.IRQ().Hwfns[0].Num()
		if free, leaked := h.BAR.Stats().Free, contexts.Leaked(); free != hw.Allocatable || leaked != 0 || macs+vlans != 0 || num.Free != num.Cnt {
			t.Errorf("seed %d: %d windows free, %d connection ids and %d filters leak, status blocks %+v", seed, free, leaked, macs+vlans, num)
		}
		if state := d.Core().State(); state != ecore.Struct || d.Close(e.w.now) != nil {
			t.Errorf("seed %d: %v", seed, state)
		}
	}
}

// What the management firmware has to say comes as an attention of the slowpath,
// in every mode; one that says nothing does nothing.
//
// IT-15
func TestFirmwareAttention(t *testing.T) {
	for _, mode := range []string{"msix", "msi", "inta", "poll"} {
		w, n, _ := pair(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: mode}}})
		h := n.dev.IRQ().Hwfns[0]
		attentions := func() (count uint64) {
			for _, a := range h.Attentions() {
				if a.Bit == irq.AttnMFW && !a.Active && !a.Unknown {
					count = a.Count
				}
			}
			return count
		}
		stats := func() string { return fmt.Sprintf("%+v %v", n.dev.MCP().LinkState(), n.dev.lastErr()) }
		before, messages := attentions(), n.dev.MCP().Stats().Messages
		n.dev.LinkDown(w.now)
		if attentions() == before || n.dev.MCP().Stats().Messages == messages || n.dev.MCP().LinkState().LinkUp {
			t.Errorf("%s: the link goes without an attention", mode)
		}
		n.dev.LinkUp(w.now)
		before, spurious, was := attentions(), n.dev.MCP().Stats().Spurious, stats()
		h.AttnAssert(irq.AttnMFW, w.now)
		n.dev.Manage(w.now)
		if attentions() != before+1 || n.dev.MCP().Stats().Spurious != spurious+1 || stats() != was {
			t.Errorf("%s: an attention without a message: %d after %d, %s, before %s", mode, attentions(), before, stats(), was)
		}
		before = attentions()
		h.AttnAssert(irq.AttnMFW, w.now)
		n.dev.Manage(w.now)
		if attentions() != before+1 {
			t.Errorf("%s: the attention stays masked", mode)
		}
		vectors := n.dev.IRQ().ShowVectors()
		if (mode == "poll") != (len(vectors) == 0) || mode != "poll" && vectors[0].Interrupts == 0 {
			t.Errorf("%s: %+v", mode, vectors)
		}
	}
}

// An attention while the driver is not loaded reaches nobody, and does not keep a
// later one away.
func TestAttentionWhileUnloaded(t *testing.T) {
	w, n, _ := pair(t, Config{})
	for _, v := range []string{"unloaded", "loaded"} {
		if err := n.dev.Set(Setting{"driver", v}); err != nil {
			t.Fatal(err)
		}
		w.run(time.Millisecond)
		n.dev.LinkDown(w.now)
		n.dev.LinkUp(w.now)
		w.run(time.Millisecond)
		if up := n.dev.MCP().LinkState().LinkUp; up != (v == "loaded") {
			t.Errorf("%s: link up %v", v, up)
		}
	}
}

// What a program is told of the device is what it can have: a connection id
// for each queue pair, and no more than the event queue has room for.
func TestQueuePairsHaveIDs(t *testing.T) {
	for _, c := range []struct{ qps, want int }{{0, ecore.DefaultQPs}, {7, 7}, {ecore.MaxQPs, ecore.MaxQPs}} {
		d := newWorld(t).nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24"), RDMA: RDMA{NumQPs: c.qps}}).dev
		_, ids := cidsOf(d, cxt.IWARP)
		if got := d.Verbs.Attr().MaxQP; got != c.want || ids < got {
			t.Errorf("num_qps %d: max_qp %d, %d connection ids, want %d", c.qps, got, ids, c.want)
		}
	}
	cfg := Config{Name: "nic0", RDMA: RDMA{NumQPs: ecore.MaxQPs + 1}, Hardware: &fastlinq.Config{}}.withDefaults()
	if err := cfg.validate(); err == nil || !strings.Contains(err.Error(), "32513 queue pairs") {
		t.Error(err)
	}
}
