package sw

import (
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/lldp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	lldpdu "tapir/wire/lldp"
)

// willing is a configuration whose ports take everything from their neighbors.
func willing() swconf.Config {
	return swconf.Config{Queue: 64, LLDP: swconf.LLDP{DCBX: dcbx.IEEE, WillingETS: true, WillingPFC: true, WillingApp: true}}
}

// pdu is the frame of a neighbor that recommends ETS 60/40 and has PFC for priority 5.
func pdu(from ether.Addr, ttl uint16) string {
	p := lldpdu.PDU{Chassis: lldpdu.MACID(lldpdu.ChassisMAC, from), Port: lldpdu.MACID(lldpdu.PortMAC, from), TTL: ttl}
	if ttl > 0 {
		e := lldpdu.ETS{PrioTC: [8]uint8{5: 1}, Weight: [8]uint8{60, 40}, TSA: [8]uint8{2, 2}}
		p.ETS, p.ETSRec, p.PFC = &e, &e, &lldpdu.PFC{Cap: 8, Enabled: 1 << 5}
		p.App = &lldpdu.App{Entries: []lldpdu.AppEntry{{Priority: 5, Selector: lldpdu.SelUDP, Protocol: 4791}}}
	}
	h := ether.Header{Dst: lldpdu.NearestBridge, Src: from, Type: ether.TypeLLDP}
	return string(p.AppendTo(h.AppendTo(nil)))
}

// told is the last LLDPDU that left a wire.
func (w *wire) told(t *testing.T) *lldpdu.PDU {
	t.Helper()
	for _, l := range w.got {
		if b := []byte(l.b); ether.IsLLDP(b) {
			p, err := lldpdu.Parse(b[ether.HeaderLen:])
			if err != nil {
				t.Fatal(err)
			}
			defer func() { w.got = nil }()
			return p
		}
	}
	return nil
}

// A port acts on what DCBX has come to with its neighbor, the other ports do not; frames that
// wait change their classes. Without the neighbor, as it says good-bye or is not heard for its
// time to live, and with two of them, the port is as configured. LLDPDUs never pass the switch.
func TestDCBX(t *testing.T) {
	want := dcb.Config{PrioTC: [8]uint8{5: 1}, Weight: [8]uint8{60, 40}, TSA: [8]dcb.TSA{dcb.ETS, dcb.ETS}, PFC: 1 << 5}
	for name, end := range map[string]func(b *bed){
		"good-bye":      func(b *bed) { b.send(0, pdu(host(1), 0)) },
		"age":           func(b *bed) { b.run(20 * time.Second) },
		"two neighbors": func(b *bed) { b.send(0, pdu(host(2), 20)) },
	} {
		b := newBed(t, 3, willing())
		b.run(time.Millisecond)
		if p := b.wires[2].told(t); p == nil || p.TTL != 121 || p.SystemName != "sw0" || p.Port.String() != "port2" || p.ETSRec == nil || !p.PFC.Willing || p.Capabilities.Enabled != lldpdu.CapBridge {
			t.Fatalf("a port tells %+v", p)
		}
		own := b.s.ports[0].dcb
		b.wires[0].room = 0 // what comes for port 0 waits
		b.send(0, tagged(host(9), host(1), 0, 100))
		for prio := range 8 {
			b.send(1, tagged(host(1), host(3), prio, 100))
		}
		b.send(0, pdu(host(1), 20))
		if got := b.s.ports[0].dcb; got != want || b.s.ports[1].dcb != own {
			t.Fatalf("port 0 acts on %+v, port 1 on %+v", got, b.s.ports[1].dcb)
		}
		for tc, n := range []int{7, 1, 0} {
			if c := b.s.ClassCounts(0)[tc]; c.Queued != n || c.QueuedOctets != n*100 || c.Weight != want.Weight[tc] {
				t.Errorf("class %+v, want %d frames", c, n)
			}
		}
		for _, w := range b.wires {
			w.take()
		}
		b.wires[0].room = 1000
		b.run(time.Second)
		if p := b.wires[0].told(t); p == nil || p.PFC.Enabled != 1<<5 || p.ETS.Weight != want.Weight {
			t.Errorf("%s: the port tells %+v", name, p)
		}
		if c := b.s.ClassCounts(0); c[0].Frames != 7 || c[1].Frames != 1 || c[0].QueueDrops+c[1].QueueDrops > 0 {
			t.Errorf("%s: classes %+v", name, c)
		}
		for i, w := range b.wires[1:] {
			if p := w.told(t); p != nil && p.Chassis.String() != b.s.cfg.MAC(0).String() {
				t.Errorf("an LLDPDU passed to port %d", i+1)
			}
		}
		end(b)
		if got := b.s.ports[0].dcb; got != own || b.s.ports[0].dcbx.TooMany() != (name == "two neighbors") {
			t.Errorf("%s: the port acts on %+v", name, got)
		}
		b.send(0, pdu(host(1), 20)[:40])
		if n := b.s.ports[0].lldp.Stats(lldp.NearestBridge); n.RxErrors != 1 || b.s.Counts(0).RxDrops[drop.Malformed] != 1 {
			t.Errorf("a malformed LLDPDU: %+v", n)
		}
	}
}

// A switch that ends says good-bye by each port, and a port whose link is down forgets its
// neighbors and is as configured.
func TestLeave(t *testing.T) {
	b := newBed(t, 2, willing())
	own := b.s.ports[0].dcb
	b.send(0, pdu(host(1), 20))
	b.s.SetLink(0, false, b.now)
	if got := b.s.ports[0].dcb; got != own || len(b.s.ports[0].lldp.Neighbors(lldp.NearestBridge)) > 0 {
		t.Errorf("without a link the port acts on %+v", got)
	}
	b.s.SetLink(0, true, b.now)
	b.run(time.Second)
	for _, w := range b.wires {
		w.take()
	}
	b.s.Leave(b.now)
	for i, w := range b.wires {
		if p := w.told(t); p == nil || p.TTL != 0 {
			t.Errorf("port %d says %+v", i, p)
		}
	}
}

// Without agents LLDPDUs end at the switch as other frames to groups of links do, unless the
// mask has them pass; an agent of one scope leaves the others' alone.
func TestWithoutLLDP(t *testing.T) {
	for mask, passed := range map[uint16]int{0: 0, 1 << 14: 1} {
		b := newBed(t, 2, swconf.Config{GroupFwdMask: mask, LLDP: swconf.LLDP{Agents: 1 << lldp.NearestCustomer}})
		b.run(time.Millisecond)
		b.wires[1].take()
		b.send(0, pdu(host(1), 20))
		b.run(time.Millisecond)
		if got := b.wires[1].take(); len(got) != passed || b.s.ports[0].lldp.Neighbors(lldp.NearestBridge) != nil {
			t.Errorf("mask %#x: %d passed", mask, len(got))
		}
	}
}
