package nic

import (
	"math/rand/v2"
	"testing"
	"time"

	nicip "tapir/nic/ip"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// echoFragments are the fragments of an echo request with n octets.
func echoFragments(n int, v6 bool) [][]byte {
	src, dst := peer4, nic4
	if v6 {
		src, dst = peer6, nic6
	}
	return fragments(ip.Header{Proto: protoICMP(src), Src: src, Dst: dst, ID: 9, FragID: 9}, echoBody(src, dst, n), 1280)
}

func TestFragmentsInAnyOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for round := range 40 {
		w, n, s := pair(t, Config{})
		parts := echoFragments(8000, round%2 == 1)
		parts = append(parts, parts[rnd.IntN(len(parts))]) // and one twice
		rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		for _, p := range parts {
			s.transmit(n.dev.cfg.MAC, etherTypeOf(p), p)
		}
		w.run(time.Second)
		octets := 0
		for _, r := range s.take() {
			octets += len(r.body)
		}
		if octets != 8008 {
			t.Fatalf("round %d: answer of %d octets", round, octets)
		}
		n.dev.IP.DiscardFragments(w.now) // a duplicate that came last began a new datagram
		if w.pool.Lent() != 0 {
			t.Fatalf("round %d: %d frames leaked", round, w.pool.Lent())
		}
	}
}

func etherTypeOf(p []byte) uint16 {
	if p[0]>>4 == 4 {
		return 0x0800
	}
	return 0x86dd
}

func TestFragmentsRefused(t *testing.T) {
	h := ip.Header{Proto: ip.ProtoICMP, Src: peer4, Dst: nic4, ID: 9}
	part := func(off, n int, more bool) []byte {
		h := h
		h.FragOffset, h.MF = uint16(off), more
		return packet(h, make([]byte, n))
	}
	for _, c := range []struct {
		name  string
		parts [][]byte
		drops uint64
	}{
		{"overlap", [][]byte{part(0, 16, true), part(8, 16, false)}, 2},
		{"overlap in front", [][]byte{part(8, 16, true), part(0, 16, true)}, 2},
		{"beyond the end", [][]byte{part(8, 8, false), part(16, 8, true)}, 2},
		{"two ends", [][]byte{part(16, 8, false), part(8, 8, false)}, 2},
		{"end before what came", [][]byte{part(16, 8, true), part(8, 8, false)}, 2},
		{"odd length", [][]byte{part(0, 9, true)}, 1},
		{"empty", [][]byte{part(8, 0, false)}, 1},
		{"ping of death", [][]byte{part(65528, 80, false)}, 1},
	} {
		w, n, s := pair(t, Config{})
		for _, p := range c.parts {
			s.transmit(n.dev.cfg.MAC, 0x0800, p)
		}
		w.run(time.Millisecond)
		datagrams, _ := n.dev.IP.Held()
		if got := n.counter("rx_drop_fragment"); got != c.drops || datagrams != 0 || w.pool.Lent() != 0 {
			t.Errorf("%s: %d drops, %d datagrams, %d frames held", c.name, got, datagrams, w.pool.Lent())
		}
	}
}

func TestFragmentsTimeOut(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		w, n, s := pair(t, Config{})
		first := echoFragments(3000, v6)[0]
		s.transmit(n.dev.cfg.MAC, etherTypeOf(first), first)
		w.run(nicip.ReassembleFor + time.Second)
		got := s.take()
		if n.counter("rx_drop_fragment") != 1 || len(got) != 1 || w.pool.Lent() != 0 {
			t.Fatalf("%d drops, %d frames, %d held", n.counter("rx_drop_fragment"), len(got), w.pool.Lent())
		}
		m, _ := icmp.Parse(got[0].body)
		if want := map[bool]uint8{false: icmp.TimeExceeded4, true: icmp.TimeExceeded6}[v6]; m.Type != want || m.Code != 1 {
			t.Errorf("told the sender %d/%d", m.Type, m.Code)
		}
	}
}

func TestFragmentMemoryIsBounded(t *testing.T) {
	w, n, s := pair(t, Config{})
	for id := range 100 {
		for off := 0; off < 200*8; off += 16 { // every other unit: never whole
			h := ip.Header{Proto: ip.ProtoICMP, Src: peer4, Dst: nic4, ID: uint16(id), FragOffset: uint16(off), MF: true}
			s.transmit(n.dev.cfg.MAC, 0x0800, packet(h, make([]byte, 8)))
		}
		w.run(time.Millisecond)
		datagrams, held := n.dev.IP.Held()
		if datagrams > nicip.MaxDatagrams || held > nicip.MaxFragments || w.pool.Lent() != held {
			t.Fatalf("%d datagrams, %d fragments, %d frames", datagrams, held, w.pool.Lent())
		}
	}
}

func TestFragmentRecords(t *testing.T) {
	w, n, s := pair(t, Config{})
	for _, p := range echoFragments(2000, false) {
		s.transmit(n.dev.cfg.MAC, 0x0800, p)
	}
	w.run(time.Millisecond)
	if r := n.all[0]; r.Dir != frame.Inbound || r.Text() != "fragment of datagram 9: octets 0-1255" {
		t.Errorf("record %+v", r.Text())
	}
}
