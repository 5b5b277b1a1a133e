package nic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/settings"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// dropped is what the NIC has counted of frames that went nowhere.
func (n *node) dropped() (sum uint64) {
	for _, c := range n.dev.Counters() {
		if strings.Contains(c.Name, "_drop_") {
			sum += c.Value
		}
	}
	return sum
}

// passes is the reference for the way to the host: the receive mode, the filters and the
// lengths of frames.
func passes(e *fastlinq.Ethernet, mac ether.Addr, b []byte) bool {
	head, padded := ether.HeaderLen, slices.Concat(b, make([]byte, 16))
	dst, vid := ether.Addr(padded[:6]), uint16(0)
	if padded[12] == 0x81 {
		vid, head = uint16(padded[15]), head+ether.TagLen
	}
	bin := func(a ether.Addr) bool { return l2.Bin(a) == l2.Bin(dst) }
	group := dst.IsBroadcast() || e.RxMode == settings.RxAllMulti || slices.ContainsFunc(e.Mcast, bin)
	station := dst == mac || slices.Contains(e.Ucast, dst)
	vlan := len(e.VLANs) == 0 || vid == 0 || slices.Contains(e.VLANs, vid)
	return len(b) > head && len(b) <= 1500+l2.Overhead &&
		(e.RxMode == settings.RxPromisc || vlan && (dst.IsMulticast() && group || !dst.IsMulticast() && station))
}

// anyStation is one of few, so that filters and frames meet.
func anyStation(rt *rapid.T, own ether.Addr) ether.Addr {
	return rapid.SampledFrom([]ether.Addr{own, {2, 0, 0, 0, 5, 1}, {2, 0, 0, 0, 5, 2}, {1, 0, 0x5e, 0, 0, 1}, {1, 0, 0x5e, 0, 0, 2}, ether.Broadcast}).Draw(rt, "station")
}

func anyEthernet(rt *rapid.T) (e fastlinq.Ethernet) {
	e.RxMode = settings.RxMode(rapid.IntRange(0, 2).Draw(rt, "mode"))
	for range rapid.IntRange(0, 3).Draw(rt, "filters") {
		if a := anyStation(rt, ether.Addr{2, 0, 0, 0, 5, 3}); a.IsBroadcast() {
			e.VLANs = []uint16{uint16(rapid.IntRange(1, 3).Draw(rt, "VLAN"))}
		} else if list := &e.Ucast; !slices.Contains(slices.Concat(e.Ucast, e.Mcast), a) {
			if a.IsMulticast() {
				list = &e.Mcast
			}
			*list = append(*list, a)
		}
	}
	e.SpoofCheck = rapid.Bool().Draw(rt, "spoof check")
	return e
}

// C2 for a whole NIC: with random settings, what comes from the wire reaches the
// host as the reference says, and each frame that came in on either side left by
// the other one, or is counted with a reason and stands in the capture with it.
//
// L2-08 L2-11 L2-12 L2-13
func TestFramesAreConserved(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w, n, h, _ := hostPair(t)
		e := anyEthernet(rt)
		cfg := n.dev.cfg
		cfg.Hardware = cfg.Hardware.Clone()
		fastlinqOf(&cfg).Ethernet = e
		if err := n.dev.Hardware.Apply(cfg.shape(), cfg.Hardware, w.now); err != nil {
			rt.Fatal(err)
		}
		w.run(time.Second) // announcements
		n.drops = nil
		sent := 0
		w.lose = func(*node, []byte) bool { sent++; return true }
		start := n.dropped()
		in, want := [2]int{}, 0
		for range rapid.IntRange(1, 40).Draw(rt, "frames") {
			b := make([]byte, rapid.SampledFrom([]int{0, 1, 13, 14, 15, 18, 19, 60, 1514, 1518, 1522, 1523, 1600}).Draw(rt, "octets"))
			dst := anyStation(rt, cfg.MAC)
			src := rapid.SampledFrom([]ether.Addr{cfg.MAC, {2, 0, 0, 0, 5, 9}}).Draw(rt, "from")
			copy(b, slices.Concat(dst[:], src[:], []byte{0x88, 0xb5}))
			if len(b) > 14 && rapid.Bool().Draw(rt, "tagged") {
				copy(b[12:], []byte{0x81, 0, 0, byte(rapid.IntRange(0, 4).Draw(rt, "VLAN"))})
			}
			port := rapid.SampledFrom([]frame.Port{frame.Wire, frame.Host}).Draw(rt, "port")
			f := w.pool.Get(len(b))
			f.Append(b)
			in[port]++
			n.dev.Receive(port, []*frame.Frame{f}, w.now)
			if port == frame.Wire && passes(&e, cfg.MAC, b) {
				want++
			}
			if rapid.IntRange(0, 3).Draw(rt, "time") == 0 {
				w.run(time.Millisecond)
			}
		}
		w.run(time.Millisecond)
		drops := n.dropped() - start
		balance := fmt.Sprintf("%v in, %d to the host, %d to the wire, %d counted, %d in the capture", in, len(h.got), sent, drops, len(n.drops))
		if in[frame.Wire]+in[frame.Host] != len(h.got)+sent+int(drops) || int(drops) != len(n.drops) || w.pool.Lent() != 0 {
			rt.Fatalf("%s; lent %d", balance, w.pool.Lent())
		}
		if len(h.got) != want {
			rt.Fatalf("%d frames reach the host, want %d with %+v: %s", len(h.got), want, e, balance)
		}
	})
}
