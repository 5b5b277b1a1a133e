package nic

import (
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/geneve"
	"tapir/wire/ip"
	"tapir/wire/tcp"
	"tapir/wire/virtio"
)

// ethernetHost is a NIC with a host TAP of four queues, and frames for it.
type ethernetHost struct {
	*testing.T
	w *world
	n *node
	h *hostSide
	s *station

	queueOf map[uint16]int // by destination port
}

func newEthernetHost(t *testing.T, cfg Config) *ethernetHost {
	return newHostWith(t, 4, cfg)
}

func (e *ethernetHost) set(name, value string) {
	e.Helper()
	if err := e.n.dev.Set(Setting{name, value}); err != nil {
		e.Fatal(err)
	}
}

// in offers a frame of the wire and returns what of it the host TAP got.
func (e *ethernetHost) in(b []byte) [][]byte {
	e.Helper()
	e.h.got, e.h.queues = nil, nil
	f := e.w.pool.Get(len(b))
	f.Append(b)
	e.n.dev.Receive(frame.Wire, []*frame.Frame{f}, e.w.now)
	e.w.run(time.Millisecond)
	return e.h.got
}

// out sends a frame of the operating system and returns what the peer heard.
func (e *ethernetHost) out(b []byte) []received {
	e.Helper()
	e.s.take()
	f := e.w.pool.Get(len(b))
	f.Append(b)
	e.n.dev.Receive(frame.Host, []*frame.Frame{f}, e.w.now)
	e.w.run(time.Millisecond)
	return e.s.take()
}

func (e *ethernetHost) frame(dst ether.Addr, vlan uint16, port uint16) []byte {
	h := ether.Header{Dst: dst, Src: e.s.mac, Type: ether.TypeIPv4}
	if vlan != 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: vlan}
	}
	return append(h.AppendTo(nil), segment(peer4, nic4, tcp.Header{SrcPort: 5, DstPort: port, Flags: tcp.ACK}, nil)...)
}

// The receive mode and its filters decide what the host TAP gets, and what they
// let pass is shown.
//
// L2-08 L2-09 L2-10 L2-11
func TestReceiveMode(t *testing.T) {
	e := newEthernetHost(t, Config{})
	own, other, group := e.n.dev.cfg.MAC, ether.Addr{2, 5, 5, 5, 5, 5}, ether.Addr{1, 0, 0x5e, 1, 2, 3}
	check := func(when string, wantOwn, wantOther, wantGroup, wantVLAN bool) {
		t.Helper()
		for name, c := range map[string]struct {
			b    []byte
			want bool
		}{"own": {e.frame(own, 0, 80), wantOwn}, "other": {e.frame(other, 0, 80), wantOther}, "group": {e.frame(group, 0, 80), wantGroup},
			"VLAN": {e.frame(own, 7, 80), wantVLAN}, "broadcast": {e.frame(ether.Broadcast, 0, 80), true}} {
			before := e.n.ethtoolStat("mac_filter_discards")
			got := len(e.in(c.b)) == 1
			if got != c.want || !got && e.n.ethtoolStat("mac_filter_discards") == before && name != "VLAN" {
				t.Errorf("%s, %s: passes %v, want %v", when, name, got, c.want)
			}
		}
	}
	check("promisc", true, true, true, true)
	e.set("rx_mode", "allmulti")
	check("allmulti", true, false, true, true)
	e.set("rx_mode", "regular")
	check("regular", true, false, false, true)
	e.set("rx_macs", other.String())
	e.set("rx_groups", group.String())
	e.set("rx_vlans", "6")
	check("filters", true, true, true, false)
	if v := e.n.dev.ShowVport()[0]; v.MACs != 2 || v.VLANs != 1 || v.Groups != 1 || v.RxMode != "regular" || v.AnyVLAN || v.Filtered == 0 {
		t.Errorf("%+v", v)
	}
	e.set("rx_vlans", "7")
	check("another VLAN", true, true, true, true)
	mac := ether.Addr{2, 6, 6, 6, 6, 6}
	if err := e.n.dev.SetMAC(mac, e.w.now); err != nil || len(e.in(e.frame(mac, 0, 80))) != 1 || len(e.in(e.frame(own, 0, 80))) != 0 {
		t.Errorf("another station address: %v", err)
	}
	e.set("rx_mode", "promisc")
	check("promisc again", true, true, true, true)
}

