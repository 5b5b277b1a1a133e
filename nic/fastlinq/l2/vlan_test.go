package l2

import (
	"bytes"
	"testing"

	"tapir/nic/fastlinq/status"
	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// sent is what comes out of the port when a frame is sent on a queue.
func (w *world) sent(q *TxQueue, b []byte, bd TxBD) (list [][]byte) {
	port := &link{room: 1000}
	q.Post(w.frame(b), bd)
	q.Doorbell()
	w.Transmit(port)
	for _, f := range port.frames {
		list = append(list, append([]byte(nil), f.Bytes()...))
	}
	port.release()
	return list
}

// L2-19
func TestVLANStripInsert(t *testing.T) {
	w := newWorld(t, Config{})
	q := w.start(StartParams{RemoveInnerVLAN: true}, 0)[0]
	out := w.txq(0, 0)
	w.run(0, Promisc)
	on, off := true, false
	plain, tagged, double := eth(addr(1), outside, 60), eth(addr(1), outside, 60, 5|6<<13), eth(addr(1), outside, 60, 5, 9)
	in := func(b []byte, want []byte, tag bool, tci uint16) {
		t.Helper()
		w.receive(b)
		if list, cqes := take(q); len(list) != 1 || !bytes.Equal(list[0], want) || cqes[0].Tagged != tag || cqes[0].VLAN != tci {
			t.Errorf("%d frames, %x, %+v, want %x", len(list), list, cqes, want)
		}
	}
	in(plain, plain, false, 0)
	in(tagged, plain, true, 5|6<<13)
	in(double, eth(addr(1), outside, 60, 9), true, 5) // the outer tag alone
	w.ok(w.VportUpdate(UpdateParams{SilentVLANRemoval: &on}))
	in(tagged, plain, false, 0)
	w.ok(w.VportUpdate(UpdateParams{SilentVLANRemoval: &off, InnerVLANRemoval: &off}))
	in(tagged, tagged, false, 0)
	w.ok(w.VportUpdate(UpdateParams{DefaultVLAN: &DefaultVLAN{Enable: true, VLAN: 77}}))
	in(plain, plain, true, 77)
	in(tagged, tagged, false, 0)
	w.want(status.Inval, w.VportUpdate(UpdateParams{DefaultVLAN: &DefaultVLAN{Enable: true, VLAN: 4096}}))

	to := func(b []byte, bd TxBD, want []byte) {
		t.Helper()
		if list := w.sent(out, b, bd); want == nil && len(list) != 0 || want != nil && (len(list) != 1 || !bytes.Equal(list[0], want)) {
			t.Errorf("sent %x, want %x", list, want)
		}
	}
	to(plain, TxBD{}, eth(addr(1), outside, 60, 77))
	to(tagged, TxBD{}, tagged)
	to(plain, TxBD{true, 8}, eth(addr(1), outside, 60, 8))
	w.ok(w.VportUpdate(UpdateParams{DefaultVLAN: &DefaultVLAN{Enable: true, VLAN: 77, Priority: 5}}))
	to(plain, TxBD{}, eth(addr(1), outside, 60, 77|5<<13))
	w.ok(w.VportUpdate(UpdateParams{DefaultVLAN: &DefaultVLAN{Enable: true, VLAN: 77, Only: true}}))
	to(plain, TxBD{}, eth(addr(1), outside, 60, 77))
	to(tagged, TxBD{}, nil)
	to(plain, TxBD{true, 8}, nil)
	w.want(status.Inval, w.VportUpdate(UpdateParams{DefaultVLAN: &DefaultVLAN{Enable: true, VLAN: 7, Priority: 8}}))
	w.ok(w.VportUpdate(UpdateParams{DefaultVLAN: &DefaultVLAN{}}))
	to(plain, TxBD{}, plain)
	to(tagged, TxBD{true, 8}, nil)
	to(plain, TxBD{true, 4095}, nil)
	if w.TxDrops()[drop.WrongVLAN] != 4 || len(w.asserts) != 0 {
		t.Errorf("%v", w.dropped)
	}
	w.idle()
}

// A tag that goes or comes moves what is left to do behind it.
//
// L2-19 L2-24
func TestOffloadMovesWithTag(t *testing.T) {
	w := newWorld(t, Config{Superframes: true})
	q := w.start(StartParams{RemoveInnerVLAN: true}, 0)[0]
	out := w.txq(0, 0)
	w.run(0, Promisc)
	off := frame.Offload{NeedsCsum: true, CsumStart: 38, CsumOffset: 16}
	b := packet4(addr(1), 6, 1, 1, 2, 100)
	b = append(append(append([]byte(nil), b[:12]...), 0x81, 0, 0, 5), b[12:]...)
	f := w.frame(b)
	f.Offload = off
	if w.Receive(f) != frame.DropNone {
		t.Fatal("refused")
	}
	f, _ = q.Next()
	if f.CsumStart != 34 || f.Len() != len(b)-4 {
		t.Errorf("%+v", f.Offload)
	}
	port := &link{room: 1}
	out.Post(f, TxBD{true, 5})
	out.Doorbell()
	w.Transmit(port)
	if g := port.frames[0]; g.Offload != off || !bytes.Equal(g.Bytes(), b) {
		t.Errorf("%+v", g.Offload)
	}
	port.release()
	w.idle()
}

// L2-20
func TestTransmitChecks(t *testing.T) {
	all := Errors{true, true, true, true, true, true, true}
	for _, asserts := range []bool{false, true} {
		w := newWorld(t, Config{})
		p := StartParams{CheckMAC: true, CheckEtherType: true}
		if asserts {
			p.Errors = all
		}
		w.start(p, 0)
		q := w.txq(0, 0)
		w.run(0, Regular)
		on, off := true, false
		w.ok(w.FilterUcast(UcastParams{Sides: Both, MAC: addr(1)}))
		w.ok(w.VportUpdate(UpdateParams{AntiSpoofing: &on}))
		lldp := eth(outside, addr(1), 60)
		lldp[12], lldp[13] = 0x88, 0xcc
		for _, c := range []struct {
			b    []byte
			want frame.DropReason
		}{
			{eth(outside, addr(1), 60), frame.DropNone},
			{eth(outside, addr(2), 60), nicdrop.AntiSpoofing},
			{eth(ether.Addr{1, 0x80, 0xc2, 0, 0, 3}, addr(1), 60), nicdrop.Control},
			{lldp, nicdrop.Control},
			{eth(outside, addr(1), 0), drop.Truncated},
			{nil, drop.Truncated},
			{eth(outside, addr(1), 1500), frame.DropNone},
			{eth(outside, addr(1), 1501), drop.Oversize},
			{eth(outside, addr(1), 1500, 5), frame.DropNone},
			{eth(outside, addr(1), 1501, 5), drop.Oversize},
		} {
			before := w.TxDrops()[c.want]
			list := w.sent(q, c.b, TxBD{})
			if c.want == frame.DropNone && len(list) != 1 || c.want != frame.DropNone && (len(list) != 0 || w.TxDrops()[c.want] != before+1) {
				t.Errorf("%d octets: %d sent, want %v", len(c.b), len(list), c.want)
			}
		}
		if n := len(w.asserts); asserts && n < 5 || !asserts && n != 0 {
			t.Errorf("asserted %q", w.asserts)
		}
		w.ok(w.VportUpdate(UpdateParams{AntiSpoofing: &off, CheckMAC: &off, CheckEtherType: &off}))
		if len(w.sent(q, lldp, TxBD{})) != 1 || len(w.sent(q, eth(outside, addr(2), 60), TxBD{})) != 1 {
			t.Error("checks that are off still drop")
		}
		if s, err := w.Stats(0); err != nil || s.TxErrDropPkts != 7 || s.TxUcastPkts != 5 {
			t.Errorf("%+v %v", s, err)
		}
		w.idle()
	}
}

// L2-20
func TestTTL0(t *testing.T) {
	for _, drop := range []bool{true, false} {
		w := newWorld(t, Config{})
		w.start(StartParams{DropTTL0: drop}, 0)
		w.run(0, Promisc)
		b := packet4(addr(1), 17, 1, 1, 2, 10)
		b[14+8] = 0
		r := w.receive(b)
		s, _ := w.Stats(0)
		if (r == nicdrop.TTL) != drop || (s.TTL0Discard == 1) != drop || w.receive(packet4(addr(1), 17, 1, 1, 2, 10)) != frame.DropNone {
			t.Errorf("drop %v: %v, %+v", drop, r, s)
		}
	}
}

// Frames of one vport for another go there and not to the wire; groups go to
// both; without tx switching all goes to the wire. Nothing is lost.
//
// L2-14 L2-20
func TestTxSwitching(t *testing.T) {
	w := newWorld(t, Config{})
	a := w.start(StartParams{TxSwitching: true}, 0)[0]
	b := w.start(StartParams{Vport: 1}, 1)[0]
	qa, qb := w.txq(0, 0), w.txq(1, 1)
	for id := range 2 {
		w.run(id, Regular)
		w.ok(w.FilterUcast(UcastParams{Sides: Both, MAC: addr(id), Add: id, Type: FilterMAC}))
	}
	w.want(status.Inval, w.FilterUcast(UcastParams{Sides: 4, MAC: addr(1)}))
	for _, c := range []struct {
		q            *TxQueue
		dst          ether.Addr
		local, wired int
	}{
		{qa, addr(1), 1, 0}, {qa, outside, 0, 1}, {qa, ether.Broadcast, 1, 1}, {qa, addr(0), 0, 1},
		{qb, addr(0), 0, 1}, {qb, ether.Broadcast, 0, 1},
	} {
		wired := len(w.sent(c.q, eth(c.dst, addr(9), 60), TxBD{}))
		la, _ := take(a)
		lb, _ := take(b)
		if wired != c.wired || len(la)+len(lb) != c.local {
			t.Errorf("to %v: %d to the wire, %d and %d local", c.dst, wired, len(la), len(lb))
		}
	}
	// A vport without buffers loses what is for it, and that is counted.
	off := false
	w.ok(w.VportUpdate(UpdateParams{Vport: 1, RxActive: &off}))
	w.ok(w.RxQueueStop(b))
	if _, err := w.RxQueueStart(QueueParams{Vport: 1, Stats: 1, Queue: 1, Size: 128}, 2048); err != nil {
		t.Fatal(err)
	}
	w.run(1, Regular)
	if n := len(w.sent(qa, eth(addr(1), addr(9), 60), TxBD{})); n != 0 || w.TxDrops()[drop.HostQueue] != 1 {
		t.Errorf("%d sent, %v", n, w.dropped)
	}
	w.idle()
}
