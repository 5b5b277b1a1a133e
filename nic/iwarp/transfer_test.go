package iwarp

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
)

var sizes = []int{0, 1, 8, 1423, 1424, 1428, 1429, 4096, 4097, 65536, 1 << 20}

func TestSizes(t *testing.T) {
	for _, mode := range []struct {
		name string
		tcp  toe.Config
		cfg  Config
	}{
		{"plain", toe.Config{}, Config{}},
		{"super-frames", toe.Config{MaxSegs: 44}, Config{}},
		{"markers", toe.Config{}, Config{Markers: true}},
		{"no CRC", toe.Config{}, Config{CRC: mpa.CRCOptional}},
		{"MPA 1", toe.Config{}, Config{Revision: 1}},
		{"MTU 9000", toe.Config{MTU: 9000}, Config{}},
		{"MTU 576", toe.Config{MTU: 576}, Config{}},
		{"peer to peer", toe.Config{}, Config{PeerToPeer: true}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			x := connect(t, mode.tcp, mode.cfg, 2<<20)
			for _, n := range sizes {
				transferAll(t, x, n)
			}
			var want []verbs.EventType
			if mode.cfg.PeerToPeer {
				want = append(want, verbs.EventCommEstablished)
			}
			var got []verbs.EventType
			for _, ev := range x.b.async {
				got = append(got, ev.Type)
			}
			if len(x.a.async) != 0 || !slices.Equal(got, want) {
				t.Errorf("events %v %v", x.a.async, x.b.async)
			}
		})
	}
}

// transferAll moves n octets by Write, Read and Send, and checks the memory.
func transferAll(t *testing.T, x *pair, n int) {
	t.Helper()
	c, s := x.c, x.s
	for i, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpSend} {
		c.wcs, s.wcs = nil, nil
		fill(c.mem, n+i)
		fill(s.mem, n+i+7)
		want, got := c.mem[100:100+n], s.mem[200:200+n]
		beyond := append([]byte(nil), s.mem[200+n:210+n]...)
		if op == verbs.OpRead {
			want, got = got, want
		}
		want = append([]byte(nil), want...)
		s.recv(t, verbs.RecvWR{ID: 9, SGEs: s.sge(200, n)})
		c.post(t, verbs.SendWR{ID: 5, Opcode: op, Flags: verbs.Signaled, SGEs: c.sge(100, n),
			RemoteAddr: s.mr.Addr() + 200, RKey: s.mr.RKey()})
		x.must(fmt.Sprintf("%v of %d", op, n), func() bool {
			return len(c.poll()) == 1 && (op == verbs.OpRead || bytes.Equal(got, want)) && (op != verbs.OpSend || len(s.poll()) == 1)
		})
		if wc := c.wcs[0]; wc.ID != 5 || wc.Status != verbs.StatusSuccess || wc.ByteLen != uint32(n) {
			t.Errorf("%v of %d: %s", op, n, wcString(c.wcs))
		}
		if !bytes.Equal(got, want) || !bytes.Equal(beyond, s.mem[200+n:210+n]) {
			t.Errorf("%v of %d: memory differs", op, n)
		}
		if op == verbs.OpSend && (s.wcs[0].ID != 9 || s.wcs[0].ByteLen != uint32(n) || s.wcs[0].Opcode != verbs.WCRecv) {
			t.Errorf("receive of %d: %s", n, wcString(s.wcs))
		} else if op != verbs.OpSend {
			s.post(t, verbs.SendWR{})
			c.recv(t, verbs.RecvWR{ID: 1})
			c.post(t, verbs.SendWR{})
			x.must("receives used up", func() bool { return len(s.poll()) > 0 && len(c.poll()) > 1 })
		}
	}
}