// Queues, rings, the RSS table and rules change while the NIC runs; what cannot
// be leaves all as it was.
//
// L2-18 L2-22
func TestHostSteering(t *testing.T) {
	e := newEthernetHost(t, Config{})
	queue := func(port uint16) int {
		t.Helper()
		if len(e.in(e.frame(e.n.dev.cfg.MAC, 0, port))) != 1 {
			return -1
		}
		return int(e.h.queues[0])
	}
	used := func() (n int) {
		seen := map[int]bool{}
		for port := range uint16(64) {
			seen[queue(1000+port)] = true
		}
		return len(seen)
	}
	if used() != 4 {
		t.Errorf("%d queues of 4", used())
	}
	e.set("channels", "2")
	e.set("rx_ring", "512")
	if n := used(); n != 2 {
		t.Errorf("%d queues of 2", n)
	}
	if i := e.n.dev.ShowEthtool(); i.Channels != (view.EthtoolChannels{MaxCombined: 4, Combined: 2}) || i.Rings.Rx != 512 {
		t.Errorf("%+v %+v", i.Channels, i.Rings)
	}
	e.set("channels", "0")
	e.set("rss_table", "3")
	if queue(80) != 3 || queue(81) != 3 {
		t.Error("the table does not count")
	}
	e.set("ntuple", "0 tcp4 dst-port 80 action 1, 1 tcp4 dst-port 81 action -1")
	if queue(80) != 1 || queue(81) != -1 || queue(82) != 3 {
		t.Errorf("by the rules: %d, %d, %d", queue(80), queue(81), queue(82))
	}
	if n := e.n.ethtoolStat("gft_filter_drop"); n != 1 {
		t.Errorf("%d packets dropped by a rule", n)
	}
	rules := Setting{"ntuple", "0 tcp4 dst-port 80 action 1, 1 tcp4 dst-port 81 action -1"}
	e.set("ntuple", "none")
	e.set("ntuple_filters", "0")
	if err := e.n.dev.Set(rules); err == nil || queue(80) != 3 || queue(81) != 3 {
		t.Errorf("without filters a rule counts: %v", err)
	}
	e.set("ntuple_filters", "1")
	e.set(rules.Name, rules.Value)
	before := e.n.dev.under.Config().Ethernet
	for name, value := range map[string]string{
		"channels": "5", "rss_table": "4", "rx_ring": "100", "rss_key": "01", "rx_macs": "01:00:5e:00:00:01", "rx_groups": "02:00:00:00:00:01",
		"ntuple": "0 tcp4 dst-port 80 action 4", "gro_hw": "1", "rx_vlans": "4095", "rss_hash": "none",
	} {
		if err := e.n.dev.Set(Setting{name, value}); err == nil {
			t.Errorf("%s=%s is accepted", name, value)
		}
	}
	for _, rule := range []string{"0 tcp4 dst-port 80", "x tcp4 dst-port 80 action 1", "0 icmp dst-port 80 action 1", "0 tcp4 dst-port 0 action 1",
		"0 tcp4 dst-port 80 action -2", "0 tcp4 vlan 5 action 1", "256 tcp4 dst-port 80 action 1", "0 tcp4 dst-ip fd00::1 action 1",
		"0 tcp4 dst-port 80 action 1,1 tcp4 src-ip 10.0.0.2 action 1", "0 tcp4 dst-port 80 action 1,0 tcp4 dst-port 81 action 1"} {
		if err := e.n.dev.Set(Setting{"ntuple", rule}); err == nil {
			t.Errorf("rule %q is accepted", rule)
		}
	}
	if queue(80) != 1 || queue(82) != 3 || len(e.n.dev.under.Config().Ethernet.Rules) != len(before.Rules) {
		t.Error("what was refused changed something")
	}
	e.set("ntuple", "none")
	e.set("rss_table", "equal")
	e.set("rss_hash", "ipv4")
	if n := used(); n != 1 {
		t.Errorf("%d queues by addresses alone", n)
	}
	e.set("rss_hash", "tcp4")
	e.set("rss_key", strings.Repeat("00:", 39)+"01") // a hash of zero
	if n := used(); n != 1 || queue(80) != 0 {
		t.Errorf("%d queues by a key that hashes nothing", n)
	}
}

// What the operating system sends and gets is checked and changed on its way.
//
// L2-19 L2-20 L2-24
func TestHostFrameSettings(t *testing.T) {
	e := newEthernetHost(t, Config{})
	from := func(src ether.Addr) []byte {
		h := ether.Header{Dst: e.s.mac, Src: src, Type: ether.TypeIPv4}
		return append(h.AppendTo(nil), segment(nic4, peer4, tcp.Header{SrcPort: 5, DstPort: 6, Flags: tcp.ACK}, nil)...)
	}
	own := e.n.dev.cfg.MAC
	if got := e.out(from(ether.Addr{2, 9})); len(got) != 1 || got[0].eth.NTags != 0 {
		t.Errorf("%d frames", len(got))
	}
	e.set("spoof_check", "1")
	if len(e.out(from(ether.Addr{2, 9}))) != 0 || len(e.out(from(own))) != 1 || e.n.ethtoolStat("tx_err_drop_pkts") != 1 {
		t.Error("spoof_check")
	}
	e.set("pvid", "77")
	if got := e.out(from(own)); len(got) != 1 || got[0].eth.NTags != 1 || got[0].eth.Tags[0].VID() != 77 {
		t.Errorf("pvid: %+v", got)
	}
	b := e.frame(own, 0, 80)
	b[14+8] = 0 // TTL
	b[24], b[25] = 0, 0
	sum := ip.Checksum(b[14:34], 0)
	b[24], b[25] = byte(sum>>8), byte(sum)
	if len(e.in(b)) != 1 {
		t.Error("TTL 0 is dropped though nobody asks")
	}
	e.set("drop_ttl0", "1")
	if len(e.in(b)) != 0 || e.n.ethtoolStat("ttl0_discard") != 1 {
		t.Error("TTL 0 passes")
	}
	e.set("tx_ring", "128")
	if e.n.dev.ShowEthtool().Rings.Tx != 128 {
		t.Error("tx_ring")
	}
}

