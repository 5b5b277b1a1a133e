package sw

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/opa"
	"tapir/wire/drop"
	"tapir/wire/ether"
)

// reached are the ports at which exactly this one frame came out.
func (b *bed) reached(bytes string) (ports []int) {
	b.t.Helper()
	b.run(0)
	for i, w := range b.wires {
		for _, l := range w.take() {
			if l.b != bytes {
				b.t.Errorf("port %d: %q", i, l.b)
			}
			ports = append(ports, i)
		}
	}
	return ports
}

func TestLearning(t *testing.T) {
	b := newBed(t, 4, swconf.Config{Ageing: 10 * time.Second})
	expect := func(in int, f string, want ...int) {
		t.Helper()
		b.send(in, f)
		if got := b.reached(f); !slices.Equal(got, want) {
			t.Errorf("reached ports %v, want %v", got, want)
		}
	}
	hello := eth(host(2), host(1), "hello")
	answer := eth(host(1), host(2), "answer")
	expect(0, hello, 1, 2, 3)
	expect(1, answer, 0)
	expect(0, hello, 1)
	expect(0, eth(anyone, host(1), "all"), 1, 2, 3)
	expect(0, eth(ether.Addr{1, 0, 0x5e, 0, 1, 129}, host(1), "group"), 1, 2, 3)
	// 802.1Q tags pass, and VLANs share the table.
	expect(0, string(append(append([]byte(hello[:12]), 0x81, 0, 0x20, 7), hello[12:]...)), 1)
	// A station that moves.
	expect(2, answer, 0)
	expect(0, hello, 2)
	expect(2, hello) // behind the port it came from
	rows := b.s.MACs(b.now)
	if len(rows) != 2 || rows[0].MAC != host(1) || rows[0].Port != "port2" || rows[1].Port != "port2" {
		t.Errorf("%+v", rows)
	}
	if b.s.macs.moves != 2 {
		t.Errorf("%d moves", b.s.macs.moves)
	}
	b.run(11 * time.Second)
	expect(0, hello, 1, 2, 3)
	if n := len(b.s.MACs(b.now)); n != 1 {
		t.Errorf("%d addresses after ageing", n)
	}
	c := b.s.Counts(2)
	if c.RxFrames != 2 || c.TxFrames != 5 || c.RxDrops[DropSamePort] != 1 || c.RxDrops.Total() != 1 {
		t.Errorf("port 2: %+v", c)
	}
	if c := b.s.Counts(0); c.Flooded != 4 || c.RxOctets == 0 || c.TxOctets == 0 {
		t.Errorf("port 0: %+v", c)
	}
}

func TestFullTable(t *testing.T) {
	b := newBed(t, 3, swconf.Config{MACs: 2, Ageing: time.Second})
	for n := range byte(3) {
		b.send(0, eth(anyone, host(n+1), ""))
	}
	if b.run(0); len(b.s.MACs(b.now)) != 2 || b.s.macs.full != 1 {
		t.Errorf("%+v, %d refused", b.s.MACs(b.now), b.s.macs.full)
	}
	b.run(time.Second)
	b.send(0, eth(anyone, host(9), ""))
	if rows := b.s.MACs(b.now); len(rows) != 1 || rows[0].MAC != host(9) {
		t.Errorf("%+v", rows)
	}
	b.run(0)
}

func TestLinkLocal(t *testing.T) {
	for mask, want := range map[uint16]string{0: "", 0x4000: "0e", 0xfff8: "03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f"} {
		b := newBed(t, 2, swconf.Config{GroupFwdMask: mask})
		for n := range byte(16) {
			b.send(0, eth(ether.Addr{1, 0x80, 0xc2, 0, 0, n}, host(1), ""))
		}
		b.send(0, eth(ether.Addr{1, 0x80, 0xc2, 0, 0, 0x10}, host(1), ""))
		b.run(0)
		var passed []string
		for _, l := range b.wires[1].take() {
			passed = append(passed, ether.Addr([]byte(l.b[:6])).String()[15:])
		}
		if got := strings.Join(passed, " "); got != strings.TrimSpace(want+" 10") {
			t.Errorf("mask %#x: passed %s", mask, got)
		}
		if got := b.s.Counts(0).RxDrops[DropLinkLocal]; got != uint64(17-len(passed)) {
			t.Errorf("mask %#x: %d dropped", mask, got)
		}
	}
}

