package nic

import (
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/param"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// segmentsIn offers segments of one stream, a super-frame if gso says how it
// is to be cut, and returns how many frames of them the host TAP got.
func (e *ethernetHost) segmentsIn(gso int, sizes ...int) int {
	e.h.got = nil
	e.n.dev.Receive(frame.Wire, e.stream(e.n.dev.cfg.MAC, e.s.mac, gso, sizes...), e.w.now)
	e.w.run(time.Millisecond)
	return len(e.h.got)
}

// stream makes segments of one stream with checksums left to do if gso is
// not 0.
func (e *ethernetHost) stream(dst, src ether.Addr, gso int, sizes ...int) (batch []*frame.Frame) {
	seq := 0
	for _, n := range sizes {
		h := ether.Header{Dst: dst, Src: src, Type: ether.TypeIPv4}
		b := append(h.AppendTo(nil), segment(peer4, nic4, tcp.Header{SrcPort: 5, DstPort: 80, Seq: tcp.Seq(seq), Flags: tcp.ACK}, make([]byte, n))...)
		f := e.w.pool.Get(len(b))
		f.Append(b)
		if gso > 0 {
			f.Offload = frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, GSOSize: uint16(gso), HdrLen: 54, CsumStart: 34, CsumOffset: 16}
		}
		batch = append(batch, f)
		seq += n
	}
	return batch
}

// What is received is checked, put together, cut and spread as features say.
//
// L2-17 L2-18 L2-24
func TestReceiveFeatures(t *testing.T) {
	e := newEthernetHost(t, Config{Frames: GSO})
	sizes := []int{1000, 1200, 1200}
	for _, c := range []struct {
		name, set string
		frames    int // of three segments of two sizes
	}{
		{"by default", "", 3},
		{"lro", "lro=1", 1},
		{"lro without checksums", "rx_checksum=0", 3},
		{"gro_hw in place of lro", "rx_checksum=1 gro_hw=1", 2},
		{"gro_hw without gro", "gro=0", 3},
		{"gro_hw again", "gro=1", 2},
		{"none", "gro_hw=0 lro=0", 3},
	} {
		for _, s := range strings.Fields(c.set) {
			name, value, _ := strings.Cut(s, "=")
			e.set(name, value)
		}
		if n := e.segmentsIn(0, sizes...); n != c.frames {
			t.Errorf("%s: %d frames, want %d", c.name, n, c.frames)
		}
	}
	if n := e.segmentsIn(1000, 3500); n != 1 {
		t.Errorf("a super-frame of the wire arrives as %d frames", n)
	}
	e.set("gro", "0")
	e.h.room = 2
	if n := e.segmentsIn(1000, 3500); n != 4 || len(e.h.got[3]) != 54+500 || e.h.queues[0] != e.h.queues[3] {
		t.Errorf("without gro it arrives as %d frames", n)
	}

	bad := e.frame(e.n.dev.cfg.MAC, 0, 80)
	bad[50] ^= 1
	errors := func() (n uint64) {
		for _, q := range []string{"0", "1", "2", "3"} {
			n += e.n.ethtoolStat(q + ": rx_hw_errors")
		}
		return n
	}
	for value, want := range map[string]uint64{"0": 0, "1": 1} {
		e.set("rx_checksum", value)
		before := errors()
		if len(e.in(bad)) != 1 || errors()-before != want {
			t.Errorf("rx_checksum=%s: %d bad checksums", value, errors()-before)
		}
	}

	for value, want := range map[string]bool{"0": false, "1": true} {
		e.set("rx_hash", value)
		spread := false
		for port := range uint16(32) {
			e.in(e.frame(e.n.dev.cfg.MAC, 0, 1000+port))
			spread = spread || e.h.queues[0] != 0
		}
		if spread != want {
			t.Errorf("rx_hash=%s: spread %v", value, spread)
		}
	}

	e.set("rx_mode", "regular")
	e.set("rx_vlans", "6")
	for value, want := range map[string]int{"0": 1, "1": 0} {
		e.set("rx_vlan_filter", value)
		if n := len(e.in(e.frame(e.n.dev.cfg.MAC, 7, 80))); n != want {
			t.Errorf("rx_vlan_filter=%s: %d frames of another VLAN", value, n)
		}
	}
	if e.w.pool.Lent() != 0 {
		t.Errorf("%d frames lost", e.w.pool.Lent())
	}
}