// Filters of a tunnel's class compare the addresses inside.
//
// L2-23
func TestTunnelSettings(t *testing.T) {
	e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Ethernet: fastlinq.Ethernet{RxMode: settings.RxRegular}}})
	own, inner := e.n.dev.cfg.MAC, ether.Addr{2, 5, 5, 5, 5, 5}
	vxlan := append([]byte{0, 9, 4789 >> 8, 4789 & 255, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0}, e.frame(inner, 0, 80)...)
	vxlan[4], vxlan[5] = byte(len(vxlan)>>8), byte(len(vxlan))
	b := append(ether.Header{Dst: own, Src: e.s.mac, Type: ether.TypeIPv4}.AppendTo(nil), packet(ip.Header{Proto: ip.ProtoUDP, Src: peer4, Dst: nic4}, vxlan)...)
	pass := func(want bool, when string) {
		t.Helper()
		if got := len(e.in(b)) == 1; got != want {
			t.Errorf("%s: passes %v", when, got)
		}
	}
	pass(true, "by the outer address")
	e.set("tunnel_class", "inner")
	pass(true, "no tunnel is known")
	e.set("vxlan_port", "4789")
	pass(false, "by the inner address")
	e.set("rx_macs", inner.String())
	pass(true, "with a filter for it")
	e.set("vxlan_port", "0")
	e.set("geneve_port", "4789")
	pass(true, "not Geneve's form")

	tunnel := make([]byte, 8+geneve.HeaderLen)
	copy(tunnel, []byte{0, 9, 6081 >> 8, 6081 & 255})
	(&geneve.Header{Protocol: geneve.TypeEthernet, VNI: 7}).Put(tunnel[8:], 0)
	tunnel = append(tunnel, e.frame(inner, 0, 80)...)
	tunnel[4], tunnel[5] = byte(len(tunnel)>>8), byte(len(tunnel))
	b = append(ether.Header{Dst: own, Src: e.s.mac, Type: ether.TypeIPv4}.AppendTo(nil), packet(ip.Header{Proto: ip.ProtoUDP, Src: peer4, Dst: nic4}, tunnel)...)
	e.set("rx_macs", "none")
	pass(true, "Geneve at another port")
	e.set("geneve_port", "6081")
	pass(false, "Geneve by the inner address")
}

// Segments of a stream arrive as one super-frame that is cut into them again.
//
// L2-17
func TestHostGRO(t *testing.T) {
	e := newEthernetHost(t, Config{Frames: GSO})
	e.set("gro_hw", "1")
	var segs [][]byte
	var batch []*frame.Frame
	for i := range 5 {
		h := ether.Header{Dst: e.n.dev.cfg.MAC, Src: e.s.mac, Type: ether.TypeIPv4}
		b := append(h.AppendTo(nil), segment(peer4, nic4, tcp.Header{SrcPort: 5, DstPort: 80, Seq: tcp.Seq(i * 1000), Flags: tcp.ACK}, make([]byte, 1000))...)
		segs = append(segs, b)
		f := e.w.pool.Get(len(b))
		f.Append(b)
		batch = append(batch, f)
	}
	e.n.dev.Receive(frame.Wire, batch, e.w.now)
	e.w.run(time.Millisecond)
	if len(e.h.got) != 1 || e.n.ethtoolStat("coalesced_pkts") != 5 {
		t.Fatalf("%d frames", len(e.h.got))
	}
	n := 0
	off := frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, GSOSize: 1000, CsumStart: 34, CsumOffset: 16}
	if err := virtio.Split(off, e.h.got[0], func(seg []byte) { n += len(seg) }); err != nil || n != 5*len(segs[0]) {
		t.Errorf("%d octets of 5 segments: %v", n, err)
	}
}

// Without a host TAP there is nothing that such settings could change.
func TestEthernetNeedsHost(t *testing.T) {
	w := newWorld(t)
	n := w.nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24")})
	if err := n.dev.Set(Setting{"rx_mode", "regular"}); err == nil || !strings.Contains(err.Error(), "--host-tap") {
		t.Errorf("%v", err)
	}
	if _, err := newNIC(Config{Name: "nic1", Hardware: &fastlinq.Config{Ethernet: fastlinq.Ethernet{PVID: 5}}}, Env{Pool: w.pool, Wire: n}); err == nil || !strings.Contains(err.Error(), "pvid: the NIC has no host TAP") {
		t.Errorf("%v", err)
	}
	if n.dev.ShowVport() != nil {
		t.Error("a vport of no function")
	}
}
