package vnic

import (
	"testing"

	"pgregory.net/rapid"

	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// packets returns the 16B packets that a node sends while do runs.
func (fab *fabric) packets(do func()) (list []opa.Packet) {
	fab.log = func(_ int, b []byte) {
		f := fab.copyOf(b)
		if _, r := opa.Unwrap(f); r != frame.DropNone {
			panic(r.String())
		}
		p, r := opa.Parse(append([]byte(nil), f.Bytes()...), opa.ICRCv1)
		if r != frame.DropNone {
			panic(r.String())
		}
		list = append(list, p)
		f.Release()
	}
	do()
	fab.run()
	fab.log = nil
	return list
}

// dlidModel is the choice of the DLID as facts and policy say it, 0 for none.
func dlidModel(cfg *Config, list []Entry, p Policy, seen map[ether.Addr]opa.LID, dst ether.Addr, entropy uint8) opa.LID {
	if e, ok := lookupModel(list, dst, false); ok && e.DLID != 0 {
		return e.DLID
	}
	if dst[0]&1 == 1 {
		return cfg.McastDLID
	}
	lid := opa.LID(dst[3]) | opa.LID(dst[4])<<8 | opa.LID(dst[5])<<16
	v := int(dst[0]) | int(dst[1])<<8 | int(dst[2])<<16
	if v&3 == 2 && v>>2&0x3ff == int(cfg.FabricID) && v>>12 == int(cfg.VESWID) && lid.IsUnicast() {
		return lid
	}
	if p.Learn && seen[dst] != 0 {
		return seen[dst]
	}
	var ports []int
	for i := range DefaultPorts {
		if cfg.DefPortMask>>i&1 == 1 {
			ports = append(ports, i)
		}
	}
	if p.Unknown == ToAll || p.Unknown == ToProxy && len(ports) == 0 {
		return cfg.McastDLID
	}
	if p.Unknown == Discard || len(ports) == 0 {
		return 0
	}
	return cfg.UcastDLID[ports[int(entropy%16+entropy/16)%len(ports)]]
}

func TestForwardingAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fab := newFabric(t, 1, realHFI(hfi.Config{}))
		policy := Policy{Learn: rapid.Bool().Draw(rt, "learn"), Unknown: Unknown(rapid.IntRange(0, 3).Draw(rt, "unknown"))}
		h := fab.nodes[0].join(t, 0, 2, policy)
		cfg := h.nd.Config()
		cfg.DefPortMask = rapid.SampledFrom([]uint16{0, 1, 0x8001, 0x0ff0, 0xffff, 0x0420}).Draw(rt, "default ports")
		cfg.McastDLID = rapid.SampledFrom([]opa.LID{0, opa.FirstMulticast, 0x77}).Draw(rt, "multicast DLID")
		for i := range cfg.UcastDLID {
			cfg.UcastDLID[i] = opa.LID(rapid.IntRange(0, 3).Draw(rt, "port") * (i + 16))
		}
		must(t, h.nd.Configure(cfg))
		list := rapid.SliceOfN(rapid.Custom(anEntry), 0, 12).Draw(rt, "table")
		for i := range list {
			list[i].Flags &^= SourceMAC // those are another test's
		}
		table, err := h.nd.MACTable().Set(0, list, 1)
		must(t, err)
		h.nd.SetMACTable(table)
		seen := map[ether.Addr]opa.LID{}
		for range 6 {
			src, lid := anAddr(rt, "source"), opa.LID(rapid.IntRange(2, 9).Draw(rt, "from"))
			if src.IsMulticast() || src.IsZero() || src == h.mac {
				continue
			}
			header := opa.Header{SLID: lid, DLID: 1, PKey: 0x8001, VESW: 2}
			f := fab.copyOf(header.AppendTo(nil, eth(h.mac, src, 60, 0), opa.ICRCv1))
			opa.FramingNSH.Wrap(f, fabricID)
			fab.nodes[0].receive(f)
			seen[src] = lid
		}
		for range 20 {
			dst := anAddr(rt, "station")
			switch rapid.IntRange(0, 5).Draw(rt, "kind") {
			case 0:
				dst = opa.LMAC{Fabric: fabricID, VESW: 2, LID: opa.LID(rapid.IntRange(0, 1<<24-1).Draw(rt, "LID"))}.Addr()
			case 1:
				dst = opa.LMAC{Fabric: 5, VESW: uint16(rapid.IntRange(1, 3).Draw(rt, "vESW")), LID: 9}.Addr()
			}
			b := eth(dst, h.mac, 60, rapid.Uint32().Draw(rt, "payload"))
			entropy := opa.Entropy(opa.ParseFlow(b).Hash)
			want := dlidModel(&cfg, list, policy, seen, dst, entropy)
			before := h.nd.Stats().TxDrops
			packets := fab.packets(func() { h.send(b) })
			if want == 0 {
				before.Count(opa.DropNoDLID)
				if len(packets) != 0 || h.nd.Stats().TxDrops != before {
					rt.Fatalf("to %v: %d packets, want none", dst, len(packets))
				}
				continue
			}
			if len(packets) != 1 || packets[0].DLID() != want || packets[0].Entropy() != uint16(entropy) {
				rt.Fatalf("to %v: %d packets, DLID %v, want %v", dst, len(packets), packets[0].DLID(), want)
			}
		}
	})
}

