package l2

import (
	"testing"

	"tapir/wire/frame"
	"tapir/wire/geneve"
	"tapir/wire/ip"
)

// Whatever comes in or is to be sent, nothing breaks and no frame is lost.
func FuzzFrame(f *testing.F) {
	var gnv [8]byte
	(&geneve.Header{Protocol: geneve.TypeEthernet, VNI: 7}).Put(gnv[:], 0)
	b, off := super(true, 3000, 1000, true)
	for _, seed := range [][]byte{
		nil, eth(addr(1), outside, 60, 5, 6), packet4(addr(1), ip.ProtoTCP, 1, 2, 3, 900), b,
		over(addr(1), ip.ProtoUDP, 6081, gnv[:], eth(addr(2), outside, 60)),
		over(addr(1), protoGRE, 0, []byte{0xb0, 0, 0x65, 0x58, 0, 0, 0, 0, 0, 0, 0, 9}, eth(addr(2), outside, 60)),
	} {
		f.Add(seed, uint8(off.GSO), off.GSOSize, off.CsumStart, off.CsumOffset)
	}
	f.Fuzz(func(t *testing.T, data []byte, gso uint8, size, start, offset uint16) {
		w := newWorld(t, Config{})
		list := w.start(StartParams{TPA: TPARSC, TxSwitching: true, RemoveInnerVLAN: true, DropTTL0: true}, 0, 1)
		list = append(list, w.start(StartParams{Vport: 1}, 2)...)
		out := w.txq(0, 0)
		w.run(0, Promisc)
		w.run(1, Promisc)
		on, tpa := true, DefaultTPA(64)
		rss := RSSParams{UpdateConfig: true, UpdateCaps: true, UpdateTable: true, UpdateKey: true, Enable: true, Hashes: allHashes, Key: standardKey}
		rss.Table[0] = list[1]
		tunnels := TunnelParams{VXLANPort: VXLANPort, GenevePort: GenevePort}
		for i := range tunnels.Enable {
			tunnels.Enable[i] = true
		}
		tunnels.Class[VXLAN], tunnels.Class[L2Geneve], tunnels.Class[L2GRE] = ClassInnerMACVLAN, ClassInnerMACVLAN, ClassInnerMACVLAN
		w.ok(w.VportUpdate(UpdateParams{RSS: &rss, TPA: &tpa, RxChecksum: &on}))
		w.ok(w.SetTunnels(tunnels))
		w.ok(w.AddRule(Rule{Tuple: Tuple{Proto: ip.ProtoTCP, DstPort: 80}, Queue: 1}))
		o := frame.Offload{NeedsCsum: start != 0, CsumStart: start, CsumOffset: offset, GSO: frame.GSO(gso), GSOSize: size}
		for range 2 {
			g := w.frame(data)
			g.Offload = o
			if w.Receive(g) != frame.DropNone {
				g.Release()
			}
		}
		w.Flush()
		g := w.frame(data)
		g.Offload = o
		out.Post(g, TxBD{InsertVLAN: size == 1, VLAN: 5})
		out.Doorbell()
		port := &link{room: 1 << 20}
		w.Transmit(port)
		port.release()
		for _, q := range list {
			take(q)
		}
		w.idle()
	})
}
