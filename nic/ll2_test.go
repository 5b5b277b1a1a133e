package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/ll2"
	"tapir/nic/fastlinq/status"
	"tapir/nic/ideal"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// ll2Of is the connection of a type.
func (n *node) ll2Of(typ ll2.Type) view.LL2Info {
	n.w.t.Helper()
	for _, c := range n.dev.ShowLL2() {
		if c.Type == typ.String() {
			return c
		}
	}
	n.w.t.Fatalf("no connection of type %v: %+v", typ, n.dev.ShowLL2())
	return view.LL2Info{}
}

// The SYN of a peer, and nothing else, comes by the connection of type IWARP, in every
// interrupt mode, out of its VLAN and through either version of IP.
//
// IW-22 LL-01 LL-03 LL-08 LL-10
func TestSYNsComeByLightL2(t *testing.T) {
	for _, mode := range []string{"msix", "msi", "inta", "poll"} {
		for _, addr := range []netip.Addr{peer4, peer6} {
			w, a, b := twoNICs(t, Config{VLAN: 7, Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: mode}}})
			client, server := dial(w, a, b, addr, 4096)
			exercise(w, client, server, 4096)
			header := ether.HeaderLen + ip.HeaderLen4
			if addr == peer6 {
				header = ether.HeaderLen + ip.HeaderLen6
			}
			c := b.ll2Of(ll2.IWARP)
			if c.RxPackets != 1 || int(c.RxBytes) <= header+tcp.HeaderLen || c.RxPosted != c.RxDescs || c.NoBuffer != 0 {
				t.Errorf("%s, %v: %+v", mode, addr, c)
			}
			if c := a.ll2Of(ll2.IWARP); c.RxPackets != 0 {
				t.Errorf("%s, %v: the client %+v", mode, addr, c)
			}
			if err := b.dev.Close(w.now); err != nil || b.dev.Core().Health().Leaked != 0 {
				t.Errorf("%s: %v, %d connection ids leak", mode, err, b.dev.Core().Health().Leaked)
			}
		}
	}
}

// The management datagrams of a connection over RoCE come by the connection of type ROCE, in
// every interrupt mode, and wait there for the slowpath's interrupt.
//
// LL-01 LL-03 LL-08
func TestMADsComeByLightL2(t *testing.T) {
	for _, mode := range []string{"msix", "msi", "inta", "poll"} {
		for _, addr := range []netip.Addr{peer4, peer6} {
			cfg := roceConfig()
			cfg.VLAN, cfg.Hardware = 7, &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: mode}}
			w, a, b := twoNICs(t, cfg)
			sp := b.dev.IRQ().Hwfns[0].SP()
			sp.SetState(irq.Rx, irq.Stopped, w.now)
			client, server := newEnd(t, a, 4096), newEnd(t, b, 4096)
			begin(w, client, server, netip.AddrPortFrom(addr, rdmaPort))
			w.run(10 * time.Millisecond)
			if c := b.ll2Of(ll2.RoCE); c.RxPackets != 1 || c.RxPosted != c.RxDescs-1 || server.id != nil {
				t.Errorf("%s, %v, without an interrupt: %+v", mode, addr, c)
			}
			sp.SetState(irq.Rx, irq.Disabled, w.now)
			w.until(10*time.Second, func() bool { return client.saw(cm.ActiveComplete) && server.saw(cm.PassiveComplete) })
			exercise(w, client, server, 4096)
			if c := b.ll2Of(ll2.RoCE); c.RxPackets < 2 || c.RxPosted != c.RxDescs || c.NoBuffer != 0 || c.TooBig != 0 {
				t.Errorf("%s, %v: %+v", mode, addr, c) // REQ, RTU
			}
			if c := a.ll2Of(ll2.RoCE); c.RxPackets != 1 {
				t.Errorf("%s, %v: the client %+v", mode, addr, c)
			}
			if err := b.dev.Close(w.now); err != nil || b.dev.Core().Health().Leaked != 0 {
				t.Errorf("%s: %v, %d connection ids leak", mode, err, b.dev.Core().Health().Leaked)
			}
		}
	}
}

