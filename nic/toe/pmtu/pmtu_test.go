package pmtu

import (
	"net/netip"
	"testing"
	"time"

	"tapir/wire/frame"
)

func TestCacheIsBounded(t *testing.T) {
	var p Cache
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	for i := range maxPaths + 10 {
		p.Learn(addr(i), 1300, 1)
	}
	p.Learn(addr(20), 1200, 2)
	p.Learn(addr(21), 0, 2)
	if p.Len() != maxPaths-1 || len(p.byAddr) != maxPaths-1 || p.byAddr[addr(20)].MTU != 1200 || p.order[maxPaths-2] != addr(20) {
		t.Fatalf("%d entries", p.Len())
	}
	if _, kept := p.Find(addr(9)); kept {
		t.Fatal("the oldest entry is kept")
	}
}

// TestSearch looks for every MTU between 1280 and 9000 on a path that carries
// no more, with and without the help of ICMP.
func TestSearch(t *testing.T) {
	const bottom, top, age = 1280, 9000, time.Minute
	for path := bottom; path <= top; path += 7 {
		for _, icmp := range []bool{false, true} {
			mtu, now, end, probes := bottom, frame.Time(time.Second), uint64(0), 0
			s := Begin(now)
			if s.Due(mtu, top, age, now-1) != 0 {
				t.Fatal("a probe before the time")
			}
			for size := s.Due(mtu, top, age, now); size != 0; size = s.Due(mtu, top, age, now) {
				end += 10
				probes++
				if s.Sent(end, size); s.Due(mtu, top, age, now) != 0 || s.Lost(end-1) {
					t.Fatal("two probes at once")
				}
				if size <= path {
					mtu = s.Acked(end)
					continue
				}
				if icmp && !s.Told(path) || !s.Lost(end) || s.Acked(end) != 0 {
					t.Fatalf("the loss of %d is not noted", size)
				}
			}
			if mtu > path || path-mtu > step || probes > 10 || icmp && path < top && mtu != path {
				t.Fatalf("found %d of %d with %d probes, ICMP %v", mtu, path, probes, icmp)
			}
			if mtu < top && (s.Due(mtu, top, age, now.Add(age)-1) != 0 || s.Due(mtu, top, age, now.Add(age)) != top) {
				t.Fatal("the search does not begin again in time")
			}
		}
	}
}
