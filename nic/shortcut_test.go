package nic

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"tapir/nic/cm"
	nicip "tapir/nic/ip"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// anyFrame is a frame near those that the engine owns: its listener is at port 7.
func anyFrame(rt *rapid.T, mac ether.Addr) []byte {
	odd := func(what string) bool { return rapid.IntRange(0, 5).Draw(rt, what) == 0 }
	pick := func(what string, list ...string) netip.Addr {
		if !odd("odd " + what) {
			list = list[:1]
		}
		return netip.MustParseAddr(rapid.SampledFrom(list).Draw(rt, what))
	}
	src, dst := pick("src", "10.0.0.2", "127.0.0.1", "224.0.0.1"), pick("dst", "10.0.0.1", "10.0.0.3", "224.0.0.1", "255.255.255.255")
	if rapid.Bool().Draw(rt, "IPv6") {
		src, dst = pick("src6", "fd00::2", "::", "ff02::1", "::ffff:10.0.0.2"), pick("dst6", "fd00::1", "fd00::9", "ff02::1", "::ffff:10.0.0.1")
	}
	port := rapid.SampledFrom([]uint16{7, 8, 319}).Draw(rt, "port")
	body := make([]byte, rapid.IntRange(0, 60).Draw(rt, "octets"))
	h := ip.Header{Proto: rapid.SampledFrom([]uint8{ip.ProtoTCP, ip.ProtoTCP, ip.ProtoTCP, ip.ProtoUDP, ip.ProtoICMP, 47}).Draw(rt, "proto"), Src: src, Dst: dst}
	var p []byte
	if h.Proto == ip.ProtoTCP {
		p = segment(src, dst, tcp.Header{SrcPort: 5, DstPort: port, Flags: tcp.ACK}, body)
	} else {
		p = packet(h, append(binary.BigEndian.AppendUint16([]byte{0, 5}, port), body...))
	}
	eth := ether.Header{Src: ether.Addr{2, 0, 0, 0, 0, 9}, Type: etherType(src), Dst: mac}
	if odd("station") {
		eth.Dst = rapid.SampledFrom([]ether.Addr{{2, 0, 0, 0, 0, 8}, ether.Broadcast, {1, 0, 0x5e, 0, 0, 1}}).Draw(rt, "to")
	}
	if odd("tag") {
		eth.NTags, eth.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: 5}
	}
	b := append(eth.AppendTo(nil), p...)
	if odd("damage") {
		b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
	}
	if odd("cut") {
		b = b[:rapid.IntRange(min(len(b), 30), len(b)).Draw(rt, "length")]
	}
	return b
}

// What is the operating system's at a glance is so by every stage, too; and
// nearly all of its traffic is seen to be.
func TestGlanceAgreesWithTheStages(t *testing.T) {
	w, n, _, _ := hostPair(t)
	d := n.dev
	if _, err := d.CM.Listen(netip.AddrPortFrom(nic4, 7), 1, func(cm.Event, frame.Time) {}, nil); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := anyFrame(rt, d.cfg.MAC)
		f := w.pool.Get(len(b))
		f.Append(b)
		plain := d.IP.PlainlyHosts(f)
		p := d.IP.Take(f, w.now)
		d.IP.Receive(p)
		v := p.Verdict
		if v == nicip.ToHost {
			p.Verdict = nicip.Consumed // the world has no use for it
		}
		d.IP.Done(p)
		d.IP.DiscardFragments(w.now)
		if plain && v != nicip.ToHost {
			rt.Fatalf("the stages say %d: % x", v, b)
		}
	})
	for _, b := range [][]byte{
		packet(ip.Header{Proto: ip.ProtoUDP, Src: peer4, Dst: nic4}, make([]byte, 8)),
		packet(ip.Header{Proto: ip.ProtoUDP, Src: peer6, Dst: nic6}, make([]byte, 8)),
		segment(peer4, nic4, tcp.Header{DstPort: 8}, nil), segment(peer6, nic6, tcp.Header{DstPort: 8}, nil),
	} {
		f := w.pool.Get(100)
		typ := uint16(ether.TypeIPv4)
		if b[0]>>4 == 6 {
			typ = ether.TypeIPv6
		}
		f.Append(append(ether.Header{Dst: d.cfg.MAC, Type: typ}.AppendTo(nil), b...))
		if !d.IP.PlainlyHosts(f) {
			t.Errorf("takes the long way: % x", b)
		}
		f.Release()
	}
}
