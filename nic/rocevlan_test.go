package nic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/cm"
	nicip "tapir/nic/ip"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
)

// The GIDs of NICs with VLAN interfaces: those without a tag (2 an address), then IPv4, IPv6
// and the link-local address of VLAN 100, and IPv4 of VLAN 200, which is the same.
const (
	gidVLANv1  = 6
	gidVLANv2  = 7
	gidVLAN6   = 9
	gidVLAN200 = 13
)

// roceOnVLANs are two NICs with RoCE that have interfaces on VLANs 100 and 200.
func roceOnVLANs(t *testing.T) (w *world, a, b *node) {
	i := 0
	return twoRoCE(t, func(c *Config) {
		i++
		v4 := fmt.Sprintf("10.1.0.%d/24", i)
		c.VLANs = []nicip.VLAN{{ID: 100, Addrs: prefixes(v4, fmt.Sprintf("fd01::%d/64", i))},
			{ID: 200, Addrs: prefixes(v4)}}
		c.Iface = "tap0"
	})
}

// tagsOf are the tags of the RoCE packets that a NIC has sent, "-" for none, and the TOS of
// the last one.
func tagsOf(n *node) (tags []string, tos uint8) {
	for _, r := range n.all {
		if r.Dir != frame.Outbound {
			continue
		}
		h, at, err := ether.Parse(r.Data)
		tag := "-"
		if h.NTags > 0 {
			tag = fmt.Sprintf("%d/%d", h.Tags[0].VID(), h.Tags[0].PCP())
		}
		p, _, bad := ip.Parse(r.Data[at:])
		if roce := h.Type == ib.EtherType || err == nil && bad == nil && p.Proto == ip.ProtoUDP; !roce {
			continue
		}
		if tos = p.TOS; !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags, tos
}

// TestRoCEVLANTable: an address of a VLAN interface has entries of its own with the VLAN and
// the interface's name, whatever the MAC address is; only RoCE has such interfaces.
func TestRoCEVLANTable(t *testing.T) {
	w, a, _ := roceOnVLANs(t)
	p := &a.dev.Verbs.Port
	for i, want := range map[int]verbs.GIDEntry{
		3:          {Type: verbs.RoCEv2},
		gidVLANv1:  {Type: verbs.RoCEv1, VLAN: 100, Netdev: "tap0.100"},
		gidVLANv2:  {Type: verbs.RoCEv2, VLAN: 100, Netdev: "tap0.100"},
		gidVLAN200: {Type: verbs.RoCEv2, VLAN: 200, Netdev: "tap0.200"},
	} {
		got := p.GIDEntry(i)
		if want.GID = got.GID; got != want || got.GID == (verbs.GID{}) {
			t.Errorf("entry %d: %+v, want %+v", i, got, want)
		}
	}
	shown := a.dev.ShowGID()
	if len(shown) != 16 || shown[gidVLANv2].VLAN != 100 || shown[gidVLANv2].Netdev != "tap0.100" {
		t.Errorf("shown %+v", shown)
	}
	rows := a.dev.ShowDevice()
	if !slices.ContainsFunc(rows, func(r view.DeviceRow) bool {
		return r.Name == "gid_netdev[7]" &&
			r.Value == "tap0.100"
	}) {
		t.Errorf("device %+v", rows)
	}
	mac := ether.Addr{2, 0, 0, 0, 0x33, 1}
	must(t, a.dev.SetMAC(mac, w.now))
	if e := p.GIDEntry(gidVLANv2); e.VLAN != 100 || a.dev.IP.On(100).MAC != mac {
		t.Errorf("with another MAC address: %+v", e)
	}
	for _, bad := range [][]nicip.VLAN{{{ID: 0}}, {{ID: 4095}}, {{ID: 5}, {ID: 5}}, {{ID: 5,
		Addrs: prefixes("224.0.0.1/4")}}} {
		cfg := roceConfig()
		cfg.Name, cfg.VLANs = "nicB", bad
		if _, err := newNIC(cfg, Env{Pool: w.pool, Wire: &node{w: w}}); err == nil || !strings.Contains(err.Error(), "VLAN") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	cfg := Config{Name: "nicI", Addrs: prefixes("10.0.0.7/24"), VLANs: []nicip.VLAN{{ID: 5,
		Addrs: prefixes("10.2.0.7/24")}}}
	if _, err := newNIC(cfg, Env{Pool: w.pool, Wire: &node{w: w}}); err == nil || !strings.Contains(err.Error(),
		"RoCE's alone") {
		t.Errorf("VLAN interface with iWARP: %v", err)
	}
}

// TestRoCEOverVLAN: RC over the GIDs of a VLAN: frames have its tag, the service level as its
// priority and the traffic class in the IP header; without a VLAN a service level shows nowhere.
func TestRoCEOverVLAN(t *testing.T) {
	for gid, tag := range map[int]string{gidVLANv1: "100/3", gidVLANv2: "100/3", gidVLAN6: "100/3", 3: "-"} {
		t.Run(fmt.Sprint("GID ", gid), func(t *testing.T) {
			w, a, b := roceOnVLANs(t)
			x, y := roceEndOn(t, a, qpattr.RC, gid), roceEndOn(t, b, qpattr.RC, gid)
			for _, e := range []*roceEnd{x, y} {
				e.sl, e.class = 3, 0x68
			}
			x.move(t, y)
			y.move(t, x)
			for i := range x.mem {
				x.mem[i] = byte(i * 7)
			}
			_, err := x.qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.sge(0, 5000), RemoteAddr: y.mr.Addr(),
				RKey: y.mr.RKey(), Flags: verbs.Signaled})
			must(t, err)
			x.take(t, w)
			if !bytes.Equal(x.mem[:5000], y.mem[:5000]) {
				t.Error("other octets have arrived")
			}
			for _, n := range []*node{a, b} {
				if tags, tos := tagsOf(n); !slices.Equal(tags, []string{tag}) || gid != gidVLANv1 && tos != 0x68 {
					t.Errorf("tags %q, TOS %#x, want %q and 0x68", tags, tos, tag)
				}
			}
			q := a.dev.ShowRoCEQP()[0]
			if q.SL != 3 || (q.VLAN != 0) != (tag != "-") {
				t.Errorf("shown %+v", q)
			}
		})
	}
}