// SYNs wait in their buffers for the slowpath's interrupt. Those that find none are
// dropped and counted; the others are answered once it comes.
//
// IW-22 LL-07 LL-08
func TestSYNsWaitForTheInterrupt(t *testing.T) {
	w, n, s := pair(t, Config{})
	if _, err := n.dev.CM.Listen(netip.AddrPortFrom(nic4, rdmaPort), 64, func(cm.Event, frame.Time) {}, nil); err != nil {
		t.Fatal(err)
	}
	answered(w, n, s) // the neighbor is known
	s.take()
	sp := n.dev.IRQ().Hwfns[0].SP()
	sp.SetState(irq.Rx, irq.Stopped, w.now)
	buffers := n.ll2Of(ll2.IWARP).RxDescs
	for i := range buffers + 3 {
		s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, segment(peer4, nic4,
			tcp.Header{SrcPort: uint16(1000 + i), DstPort: rdmaPort, Seq: 100, Flags: tcp.SYN, Window: 9}, nil))
	}
	w.run(time.Millisecond)
	if got := s.take(); len(got) != 0 || n.dev.TCPEngine.Stats().Open != 0 {
		t.Errorf("%d answers, %d connections without an interrupt", len(got), n.dev.TCPEngine.Stats().Open)
	}
	if c := n.ll2Of(ll2.IWARP); c.RxPosted != 0 || c.NoBuffer != 3 || n.counter("rx_drop_no_buffer") != 3 {
		t.Errorf("%+v, %d dropped", c, n.counter("rx_drop_no_buffer"))
	}
	sp.SetState(irq.Rx, irq.Disabled, w.now)
	w.run(time.Millisecond)
	if got := s.take(); len(got) != buffers || n.ll2Of(ll2.IWARP).RxPosted != buffers {
		t.Errorf("%d answers to %d SYNs", len(got), buffers)
	}
	// One that does not fit goes to TCP at once.
	s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, segment(peer4, nic4,
		tcp.Header{SrcPort: 999, DstPort: rdmaPort, Seq: 100, Flags: tcp.SYN, Window: 9}, make([]byte, 200)))
	w.run(time.Millisecond)
	if c := n.ll2Of(ll2.IWARP); len(s.take()) != 1 || int(c.RxPackets) != buffers || c.TooBig != 0 {
		t.Errorf("a SYN with data: %+v", c)
	}
}

// Data beyond a gap lies on isles, of which a function has 256 and one for each queue
// pair: what needs another one is dropped. In order, or with the end of the connection,
// isles and buffers come back. Ideal hardware has no such bound.
//
// LL-02 LL-09 IW-22
func TestIslesOfTCP(t *testing.T) {
	const isles, sent = 256 + 2, 300
	for _, fills := range []bool{true, false} {
		w, n, s := pair(t, Config{RDMA: RDMA{NumQPs: 2}})
		seq, ack := handshake(w, n, s)
		send := func(at int, data string) {
			s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, segment(peer4, nic4, tcp.Header{SrcPort: 1000, DstPort: rdmaPort,
				Seq: seq.Add(at), Ack: ack, Flags: tcp.ACK, Window: 1000}, []byte(data)))
		}
		for i := range sent {
			send(2*i+1, "x")
		}
		w.run(10 * time.Millisecond)
		if ooo, lost := n.counter("tcp_out_of_order"), n.counter("rx_drop_reassembly_full"); ooo != isles || lost != sent-isles {
			t.Errorf("%d kept, %d dropped", ooo, lost)
		}
		rows := n.dev.ShowDevice()
		buffers := 2 * n.ll2Of(ll2.OOO).RxDescs
		for name, want := range map[string][2]int{"ooo_isles": {isles, isles}, "ooo_buffers": {isles, buffers}} {
			if r := value(t, rows, name, ""); *r.Used != want[0] || *r.Limit != want[1] {
				t.Errorf("%s %d of %d, want %v", name, *r.Used, *r.Limit, want)
			}
		}
		event := "DELETE_ISLES"
		if send(2, "y"); fills { // joins the first two
			event = "JOIN"
			w.run(time.Millisecond)
			if r := value(t, n.dev.ShowDevice(), "ooo_isles", ""); *r.Used != isles-1 {
				t.Errorf("%d isles", *r.Used)
			}
			for i := range isles {
				send(2*i, "z")
			}
		} else {
			send(0, "") // a reset has the next number
			s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, segment(peer4, nic4, tcp.Header{SrcPort: 1000, DstPort: rdmaPort,
				Seq: seq, Flags: tcp.RST}, nil))
		}
		w.run(100 * time.Millisecond)
		rows = n.dev.ShowDevice()
		if r := value(t, rows, "ooo_isles", ""); *r.Used != 0 || *value(t, rows, "ooo_buffers", "").Used != 0 {
			t.Errorf("%d isles are left", *r.Used)
		}
		if *value(t, rows, "ooo_event", event).Ever == 0 || *value(t, rows, "ooo_event", "ADD_NEW_ISLE").Ever != isles {
			t.Errorf("%+v", rows[len(rows)-8:])
		}
	}
	w, n, s := pair(t, Config{RDMA: RDMA{NumQPs: 2}, Hardware: &ideal.Config{}})
	seq, ack := handshake(w, n, s)
	for i := range sent {
		s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, segment(peer4, nic4, tcp.Header{SrcPort: 1000, DstPort: rdmaPort,
			Seq: seq.Add(2*i + 1), Ack: ack, Flags: tcp.ACK, Window: 1000}, []byte("x")))
	}
	w.run(10 * time.Millisecond)
	if ooo := n.counter("tcp_out_of_order"); ooo != sent {
		t.Errorf("ideal hardware: %d kept", ooo)
	}
}

