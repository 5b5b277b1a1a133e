package iwarp

import (
	"net/netip"
	"runtime"
	"testing"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestIdleQPMemory measures what a connected queue pair costs that has moved
// data and rests, both sides and TCP included.
func TestIdleQPMemory(t *testing.T) {
	w := newWorld(t, toe.Config{}, Config{})
	const n = 200
	mem := make([]byte, 1<<16)
	make1 := func(nd *node) *end {
		e := &end{n: nd, mem: mem}
		e.pd, _ = nd.dev.AllocPD()
		e.cq, _ = nd.dev.CreateCQ(64, nil)
		e.mr, _ = e.pd.RegMR(mem, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		e.qp, _ = e.pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq})
		return e
	}
	var ends, servers []*end
	if _, err := w.b.cm.Listen(netip.AddrPortFrom(w.b.addr, port), n, func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			e := make1(w.b)
			servers = append(servers, e)
			ev.ID.Context = e
			acceptAll(cm.Params{})(e, ev, now)
		}
	}, nil); err != nil {
		t.Fatal(err)
	}
	before := heap()
	for range n {
		c := make1(w.a)
		ends = append(ends, c)
		id := w.a.cm.NewID(c.handle, nil)
		if err := id.Connect(netip.AddrPortFrom(w.b.addr, port), cm.Params{QP: c.qp}, w.now); err != nil {
			t.Fatal(err)
		}
		c.id = id
	}
	w.must("connections", func() bool { return len(servers) == n && w.a.cm.IDs()[n-1].State() == cm.Connected })
	for i, e := range ends {
		to := servers[i].mr
		e.post(t, verbs.SendWR{Opcode: verbs.OpWrite, SGEs: e.sge(0, 5000), RemoteAddr: to.Addr(), RKey: to.RKey()})
	}
	w.run(nil)
	if got := w.b.e.Totals().RxMessages[0]; got != n || w.b.e.conns.Len() != n {
		t.Fatalf("%d Writes arrived, %d connections", got, w.b.e.conns.Len())
	}
	each := (heap() - before) / uint64(2*n)
	t.Logf("%d octets per queue pair", each)
	if each > 16<<10 {
		t.Errorf("an idle queue pair holds %d octets", each)
	}
	runtime.KeepAlive(ends)
	runtime.KeepAlive(servers)
}
