package vnic

import (
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// world is a fabric in which anything may happen.
type world struct {
	*fabric
	hosts []*host // of all nodes
}

func newWorld(rt *rapid.T) *world {
	keys := []uint16{0x8001, 0x0001, 0x8002, 0x0002}
	w := &world{fabric: newFabric(rt, 3, realHFI(hfi.Config{PKeys: []uint16{0x8001, 0x8002}, QueueFrames: 8}))}
	for _, n := range w.nodes {
		for num := range uint8(rapid.IntRange(1, 3).Draw(rt, "vports")) {
			id := rapid.SampledFrom([]uint16{1, 257, 513, 2}).Draw(rt, "vESW")
			if n.VESW(id) != nil {
				continue
			}
			h := n.join(rt, num, id, aPolicy(rt))
			c := h.nd.Config()
			c.PKey = rapid.SampledFrom(keys).Draw(rt, "P_Key")
			c.DefPortMask, c.UcastDLID[0], c.UcastDLID[1] = uint16(rapid.IntRange(0, 3).Draw(rt, "default ports")), 1, 2
			if err := h.nd.Configure(c); err != nil {
				rt.Fatal(err)
			}
			w.hosts = append(w.hosts, h)
		}
	}
	return w
}

func aPolicy(rt *rapid.T) Policy {
	flag := func(name string) bool { return rapid.Bool().Draw(rt, name) }
	return Policy{
		Unknown: Unknown(rapid.IntRange(0, 3).Draw(rt, "unknown")), Learn: flag("learn"), Relay: flag("relay"), Filter: flag("filter"),
		Snoop: flag("snoop"), Suppress: flag("suppress"), Report: flag("report"), AllGroups: flag("all groups"),
		Age: time.Microsecond, MaxStations: 6, MaxPerLID: 3, HostQueue: 4,
		TxStorm: frame.Rate{PerSecond: uint32(rapid.IntRange(0, 1).Draw(rt, "storm")) * 1e6, Burst: 3},
	}
}

// station draws an address that may exist somewhere.
func (w *world) station(rt *rapid.T) ether.Addr {
	switch rapid.IntRange(0, 5).Draw(rt, "kind of station") {
	case 0:
		return ether.Broadcast
	case 1:
		return ether.Addr{1, 0, 0x5e, 1, 2, byte(rapid.IntRange(0, 2).Draw(rt, "group"))}
	case 2:
		return ether.Addr{0x52, 0, 0, 0, 0, byte(rapid.IntRange(0, 4).Draw(rt, "VM"))}
	}
	return rapid.SampledFrom(w.hosts).Draw(rt, "host").mac
}

// step does one thing.
func (w *world) step(rt *rapid.T, serial uint32) {
	i := rapid.IntRange(0, len(w.hosts)-1).Draw(rt, "which host")
	h := w.hosts[i]
	switch rapid.IntRange(0, 14).Draw(rt, "what") {
	case 0:
		h.nd.Close()
	case 1:
		h.nd.Open()
	case 2:
		h.nd.SetPolicy(aPolicy(rt))
	case 3:
		w.nodes[rapid.IntRange(0, 2).Draw(rt, "node")].setPort(rapid.Bool().Draw(rt, "active"))
	case 4:
		h.full = !h.full
	case 5:
		var list []Entry
		for range rapid.IntRange(0, 4).Draw(rt, "entries") {
			e := Entry{MAC: w.station(rt), DLID: opa.LID(rapid.IntRange(0, 3).Draw(rt, "DLID"))}
			if rapid.IntRange(0, 3).Draw(rt, "source") == 0 {
				e.Flags = SourceMAC
			}
			list = append(list, e)
		}
		table, err := h.nd.MACTable().Set(0, list, serial)
		if err != nil {
			rt.Fatal(err)
		}
		h.nd.SetMACTable(table)
	case 6:
		w.now += frame.Time(rapid.IntRange(0, 2000).Draw(rt, "time"))
		w.run()
	default:
		src := h.mac
		if rapid.IntRange(0, 2).Draw(rt, "a VM's") == 0 {
			src = w.station(rt)
		}
		b := eth(w.station(rt), src, rapid.SampledFrom([]int{20, 60, 1514, 1600}).Draw(rt, "size"), serial<<8|uint32(i))
		h.send(b)
	}
}

// Frames are delivered, relayed, answered for others or dropped with a reason;
// none vanishes, and none crosses from one vESW or partition to another,
// whatever happens to the vports meanwhile.
func TestConservationAndIsolation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		for serial := range uint32(rapid.IntRange(10, 60).Draw(rt, "steps")) {
			w.step(rt, serial)
		}
		for _, h := range w.hosts {
			h.full = false
		}
		w.run()
		for i, h := range w.hosts {
			cfg := h.nd.Config()
			for _, b := range h.take() {
				from := w.hosts[binary.BigEndian.Uint32(b[14:])&0xff].nd.Config()
				if from.VESWID != cfg.VESWID || !opa.PKeyMatch(from.PKey, cfg.PKey) {
					rt.Fatalf("host %d of vESW %d, P_Key %#x got a frame of vESW %d, P_Key %#x", i, cfg.VESWID, cfg.PKey, from.VESWID, from.PKey)
				}
			}
			if s := h.nd.Stats(); s.HostRx != s.Tx.Unicast+s.Tx.McastBcast+s.TxDrops.Total()+s.Answered {
				rt.Fatalf("host %d sent %d frames: %+v", i, s.HostRx, s)
			}
		}
		for i, n := range w.nodes {
			c := n.Lower().(*hfi.Port).Counts()
			var delivered, sent uint64
			for _, nd := range n.Netdevs() {
				s := nd.Stats()
				delivered += s.HostTx - s.Answered + s.RxDrops.Total() + s.Relayed
				sent += s.Tx.Unicast + s.Tx.McastBcast + s.Relayed
			}
			if c.RxPackets != c.RxDrops.Total()+delivered {
				rt.Fatalf("node %d received %d packets, dropped %d and delivered %d", i, c.RxPackets, c.RxDrops.Total(), delivered)
			}
			// What waits when the link goes down is dropped by the port.
			if left := c.TxPackets + c.TxDrops[opa.DropPort]; sent > left || c.TxPackets > sent {
				rt.Fatalf("node %d sent %d packets of %d, dropped %d", i, c.TxPackets, sent, c.TxDrops[opa.DropPort])
			}
		}
		if n := w.pool.Lent(); n != 0 {
			rt.Fatalf("%d frames lost", n)
		}
	})
}
