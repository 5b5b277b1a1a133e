package fabric

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"tapir/opa"
	"tapir/vnic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// vport runs fn with a vport on the HFI's thread.
func (s *station) vport(t *testing.T, vesw uint16, fn func(d *vnic.Netdev)) {
	t.Helper()
	must(t, s.node.DoWait(func(frame.Time) { fn(s.node.engine.vports.VESW(vesw)) }))
}

// What an administrator does to the host TAP reaches the vport, and what the
// Ethernet Manager may refuse is taken back.
func TestHostSideIsFollowed(t *testing.T) {
	s := newBed(t).start(number(1, VNIC{VESW: 2}))
	const tap = "opa-vesw2"
	is := func(what string, ok func(d *vnic.Netdev) bool) {
		t.Helper()
		await(t, what, func() (yes bool) {
			s.vport(t, 2, func(d *vnic.Netdev) { yes = ok(d) })
			return yes
		})
	}
	is("base MAC", func(d *vnic.Netdev) bool {
		return d.MAC() == opa.LMAC{Fabric: 1, VESW: 2, LID: 1}.Addr() && d.Running()
	})
	mac := ether.Addr{2, 0, 0, 0, 0x12, 0x34}
	must(t, s.net.SetMAC(tap, mac[:]))
	is("another MAC", func(d *vnic.Netdev) bool { return d.MAC() == mac })
	must(t, s.net.SetMTU(tap, 1400))
	is("a lower MTU", func(d *vnic.Netdev) bool { return d.MTU() == 1400 })
	must(t, s.net.SetMTU(tap, 9000))
	await(t, "a higher MTU taken back", func() bool {
		mtu, err := s.net.MTU(tap)
		must(t, err)
		return mtu == 1400
	})
	group, second := ether.Addr{1, 0, 0x5e, 1, 2, 3}, ether.Addr{2, 0, 0, 0, 0, 9}
	must(t, s.net.AddHardwareAddr(tap, group[:]), s.net.AddHardwareAddr(tap, second[:]))
	is("lists", func(d *vnic.Netdev) bool {
		uc, _ := d.UnicastMACs()
		mc, _ := d.MulticastMACs()
		return slices.Contains(uc, second) && slices.Contains(uc, mac) && slices.Contains(mc, group)
	})
	must(t, s.net.Down(tap))
	is("down", func(d *vnic.Netdev) bool { return !d.Opened() && d.OperState() == vnic.DropAll })
	must(t, s.net.Up(tap))
	is("up again", func(d *vnic.Netdev) bool { return d.Running() })
}

