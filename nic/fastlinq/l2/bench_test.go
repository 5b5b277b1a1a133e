package l2

import (
	"testing"

	"tapir/wire/ip"
)

// filtered is a world whose vport has as many filters as fit: half of the
// addresses and VLANs alone, half as pairs.
func filtered(t testing.TB, queues, filters int) (w *world, list []*RxQueue) {
	w = newWorld(t, Config{})
	ids := make([]int, queues)
	for i := range ids {
		ids[i] = i
	}
	list = w.start(StartParams{}, ids...)
	w.run(0, Regular)
	on := true
	w.ok(w.FilterUcast(UcastParams{Sides: Both, MAC: addr(1)}))
	for n := range filters / 2 {
		w.ok(w.FilterUcast(UcastParams{Sides: Both, MAC: addr(100 + n)}))
		w.ok(w.FilterUcast(UcastParams{Sides: Both, Type: FilterMACVLAN, MAC: addr(200 + n), VLAN: uint16(n + 1)}))
		w.ok(w.FilterUcast(UcastParams{Sides: Both, Type: FilterVLAN, VLAN: uint16(n)}))
	}
	if queues > 1 {
		p := &RSSParams{UpdateConfig: true, UpdateCaps: true, UpdateTable: true, UpdateKey: true, Enable: on,
			Hashes: DefaultHash, TableLog: 7, Key: standardKey}
		for i := range p.Table {
			p.Table[i] = list[i%queues]
		}
		w.ok(w.VportUpdate(UpdateParams{RSS: p}))
	}
	return w, list
}

// pass sends one frame in and takes it out again.
func pass(w *world, list []*RxQueue, b []byte) {
	f := w.frame(b)
	if w.Receive(f) != 0 {
		f.Release()
	}
	for _, q := range list {
		if f, _ := q.Next(); f != nil {
			f.Release()
			_ = q.Post(1)
		}
	}
}

func TestReceiveDoesNotAllocate(t *testing.T) {
	w, list := filtered(t, 4, 62)
	frames := [][]byte{packet4(addr(1), ip.ProtoTCP, 1, 1000, 80, 1400), packet4(addr(150), ip.ProtoUDP, 1, 1000, 80, 1400), eth(addr(1), outside, 60, 3)}
	if n := testing.AllocsPerRun(200, func() {
		for _, b := range frames {
			pass(w, list, b)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTransmitDoesNotAllocate(t *testing.T) {
	w, _ := filtered(t, 1, 62)
	q := w.txq(0, 0)
	port := &link{room: 10}
	b := packet4(outside, ip.ProtoTCP, 1, 1000, 80, 1400)
	if n := testing.AllocsPerRun(200, func() {
		q.Post(w.frame(b), TxBD{})
		q.Doorbell()
		w.Transmit(port)
		port.frames[0].Release()
		port.frames = port.frames[:0]
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkReceive(b *testing.B) {
	for _, c := range []struct {
		name            string
		queues, filters int
	}{{"promisc", 1, 0}, {"1 filter", 1, 1}, {"all filters", 1, 62}, {"all filters, RSS", 4, 62}} {
		b.Run(c.name, func(b *testing.B) {
			w, list := filtered(b, c.queues, c.filters)
			if c.filters == 0 {
				w.run(0, Promisc)
			}
			data := packet4(addr(1), ip.ProtoTCP, 1, 1000, 80, 1400)
			b.ReportAllocs()
			for b.Loop() {
				pass(w, list, data)
			}
		})
	}
}