// handshake connects the station to a listener of the NIC, and returns what it sends next.
func handshake(w *world, n *node, s *station) (seq, ack tcp.Seq) {
	w.t.Helper()
	if _, err := n.dev.CM.Listen(netip.AddrPortFrom(nic4, rdmaPort), 4, func(cm.Event, frame.Time) {}, nil); err != nil {
		w.t.Fatal(err)
	}
	transmit := func(h tcp.Header) {
		h.SrcPort, h.DstPort, h.Window = 1000, rdmaPort, 1000
		s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, segment(peer4, nic4, h, nil))
		w.run(time.Millisecond)
	}
	transmit(tcp.Header{Seq: 100, Flags: tcp.SYN})
	for _, r := range s.take() {
		if h, _, err := tcp.Parse(r.body); err == nil && h.Flags.Has(tcp.SYN) {
			ack = h.Seq.Add(1)
		}
	}
	transmit(tcp.Header{Seq: 101, Ack: ack, Flags: tcp.ACK})
	if is := n.dev.TCPEngine.Stats().Open; is != 1 {
		w.t.Fatalf("%d connections", is)
	}
	return 101, ack
}

// ll2Test has a NIC do a job.
func (n *node) ll2Test(job fastlinq.LL2Job) *struct {
	r    fastlinq.LL2Report
	err  error
	done bool
} {
	var got struct {
		r    fastlinq.LL2Report
		err  error
		done bool
	}
	if err := n.dev.LL2Test(job, n.w.now, func(r fastlinq.LL2Report, err error) { got.r, got.err, got.done = r, err, true }); err != nil {
		got.err, got.done = err, true
	}
	return &got
}

