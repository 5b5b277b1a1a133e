package cmt

import (
	"math/rand/v2"
	"testing"

	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
	"tapir/wire/ip"
)

func newLLH(t *testing.T, ppfids int) *LLH {
	h, err := NewLLH(ppfids)
	if err != nil {
		t.Fatal(err)
	}
	h.SetFunctionAsDefault()
	return h
}

// CM-08
func TestFiltersMatch(t *testing.T) {
	mac := ether.Addr{2, 0, 0, 0, 0, 9}
	tcp, udp := uint8(ip.ProtoTCP), uint8(ip.ProtoUDP)
	for _, c := range []struct {
		name     string
		f        Filter
		yes, not l2.Flow
	}{
		{"station", Filter{Kind: FilterMAC, MAC: mac}, l2.Flow{Dst: mac}, l2.Flow{Dst: ether.Broadcast}},
		{"EtherType", Filter{Kind: FilterEtherType, EtherType: 0x8906}, l2.Flow{EtherType: 0x8906}, l2.Flow{EtherType: 0x8914}},
		{"TCP from", Filter{Kind: FilterTCPSrc, SrcPort: 7}, l2.Flow{Proto: tcp, SrcPort: 7, DstPort: 9}, l2.Flow{Proto: tcp, SrcPort: 9, DstPort: 7}},
		{"TCP to", Filter{Kind: FilterTCPDst, DstPort: 7}, l2.Flow{Proto: tcp, SrcPort: 9, DstPort: 7}, l2.Flow{Proto: udp, DstPort: 7}},
		{"TCP both", Filter{Kind: FilterTCPBoth, SrcPort: 8, DstPort: 7}, l2.Flow{Proto: tcp, SrcPort: 8, DstPort: 7}, l2.Flow{Proto: tcp, SrcPort: 9, DstPort: 7}},
		{"UDP from", Filter{Kind: FilterUDPSrc, SrcPort: 7}, l2.Flow{Proto: udp, SrcPort: 7}, l2.Flow{Proto: tcp, SrcPort: 7}},
		{"UDP to", Filter{Kind: FilterUDPDst, DstPort: 7}, l2.Flow{Proto: udp, DstPort: 7}, l2.Flow{Proto: udp, SrcPort: 7}},
		{"UDP both", Filter{Kind: FilterUDPBoth, SrcPort: 8, DstPort: 7}, l2.Flow{Proto: udp, SrcPort: 8, DstPort: 7}, l2.Flow{Proto: udp, SrcPort: 8}},
	} {
		h := newLLH(t, 2)
		if err := h.SetPPFIDAffinity(1, Engine1); err != nil {
			t.Fatal(err)
		}
		if err := h.AddFilter(1, c.f); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if a, ok := h.Classify(&c.yes); a != Engine1 || !ok {
			t.Errorf("%s: %v, %v", c.name, a, ok)
		}
		if a, ok := h.Classify(&c.not); a != Both || !ok {
			t.Errorf("%s: another packet: %v, %v", c.name, a, ok)
		}
	}
}