func TestBadFrames(t *testing.T) {
	b := newBed(t, 2, swconf.Config{})
	b.send(0, "short")
	b.send(0, eth(anyone, anyone, "from a group"))
	b.send(0, eth(anyone, ether.Addr{}, "from nobody"))
	b.run(0)
	if d := b.s.Counts(0).RxDrops; d[drop.Truncated] != 1 || d[drop.Source] != 2 || len(b.wires[1].got) != 0 {
		t.Errorf("%v, %d passed", d, len(b.wires[1].got))
	}
}

// An egress queue is bounded and keeps the order of its frames.
func TestQueue(t *testing.T) {
	b := newBed(t, 2, swconf.Config{Queue: 5, Delay: swconf.Delay{Dist: swconf.Uniform, Min: time.Microsecond, Max: 500 * time.Microsecond}})
	var want []string
	for i := range 7 {
		f := eth(anyone, host(1), string(rune('a'+i)))
		b.send(0, f)
		want = append(want, f)
	}
	b.run(time.Millisecond)
	var got []string
	for _, l := range b.wires[1].take() {
		got = append(got, l.b)
	}
	if !slices.Equal(got, want[:5]) {
		t.Errorf("%q", got)
	}
	if c := b.s.Counts(1); c.TxDrops[drop.TxQueue] != 2 || c.QueueMost != 5 {
		t.Errorf("%+v", c)
	}
	b.wires[1].room = 0
	b.send(0, want[0])
	b.run(time.Second)
	if len(b.wires[1].got) != 0 {
		t.Error("a frame left by a link without room")
	}
	b.wires[1].room = 1
	b.run(0)
	if len(b.wires[1].take()) != 1 {
		t.Error("the frame is lost")
	}
}

func TestConfigErrors(t *testing.T) {
	if _, err := New(swconf.Config{}, Env{}); err == nil {
		t.Error("a switch without ports")
	}
}

// An egress queue that is fuller than the threshold says marks packets of Omni-Path that
// are long enough, with as many between two as the rate says; other frames never.
func TestFECN(t *testing.T) {
	h := opa.Header{SLID: 1, DLID: 2, PKey: 0x8001, VESW: 2}
	packet := func(octets int) string {
		b := ether.Header{Dst: host(2), Src: host(1), Type: opa.EtherType16B}.AppendTo(nil)
		return string(h.AppendTo(b, make([]byte, octets), opa.ICRCv1))
	}
	const long, short = 1000, 60
	for _, c := range []struct {
		cfg  swconf.Config
		want string // of each packet that leaves: F with FECN, - without
	}{
		{swconf.Config{Queue: 16}, "---------"},
		{swconf.Config{Queue: 16, FECNThreshold: 12}, "----F-FFF"}, // of 8 packets, a foreign frame and 8 again: the 5th on
		{swconf.Config{Queue: 16, FECNThreshold: 15}, "-FFFF-FFF"},
		{swconf.Config{Queue: 16, FECNThreshold: 1}, "---------"},
		{swconf.Config{Queue: 16, FECNThreshold: 15, FECNRate: 2}, "-F--F---F"},
		{swconf.Config{Queue: 16, FECNThreshold: 15, FECNSize: 500}, "-FF-F-FFF"},
	} {
		b := newBed(t, 2, c.cfg)
		b.send(1, eth(host(1), host(2), "here"))
		b.run(0)
		b.wires[0].take()
		b.wires[1].room = 0
		for i := range 9 {
			switch i {
			case 3:
				b.send(0, packet(short))
			case 5:
				b.send(0, eth(host(2), host(1), strings.Repeat("x", long)))
			default:
				b.send(0, packet(long))
			}
		}
		b.wires[1].room = 1000
		b.run(0)
		got, marked := "", uint64(0)
		for _, l := range b.wires[1].take() {
			mark := "-"
			if p, r := opa.Parse([]byte(l.b)[ether.HeaderLen:], opa.ICRCv1); r == 0 && p.FECN() {
				mark = "F"
				marked++
			}
			got += mark
		}
		if got != c.want || b.s.Counts(1).Marked != marked {
			t.Errorf("%+v: %s, want %s; counted %d", c.cfg, got, c.want, b.s.Counts(1).Marked)
		}
	}
}