// Frames from a connection of type TEST, of one buffer and of many, reach that of
// another NIC; those for the loopback the NIC's own host TAP, and those to be dropped
// nobody. Every buffer comes back.
//
// LL-03 LL-04 LL-05 LL-06 LL-07 LL-08 LL-10
func TestLightL2Frames(t *testing.T) {
	w, a, b := twoNICs(t, Config{VLAN: 7})
	to := b.dev.cfg.MAC
	for _, buffers := range []int{1, 2, 12} {
		hears := b.ll2Test(fastlinq.LL2Job{Wait: time.Second})
		says := a.ll2Test(fastlinq.LL2Job{To: to, Count: 200, Size: 1500, Buffers: buffers})
		w.run(2 * time.Second)
		if r := says.r; says.err != nil || r.Sent != (ll2.Use{Posted: 200, Completed: 200}) ||
			r.Stats.TxUcast != (ll2.Traffic{Packets: 200, Bytes: 200 * 1518}) || r.Received.Posted != r.Received.Released {
			t.Errorf("%d buffers: %+v, %v", buffers, r, says.err)
		}
		if r := hears.r; hears.err != nil || r.Received.Completed != 200 || r.Changed != 0 || r.Received.Owned != 0 ||
			r.Received.Posted != 200+r.Received.Released || r.Stats.RxUcast.Packets != 200 {
			t.Errorf("%d buffers: %+v, %v", buffers, r, hears.err)
		}
	}
	// Those that find no buffer while the slowpath's interrupt is away are dropped.
	hears := b.ll2Test(fastlinq.LL2Job{Wait: time.Second})
	sp := b.dev.IRQ().Hwfns[0].SP()
	sp.SetState(irq.Rx, irq.Stopped, w.now)
	a.ll2Test(fastlinq.LL2Job{To: to, Count: 70, Size: 60})
	w.run(100 * time.Millisecond)
	sp.SetState(irq.Rx, irq.Disabled, w.now)
	w.run(2 * time.Second)
	if r := hears.r; r.Received.Completed != 64 || r.Stats.NoBuffer != 6 || b.counter("rx_drop_no_buffer") != 6 {
		t.Errorf("without an interrupt: %+v, %d dropped", r, b.counter("rx_drop_no_buffer"))
	}
	left := a.counter("tx_packets")
	if got := a.ll2Test(fastlinq.LL2Job{To: to, Count: 5, Dest: ll2.Drop}); got.done {
		t.Error("at once")
	} else if w.run(time.Second); got.r.Stats.TxDropped != 5 || got.r.Sent.Completed != 5 || a.counter("tx_packets") != left {
		t.Errorf("to be dropped: %+v, %d left", got.r, a.counter("tx_packets")-left)
	}
	got := a.ll2Test(fastlinq.LL2Job{To: to, Count: 5, Dest: ll2.Loopback})
	if w.run(time.Second); got.r.Stats.TxFailed != 5 || got.r.Sent.Completed != 5 {
		t.Errorf("loopback without a host TAP: %+v", got.r)
	}
	e := newEthernetHost(t, Config{})
	e.h.got = nil
	got = e.n.ll2Test(fastlinq.LL2Job{To: e.n.dev.cfg.MAC, Count: 5, Size: 60, Buffers: 4, Dest: ll2.Loopback})
	if e.w.run(time.Second); len(e.h.got) != 5 || len(e.h.got[0]) != 74 || got.r.Stats.TxUcast.Packets != 5 || e.s.take() != nil {
		t.Errorf("loopback: the host TAP got %d frames, %+v", len(e.h.got), got.r)
	}
}

