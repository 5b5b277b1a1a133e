package nic

import (
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/settings"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

var macvlan1, macvlan2 = ether.Addr{2, 7, 7, 7, 7, 1}, ether.Addr{2, 7, 7, 7, 7, 2}

// from is a frame that a station behind the host TAP sends.
func (e *ethernetHost) from(src, dst ether.Addr) []byte {
	b := e.frame(dst, 0, 9)
	copy(b[6:], src[:])
	return b
}

// A station with a vport of its own has its queue, which classification finds and RSS
// does not, and with tx switching what vports send to one another stays in the device.
//
// L2-01 L2-14 L2-20
func TestVports(t *testing.T) {
	e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Ethernet: fastlinq.Ethernet{RxMode: settings.RxRegular}}})
	own := e.n.dev.cfg.MAC
	if len(e.in(e.frame(macvlan1, 0, 80))) != 0 {
		t.Error("a station is known that nobody has named")
	}
	e.n.set("vports=" + macvlan1.String() + "," + macvlan2.String())
	for port := uint16(100); port < 120; port++ {
		for dst, want := range map[ether.Addr]uint16{macvlan1: 2, macvlan2: 3} {
			if len(e.in(e.frame(dst, 0, port))) != 1 || e.h.queues[0] != want {
				t.Fatalf("%v: by queues %v, want %d", dst, e.h.queues, want)
			}
		}
		if len(e.in(e.frame(own, 0, port))) != 1 || e.h.queues[0] > 1 {
			t.Fatalf("the NIC's own: by queues %v", e.h.queues)
		}
	}
	if len(e.in(e.frame(ether.Broadcast, 0, 80))) != 1 {
		t.Error("a broadcast arrives more than once")
	}
	between := func() (host, wire int) {
		e.h.got, e.h.queues = nil, nil
		before := e.n.counter("tx_packets")
		e.out(e.from(macvlan1, macvlan2))
		return len(e.h.got), int(e.n.counter("tx_packets") - before)
	}
	if host, wire := between(); host != 0 || wire != 1 {
		t.Errorf("without tx switching %d frames come back, %d leave", host, wire)
	}
	e.n.set("tx_switching=1")
	if host, wire := between(); host != 1 || wire != 0 || e.h.queues[0] != 3 {
		t.Errorf("with tx switching %d frames come back, %d leave", host, wire)
	}
	if got := e.out(e.from(macvlan1, e.s.mac)); len(got) != 1 {
		t.Errorf("%d frames for the wire leave", len(got))
	}
	if q := e.n.dev.Netdev(0).Queues(); q[2].Tx.Sent != 3 || q[3].Tx.Sent != 0 {
		t.Errorf("stations send by queues %+v", q)
	}
	for _, bad := range []string{"rx_mode=promisc", "channels=2", "vports=01:00:00:00:00:01", "vports=" + own.String(),
		"vports=" + macvlan1.String() + "/101", "vports=" + macvlan1.String() + "/100"} {
		if err := e.n.dev.Set(Setting{strings.Split(bad, "=")[0], strings.Split(bad, "=")[1]}); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	e.n.set("vports=none")
	if len(e.in(e.frame(macvlan1, 0, 80))) != 0 {
		t.Error("a station is known whose vport has gone")
	}
}

// When vports want to send more than the function may, each has its part.
//
// L2-25
func TestVportWeights(t *testing.T) {
	e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Ethernet: fastlinq.Ethernet{RxMode: settings.RxRegular}}})
	e.n.room = 4096
	share := func() (of [3]int) {
		e.w.run(5 * time.Millisecond)
		e.s.take()
		for range 100 { // frames of 1000 octets in 10 ms, of 125 that fit
			var batch []*frame.Frame
			for i, src := range []ether.Addr{e.n.dev.cfg.MAC, macvlan1, macvlan2} {
				for range 20 - e.n.dev.Netdev(0).Queues()[[]int{0, 2, 3}[i]].TxWaiting {
					b := append(e.from(src, e.s.mac), make([]byte, 1000)...)[:1000]
					f := e.w.pool.Get(len(b))
					f.Append(b)
					batch = append(batch, f)
				}
			}
			e.n.dev.Receive(frame.Host, batch, e.w.now)
			e.w.run(100 * time.Microsecond)
		}
		for _, r := range e.s.take() {
			switch r.eth.Src {
			case macvlan1:
				of[1]++
			case macvlan2:
				of[2]++
			default:
				of[0]++
			}
		}
		return of
	}
	e.n.set("link_speed=1G", "bw_min=10", "bw_max=10")
	e.n.set("vports=" + macvlan1.String() + "," + macvlan2.String())
	equal := share()
	if sum := equal[0] + equal[1] + equal[2]; sum < 100 || sum > 140 || equal[0] < sum/4 || equal[1] < sum/4 || equal[2] < sum/4 {
		t.Errorf("without weights %v", equal)
	}
	e.n.set("vports=" + macvlan1.String() + "/60," + macvlan2.String() + "/30")
	if got := share(); got[1] < 66 || got[1] > 84 || got[2] < 30 || got[2] > 46 || got[0] < 8 || got[0] > 22 {
		t.Errorf("with weights 10, 60 and 30: %v", got)
	}
}

// Frames of link protocols do not leave, tags do not come in, and a driver that loads
// begins its statistics anew.
//
// L2-19 L2-20 L2-21
func TestHostFrameChecks(t *testing.T) {
	e := newEthernetHost(t, Config{})
	own := e.n.dev.cfg.MAC
	lldp := e.from(own, ether.Addr{1, 0x80, 0xc2, 0, 0, 0xe})
	pause := e.from(own, e.s.mac)
	pause[12], pause[13] = 0x88, 0x08
	raw := func(b []byte) bool {
		before := e.n.counter("tx_packets")
		e.out(b)
		return e.n.counter("tx_packets") == before+1
	}
	for _, c := range []struct {
		check    string
		mac, typ bool
	}{{"none", true, true}, {"mac", false, true}, {"type", true, false}, {"mac,type", false, false}} {
		e.set("control_check", c.check)
		if raw(lldp) != c.mac || raw(pause) != c.typ || !raw(e.from(own, e.s.mac)) {
			t.Errorf("control_check=%s", c.check)
		}
	}
	if n := e.n.ethtoolStat("tx_err_drop_pkts"); n != 4 {
		t.Errorf("%d frames are counted", n)
	}
	if got := e.in(e.frame(own, 5, 80)); len(got) != 1 || string(got[0]) != string(e.frame(own, 5, 80)) {
		t.Errorf("% x", got)
	}
	e.set("silent_vlan", "1")
	if got := e.in(e.frame(own, 5, 80)); len(got) != 1 || string(got[0]) != string(e.frame(own, 0, 80)) {
		t.Errorf("the tag stays: % x", got)
	}
	e.set("rx_mode", "regular")
	e.in(e.frame(macvlan1, 0, 80))
	if v := e.n.dev.ShowVport()[0]; v.Filtered != 1 || v.RxPackets == 0 {
		t.Errorf("%+v", v)
	}
	e.n.set("driver=unloaded")
	e.n.set("driver=loaded")
	if v := e.n.dev.ShowVport()[0]; v.Filtered != 0 || v.RxPackets != 0 {
		t.Errorf("a driver that loads has statistics: %+v", v)
	}
}