// Filters are counted: added twice and removed once, one is still there; and a
// PPFID has 16 of them.
//
// CM-08
func TestFiltersAreCounted(t *testing.T) {
	h := newLLH(t, MaxPPFIDs)
	f := Filter{Kind: FilterTCPDst, DstPort: 3260}
	flow := l2.Flow{Proto: ip.ProtoTCP, DstPort: 3260}
	_ = h.SetPPFIDAffinity(7, Engine0)
	pinned := func() bool { a, _ := h.Classify(&flow); return a == Engine0 }
	model, chance := 0, rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		if chance.IntN(2) == 0 {
			if err := h.AddFilter(7, f); err != nil {
				t.Fatal(err)
			}
			model++
		} else if err := h.RemoveFilter(7, f); (err == nil) != (model > 0) || err != nil && status.Of(err) != status.Inval {
			t.Fatalf("removed with %d: %v", model, err)
		} else if err == nil {
			model--
		}
		if pinned() != (model > 0) || h.Filters(7) != min(model, 1) {
			t.Fatalf("%d want it: there %v, %d filters", model, pinned(), h.Filters(7))
		}
	}
	h.ClearAllFilters()
	for i := range MaxFilters {
		if err := h.AddFilter(0, Filter{Kind: FilterUDPDst, DstPort: uint16(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.AddFilter(0, Filter{Kind: FilterUDPDst, DstPort: 99}); status.Of(err) != status.NoResources {
		t.Errorf("a 17th: %v", err)
	}
	if err := h.AddFilter(0, Filter{Kind: FilterUDPDst, DstPort: 1}); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if err := h.AddFilter(1, f); err != nil {
		t.Errorf("another PPFID: %v", err)
	}
	if err := h.ClearFilters(0); err != nil || h.Filters(0) != 0 || h.Filters(1) != 1 {
		t.Errorf("%v, %d and %d filters", err, h.Filters(0), h.Filters(1))
	}
}

// CM-07 CM-08
func TestLLHRefuses(t *testing.T) {
	for _, n := range []int{0, MaxPPFIDs + 1} {
		if _, err := NewLLH(n); status.Of(err) != status.Inval {
			t.Errorf("%d PPFIDs: %v", n, err)
		}
	}
	h, err := NewLLH(1)
	if err != nil {
		t.Fatal(err)
	}
	good := Filter{Kind: FilterMAC, MAC: ether.Addr{2}}
	for name, err := range map[string]error{
		"PPFID":          h.AddFilter(1, good),
		"negative":       h.RemoveFilter(-1, good),
		"not there":      h.RemoveFilter(0, good),
		"clear":          h.ClearFilters(1),
		"affinity":       h.SetPPFIDAffinity(0, 3),
		"affinity of":    h.SetPPFIDAffinity(1, Both),
		"RoCE":           h.SetRoCEAffinity(3),
		"kind":           h.AddFilter(0, Filter{Kind: numFilterKinds}),
		"no station":     h.AddFilter(0, Filter{}),
		"no EtherType":   h.AddFilter(0, Filter{Kind: FilterEtherType}),
		"no port":        h.AddFilter(0, Filter{Kind: FilterTCPDst}),
		"one port":       h.AddFilter(0, Filter{Kind: FilterUDPBoth, SrcPort: 1}),
		"a port more":    h.AddFilter(0, Filter{Kind: FilterTCPSrc, SrcPort: 1, DstPort: 1}),
		"a station more": h.AddFilter(0, Filter{Kind: FilterTCPSrc, SrcPort: 1, MAC: ether.Addr{2}}),
	} {
		if status.Of(err) != status.Inval {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h.Filters(0) != 0 {
		t.Error("something was added")
	}
	if _, err := ParseAffinity("engine2"); status.Of(err) != status.Inval {
		t.Errorf("%v", err)
	}
	// Before there is a default function, what no filter matches is nobody's.
	if _, ok := h.Classify(&l2.Flow{EtherType: 0x0800}); ok {
		t.Error("a packet for no function")
	}
}

// CM-07
func TestAffinities(t *testing.T) {
	h := newLLH(t, 1)
	if _, pinned := h.L2AffinityHint(); pinned {
		t.Error("pinned from the start")
	}
	for _, a := range []Affinity{Engine0, Engine1, Both} {
		if back, err := ParseAffinity(a.String()); back != a || err != nil {
			t.Errorf("%v is read as %v: %v", a, back, err)
		}
		if err := h.SetPPFIDAffinity(0, a); err != nil {
			t.Fatal(err)
		}
		if got, _ := h.PPFIDAffinity(0); got != a {
			t.Errorf("%v instead of %v", got, a)
		}
		if e, pinned := h.L2AffinityHint(); pinned != (a != Both) || pinned && e != int(a) {
			t.Errorf("%v: hint %d, %v", a, e, pinned)
		}
		// RoCE has an affinity of its own, whatever that of the PPFID.
		if err := h.SetRoCEAffinity(Engine1); err != nil {
			t.Fatal(err)
		}
		for _, flow := range []l2.Flow{{EtherType: 0x8915}, {Proto: ip.ProtoUDP, DstPort: 4791}} {
			if got, _ := h.Classify(&flow); got != Engine1 {
				t.Errorf("RoCE with the PPFID on %v: %v", a, got)
			}
		}
		if got, _ := h.Classify(&l2.Flow{Proto: ip.ProtoUDP, DstPort: 4790}); got != a {
			t.Errorf("%v: UDP goes to %v", a, got)
		}
	}
}