func TestManyInFlightCompleteInOrder(t *testing.T) {
	x := connect(t, toe.Config{}, Config{ORD: 4, IRD: 4}, 1<<20)
	fill(x.s.mem, 1)
	const rounds = 100
	for i := range uint64(rounds) {
		x.s.recv(t, verbs.RecvWR{ID: i, SGEs: x.s.sge(512<<10, 64)})
		off := int(i) * 5000
		x.c.post(t, verbs.SendWR{ID: 3 * i, Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: x.c.sge(off, 5000),
			RemoteAddr: x.s.mr.Addr() + uint64(off), RKey: x.s.mr.RKey()})
		x.c.post(t, verbs.SendWR{ID: 3*i + 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled | verbs.Fence, SGEs: x.c.sge(off, 5000),
			RemoteAddr: x.s.mr.Addr() + uint64(off), RKey: x.s.mr.RKey()})
		x.c.post(t, verbs.SendWR{ID: 3*i + 2, Flags: verbs.Signaled | verbs.Inline, Inline: []byte{byte(i)}})
	}
	want := append([]byte(nil), x.s.mem[:rounds*5000]...)
	x.must("all completions", func() bool { return len(x.c.poll()) == 3*rounds && len(x.s.poll()) == rounds })
	for i, wc := range x.c.wcs {
		if wc.ID != uint64(i) || wc.Status != verbs.StatusSuccess {
			t.Fatalf("completion %d: %s", i, wcString(x.c.wcs[i:i+1]))
		}
	}
	for i, wc := range x.s.wcs {
		if wc.ID != uint64(i) || wc.ByteLen != 1 {
			t.Fatalf("receive %d: %s", i, wcString(x.s.wcs[i:i+1]))
		}
	}
	if !bytes.Equal(x.c.mem[:rounds*5000], want) || !bytes.Equal(x.s.mem[:rounds*5000], want) {
		t.Error("memory differs")
	}
	if x.a.e.Totals().TxMessages[1] != rounds || x.b.e.Totals().RxMessages[0] != rounds {
		t.Errorf("totals %+v", x.a.e.Totals())
	}
}

func TestBothWaysAtOnce(t *testing.T) {
	x := connect(t, toe.Config{MaxSegs: 8}, Config{}, 4<<20)
	fill(x.c.mem, 1)
	fill(x.s.mem, 2)
	const n = 1 << 20
	for _, p := range []struct{ from, to *end }{{x.c, x.s}, {x.s, x.c}} {
		p.from.recv(t, verbs.RecvWR{ID: 1})
	}
	x.c.post(t, verbs.SendWR{})
	x.must("first message", func() bool { return len(x.s.poll()) == 1 })
	for _, p := range []struct{ from, to *end }{{x.c, x.s}, {x.s, x.c}} {
		p.from.post(t, verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: p.from.sge(0, n),
			RemoteAddr: p.to.mr.Addr() + 2*n, RKey: p.to.mr.RKey()})
		p.from.post(t, verbs.SendWR{Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: p.from.sge(3*n, n),
			RemoteAddr: p.to.mr.Addr(), RKey: p.to.mr.RKey()})
	}
	x.must("all", func() bool { return len(x.c.poll()) == 2 && len(x.s.poll()) == 3 })
	for _, p := range []struct{ from, to *end }{{x.c, x.s}, {x.s, x.c}} {
		if !bytes.Equal(p.to.mem[2*n:3*n], p.from.mem[:n]) || !bytes.Equal(p.to.mem[3*n:], p.from.mem[:n]) {
			t.Error("memory differs")
		}
	}
}

func TestSendVariants(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 4096)
	extra, _ := x.s.pd.RegMR(make([]byte, 16), verbs.LocalWrite|verbs.RemoteWrite)
	for i := range uint64(3) {
		x.s.recv(t, verbs.RecvWR{ID: i, SGEs: x.s.sge(0, 64)})
	}
	x.c.post(t, verbs.SendWR{SGEs: x.c.sge(0, 8)})
	x.c.post(t, verbs.SendWR{SGEs: x.c.sge(0, 8), Flags: verbs.Solicited})
	x.c.post(t, verbs.SendWR{Opcode: verbs.OpSendInv, SGEs: x.c.sge(0, 8), Flags: verbs.Solicited, Invalidate: extra.RKey()})
	x.must("receives", func() bool { return len(x.s.poll()) == 3 })
	w := x.s.wcs
	if w[0].Solicited || !w[1].Solicited || !w[2].Solicited || w[1].WithInv || !w[2].WithInv ||
		w[2].Invalidated != extra.RKey() || extra.Valid() {
		t.Errorf("%+v", w)
	}
	if len(x.c.poll()) != 0 {
		t.Error("unsignalled requests completed visibly")
	}
}

