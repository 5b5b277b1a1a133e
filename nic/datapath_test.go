package nic

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"tapir/nic/buf"
	"tapir/nic/cm"
	nicip "tapir/nic/ip"
	"tapir/nic/verbs"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/wiretest"
)

// lane hands the frames of one device to another without copying them.
type lane struct {
	queue []*frame.Frame
	spare []*frame.Frame
}

func (l *lane) Transmit(f *frame.Frame) { l.queue = append(l.queue, f) }
func (l *lane) Room() int               { return 64 - len(l.queue) }

func (l *lane) deliver(to *device, now frame.Time) bool {
	batch := l.queue
	l.queue, l.spare = l.spare[:0], batch
	to.Receive(frame.Wire, batch, now)
	return len(batch) > 0
}

// coupled is a connected pair of queue pairs on two devices joined by lanes.
type coupled struct {
	a, b   *device
	ab, ba lane
	now    frame.Time
	wr     [1]verbs.SendWR
	qp     *verbs.QP
	cq     *verbs.CQ
}

// step runs both devices once.
func (c *coupled) step() (busy bool) {
	c.now += 20_000
	busy = c.a.Dispatch(c.now)
	c.a.Poll(c.now)
	busy = c.ab.deliver(c.b, c.now) || busy
	busy = c.b.Dispatch(c.now) || busy
	c.b.Poll(c.now)
	return c.ba.deliver(c.a, c.now) || busy
}

func couple(t testing.TB, mode FrameMode, size int) *coupled {
	return coupleIn(t, buf.NewPool(4096, 0), mode, size)
}

func coupleIn(t testing.TB, pool *buf.Pool, mode FrameMode, size int) *coupled {
	c := &coupled{now: 1}
	mk := func(name, addr string, out *lane) *device {
		d, err := newNIC(Config{Name: name, Addrs: prefixes(addr), Frames: mode}, Env{Pool: pool, Wire: out})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	c.a, c.b = mk("a", "10.0.0.1/24", &c.ab), mk("b", "10.0.0.2/24", &c.ba)
	queuePair := func(d *device) (*verbs.QP, *verbs.MR, *verbs.CQ) {
		pd, _ := d.Verbs.AllocPD()
		cq, _ := d.Verbs.CreateCQ(16, nil)
		mr, _ := pd.RegMR(make([]byte, size), verbs.LocalWrite|verbs.RemoteWrite)
		qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
		if err != nil {
			t.Fatal(err)
		}
		return qp, mr, cq
	}
	qpA, mrA, cqA := queuePair(c.a)
	qpB, mrB, _ := queuePair(c.b)
	up := 0
	serve := func(ev cm.Event, now frame.Time) {
		switch ev.Type {
		case cm.ConnectRequest:
			_ = ev.ID.Accept(cm.Params{QP: qpB}, now)
		case cm.PassiveComplete, cm.ActiveComplete:
			up++
		}
	}
	if _, err := c.b.CM.Listen(netip.MustParseAddrPort("10.0.0.2:7174"), 1, serve, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.a.CM.NewID(serve, nil).Connect(netip.MustParseAddrPort("10.0.0.2:7174"), cm.Params{QP: qpA}, c.now); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		c.step()
	}
	if up != 2 {
		t.Fatalf("connected %d of 2", up)
	}
	c.qp, c.cq = qpA, cqA
	c.wr[0] = verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: mrB.Addr(), RKey: mrB.RKey(),
		SGEs: []verbs.SGE{{Addr: mrA.Addr(), Length: uint32(size), LKey: mrA.LKey()}}}
	return c
}

// write moves the whole region once and waits for the completion.
func (c *coupled) write(t testing.TB) {
	if _, err := c.qp.PostSend(c.wr[:]...); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	for range 10000 {
		c.step()
		if c.cq.Poll(wc[:]) == 1 {
			if wc[0].Status != verbs.StatusSuccess {
				t.Fatal(wc[0].Status)
			}
			return
		}
	}
	t.Fatal("no completion")
}