// What the fabric decides reaches the host TAP.
func TestFabricSideIsFollowed(t *testing.T) {
	b := newBed(t)
	s := b.start(number(1, VNIC{VESW: 2}))
	const tap = "opa-vesw2"
	state := func(want string) {
		t.Helper()
		await(t, want, func() bool {
			got, err := s.net.Operstate(tap)
			must(t, err)
			return got == want
		})
	}
	configure := func(change func(c *vnic.Config)) {
		t.Helper()
		s.vport(t, 2, func(d *vnic.Netdev) {
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
	must(t, b.net.Down("fab1"))
	state("down")
	must(t, b.net.Up("fab1"))
	state("up")
	mac := ether.Addr{6, 0, 0, 1, 2, 3}
	configure(func(c *vnic.Config) { c.BaseMAC, c.EthMTU = mac, 4000 })
	await(t, "MAC and MTU", func() bool {
		d, err := s.net.Netdev(tap)
		must(t, err)
		return d.MAC.String() == net.HardwareAddr(mac[:]).String() && d.MTU == 4000
	})
	must(t, s.node.DoWait(func(frame.Time) { s.node.engine.vports.Remove(1) }))
	await(t, "the host TAP is gone", func() bool { return !s.net.Exists(tap) })
}

func TestHostTAPTakenAway(t *testing.T) {
	for _, queues := range []int{1, 4} {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) { takeAway(t, queues) })
	}
}

func takeAway(t *testing.T, queues int) {
	c := number(1, VNIC{VESW: 2}, VNIC{VESW: 3})
	c.Queues = queues
	s := newBed(t).start(c)
	must(t, s.net.Delete("opa-vesw2"))
	await(t, "the vport is closed", func() (closed bool) {
		s.vport(t, 2, func(d *vnic.Netdev) { closed = !d.Opened() })
		return closed
	})
	s.vport(t, 3, func(d *vnic.Netdev) {
		if !d.Running() {
			t.Error("the other vport ended too")
		}
	})
}

// Flows with different entropy reach the kernel by different queues, those of
// each flow by one; the kernel spreads what it sends.
func TestQueuesOfAHostTAP(t *testing.T) {
	b := newBed(t)
	var h [2]*station
	for i := range h {
		c := number(i+1, VNIC{VESW: 2, IP: ips(fmt.Sprintf("10.0.0.%d/24", i+1))})
		c.Queues = maxQueues
		h[i] = b.start(c)
	}
	h[0].ping(t, "10.0.0.2")
	if out, err := h[0].run(t, "ip", "-d", "link", "show", "opa-vesw2"); err != nil || !strings.Contains(out, "multi_queue") {
		t.Errorf("%v: no TAP with several queues:\n%s", err, out)
	}
	stop := []func() (int, int, []string){}
	for range 16 {
		stop = append(stop, stream(t, h[0], h[1], "10.0.0.2"))
	}
	used := func() (n int) {
		for q := range maxQueues {
			if h[1].counter(t, "opa-vesw2", fmt.Sprintf("rx_queue_%d_packets", q)) > 10 {
				n++
			}
		}
		return n
	}
	await(t, "flows use several queues", func() bool { return used() > 2 })
	for _, s := range stop {
		if sent, arrived, gaps := s(); sent != arrived || sent == 0 {
			t.Errorf("%d frames sent, %d arrived, gaps %q\nh1: %s\nh2: %s", sent, arrived, gaps, h[0].counted(t), h[1].counted(t))
		}
	}
}

func TestStartFailsWhole(t *testing.T) {
	b := newBed(t)
	s := newSpace(t)
	must(t, s.net.AddBridge("taken"))
	for _, tt := range []struct {
		c    Config
		want string
	}{
		{number(1, VNIC{VESW: 2, TAP: "good"}, VNIC{VESW: 3, TAP: "taken"}), "not a TAP"},
		{number(1, VNIC{VESW: 2, TAP: "good", Gateway: &Gateway{Bridge: "nothing"}}), "gateway"},
		{number(1), "no vnics"},
	} {
		n, err := b.launch(s, tt.c)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
		if n != nil {
			n.Close()
		}
		if s.net.Exists("good") {
			t.Error("a host TAP is left")
		}
	}
}

func TestTagsOfAGateway(t *testing.T) {
	f := frame.New(make([]byte, 256), nil)
	inner := append(ether.Header{Dst: ether.Addr{2, 1}, Src: ether.Addr{2, 2}, Type: ether.TypeARP}.AppendTo(nil), 1, 2, 3, 4)
	f.Append(inner)
	if !pushTag(f, 5) {
		t.Fatal("no room")
	}
	h, n, err := ether.Parse(f.Bytes())
	if err != nil || h.NTags != 1 || h.Tags[0].VID() != 5 || h.Type != ether.TypeARP || h.Dst != (ether.Addr{2, 1}) || !slices.Equal(f.Bytes()[n:], inner[14:]) {
		t.Errorf("%+v %x", h, f.Bytes())
	}
	if popTag(f, 6) || !popTag(f, 5) || !slices.Equal(f.Bytes(), inner) || popTag(f, 5) {
		t.Errorf("%x", f.Bytes())
	}
	full := frame.New(make([]byte, 32), nil)
	full.Prepend(full.Headroom())
	if pushTag(full, 5) {
		t.Error("a tag without room for it")
	}
}