func TestDeregisterKeepsWhatIsUnderWay(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<20)
	src := make([]byte, 64<<10)
	fill(src, 3)
	want := append([]byte(nil), src...)
	mr, _ := x.c.pd.RegMR(src, 0)
	lost := false
	x.a.out.drop = func(n int, _ frameArg) bool {
		if !lost && n > 10 {
			lost = true
			return true
		}
		return false
	}
	x.c.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey(),
		SGEs: []verbs.SGE{{Addr: mr.Addr(), Length: 12000, LKey: mr.LKey()}}})
	x.a.turn(x.now)
	if err := mr.Dereg(); err != nil {
		t.Fatal(err)
	}
	clear(src)
	x.must("completion", func() bool { return len(x.c.poll()) == 1 })
	if x.c.wcs[0].Status != verbs.StatusSuccess || !bytes.Equal(x.s.mem[:12000], want[:12000]) {
		t.Errorf("%s", wcString(x.c.wcs))
	}
}

func TestLoss(t *testing.T) {
	for _, cfg := range []Config{{}, {Markers: true}} {
		x := connect(t, toe.Config{}, cfg, 2<<20)
		seed := uint64(1)
		lossy := func(int, frameArg) bool {
			seed = seed*6364136223846793005 + 1442695040888963407
			return seed>>33%50 == 0
		}
		x.a.out.drop, x.b.out.drop = lossy, lossy
		for _, n := range []int{8, 4096, 300000, 1 << 20} {
			transferAll(t, x, n)
		}
	}
}

func TestNotesNameWorkRequests(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<16)
	x.b.notes.On = true
	x.s.recv(t, verbs.RecvWR{ID: 77, SGEs: x.s.sge(0, 64)})
	x.c.post(t, verbs.SendWR{ID: 5, Opcode: verbs.OpWrite, SGEs: x.c.sge(0, 100), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
	x.c.post(t, verbs.SendWR{ID: 6, SGEs: x.c.sge(0, 10)})
	x.must("receive", func() bool { return len(x.s.poll()) == 1 })
	x.s.post(t, verbs.SendWR{ID: 88, Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: x.s.sge(0, 2000), RemoteAddr: x.c.mr.Addr(), RKey: x.c.mr.RKey()})
	x.must("read", func() bool { return len(x.s.poll()) == 2 })
	want := []string{
		"QP 1 RDMA Write last",
		"QP 1 WR 77 MSN 1 Send last",
		"QP 1 WR 88 MSN 1 RDMA Read Request last",
		"QP 1 WR 88 RDMA Read Response",
		"QP 1 WR 88 RDMA Read Response last",
	}
	var got []string
	for _, s := range x.b.said {
		got = append(got, bytesLines(s)...)
	}
	for _, line := range want {
		found := false
		for _, g := range got {
			found = found || g == line
		}
		if !found {
			t.Errorf("no note %q in %q", line, got)
		}
	}
}

func TestPrivateDataAndLimits(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{})
	x := dial(t, w, 4096, cm.Params{PrivateData: []byte("hello"), IRD: 3, ORD: 9},
		acceptAll(cm.Params{PrivateData: []byte("welcome"), IRD: 5, ORD: cm.NoReads}))
	w.must("connection", func() bool { return x.c.got(cm.ActiveComplete) })
	req, rep := x.s.events[0], x.c.events[0]
	if string(req.PrivateData) != "hello" || string(rep.PrivateData) != "welcome" {
		t.Errorf("private data %q, %q", req.PrivateData, rep.PrivateData)
	}
	if req.IRD != 9 || req.ORD != 3 || rep.ORD != 5 || rep.IRD != 0 || x.s.id.IRD() != 5 || x.s.id.ORD() != 0 {
		t.Errorf("request %d/%d, reply %d/%d, server %d/%d", req.IRD, req.ORD, rep.IRD, rep.ORD, x.s.id.IRD(), x.s.id.ORD())
	}
}
