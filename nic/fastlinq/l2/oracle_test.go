package l2

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tapir/wire/ether"
	"tapir/wire/frame"
)

// modelled is a vport as the oracle knows it: lists, and nothing derived.
type modelled struct {
	active, anyVLAN, untagged bool
	accept                    Accept
	macs                      []ether.Addr
	vlans                     []uint16
	pairs                     []pair
	groups                    []int // bins
}

type pair struct {
	mac  ether.Addr
	vlan uint16
}

// accepts is the reference: the rules of the guide for a frame to dst in VLAN
// vid, known if some vport has a filter for it.
func (m *modelled) accepts(dst ether.Addr, vid uint16, known bool) bool {
	p := slices.Contains(m.pairs, pair{dst, vid})
	vlan := m.anyVLAN || slices.Contains(m.vlans, vid) || len(m.vlans)+len(m.pairs) == 0 && (vid == 0 || !m.untagged)
	a := func(f Accept) bool { return m.accept&f != 0 }
	switch {
	case !m.active:
		return false
	case dst == ether.Broadcast:
		return a(Bcast) && vlan
	case dst.IsMulticast():
		return vlan && (a(McastMatched) && a(McastUnmatched) || (a(McastMatched) || a(McastUnmatched)) && slices.Contains(m.groups, Bin(dst)))
	case a(UcastMatched) && a(UcastUnmatched):
		return p || vlan
	case a(UcastMatched):
		return p || vlan && slices.Contains(m.macs, dst)
	}
	return a(UcastUnmatched) && !known && vlan
}

func (m *modelled) knows(dst ether.Addr, vid uint16) bool {
	return slices.Contains(m.macs, dst) || slices.Contains(m.pairs, pair{dst, vid})
}

// stations are few, so that random filters meet random frames.
func station(n int) ether.Addr {
	switch {
	case n < 4:
		return addr(n + 1)
	case n == 4:
		return ether.Broadcast
	}
	return ether.Addr{1, 0, 0x5e, 0, 0, byte(n)}
}

// change makes one random change to a vport and to its model.
func change(rt *rapid.T, w *world, id int, m *modelled) {
	mac := station(rapid.IntRange(0, 3).Draw(rt, "mac"))
	vlan := uint16(rapid.IntRange(0, 3).Draw(rt, "vlan"))
	filter := func(op Opcode, typ FilterType) bool {
		return w.FilterUcast(UcastParams{Op: op, Type: typ, Sides: Both, MAC: mac, VLAN: vlan, Add: id, Remove: id}) == nil
	}
	switch rapid.IntRange(0, 9).Draw(rt, "change") {
	case 0, 1:
		m.accept = Accept(rapid.IntRange(0, 127).Draw(rt, "accept"))
		w.ok(w.FilterAccept(id, AcceptParams{UpdateRx: true, Rx: m.accept}, nil))
	case 2:
		m.anyVLAN = !m.anyVLAN
		w.ok(w.VportUpdate(UpdateParams{Vport: id, AcceptAnyVLAN: &m.anyVLAN}))
	case 3:
		m.active = !m.active
		w.ok(w.VportUpdate(UpdateParams{Vport: id, RxActive: &m.active}))
	case 4:
		list := rapid.SliceOfN(rapid.IntRange(5, 9), 0, 3).Draw(rt, "groups")
		m.groups = nil
		var macs []ether.Addr
		for _, n := range list {
			macs = append(macs, station(n))
			m.groups = append(m.groups, Bin(station(n)))
		}
		w.ok(w.FilterMcast(McastParams{Op: FilterAdd, Vport: id, MACs: macs}))
	case 5:
		if filter(FilterAdd, FilterMAC) {
			m.macs = append(m.macs, mac)
		}
	case 6:
		if filter(FilterAdd, FilterVLAN) {
			m.vlans = append(m.vlans, vlan)
		}
	case 7:
		if filter(FilterAdd, FilterMACVLAN) {
			m.pairs = append(m.pairs, pair{mac, vlan})
		}
	case 8:
		m.reduce(rapid.IntRange(0, 2).Draw(rt, "type"), mac, vlan, filter)
	case 9:
		if filter(FilterReplace, FilterMAC) {
			m.macs = []ether.Addr{mac}
		}
	}
}

func (m *modelled) reduce(typ int, mac ether.Addr, vlan uint16, filter func(Opcode, FilterType) bool) {
	switch {
	case typ == 0 && filter(FilterRemove, FilterMAC):
		m.macs = slices.DeleteFunc(m.macs, func(a ether.Addr) bool { return a == mac })
	case typ == 1 && filter(FilterRemove, FilterVLAN):
		m.vlans = slices.DeleteFunc(m.vlans, func(v uint16) bool { return v == vlan })
	case typ == 2 && filter(FilterFlush, FilterMACVLAN):
		m.pairs = nil
	}
}

