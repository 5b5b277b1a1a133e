package sw

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// datagram is a frame with a packet of IP of a traffic class, behind tags VLAN tags.
func datagram(addr string, tos uint8, tags, octets int) string {
	a := netip.MustParseAddr(addr)
	h := ether.Header{Dst: host(2), Src: host(1), Type: ether.TypeIPv4, NTags: tags}
	p := ip.Header{Version: 4, TOS: tos, TTL: 64, Proto: ip.ProtoUDP, Src: a, Dst: a}
	if a.Is6() {
		h.Type, p.Version = ether.TypeIPv6, 6
	}
	for i := range tags {
		h.Tags[i] = ether.Tag{TPID: 0x8100, TCI: uint16(i + 5)}
	}
	b := h.AppendTo(nil)
	p.PayloadLen = octets - len(b) - p.HeaderLen()
	b = append(b, make([]byte, octets-len(b))...)
	p.Put(b[h.Len():])
	return string(b)
}

// ecnOf is the ECN field of what datagram made; the IPv4 checksum must be right.
func ecnOf(t *testing.T, b string) uint8 {
	t.Helper()
	_, n, err := ether.Parse([]byte(b))
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := ip.Parse([]byte(b[n:]))
	if err != nil {
		t.Fatal(err)
	}
	return h.TOS & ip.ECNMask
}

// Packets of ECN-capable senders are marked as they meet a queue beyond ecn_kmax, of IPv4 and
// IPv6 and behind VLAN tags, and super-frames as a whole; packets of others, other frames and
// those that find at most ecn_kmin octets are not. A port may have numbers of its own.
func TestMarking(t *testing.T) {
	for _, c := range []struct {
		ecn  swconf.ECN
		mark string // of frames of 1000 octets: M marked, - not
	}{
		{swconf.ECN{}, "--------"},
		{swconf.ECN{Kmin: 3000, Kmax: 3000}, "----MMMM"},
		{swconf.ECN{Kmin: 0, Kmax: 1}, "-MMMMMMM"},
		{swconf.ECN{Kmin: 1000, Kmax: 6000}, "-------M"},            // no chance at ecn_kmax
		{swconf.ECN{Kmin: 1000, Kmax: 1001, Pmax: 1e6}, "--MMMMMM"}, // and all of it
	} {
		for _, addr := range []string{"10.0.0.1", "fd00::1"} {
			for tos := range uint8(4) {
				for tags := range 3 {
					b := newBed(t, 2, swconf.Config{ECN: c.ecn})
					b.wires[1].room = 0
					for range c.mark {
						b.send(0, datagram(addr, tos|0x60, tags, 1000))
					}
					if q := b.s.Counts(1); q.QueuedOctets != 8000 || q.QueueMostOctets != 8000 {
						t.Fatalf("%+v", q)
					}
					b.wires[1].room = 100
					b.run(time.Second)
					got := ""
					for _, l := range b.wires[1].take() {
						mark := "-"
						if e := ecnOf(t, l.b); e == ip.CE && tos != ip.CE {
							mark = "M"
						} else if e != tos {
							t.Fatalf("ECN %d became %d", tos, e)
						}
						got += mark
					}
					want := c.mark
					if tos == 0 || tos == ip.CE {
						want = "--------"
					}
					if n := strings.Count(want, "M"); got != want || b.s.Counts(1).CE != uint64(n) || b.s.Counts(1).QueuedOctets != 0 {
						t.Errorf("%+v, %s, ECN %d, %d tags: %s, want %s, counted %d", c.ecn, addr, tos, tags, got, want,
							b.s.Counts(1).CE)
					}
				}
			}
		}
	}
	cfg := swconf.Config{ECN: swconf.ECN{Kmax: 1}}
	b := newBed(t, 2, cfg)
	b.s.ports[1].red = newRED(&swconf.Config{ECN: cfg.ECN, Ports: []swconf.PortConfig{{}, {ECN: swconf.ECN{Kmax: 1500}}}}, 1)
	b.wires[1].room = 0
	b.send(0, eth(host(2), host(1), "no packet of IP"))
	whole := b.pool.Get(3000)
	whole.Append([]byte(datagram("10.0.0.1", ip.ECT0, 0, 3000)))
	whole.Offload = frame.Offload{GSO: frame.GSOUDP, GSOSize: 1000}
	b.send(0, datagram("10.0.0.1", ip.ECT0, 0, 1490)) // finds less than the port's own 1500
	b.s.Receive(0, []*frame.Frame{whole}, b.now)
	b.wires[1].room = 100
	b.run(time.Second)
	got := b.wires[1].take()
	if len(got) != 3 || ecnOf(t, got[1].b) != ip.ECT0 || ecnOf(t, got[2].b) != ip.CE {
		t.Error("super-frames, or a port of its own")
	}
	named := false
	for _, c := range b.s.Counters() {
		named = named || strings.HasSuffix(c.Name, "_tx_ecn_marked") && c.Value == 1
	}
	if !named {
		t.Errorf("%+v", b.s.Counters())
	}
}

// Between ecn_kmin and ecn_kmax the chance of a mark rises to ecn_pmax, and equal seeds mark
// the same frames.
func TestMarkingChance(t *testing.T) {
	c := swconf.Config{Seed: 5, Ports: make([]swconf.PortConfig, 1), ECN: swconf.ECN{Kmin: 5000, Kmax: 205_000, Pmax: 200_000}}
	r, twin := newRED(&c, 0), newRED(&c, 0)
	for _, octets := range []int{5000, 55_000, 105_000, 205_000, 205_001} {
		const n = 20_000
		marks := 0
		for range n {
			is := r.marks(octets)
			if is != twin.marks(octets) {
				t.Fatal("another draw of the same seed")
			}
			if is {
				marks++
			}
		}
		want := 0.2 * float64(octets-5000) / 200_000
		if octets > c.ECN.Kmax {
			want = 1
		}
		if share := float64(marks) / n; math.Abs(share-want) > 0.01 {
			t.Errorf("%s: %v, want %v", fmt.Sprint(octets, " octets"), share, want)
		}
	}
}