// TestRoCEVLANMismatch: what comes on another VLAN than that of the queue pair's GID is
// dropped and counted, though the address is the NIC's there, too; so is a frame of a VLAN
// without an interface.
func TestRoCEVLANMismatch(t *testing.T) {
	for _, gid := range []int{gidVLANv1, gidVLANv2} {
		w, a, b := roceOnVLANs(t)
		x, y := roceEndOn(t, a, qpattr.RC, gid), roceEndOn(t, b, qpattr.RC, gid)
		x.move(t, y)
		y.move(t, x)
		send := func(vid uint16) {
			t.Helper()
			w.lose = func(_ *node, frame []byte) bool {
				if binary.BigEndian.Uint16(frame[12:]) == ether.TypeVLAN && binary.BigEndian.Uint16(frame[16:]) != ether.TypeARP {
					binary.BigEndian.PutUint16(frame[14:], vid)
				}
				return false
			}
			before := b.counter("rx_drop_wrong_vlan")
			_, err := x.qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.sge(0, 8), RemoteAddr: y.mr.Addr(),
				RKey: y.mr.RKey(), Flags: verbs.Signaled})
			must(t, err)
			if vid == 100 {
				x.take(t, w)
				return
			}
			w.until(10*time.Second, func() bool { return b.counter("rx_drop_wrong_vlan") > before })
			if x.cq.Len() > 0 {
				t.Errorf("GID %d: a packet on VLAN %d was taken", gid, vid)
			}
		}
		send(100)
		send(200)
		send(300)
		w.lose = nil
		x.take(t, w)
		x.take(t, w)
	}
}