// What a user cannot have is refused with the guide's status, and changes nothing.
//
// LL-01 LL-03 LL-04
func TestLightL2Refused(t *testing.T) {
	w, n, _ := pair(t, Config{})
	want := func(what string, err error, code status.Code) {
		t.Helper()
		if status.Of(err) != code {
			t.Errorf("%s: %v, want %v", what, err, code)
		}
	}
	before := fmt.Sprintf("%+v", n.dev.ShowLL2())
	for what, job := range map[string]fastlinq.LL2Job{"too long": {Size: 1501}, "minus one": {Count: -1}, "VLAN": {VLAN: 4095},
		"buffers without octets": {Size: 1, Buffers: 3}} {
		want(what, n.ll2Test(job).err, status.Inval)
	}
	for what, job := range map[string]struct {
		fastlinq.LL2Job
		code status.Code
	}{
		"13 buffers":          {fastlinq.LL2Job{Count: 1, Size: 100, Buffers: 13}, status.IO},
		"no such destination": {fastlinq.LL2Job{Count: 1, Dest: 3}, status.Inval},
	} {
		got := n.ll2Test(job.LL2Job)
		w.run(time.Millisecond)
		if want(what, got.err, job.code); !got.done || got.r.Sent.Posted != 0 {
			t.Errorf("%s: %+v", what, got.r)
		}
	}
	first := n.ll2Test(fastlinq.LL2Job{Wait: time.Hour})
	n.dev.EndLL2Test(w.now)
	if n.dev.EndLL2Test(w.now); !first.done || first.err != nil || first.r.Received.Released == 0 {
		t.Errorf("ended early: %+v", first)
	}
	first = n.ll2Test(fastlinq.LL2Job{Wait: time.Hour})
	want("a second", n.ll2Test(fastlinq.LL2Job{Count: 1}).err, status.Busy)
	back := func(any, []byte) {}
	cb := ll2.Callbacks{RxComplete: func(ll2.Rx) {}, RxRelease: back, TxComplete: back, TxRelease: back}
	p := ll2.Params{Type: ll2.FCoE, MTU: 1500, RxDescs: 1, TxDescs: 1}
	_, err := n.dev.LL2().Acquire(p, cb)
	want("FCoE", err, status.Inval)
	p.Type = ll2.Test
	_, err = n.dev.LL2().Acquire(p, cb)
	want("the fourth", err, status.Success)
	_, err = n.dev.LL2().Acquire(p, cb)
	want("a fifth", err, status.Busy)
	syn := n.dev.LL2().Conns()[0]
	want("establish twice", syn.Establish(), status.Inval)
	want("release while established", syn.Release(), status.Inval)
	want("Tx before establish", n.dev.LL2().Conns()[3].PrepareTx(ll2.Tx{Cookie: 1, First: make([]byte, 60), BDs: 1}), status.Inval)
	if first.done {
		t.Error("the first is over")
	}
	n.set("driver=unloaded") // in the midst of it
	if !first.done || first.err != nil || first.r.Received.Owned != 0 || len(n.dev.ShowLL2()) != 0 {
		t.Errorf("unloaded: %+v, %+v", first, n.dev.ShowLL2())
	}
	want("not loaded", n.ll2Test(fastlinq.LL2Job{Count: 1}).err, status.Inval)
	n.set("driver=loaded")
	w.run(time.Second)
	if after := fmt.Sprintf("%+v", n.dev.ShowLL2()); after != before {
		t.Errorf("before %s\nafter  %s", before, after)
	}
	if _, failed := n.dev.Failures(); failed != nil && !errors.Is(failed, status.Inval) {
		t.Error(failed)
	}
}

// A SYN by light L2 allocates no more than one that goes to TCP at once.
func TestSYNAllocatesNothing(t *testing.T) {
	w, n, _ := pair(t, Config{})
	h := ether.Header{Src: ether.Addr{2}, Dst: n.dev.cfg.MAC, Type: ether.TypeIPv4}
	syn := segment(peer4, nic4, tcp.Header{SrcPort: 9, DstPort: 9, Flags: tcp.RST}, nil)
	n.dev.begin(w.now)
	if per := testing.AllocsPerRun(200, func() {
		if taken, why := n.dev.Hardware.SYN(h, syn, frame.Offload{}); !taken || why != 0 {
			t.Fatal(taken, why)
		}
	}); per != 0 {
		t.Errorf("%v allocations", per)
	}
	if c := n.ll2Of(ll2.IWARP); c.RxPackets != 201 {
		t.Errorf("%+v", c)
	}
}

// After a driver that crashed, or firmware that was stuck when the function was unloaded,
// the next load has its connections again.
//
// LL-03 IW-22
func TestLightL2AfterFailures(t *testing.T) {
	for _, how := range [][]string{{"driver=crashed", "driver_role=kdump", "driver=loaded"},
		{"chip_fault=storm", "driver=unloaded", "chip_fault=none", "driver=loaded"}, {"driver=quiet", "driver=loaded"}} {
		w, n, s := pair(t, Config{})
		for _, s := range how {
			n.set(s)
			w.run(10 * time.Second)
		}
		answered(w, n, s)
		handshake(w, n, s)
		if c := n.ll2Of(ll2.IWARP); c.RxPackets != 1 || n.ll2Of(ll2.OOO).State != "established" {
			t.Errorf("%v: %+v", how, n.dev.ShowLL2())
		}
	}
}
