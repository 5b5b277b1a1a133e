package vnic

import (
	"net/netip"
	"testing"
	"time"

	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// live is a vport with everything switched on, and things to remember.
func live(tb tester) (*fabric, *host) {
	fab := newFabric(tb, 1, realHFI(hfi.Config{}))
	h := fab.nodes[0].join(tb, 0, 2, Policy{Learn: true, Relay: true, Filter: true, Report: true, Snoop: true, Suppress: true,
		Age: time.Second, TxStorm: frame.Rate{PerSecond: 1000, Burst: 100}, RxStorm: frame.Rate{PerSecond: 1000, Burst: 100}})
	table, err := h.nd.MACTable().Set(3, []Entry{
		{MAC: ether.Addr{1, 0, 0x5e, 1, 2, 3}, DLID: opa.FirstMulticast + 9},
		{MAC: ether.Addr{0x52}, Mask: ether.Addr{0xff}, DLID: 7},
	}, 1)
	must(tb, err)
	h.nd.SetMACTable(table)
	far := ether.Addr{0x54, 0, 0, 0, 0, 1}
	fab.nodes[0].injects(opa.Header{SLID: 9, DLID: 1, PKey: 0x8001, VESW: 2},
		arpFrame(h.mac, arp.Packet{Op: arp.Reply, SenderMAC: far, SenderIP: netip.MustParseAddr("10.0.0.9"), TargetIP: netip.MustParseAddr("10.0.0.1")}, 0))
	h.send(igmp4(ether.Addr{0x56}, 0x16, "239.1.2.3"))
	fab.run()
	return fab, h
}

// innerSeeds are Ethernet frames that a vport looks into.
func innerSeeds(f *testing.F, add func(b []byte)) {
	mac := opa.LMAC{Fabric: fabricID, VESW: 2, LID: 1}.Addr()
	request := arp.Packet{Op: arp.Request, SenderMAC: mac, SenderIP: netip.MustParseAddr("10.0.0.1"), TargetIP: netip.MustParseAddr("10.0.0.9")}
	add(arpFrame(ether.Broadcast, request, 0))
	add(arpFrame(ether.Broadcast, request, 7))
	add(igmp4(mac, 0x17, "239.1.2.3"))
	add(mld(mac, 3, "ff05::1:3"))
	add(eth(ether.Addr{0x52, 1}, ether.Addr{0x54}, 60, 0))
	add(tagged(mac, ether.Addr{0x54}, 7, 1518))
	add(nil)
}

// settle checks that nothing that went in vanished.
func (fab *fabric) settle(t *testing.T, h *host) {
	fab.run()
	fab.now += frame.Time(time.Hour)
	fab.run()
	s, c := h.nd.Stats(), fab.nodes[0].Lower().(*hfi.Port).Counts()
	if s.HostRx != s.Tx.Unicast+s.Tx.McastBcast+s.TxDrops.Total()+s.Answered ||
		c.RxPackets != c.RxDrops.Total()+s.HostTx-s.Answered+s.RxDrops.Total()+s.Relayed || fab.pool.Lent() != 0 {
		t.Fatalf("%d frames vanished: %+v %+v", fab.pool.Lent(), s, c)
	}
}

// FuzzReceive gives a port any octets, and any header around any frame.
func FuzzReceive(f *testing.F) {
	innerSeeds(f, func(b []byte) { f.Add(b, uint32(6), uint32(1), uint16(0x8001), uint16(2), uint8(0)) })
	f.Add([]byte{0, 1, 2}, uint32(1), uint32(0xf00002), uint16(0x7fff), uint16(258), uint8(15))
	f.Fuzz(func(t *testing.T, b []byte, slid, dlid uint32, pkey, vesw uint16, sc uint8) {
		if len(b) > 12000 {
			return
		}
		fab, h := live(t)
		n := fab.nodes[0]
		n.receive(fab.copyOf(b))
		raw := fab.copyOf(b)
		raw.Prepend(14)
		copy(raw.Bytes()[12:], []byte{0x88, 0xb5})
		n.receive(raw)
		n.injects(opa.Header{SLID: opa.LID(slid), DLID: opa.LID(dlid), PKey: pkey, VESW: vesw, SC: sc}, b)
		fab.settle(t, h)
	})
}

// FuzzTransmit gives a vport any frame of its host, twice.
func FuzzTransmit(f *testing.F) {
	innerSeeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 12000 {
			return
		}
		fab, h := live(t)
		h.send(b)
		h.send(b)
		fab.settle(t, h)
	})
}
