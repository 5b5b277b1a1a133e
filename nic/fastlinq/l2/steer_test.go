package l2

import (
	"net/netip"
	"testing"

	"tapir/nic/fastlinq/status"
	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/geneve"
	"tapir/wire/ip"
)

// L2-22
func TestRules(t *testing.T) {
	w := newWorld(t, Config{Share: Share{Vports: 2, Queues: 4, MACs: 4, VLANs: 4, RSSEngines: 1, Rules: 3}})
	qs := w.start(StartParams{}, 0, 1)
	w.start(StartParams{Vport: 1}, 2)
	w.run(0, Promisc)
	src, dst := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.200")
	full := Tuple{Proto: ip.ProtoTCP, Src: src, Dst: dst, SrcPort: 1000, DstPort: 80}
	for name, r := range map[string]Rule{
		"no field": {}, "no protocol": {Tuple: Tuple{DstPort: 80}}, "ICMP": {Tuple: Tuple{Proto: 1, Dst: dst}},
		"a mix": {Tuple: Tuple{Proto: 6, Src: src, DstPort: 80}}, "families": {Tuple: Tuple{Proto: 6, V6: true, Src: src}},
		"another vport's queue": {Tuple: full, Queue: 2}, "no queue": {Tuple: full, Queue: 3}, "no vport": {Tuple: full, Vport: 2},
		"tunnel and more": {Tuple: Tuple{Tunnel: VXLAN, Proto: 6}}, "unknown tunnel": {Tuple: Tuple{Tunnel: 9}},
	} {
		if err := w.AddRule(r); status.Of(err) != status.Inval {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.ok(w.AddRule(Rule{Tuple: full, Queue: 1}))
	w.want(status.Exists, w.AddRule(Rule{Tuple: full, Drop: true}))
	w.want(status.Inval, w.AddRule(Rule{Tuple: Tuple{Proto: 6, DstPort: 80}})) // another profile
	other := full
	other.SrcPort = 1001
	w.ok(w.AddRule(Rule{Tuple: other, Drop: true}))
	third := full
	third.Proto = ip.ProtoUDP
	w.ok(w.AddRule(Rule{Tuple: third, Queue: NoQueue}))
	third.DstPort = 9
	w.want(status.NoResources, w.AddRule(Rule{Tuple: third}))

	in := func(proto uint8, sport uint16) (frame.DropReason, int, int) {
		r := w.receive(packet4(addr(1), proto, 7, sport, 80, 10))
		a, _ := take(qs[0])
		b, _ := take(qs[1])
		return r, len(a), len(b)
	}
	if r, a, b := in(ip.ProtoTCP, 1000); r != frame.DropNone || a != 0 || b != 1 {
		t.Errorf("to a queue: %v, %d, %d", r, a, b)
	}
	if r, a, b := in(ip.ProtoTCP, 1001); r != nicdrop.Rule || a+b != 0 {
		t.Errorf("dropped: %v, %d, %d", r, a, b)
	}
	if r, a, b := in(ip.ProtoTCP, 1002); r != frame.DropNone || a != 1 || b != 0 {
		t.Errorf("no rule: %v, %d, %d", r, a, b)
	}
	if s, _ := w.Stats(0); s.GFTFilterDrop != 1 {
		t.Errorf("%+v", s)
	}
	// A flow that goes on meanwhile meets each change at once.
	for range 2 {
		w.ok(w.RemoveRule(other))
		if r, _, _ := in(ip.ProtoTCP, 1001); r != frame.DropNone {
			t.Errorf("its rule is gone: %v", r)
		}
		w.ok(w.AddRule(Rule{Tuple: other, Drop: true}))
		if r, _, _ := in(ip.ProtoTCP, 1001); r != nicdrop.Rule {
			t.Errorf("its rule is back: %v", r)
		}
	}
	w.want(status.NoEnt, w.RemoveRule(third))
	w.ok(w.RemoveRule(full))
	w.ok(w.RemoveRule(other))
	third.DstPort = 80
	w.ok(w.RemoveRule(third))
	if w.Profile() != ProfileNone {
		t.Errorf("profile %v of no rules", w.Profile())
	}
	if r, a, _ := in(ip.ProtoTCP, 1001); r != frame.DropNone || a != 1 {
		t.Errorf("after removal: %v", r)
	}

	// The other profiles, one after the other.
	for _, tp := range []Tuple{{Proto: 6, DstPort: 80}, {Proto: 6, Src: src}, {Proto: 6, Dst: dst}} {
		w.ok(w.AddRule(Rule{Tuple: tp, Queue: 1}))
		if r, a, b := in(ip.ProtoTCP, 5); r != frame.DropNone || b != 1 {
			t.Errorf("%+v: %v, %d, %d", tp, r, a, b)
		}
		if r, a, b := in(ip.ProtoUDP, 5); r != frame.DropNone || a != 1 {
			t.Errorf("%+v, UDP: %v, %d, %d", tp, r, a, b)
		}
		w.ok(w.RemoveRule(tp))
	}
	w.idle()
}

// over puts a frame into a tunnel's packet.
func over(dst ether.Addr, proto uint8, port uint16, head, inner []byte) []byte {
	b := packet4(dst, proto, 7, 5555, port, 0)[:34]
	if proto == ip.ProtoUDP {
		n := 8 + len(head) + len(inner)
		b = append(b, 5555>>8, 5555&255, byte(port>>8), byte(port), byte(n>>8), byte(n), 0, 0)
	}
	b = append(append(b, head...), inner...)
	n := len(b) - 14
	b[16], b[17], b[24], b[25] = byte(n>>8), byte(n), 0, 0
	sum := ip.Checksum(b[14:34], 0)
	b[24], b[25] = byte(sum>>8), byte(sum)
	return b
}

// L2-23
func TestTunnels(t *testing.T) {
	w := newWorld(t, Config{})
	q := w.start(StartParams{}, 0)[0]
	w.run(0, Regular)
	w.ok(w.FilterUcast(UcastParams{Sides: Both, MAC: addr(1)}))
	inner := eth(addr(2), outside, 60)
	var gnv [8]byte
	(&geneve.Header{Protocol: geneve.TypeEthernet, VNI: 0x123456}).Put(gnv[:], 0)
	ipgnv := gnv
	ipgnv[2], ipgnv[3] = 8, 0
	packets := map[TunnelType][]byte{
		VXLAN:    over(addr(1), ip.ProtoUDP, 4789, []byte{8, 0, 0, 0, 0x12, 0x34, 0x56, 0}, inner),
		L2Geneve: over(addr(1), ip.ProtoUDP, 6081, gnv[:], inner),
		IPGeneve: over(addr(1), ip.ProtoUDP, 6081, ipgnv[:], inner[14:]),
		L2GRE:    over(addr(1), protoGRE, 0, []byte{0x20, 0, 0x65, 0x58, 0, 0x12, 0x34, 0x56}, inner),
		IPGRE:    over(addr(1), protoGRE, 0, []byte{0, 0, 8, 0}, inner[14:]),
		NoTunnel: over(addr(1), ip.ProtoUDP, 4790, []byte{8, 0, 0, 0, 0x12, 0x34, 0x56, 0}, inner),
	}
	seen := func(b []byte) (TunnelType, uint32) {
		w.receive(b)
		_, cqes := take(q)
		if len(cqes) != 1 {
			return NoTunnel, 0
		}
		return cqes[0].Tunnel.Type, cqes[0].Tunnel.VNI
	}
	for typ, b := range packets {
		if got, _ := seen(b); got != NoTunnel {
			t.Errorf("%v is known before it is enabled", typ)
		}
	}
	p := TunnelParams{VXLANPort: VXLANPort, GenevePort: GenevePort}
	for i := range p.Enable {
		p.Enable[i] = true
	}
	w.ok(w.SetTunnels(p))
	for typ, b := range packets {
		if got, vni := seen(b); got != typ || typ != IPGRE && typ != NoTunnel && vni != 0x123456 {
			t.Errorf("%v is seen as %v, VNI %#x", typ, got, vni)
		}
	}
	for n := range packets[L2Geneve] { // cut anywhere, nothing breaks
		w.receive(packets[L2Geneve][:n])
		w.receive(packets[L2GRE][:n])
	}
	take(q)
	if w.AddRule(Rule{Tuple: Tuple{Tunnel: VXLAN}, Drop: true}) != nil || w.receive(packets[VXLAN]) != nicdrop.Rule {
		t.Error("no rule for a tunnel")
	}
	w.ok(w.RemoveRule(Tuple{Tunnel: VXLAN}))

	// By the address inside.
	p.Class[VXLAN] = ClassInnerMACVLAN
	w.ok(w.SetTunnels(p))
	if w.receive(packets[VXLAN]) != drop.NotOurMAC || w.receive(packets[L2Geneve]) != frame.DropNone {
		t.Error("the outer address counts")
	}
	w.ok(w.FilterUcast(UcastParams{Sides: Both, MAC: addr(2)}))
	if w.receive(packets[VXLAN]) != frame.DropNone {
		t.Error("the inner address does not count")
	}
	take(q)
	// Another port takes the place of the one: there is only one of a kind.
	p.VXLANPort = 4790
	w.ok(w.SetTunnels(p))
	if typ, _ := seen(packets[VXLAN]); typ != NoTunnel {
		t.Errorf("%v on the port before", typ)
	}
	p.Class[IPGRE] = ClassInnerMACVLAN
	w.want(status.Inval, w.SetTunnels(p))
	p.Class[IPGRE], p.Class[VXLAN] = 0, numClasses
	w.want(status.Inval, w.SetTunnels(p))
	w.want(status.Inval, w.SetTunnels(TunnelParams{VXLANPort: 5, GenevePort: 5}))
	w.idle()
}