// Without the offloads the driver cuts what the operating system sends, and
// completes its checksums: the queue gets true frames, all of them or none.
//
// L2-24
func TestTransmitFeatures(t *testing.T) {
	e := newEthernetHost(t, Config{Frames: GSO})
	send := func(f *frame.Frame) (frames, partial uint64) {
		t.Helper()
		before, seen := e.n.ethtoolStat("0_0: xmit_pkts"), len(e.n.all)
		e.n.dev.Receive(frame.Host, []*frame.Frame{f}, e.w.now)
		e.w.run(time.Millisecond)
		for _, r := range e.n.all[seen:] {
			if r.Port == frame.Wire && r.Dir == frame.Outbound && r.Offload.NeedsCsum {
				partial++
			}
		}
		return e.n.ethtoolStat("0_0: xmit_pkts") - before, partial
	}
	super := func() *frame.Frame { return e.stream(e.s.mac, e.n.dev.cfg.MAC, 1000, 3500)[0] }
	plain := func() *frame.Frame {
		f := e.stream(e.s.mac, e.n.dev.cfg.MAC, 1, 100)[0]
		f.GSO, f.GSOSize = frame.GSONone, 0
		return f
	}
	for _, c := range []struct {
		name, value                   string
		super, superPartial, anyPlain uint64
	}{{"tso", "1", 1, 1, 1}, {"tso", "0", 4, 0, 1}, {"tso", "1", 1, 1, 1}, {"tx_checksum", "0", 4, 0, 0}} {
		e.set(c.name, c.value)
		if n, partial := send(super()); n != c.super || partial != c.superPartial {
			t.Errorf("%s=%s: a super-frame is %d frames, %d with checksums to do", c.name, c.value, n, partial)
		}
		if n, partial := send(plain()); n != 1 || partial != c.anyPlain {
			t.Errorf("%s=%s: a frame is %d frames, %d with checksums to do", c.name, c.value, n, partial)
		}
	}
	e.set("tx_ring", "128")
	full := e.n.ethtoolStat("0_0: stopped_cnt")
	if n, _ := send(e.stream(e.s.mac, e.n.dev.cfg.MAC, 10, 3500)[0]); n != 0 || e.n.ethtoolStat("0_0: stopped_cnt") != full+1 {
		t.Errorf("%d of 350 segments in a queue of 128", n)
	}
	wrong := super()
	wrong.GSOSize = 0
	if n, _ := send(wrong); n != 0 || e.n.counter("tx_drop_impossible_offload") != 1 {
		t.Error("a super-frame of segments without size passes")
	}
	outside := plain()
	outside.CsumStart = 5000
	if n, _ := send(outside); n != 0 || e.w.pool.Lent() != 0 {
		t.Errorf("%d frames with a checksum outside, %d lost", n, e.w.pool.Lent())
	}
}

// Without tso the TCP engine sends one segment in a frame, from the next on.
func TestEngineTSO(t *testing.T) {
	w, a, b := twoNICs(t, Config{Frames: GSO})
	c, s := dial(w, a, b, b.dev.IP.Addrs()[0].Addr(), 1<<18)
	for _, on := range []bool{true, false, true} {
		a.with(Setting{"tso", param.Bit(on)})
		packets, frames := a.ethtoolStat("tx_1024_to_1518_byte_packets"), a.dev.Wire.Frames[frame.Outbound].Packets
		exercise(w, c, s, 1<<17)
		packets, frames = a.ethtoolStat("tx_1024_to_1518_byte_packets")-packets, a.dev.Wire.Frames[frame.Outbound].Packets-frames
		if packets < 80 || on != (frames < packets/2) {
			t.Errorf("tso=%v: %d large packets in %d frames", on, packets, frames)
		}
	}
}

// What is in force is what is wanted as far as other features allow, and what
// cannot be changed is fixed.
func TestFeatures(t *testing.T) {
	shown := func(n *node) string {
		var words []string
		for _, f := range n.dev.ShowEthtool().Features {
			switch w := f.Name + "=" + map[bool]string{true: "on", false: "off"}[f.On]; {
			case f.Fixed:
			case f.On != f.Wanted:
				words = append(words, w+"!")
			default:
				words = append(words, w)
			}
		}
		return strings.NewReplacer("tx-", "", "segmentation", "seg", "checksum", "csum").Replace(strings.Join(words, " "))
	}
	check := func(n *node, want string) {
		t.Helper()
		if got := shown(n); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	_, plain, _ := twoNICs(t, Config{})
	check(plain, "loopback=off")
	_, gso, _ := twoNICs(t, Config{Frames: GSO, Hardware: &fastlinq.Config{Link: fastlinq.Link{Loopback: mfw.LoopbackMAC}}})
	check(gso, "tcp-seg=on tcp6-seg=on loopback=on")
	check(newEthernetHost(t, Config{}).n, "csum-ipv4=on csum-ipv6=on rx-vlan-filter=on tcp-seg=on tcp6-seg=on rx-ntuple-filter=on rx-hashing=on loopback=off")
	e := newEthernetHost(t, Config{Frames: GSO, Hardware: &fastlinq.Config{Features: fastlinq.Features{LRO: true}, Ethernet: fastlinq.Ethernet{GRO: true}}})
	with := func(gro, lro, csum, hw string) string {
		return "csum-ipv4=off csum-ipv6=off rx-vlan-filter=on rx-gro=" + gro + " rx-lro=" + lro + " tcp-seg=off! tcp6-seg=off! rx-ntuple-filter=on rx-hashing=on rx-csum=" +
			csum + " loopback=off rx-gro-hw=" + hw
	}
	e.set("tx_checksum", "0")
	check(e.n, with("on", "off!", "on", "on"))
	e.set("gro", "0")
	check(e.n, with("off", "off!", "on", "off!"))
	e.set("gro", "1")
	if err := e.n.dev.SetMTU(9000, e.w.now); err != nil {
		t.Fatal(err)
	}
	check(e.n, with("on", "on", "on", "off!"))
	e.set("rx_checksum", "0")
	check(e.n, with("on", "off!", "off", "off!"))

	e.set("ntuple_filters", "0")
	for name, value := range map[string]string{"ntuple": "0 tcp4 dst-port 80 action 1", "tso": "2", "rx_hash": "yes"} {
		if err := e.n.dev.Set(Setting{name, value}); err == nil {
			t.Errorf("%s=%s is accepted", name, value)
		}
	}
	if err := plain.dev.Set(Setting{"lro", "1"}); err == nil || !strings.Contains(err.Error(), "--host-tap") {
		t.Errorf("%v", err)
	}
	if err := newEthernetHost(t, Config{}).n.dev.Set(Setting{"lro", "1"}); err == nil || !strings.Contains(err.Error(), "--frames gso") {
		t.Errorf("%v", err)
	}
}
