package nic

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// flows are what was delivered, as a digest of each flow's frames in their order:
// flows may overtake each other, frames of one not.
type flows map[string][sha256.Size]byte

func (d flows) add(to string, b []byte) {
	key := fmt.Sprintf("%s % x", to, b[:min(len(b), 14)])
	if len(b) >= 38 && b[12] == 8 && (b[23] == ip.ProtoTCP || b[23] == ip.ProtoUDP) {
		key += fmt.Sprintf(" % x", b[23:38])
	}
	before := d[key]
	d[key] = sha256.Sum256(append(before[:], b...))
}

func (d flows) String() (s string) {
	for _, k := range slices.Sorted(maps.Keys(d)) {
		s += fmt.Sprintf("%s: %x\n", k, d[k])
	}
	return s
}

// mixed is RDMA beside TCP segments, datagrams and group traffic for the host, which
// sends too. What was delivered: to the host, to the wire of the host's frames, and to memory.
func mixed(t *testing.T, change func(*Config)) flows {
	w := newWorld(t)
	h := &hostSide{w: w, room: 256, held: map[netip.AddrPort]bool{}}
	n := &node{w: w, room: 256}
	cfg := Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24"), Queues: 4}
	change(&cfg)
	w.attach(n, cfg, Env{Pool: w.pool, Wire: n, Host: h, Reserver: h})
	peer := w.nic(Config{Name: "nic1", Addrs: prefixes("10.0.0.3/24")})
	w.station(n.dev.cfg.MAC.String(), "10.0.0.1") // the operating system answers for the address that it shares
	s := w.station("02:00:00:00:00:99", "10.0.0.2")
	c, server := dial(w, n, peer, netip.MustParseAddr("10.0.0.3"), 64<<10)
	for round := range 20 {
		for flow := range 8 {
			data := make([]byte, 100+round*60)
			fill(data, byte(round*8+flow))
			s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, segment(peer4, nic4, tcp.Header{SrcPort: uint16(1000 + flow), DstPort: 8, Seq: tcp.Seq(round), Flags: tcp.ACK}, data))
			ports := binary.BigEndian.AppendUint16([]byte{3, byte(flow)}, 99)
			s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, packet(ip.Header{Proto: ip.ProtoUDP, Src: peer4, Dst: nic4}, append(append(ports, 0, byte(8+len(data)), 0, 0), data...)))
			s.transmit(ether.Addr{1, 0, 0x5e, 0, 1, byte(flow)}, ether.TypeIPv4, packet(ip.Header{Proto: 99, Src: peer4, Dst: netip.AddrFrom4([4]byte{224, 0, 1, byte(flow)})}, data))
			b := append(ether.Header{Dst: s.mac, Src: n.dev.cfg.MAC, Type: ether.TypeIPv4}.AppendTo(nil),
				segment(nic4, peer4, tcp.Header{SrcPort: 8, DstPort: uint16(1000 + flow), Seq: tcp.Seq(round), Flags: tcp.ACK}, data)...)
			f := w.pool.Get(len(b))
			f.Append(b)
			f.Queue = uint16(flow % 4)
			n.dev.Receive(frame.Host, []*frame.Frame{f}, w.now)
		}
		exercise(w, c, server, 1000*(round+1))
		w.run(time.Millisecond)
	}
	got := flows{}
	for _, b := range h.got {
		got.add("host", b)
	}
	for _, r := range s.take() {
		if th, data, err := tcp.Parse(r.body); err == nil && r.ip.Proto == ip.ProtoTCP {
			got.add(fmt.Sprint("wire ", th.DstPort), binary.BigEndian.AppendUint32(slices.Clone(data), uint32(th.Seq)))
		}
	}
	got.add("client", c.mem)
	got.add("server", server.mem)
	if len(n.drops) > 0 {
		t.Errorf("%d frames are dropped: %v", len(n.drops), n.drops[0].Drop)
	}
	closeBoth(w, n, peer)
	return got
}

// The same scenario delivers the same octets, however the NIC interrupts.
//
// IT-06 IT-07 IT-08 IT-09 IT-19
func TestMixedTrafficInEveryMode(t *testing.T) {
	want := ""
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"msix", func(c *Config) {}},
		{"msi", func(c *Config) { fastlinqOf(c).Interrupts.Mode = "msi" }},
		{"inta", func(c *Config) { fastlinqOf(c).Interrupts.Mode = "inta" }},
		{"poll", func(c *Config) { fastlinqOf(c).Interrupts.Mode = "poll" }},
		{"two vectors", func(c *Config) { fastlinqOf(c).Interrupts.Vectors = 2 }},
		{"coalesced", func(c *Config) { fastlinqOf(c).Interrupts.RxUsecs, fastlinqOf(c).Interrupts.TxUsecs = 64, 200 }},
		{"one queue", func(c *Config) { c.Queues = 1 }},
		{"two engines", func(c *Config) { fastlinqOf(c).Engines = 2 }},
		{"two engines, poll", func(c *Config) { fastlinqOf(c).Engines, fastlinqOf(c).Interrupts.Mode = 2, "poll" }},
	} {
		list := mixed(t, c.change)
		got := list.String()
		if want == "" {
			want = got
		}
		if len(list) < 8*4 || got != want {
			t.Errorf("%s delivers %d flows\n%swant\n%s", c.name, len(list), got, want)
		}
	}
}
