package l2

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"testing"

	"tapir/nic/fastlinq/status"
	"tapir/wire/ip"
)

// standardKey is the key of the published vectors.
var standardKey = func() (k [KeyLen]byte) {
	b, err := hex.DecodeString("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
	if err != nil || copy(k[:], b) != KeyLen {
		panic(err)
	}
	return k
}()

// The vectors of the specification of receive-side scaling.
//
// L2-18
func TestToeplitz(t *testing.T) {
	h := NewToeplitz(standardKey)
	for _, v := range []struct {
		src, dst     string
		addrs, ports uint32
	}{
		{"66.9.149.187:2794", "161.142.100.80:1766", 0x323e8fc2, 0x51ccc178},
		{"199.92.111.2:14230", "65.69.140.83:4739", 0xd718262a, 0xc626b0ea},
		{"[3ffe:2501:200:1fff::7]:2794", "[3ffe:2501:200:3::1]:1766", 0x2cc18cd5, 0x40207d3d},
	} {
		src, dst := netip.MustParseAddrPort(v.src), netip.MustParseAddrPort(v.dst)
		a := append(src.Addr().AsSlice(), dst.Addr().AsSlice()...)
		sum := h.Sum(0, a, 0)
		var ports [4]byte
		binary.BigEndian.PutUint16(ports[:], src.Port())
		binary.BigEndian.PutUint16(ports[2:], dst.Port())
		if with := h.Sum(sum, ports[:], len(a)); sum != v.addrs || with != v.ports {
			t.Errorf("%s to %s: %#x and %#x, want %#x and %#x", v.src, v.dst, sum, with, v.addrs, v.ports)
		}
	}
}

// Flows spread over the queues of the table by their hash, which the
// completion reports.
//
// L2-18
func TestSpread(t *testing.T) {
	w := newWorld(t, Config{})
	qs := w.start(StartParams{}, 0, 1, 2, 3)
	w.run(0, Promisc)
	p := &RSSParams{UpdateConfig: true, UpdateCaps: true, UpdateTable: true, UpdateKey: true, Enable: true,
		Hashes: DefaultHash, TableLog: 7, Key: standardKey}
	for i := range p.Table {
		p.Table[i] = qs[i%4]
	}
	w.ok(w.VportUpdate(UpdateParams{RSS: p}))
	h := NewToeplitz(standardKey)
	count := func() (n [4]int) {
		for i, q := range qs {
			list, cqes := take(q)
			for k, b := range list {
				hash := h.Sum(0, b[26:34], 0)
				if cqes[k].HashType == HashIPv4TCP {
					hash = h.Sum(hash, b[34:38], 8)
				} else if cqes[k].HashType != HashIPv4 {
					t.Fatalf("hash type %v", cqes[k].HashType)
				}
				if cqes[k].Hash != hash || p.Table[hash&127] != q {
					t.Fatalf("hash %#x, want %#x, in queue %d", cqes[k].Hash, hash, i)
				}
			}
			n[i] = len(list)
		}
		return n
	}
	send := func(proto uint8) {
		for i := range 256 {
			w.receive(packet4(addr(1), proto, 7, uint16(1000+i), 80, 10))
		}
	}
	send(ip.ProtoTCP)
	for i, n := range count() {
		if n < 30 || n > 110 {
			t.Errorf("queue %d has %d of 256 TCP flows", i, n)
		}
	}
	send(ip.ProtoUDP) // hashed by addresses alone: one queue
	if n := count(); n[0]+n[1]+n[2]+n[3] != 256 || max(n[0], n[1], n[2], n[3]) != 256 {
		t.Errorf("UDP without ports: %v", n)
	}
	// Each part is changed by itself.
	for _, part := range []*RSSParams{
		{UpdateCaps: true, Hashes: DefaultHash | HashIPv4UDP}, {UpdateKey: true, Key: standardKey}, {UpdateConfig: true, Enable: true}, {},
	} {
		w.ok(w.VportUpdate(UpdateParams{RSS: part}))
	}
	send(ip.ProtoTCP)
	count()
	w.ok(w.UpdateTableEntry(0, 5, qs[0]))
	w.ok(w.VportUpdate(UpdateParams{RSS: &RSSParams{UpdateCaps: true, Hashes: 0}}))
	send(ip.ProtoTCP) // no hash: the first entry
	if list, cqes := take(qs[0]); len(list) != 256 || cqes[0].HashType != 0 {
		t.Errorf("%d frames without a hash", len(list))
	}
	// Queues that stop leave their share to the vport's first.
	w.ok(w.VportUpdate(UpdateParams{RSS: &RSSParams{UpdateCaps: true, Hashes: DefaultHash}}))
	w.ok(w.RxQueueStop(qs[3]))
	send(ip.ProtoTCP)
	if n := qs[0].Len() + qs[1].Len() + qs[2].Len(); n != 256 {
		t.Errorf("%d frames of 256", n)
	}
}

// L2-18
func TestRSSRefused(t *testing.T) {
	w, other := newWorld(t, Config{}), newWorld(t, Config{})
	q := w.start(StartParams{}, 0)[0]
	stranger := other.start(StartParams{}, 0)[0]
	second := w.start(StartParams{Vport: 1}, 1)[0]
	table := func(n int, q *RxQueue) (p RSSParams) {
		p.UpdateTable, p.TableLog = true, n
		for i := range p.Table {
			p.Table[i] = q
		}
		return p
	}
	holed := table(7, q)
	holed.Table[99] = nil
	for name, p := range map[string]RSSParams{
		"a hole": holed, "another function's": table(7, stranger), "another vport's": table(0, second), "too long": table(8, q),
		"negative": table(-1, q), "hash types": {UpdateCaps: true, Hashes: 64}, "engine": {Engine: 15},
	} {
		if err := w.VportUpdate(UpdateParams{RSS: &p}); status.Of(err) != status.Inval {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := table(7, q)
	w.ok(w.VportUpdate(UpdateParams{RSS: &p}))
	for index, q := range map[int]*RxQueue{-1: q, 128: q, 0: second, 1: nil} {
		w.want(status.Inval, w.UpdateTableEntry(0, index, q))
	}
}
