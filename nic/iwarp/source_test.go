package iwarp

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
)

// sourceOf queues a mix of requests on a connection whose TCP sends nothing,
// and cuts all of them.
func sourceOf(t testing.TB, cfg Config) (x *pair, c *conn) {
	x = connect(t, toe.Config{}, cfg, 1<<16)
	fill(x.c.mem, 5)
	to, key := x.s.mr.Addr(), x.s.mr.RKey()
	c = endpointOf(x.c.qp).conn
	for i, n := range []int{0, 8, 3000, 4097, 20000, 1, 2} {
		op := []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpWrite}[i%3]
		x.c.post(t, verbs.SendWR{ID: uint64(i), Opcode: op, SGEs: x.c.sge(i, n), RemoteAddr: to, RKey: key})
	}
	for c.Next(c.log.end, 1448) > 0 {
	}
	return x, c
}

func TestAnyRangeRendersTheSame(t *testing.T) {
	for _, cfg := range []Config{{}, {Markers: true}} {
		_, c := sourceOf(t, cfg)
		start := c.log.at(c.log.head).off
		whole := make([]byte, c.log.end-start)
		c.Render(start, whole)
		rapid.Check(t, func(t *rapid.T) {
			from := rapid.IntRange(0, len(whole)-1).Draw(t, "from")
			p := make([]byte, rapid.IntRange(1, min(4000, len(whole)-from)).Draw(t, "length"))
			c.Render(start+uint64(from), p)
			if !bytes.Equal(p, whole[from:from+len(p)]) {
				t.Fatal("octets differ")
			}
		})
	}
}

// Segments hold whole FPDUs when these fit, and a piece of one when not.
func TestNextKeepsBoundaries(t *testing.T) {
	_, c := sourceOf(t, Config{})
	ends := map[uint64]bool{}
	for i := c.log.head; i != c.log.tail; i++ {
		for r, off := c.log.at(i), c.log.at(i).off; off < r.end(); {
			off = r.boundary(off)
			ends[off] = true
		}
	}
	start := c.log.at(c.log.head).off
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5000).Draw(t, "limit")
		for off := start; off < c.log.end; {
			n := c.Next(off, limit)
			if n <= 0 || n > limit {
				t.Fatalf("%d octets at %d, limit %d", n, off, limit)
			}
			r := c.log.at(c.log.find(off))
			if whole := r.boundary(off) <= off+uint64(limit); whole && !ends[off+uint64(n)] {
				t.Fatalf("segment of %d at %d ends inside an FPDU", n, off)
			} else if !whole && n != limit {
				t.Fatalf("%d octets of a long FPDU, limit %d", n, limit)
			}
			off += uint64(n)
		}
	})
}

func TestRegionVanishesUnderRequests(t *testing.T) {
	for _, c := range []struct {
		name   string
		server bool // the region is the source of a Read
		status verbs.Status
	}{
		{"half-sent Write", false, verbs.StatusLocalProtection},
		{"half-answered Read", true, verbs.StatusRemoteAccess},
	} {
		x := connect(t, toe.Config{}, Config{}, 1<<20)
		owner := x.c
		if c.server {
			owner = x.s
		}
		src := make([]byte, 1<<20)
		mr, err := owner.pd.RegMR(src, verbs.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		wr := verbs.SendWR{ID: 1, Flags: verbs.Signaled, Opcode: verbs.OpWrite, RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr(),
			SGEs: []verbs.SGE{{Addr: mr.Addr(), Length: 1 << 20, LKey: mr.LKey()}}}
		if c.server {
			wr.Opcode, wr.SGEs, wr.RKey, wr.RemoteAddr = verbs.OpRead, x.c.sge(0, 1<<20), mr.RKey(), mr.Addr()
		}
		x.c.post(t, wr)
		x.must("some FPDUs", func() bool { return owner.n.e.Totals().TxFPDUs > 30 })
		if err := mr.Dereg(); err != nil {
			t.Fatal(err)
		}
		x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
		if wcs := x.c.poll(); len(wcs) != 1 || wcs[0].Status != c.status {
			t.Errorf("%s: %s", c.name, wcString(wcs))
		}
		peer := x.b
		if c.server {
			peer = x.a
		}
		want := &rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeCatastrophic, Code: rdmap.Unspecified}
		if c.server { // the Read Request is to blame
			want = &rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeProtection, Code: rdmap.InvalidSTag}
		}
		if r := remoteErr(peer); r == nil || !errors.Is(r, want) {
			t.Errorf("%s: peer learnt %v", c.name, r)
		}
	}
}