// TestRoCEVLANDatagrams: the service level of an address handle is the priority of its
// datagrams and in the receiver's completion; a group hears them from any VLAN, and members
// on the sender's NIC, too.
func TestRoCEVLANDatagrams(t *testing.T) {
	w, a, b := roceOnVLANs(t)
	x, y := roceEndOn(t, a, qpattr.UD, gidVLANv2), roceEndOn(t, b, qpattr.UD, gidVLANv2)
	z := roceEndOn(t, a, qpattr.UD, gidVLANv2)
	x.sl, x.class = 5, 0xb8
	for _, e := range []*roceEnd{x, y, z} {
		e.move(t, e)
	}
	group := verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
	must(t, y.qp.AttachMcast(group))
	must(t, z.qp.AttachMcast(group))
	for i, to := range []struct {
		path qpattr.Path
		qpn  uint32
	}{{y.path(x), y.qp.QPN()}, {qpattr.Path{DGID: group, SGIDIndex: gidVLANv2, SL: 5, TClass: 0xb8}, verbs.MulticastQPN}} {
		h, err := x.pd.CreateAH(to.path)
		must(t, err)
		for _, m := range []*roceEnd{y, z} {
			_, err = m.qp.PostRecv(verbs.RecvWR{SGEs: m.sge(0, 4096)})
			must(t, err)
		}
		_, err = x.qp.PostSend(verbs.SendWR{Opcode: verbs.OpSend, SGEs: x.sge(0, 8), Flags: verbs.Signaled, AH: h,
			RemoteQPN: to.qpn, RemoteQKey: roceQKey})
		must(t, err)
		x.take(t, w)
		if wc := y.take(t, w); wc.SL != 5 || wc.SrcQP != x.qp.QPN() {
			t.Errorf("destination %d: %+v", i, wc)
		}
		if i == 1 {
			if wc := z.take(t, w); wc.SL != 5 {
				t.Errorf("on the sender's NIC: %+v", wc)
			}
		}
		if s := a.dev.ShowAH()[i]; i == 0 && s.MAC != b.dev.Config().MAC.String() || s.SL != 5 {
			t.Errorf("address handle %+v", s)
		}
	}
	if tags, tos := tagsOf(a); !slices.Equal(tags, []string{"100/5"}) || tos != 0xb8 {
		t.Errorf("tags %q, TOS %#x", tags, tos)
	}
}

// TestRoCEVLANConnections: a connection to an address of a VLAN is made and used there; a
// type of service has the priority that Linux gives it, both ways.
func TestRoCEVLANConnections(t *testing.T) {
	for _, c := range []struct {
		to, tag string
		tos     uint8
	}{{"10.1.0.2", "100/2", 0x68}, {"fd01::2", "100/0", 0}, {"10.0.0.2", "-", 0x68}} {
		w, a, b := roceOnVLANs(t)
		from, to := roceEndOn(t, a, qpattr.RC, 0), roceEndOn(t, b, qpattr.RC, 0)
		at := netip.AddrPortFrom(netip.MustParseAddr(c.to), 7174)
		var server *cm.ID
		_, err := b.dev.CM.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), 7174), 1, func(ev cm.Event, now frame.Time) {
			if ev.Type == cm.ConnectRequest {
				server = ev.ID
				must(t, ev.ID.Accept(cm.Params{QP: to.qp}, now))
			}
		}, nil)
		must(t, err)
		id := a.dev.CM.NewID(nil, nil)
		must(t, id.Connect(at, cm.Params{QP: from.qp, TOS: c.tos}, w.now))
		w.until(10*time.Second, func() bool { return server != nil && server.State() == cm.Connected })
		_, err = from.qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: from.sge(0, 4000), RemoteAddr: to.mr.Addr(),
			RKey: to.mr.RKey(), Flags: verbs.Signaled})
		must(t, err)
		from.take(t, w)
		for _, n := range []*node{a, b} {
			if tags, tos := tagsOf(n); !slices.Equal(tags, []string{c.tag}) || tos != c.tos {
				t.Errorf("%s: tags %q, TOS %#x", c.to, tags, tos)
			}
		}
		vlan := uint16(100)
		if c.tag == "-" {
			vlan = 0
		}
		if got := server.Info().VLAN; got != vlan || id.Info().VLAN != vlan {
			t.Errorf("%s: connection in VLAN %d and %d", c.to, got, id.Info().VLAN)
		}
	}
}

// TestPingOverVLAN: an address of a VLAN interface answers on its VLAN, not on others.
func TestPingOverVLAN(t *testing.T) {
	w, a, b := roceOnVLANs(t)
	for _, c := range []struct {
		vlan uint16
		mac  bool
	}{{100, true}, {200, true}, {0, false}} {
		l := a.dev.IP.On(c.vlan)
		found := false
		cancel, ok := l.Resolve(netip.MustParseAddr("10.1.0.2"), func(mac ether.Addr, _ frame.Time) {
			found = mac == b.dev.Config().MAC
		})
		w.run(time.Second)
		if found != c.mac {
			t.Errorf("VLAN %d: 10.1.0.2 found %v", c.vlan, found)
		}
		if ok {
			cancel()
		}
	}
	if got := b.counter("address_conflicts"); got != 0 {
		t.Errorf("%d address conflicts", got)
	}
}