// Random filters, modes and frames: each vport gets exactly the frames that
// the model says, and every frame is delivered or counted with a reason.
//
// L2-08 L2-11 L2-12 L2-13 L2-14
func TestClassificationOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, Config{})
		w.t = rt
		models := make([]modelled, 3)
		var queues []*RxQueue
		for id := range models {
			models[id].untagged = rapid.Bool().Draw(rt, "only untagged")
			queues = append(queues, w.start(StartParams{Vport: id, OnlyUntagged: models[id].untagged}, id)[0])
		}
		offered, refused, delivered, drops := 0, 0, 0, uint64(0)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			id := rapid.IntRange(0, 2).Draw(rt, "vport")
			change(rt, w, id, &models[id])
			dst := station(rapid.IntRange(0, 9).Draw(rt, "station"))
			vid := uint16(rapid.IntRange(0, 4).Draw(rt, "vid"))
			b := eth(dst, outside, 60)
			if vid != 0 || rapid.Bool().Draw(rt, "priority tag") {
				b = eth(dst, outside, 60, vid|3<<13)
			}
			offered++
			r := w.receive(b)
			if r != frame.DropNone {
				refused++
			}
			delivered += judge(rt, models, queues, dst, vid, r)
		}
		for _, n := range w.Drops() {
			drops += n
		}
		if drops != uint64(refused) || offered < refused {
			rt.Fatalf("%d frames, %d refused, %d counted", offered, refused, drops)
		}
		w.idle()
	})
}

// judge compares where a frame has gone with the models, and returns to how
// many.
func judge(rt *rapid.T, models []modelled, queues []*RxQueue, dst ether.Addr, vid uint16, r frame.DropReason) (n int) {
	known := false
	for i := range models {
		known = known || models[i].knows(dst, vid)
	}
	for i := range models {
		want := 0
		if models[i].accepts(dst, vid, known) {
			want = 1
		}
		if list, _ := take(queues[i]); len(list) != want {
			rt.Fatalf("vport %d got %d frames to %v in VLAN %d, want %d: %v, %+v", i, len(list), dst, vid, want, r, models[i])
		}
		n += want
	}
	if (n == 0) != (r != frame.DropNone) {
		rt.Fatalf("%d vports took the frame, and the answer is %v", n, r)
	}
	return n
}

// picture is what a function does with every frame that the test knows.
func (w *world) picture(queues []*RxQueue) string {
	s := ""
	for n := range 10 {
		for vid := range uint16(5) {
			b := eth(station(n), outside, 60, vid)
			if vid == 0 {
				b = eth(station(n), outside, 60)
			}
			s += fmt.Sprint(w.receive(b))
			for _, q := range queues {
				list, cqes := take(q)
				s += fmt.Sprint(list, cqes)
			}
		}
	}
	return s
}

// What is set and then taken back leaves no trace in what frames meet.
//
// L2-09 L2-13
func TestReversible(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, Config{})
		w.t = rt
		models := make([]modelled, 2)
		var queues []*RxQueue
		for id := range models {
			queues = append(queues, w.start(StartParams{Vport: id}, id)[0])
			w.run(id, Regular)
			models[id].accept, models[id].active = Regular, true
		}
		for range rapid.IntRange(0, 15).Draw(rt, "steps") {
			id := rapid.IntRange(0, 1).Draw(rt, "vport")
			change(rt, w, id, &models[id])
		}
		m := &models[0]
		before := w.picture(queues)
		on, off := true, false
		f := UcastParams{Sides: Both, MAC: addr(9), VLAN: 3, Type: FilterType(rapid.IntRange(0, 2).Draw(rt, "type"))}
		undo := f
		undo.Op = FilterRemove
		var set, clear UpdateParams
		switch rapid.IntRange(0, 4).Draw(rt, "what") {
		case 0:
			set.DefaultVLAN, clear.DefaultVLAN = &DefaultVLAN{Enable: true, VLAN: 9}, &DefaultVLAN{}
		case 1:
			set.AntiSpoofing, clear.AntiSpoofing = &on, &off
		case 2:
			set.InnerVLANRemoval, clear.InnerVLANRemoval = &on, &off
			set.SilentVLANRemoval, clear.SilentVLANRemoval = &on, &off
		case 3:
			set.Accept = &AcceptParams{UpdateRx: true, Rx: Promisc}
			clear.Accept = &AcceptParams{UpdateRx: true, Rx: m.accept}
			set.AcceptAnyVLAN, clear.AcceptAnyVLAN = &on, &m.anyVLAN
		case 4:
			inactive := !m.active
			set.RxActive, clear.RxActive = &inactive, &m.active
		}
		w.ok(w.VportUpdate(set))
		if w.FilterUcast(f) == nil {
			w.ok(w.FilterUcast(undo))
		}
		w.ok(w.VportUpdate(clear))
		if w.picture(queues) != before {
			rt.Fatalf("after %+v and %+v frames meet something else", set, clear)
		}
		w.idle()
	})
}
