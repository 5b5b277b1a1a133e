package nic

import (
	"testing"

	"tapir/wire/frame"
)

// ethtoolStat is a counter of ethtool -S.
func (n *node) ethtoolStat(name string) uint64 {
	n.w.t.Helper()
	for _, c := range n.dev.ShowEthtool().Stats {
		if c.Name == name {
			return c.Value
		}
	}
	n.w.t.Fatalf("no counter %s", name)
	return 0
}

// What ethtool -S says is what passed the cable.
func TestEthtoolStats(t *testing.T) {
	w, a, b := twoNICs(t, Config{Frames: GSO})
	c, s := dial(w, a, b, b.dev.IP.Addrs()[0].Addr(), 1<<18)
	exercise(w, c, s, 1<<17)
	for _, p := range []struct{ out, in *node }{{a, b}, {b, a}} {
		for _, name := range []string{"ucast_pkts", "ucast_bytes", "mcast_pkts", "bcast_pkts", "1024_to_1518_byte_packets", "64_byte_packets"} {
			if sent, got := p.out.ethtoolStat("tx_"+name), p.in.ethtoolStat("rx_"+name); sent != got {
				t.Errorf("%s: %d sent, %d received", name, sent, got)
			}
		}
	}
	if n, frames := a.ethtoolStat("tx_1024_to_1518_byte_packets"), a.dev.Wire.Frames[frame.Outbound].Packets; n < 80 || frames > n/2 {
		t.Errorf("%d large packets in %d frames", n, frames)
	}
	a.dev.LinkDown(w.now)
	a.dev.LinkDown(w.now)
	if e := a.dev.ShowEthtool(); e.Link.Up || a.ethtoolStat("link_change_count") != 1 {
		t.Errorf("%+v, %d changes", e.Link, a.ethtoolStat("link_change_count"))
	}
	a.dev.LinkUp(w.now)
	if e := a.dev.ShowEthtool(); !e.Link.Up || a.ethtoolStat("link_change_count") != 2 {
		t.Errorf("%+v, %d changes", e.Link, a.ethtoolStat("link_change_count"))
	}
}