// tagged is eth with a VLAN tag.
func tagged(dst, src ether.Addr, tci uint16, size int) []byte {
	b := make([]byte, max(size, 22))
	hd := ether.Header{Dst: dst, Src: src, Type: 0x88b7, NTags: 1}
	hd.Tags[0] = ether.Tag{TPID: ether.TypeVLAN, TCI: tci}
	hd.Put(b)
	return b
}

// Every field of the header as the configuration says.
func TestHeader(t *testing.T) {
	fab := newFabric(t, 1, realHFI(hfi.Config{}))
	h := fab.nodes[0].join(t, 0, 0xabc, Policy{})
	cfg := h.nd.Config()
	cfg.PKey, cfg.EncapSLID, cfg.RC = 0x7abc, 0x123456, 0x07654321
	cfg.QoS.Unicast = opa.Lanes{SC: [8]uint8{3: 13}, VL: [8]uint8{3: 3}, UntaggedSC: 1, UntaggedVL: 1}
	cfg.QoS.Multicast = opa.Lanes{SC: [8]uint8{3: 23}, VL: [8]uint8{3: 7}, UntaggedSC: 2, UntaggedVL: 2}
	must(t, h.nd.Configure(cfg))
	to := opa.LMAC{Fabric: fabricID, VESW: 0xabc, LID: 0xabcdef}.Addr()
	udp := eth(to, h.mac, 100, 0)
	copy(udp[12:], []byte{0x08, 0x00, 0x45, 0, 0, 86, 0, 0, 0, 0, 64, 17})
	for _, c := range []struct {
		name   string
		b      []byte
		sc, rc uint8
		vl     uint16
		dlid   opa.LID
	}{
		{"unicast", eth(to, h.mac, 60, 0), 1, 1, 1, 0xabcdef},
		{"multicast", eth(ether.Broadcast, h.mac, 60, 0), 2, 1, 2, cfg.McastDLID},
		{"priority 3", tagged(to, h.mac, 3<<13|7, 60), 13, 1, 3, 0xabcdef},
		{"multicast of priority 3", tagged(ether.Broadcast, h.mac, 3<<13|7, 60), 23, 1, 7, cfg.McastDLID},
		{"UDP", udp, 1, 3, 1, 0xabcdef},
	} {
		var queue uint16
		got := fab.packets(func() {
			h.send(c.b)
			fab.nodes[0].poll()
			queue = fab.wire[0].f.Queue
		})
		want := opa.Header{SLID: 0x123456, DLID: c.dlid, SC: c.sc, RC: c.rc, PKey: 0x7abc, VESW: 0xabc,
			Entropy: uint16(opa.Entropy(opa.ParseFlow(c.b).Hash))}
		if len(got) != 1 || got[0].Header() != want || queue/2 != c.vl {
			t.Errorf("%s: %+v in queue %d, want %+v", c.name, got[0].Header(), queue, want)
		}
	}
}

// Several default ports share the unknown stations by entropy: the table has
// 32 places, filled in turn.
func TestDefaultPortsInTurn(t *testing.T) {
	got := spread(0x8421)
	for i, port := range got {
		if want := [4]uint8{0, 5, 10, 15}[i%4]; port != want {
			t.Errorf("place %d: port %d, want %d", i, port, want)
		}
	}
}