// A Write through both devices, from post to completion, allocates nothing
// once its buffers exist.
func TestWriteAllocatesNothing(t *testing.T) {
	for _, mode := range []FrameMode{Wire, GSO} {
		c := couple(t, mode, 256<<10)
		for range 20 {
			c.write(t)
		}
		if n := testing.AllocsPerRun(20, func() { c.write(t) }); n != 0 {
			t.Errorf("%v: %v allocations per Write of 256 KiB", mode, n)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, mode := range []FrameMode{Wire, GSO, Jumbo} {
		for _, size := range []int{8, 4096, 1 << 20} {
			b.Run(fmt.Sprintf("%v/%d", mode, size), func(b *testing.B) {
				c := couple(b, mode, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					c.write(b)
				}
			})
		}
	}
}

// sink is a link that swallows everything.
type sink struct{}

func (sink) Transmit(f *frame.Frame) { f.Release() }
func (sink) Room() int               { return 64 }

func TestEchoAllocatesNothing(t *testing.T) {
	pool := buf.NewPool(64, 0)
	d, err := newNIC(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24", "fd00::1/64")}, Env{Pool: pool, Wire: sink{}})
	if err != nil {
		t.Fatal(err)
	}
	now := frame.Time(1)
	deliver := func(b []byte) {
		f := pool.Get(len(b))
		f.Append(b)
		one := [1]*frame.Frame{f}
		d.Receive(frame.Wire, one[:], now)
		d.Poll(now)
	}
	head := func(typ uint16) []byte {
		return ether.Header{Dst: d.cfg.MAC, Src: ether.Addr{2, 9}, Type: typ}.AppendTo(nil)
	}
	who := arp.Packet{Op: arp.Request, SenderMAC: ether.Addr{2, 9}, SenderIP: peer4, TargetIP: nic4}
	deliver(who.AppendTo(head(ether.TypeARP)))
	echo := append(head(ether.TypeIPv4), packet(ip.Header{Proto: ip.ProtoICMP, Src: peer4, Dst: nic4}, echoBody(peer4, nic4, 56))...)
	deliver(echo)
	if n := testing.AllocsPerRun(100, func() { deliver(echo) }); n > 1 { // the batch slice of this test
		t.Errorf("%v allocations per echo", n)
	}
	if d.Wire.Frames[frame.Outbound].Packets < 100 {
		t.Errorf("%d frames sent", d.Wire.Frames[frame.Outbound].Packets)
	}
}

// inUse is the number of octets in use.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestIdleNICIsSmall(t *testing.T) {
	const nics = 1000
	pool := buf.NewPool(64, 0)
	all := make([]*device, nics)
	before := inUse()
	for i := range all {
		d, err := newNIC(Config{Name: fmt.Sprintf("nic%d", i), Addrs: prefixes("10.0.0.1/24", "fd00::1/64")}, Env{Pool: pool, Wire: sink{}})
		if err != nil {
			t.Fatal(err)
		}
		d.LinkUp(1)
		d.Poll(1)
		all[i] = d
	}
	per := int64(inUse()-before) / nics
	t.Logf("%d octets per idle NIC", per)
	if per <= 0 || per > 128<<10 {
		t.Errorf("an idle NIC takes %d octets", per)
	}
	runtime.KeepAlive(all)
}

// A connected queue pair at rest after a transfer is small, its NIC's part
// included.
func TestIdleQueuePairIsSmall(t *testing.T) {
	const pairs = 500
	pool := buf.NewPool(4096, 0)
	couple := func() *coupled {
		c := coupleIn(t, pool, Wire, 8<<10)
		c.write(t)
		for range 100 {
			c.now += 1e9
			c.step()
		}
		return c
	}
	all := make([]*coupled, pairs)
	couple() // what pool and tests need once
	before := inUse()
	for i := range all {
		all[i] = couple()
	}
	const region = 8 << 10 // the application's memory
	per := int64(inUse()-before)/(2*pairs) - region
	t.Logf("%d octets per NIC with one idle queue pair", per)
	most := int64(48+16) << 10 // 16 KiB for the queue pair, the rest for the NIC
	if raceDetector {
		most += 1 << 10 // its builds take more
	}
	if per <= 0 || per > most {
		t.Errorf("an idle NIC with a queue pair takes %d octets", per)
	}
	runtime.KeepAlive(all)
}

// FuzzReceive feeds frames to a NIC with and without a host TAP: nothing
// panics, and every frame is released in the end.
func FuzzReceive(f *testing.F) {
	mac := ether.Addr{2, 0, 0, 0, 0, 1}
	for _, fr := range wiretest.Frames() {
		f.Add(fr.Data, false)
	}
	for _, p := range append(echoFragments(2000, false), echoFragments(2000, true)...) {
		h := ether.Header{Dst: mac, Src: ether.Addr{2, 9}, Type: etherTypeOf(p)}
		f.Add(append(h.AppendTo(nil), p...), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, host bool) {
		if len(b) < 6 || len(b) > 60000 {
			return
		}
		pool := buf.NewPool(256, 0)
		env := Env{Pool: pool, Wire: sink{}}
		if host {
			env.Host, env.Reserver = sink{}, &hostSide{held: map[netip.AddrPort]bool{}}
		}
		d, err := newNIC(Config{Name: "nic0", MAC: mac, Addrs: prefixes("10.9.0.1/24", "10.78.0.2/24", "fd09::1/64", "fd00:77::2/64", "10.0.0.1/24", "fd00::1/64")}, env)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.CM.Listen(netip.MustParseAddrPort("[::]:7174"), 4, func(cm.Event, frame.Time) {}, nil); err != nil {
			t.Fatal(err)
		}
		now := frame.Time(1)
		for round := range 4 {
			fr := pool.Get(len(b))
			fr.Append(b)
			if round > 0 {
				copy(fr.Bytes(), mac[:]) // addressed to us
			}
			port := frame.Wire
			if host && round == 3 {
				port = frame.Host
			}
			d.Receive(port, []*frame.Frame{fr}, now)
			d.Dispatch(now)
			d.Poll(now)
			now += 1_000_000
		}
		for range 20 { // let every timer run out
			now = now.Add(nicip.ReassembleFor)
			d.Poll(now)
		}
		if n := pool.Lent(); n != 0 {
			t.Fatalf("%d frames not released", n)
		}
	})
}
