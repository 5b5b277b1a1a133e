package hfinode_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/opabed"
	"tapir/lab/conf/hficonf"
	"tapir/opa"
	"tapir/vnic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// vport runs fn with a vport on the HFI's thread.
func vport(t *testing.T, s *opabed.Station, vesw uint16, fn func(d *vnic.Netdev)) {
	t.Helper()
	must(t, s.Node.DoWait(func(frame.Time) { fn(s.Node.HFI().VPorts().VESW(vesw)) }))
}

// What an administrator does to the host TAP reaches the vport, and what the
// Ethernet Manager may refuse is taken back.
func TestHostSideIsFollowed(t *testing.T) {
	s := opabed.New(t).Start(opabed.Number(1, hficonf.VNIC{VESW: 2}))
	const tap = "opa-vesw2"
	is := func(what string, ok func(d *vnic.Netdev) bool) {
		t.Helper()
		await(t, what, func() (yes bool) {
			vport(t, s, 2, func(d *vnic.Netdev) { yes = ok(d) })
			return yes
		})
	}
	is("base MAC", func(d *vnic.Netdev) bool {
		return d.MAC() == opa.LMAC{Fabric: 1, VESW: 2, LID: 1}.Addr() && d.Running()
	})
	mac := ether.Addr{2, 0, 0, 0, 0x12, 0x34}
	must(t, s.Net.SetMAC(tap, mac[:]))
	is("another MAC", func(d *vnic.Netdev) bool { return d.MAC() == mac })
	must(t, s.Net.SetMTU(tap, 1400))
	is("a lower MTU", func(d *vnic.Netdev) bool { return d.MTU() == 1400 })
	must(t, s.Net.SetMTU(tap, 9000))
	await(t, "a higher MTU taken back", func() bool {
		mtu, err := s.Net.MTU(tap)
		must(t, err)
		return mtu == 1400
	})
	group, second := ether.Addr{1, 0, 0x5e, 1, 2, 3}, ether.Addr{2, 0, 0, 0, 0, 9}
	must(t, s.Net.AddHardwareAddr(tap, group[:]), s.Net.AddHardwareAddr(tap, second[:]))
	is("lists", func(d *vnic.Netdev) bool {
		uc, _ := d.UnicastMACs()
		mc, _ := d.MulticastMACs()
		return slices.Contains(uc, second) && slices.Contains(uc, mac) && slices.Contains(mc, group)
	})
	must(t, s.Net.Down(tap))
	is("down", func(d *vnic.Netdev) bool { return !d.Opened() && d.OperState() == vnic.DropAll })
	must(t, s.Net.Up(tap))
	is("up again", func(d *vnic.Netdev) bool { return d.Running() })
}

// What the fabric decides reaches the host TAP.
func TestFabricSideIsFollowed(t *testing.T) {
	b := opabed.New(t)
	s := b.Start(opabed.Number(1, hficonf.VNIC{VESW: 2}))
	const tap = "opa-vesw2"
	state := func(want string) {
		t.Helper()
		await(t, want, func() bool {
			got, err := s.Net.Operstate(tap)
			must(t, err)
			return got == want
		})
	}
	configure := func(change func(c *vnic.Config)) {
		t.Helper()
		vport(t, s, 2, func(d *vnic.Netdev) {
			c := d.Config()
			change(&c)
			must(t, d.Configure(c))
		})
	}
	state("up")
	configure(func(c *vnic.Config) { c.ConfigState = vnic.DropAll })
	state("dormant")
	configure(func(c *vnic.Config) { c.ConfigState = vnic.Forwarding })
	state("up")
	must(t, b.Net.Down("fab1"))
	state("down")
	must(t, b.Net.Up("fab1"))
	state("up")
	mac := ether.Addr{6, 0, 0, 1, 2, 3}
	configure(func(c *vnic.Config) { c.BaseMAC, c.EthMTU = mac, 4000 })
	await(t, "MAC and MTU", func() bool {
		d, err := s.Net.Netdev(tap)
		must(t, err)
		return d.MAC.String() == net.HardwareAddr(mac[:]).String() && d.MTU == 4000
	})
	must(t, s.Node.DoWait(func(frame.Time) { s.Node.HFI().VPorts().Remove(1) }))
	await(t, "the host TAP is gone", func() bool { return !s.Net.Exists(tap) })
}

func TestHostTAPTakenAway(t *testing.T) {
	for _, queues := range []int{1, 4} {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) { takeAway(t, queues) })
	}
}

func takeAway(t *testing.T, queues int) {
	c := opabed.Number(1, hficonf.VNIC{VESW: 2}, hficonf.VNIC{VESW: 3})
	c.Queues = queues
	s := opabed.New(t).Start(c)
	must(t, s.Net.Delete("opa-vesw2"))
	await(t, "the vport is closed", func() (closed bool) {
		vport(t, s, 2, func(d *vnic.Netdev) { closed = !d.Opened() })
		return closed
	})
	vport(t, s, 3, func(d *vnic.Netdev) {
		if !d.Running() {
			t.Error("the other vport ended too")
		}
	})
}

// Flows with different entropy reach the kernel by different queues, those of
// each flow by one; the kernel spreads what it sends.
func TestQueuesOfAHostTAP(t *testing.T) {
	b := opabed.New(t)
	var h [2]*opabed.Station
	for i := range h {
		c := opabed.Number(i+1, hficonf.VNIC{VESW: 2, IP: ips(fmt.Sprintf("10.0.0.%d/24", i+1))})
		c.Queues = hficonf.MaxQueues
		h[i] = b.Start(c)
	}
	h[0].Ping(t, "10.0.0.2")
	if out, err := h[0].Run(t, "ip", "-d", "link", "show", "opa-vesw2"); err != nil || !strings.Contains(out, "multi_queue") {
		t.Errorf("%v: no TAP with several queues:\n%s", err, out)
	}
	stop := []func() (int, int, []string){}
	for range 16 {
		stop = append(stop, opabed.Stream(t, h[0], h[1], "10.0.0.2"))
	}
	used := func() (n int) {
		for q := range hficonf.MaxQueues {
			if h[1].Counter(t, "opa-vesw2", fmt.Sprintf("rx_queue_%d_packets", q)) > 10 {
				n++
			}
		}
		return n
	}
	await(t, "flows use several queues", func() bool { return used() > 2 })
	for _, s := range stop {
		if sent, arrived, gaps := s(); sent != arrived || sent == 0 {
			t.Errorf("%d frames sent, %d arrived, gaps %q\nh1: %s\nh2: %s", sent, arrived, gaps, h[0].Counted(t), h[1].Counted(t))
		}
	}
}

func TestStartFailsWhole(t *testing.T) {
	b := opabed.New(t)
	s := opabed.NewSpace(t)
	must(t, s.Net.AddBridge("taken"))
	for _, tt := range []struct {
		c    hficonf.Config
		want string
	}{
		{opabed.Number(1, hficonf.VNIC{VESW: 2, TAP: "good"}, hficonf.VNIC{VESW: 3, TAP: "taken"}), "not a TAP"},
		{opabed.Number(1, hficonf.VNIC{VESW: 2, TAP: "good", Gateway: &hficonf.Gateway{Bridge: "nothing"}}), "gateway"},
		{opabed.Number(1), "no vnics"},
	} {
		n, err := b.Launch(s, tt.c)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
		if n != nil {
			n.Close()
		}
		if s.Net.Exists("good") {
			t.Error("a host TAP is left")
		}
	}
}
