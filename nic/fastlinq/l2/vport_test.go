package l2

import (
	"testing"

	"tapir/nic/fastlinq/status"
	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// L2-01 L2-02
func TestVportStart(t *testing.T) {
	w := newWorld(t, Config{})
	w.want(status.Inval, w.VportStart(StartParams{Vport: 20, MTU: 1500}))
	w.want(status.Inval, w.VportStart(StartParams{Vport: -1, MTU: 1500}))
	w.want(status.Inval, w.VportStart(StartParams{MTU: 45}))
	w.want(status.Inval, w.VportStart(StartParams{MTU: 9601}))
	w.want(status.Inval, w.VportStart(StartParams{MTU: 1500, TPA: 3}))
	if len(w.asserts) != 0 {
		t.Fatalf("asserted %q", w.asserts)
	}
	for id := range 20 {
		w.ok(w.VportStart(StartParams{Vport: id, MTU: MinMTU}))
	}
	w.want(status.Inval, w.VportStart(StartParams{Vport: 7, MTU: 1500})) // it is started
	w.want(status.Inval, New(Config{Pool: w.pool}).VportStop(7))         // it is not
	if len(w.asserts) != 1 || w.Asserts() != 1 {
		t.Fatalf("asserted %q", w.asserts)
	}
}

// L2-03 L2-04 L2-05
func TestQueueStart(t *testing.T) {
	w := newWorld(t, Config{})
	p := QueueParams{Queue: 3, SB: 4, Size: 128}
	_, err := w.RxQueueStart(p, 2048)
	w.want(status.Inval, err) // the vport is not started
	w.ok(w.VportStart(StartParams{MTU: 1500}))
	for _, bad := range []QueueParams{{Queue: 32, Size: 128}, {Queue: -1, Size: 128}, {Size: 127}, {Size: 8192}, {Size: 128, Vport: 20},
		{Size: 128, Stats: 20}, {Size: 128, Stats: 1}} {
		_, err := w.RxQueueStart(bad, 2048)
		w.want(status.Inval, err)
		_, err = w.TxQueueStart(bad, 0)
		w.want(status.Inval, err)
	}
	_, err = w.RxQueueStart(p, 63)
	w.want(status.Inval, err)
	_, err = w.TxQueueStart(p, 8)
	w.want(status.Inval, err)

	rxq, err := w.RxQueueStart(p, 2048)
	w.ok(err)
	_, err = w.RxQueueStart(p, 2048)
	w.want(status.Inval, err) // ids of receive queues are unique
	if rxq.Posted() != 0 {
		t.Fatalf("%d buffers before the first is posted", rxq.Posted())
	}
	w.ok(rxq.Post(100))
	w.want(status.Inval, rxq.Post(29))
	w.want(status.Inval, rxq.Post(-1))
	w.ok(rxq.Post(28))

	var same []*TxQueue
	for range MaxPerZone {
		q, err := w.TxQueueStart(p, 1)
		w.ok(err)
		same = append(same, q)
	}
	_, err = w.TxQueueStart(p, 1)
	w.want(status.NoResources, err)
	other := w.txq(0, 5)
	w.ok(same[0].SetCoalesce(200))
	w.ok(other.SetCoalesce(7))
	w.ok(rxq.SetCoalesce(9))
	w.ok(rxq.SetCoalesce(0)) // as it is
	w.want(status.Inval, rxq.SetCoalesce(512))
	if same[63].Coalesce() != 200 || other.Coalesce() != 7 || rxq.Coalesce() != 9 {
		t.Fatalf("coalescing %d, %d, %d", same[63].Coalesce(), other.Coalesce(), rxq.Coalesce())
	}
	for _, q := range same {
		w.ok(w.TxQueueStop(q))
	}
	w.want(status.Inval, w.TxQueueStop(same[0]))
	w.ok(w.TxQueueStop(other))
	w.ok(w.RxQueueStop(rxq))
	w.want(status.Inval, w.RxQueueStop(rxq))
	w.want(status.Inval, w.RxQueueStop(nil))
	w.want(status.Inval, rxq.Post(1))
	w.want(status.Inval, rxq.SetCoalesce(1))
	w.ok(w.VportStop(0))
	w.ok(w.VportStart(StartParams{MTU: 1500}))
}

// A doorbell that has not rung shows the device nothing; one that has is not
// forgotten; full queues refuse.
//
// L2-05
func TestProducers(t *testing.T) {
	w := newWorld(t, Config{})
	rxq := w.start(StartParams{}, 0)[0]
	txq := w.txq(0, 0)
	w.run(0, Promisc)
	var port = link{room: 3}
	post := func() bool {
		f := w.frame(eth(outside, addr(1), 50))
		if !txq.Post(f, TxBD{}) {
			f.Release()
			return false
		}
		return true
	}
	for range 1023 {
		post()
	}
	if post() || txq.Stats.Stopped != 1 || txq.Room() != 0 {
		t.Fatalf("a full queue: room %d, %+v", txq.Room(), txq.Stats)
	}
	if w.Transmit(&port) || len(port.frames) != 0 {
		t.Fatal("sent before the doorbell rang")
	}
	txq.Doorbell()
	post()
	if !w.Transmit(&port) || port.release() != 3 || txq.Len() != 1020 {
		t.Fatal("the port's room does not count")
	}
	post()
	port.room = 2000
	if w.Transmit(&port) || port.release() != 1020 || txq.Len() != 1 {
		t.Fatalf("%d frames wait", txq.Len())
	}
	txq.Doorbell()
	w.Transmit(&port)
	port.release()
	if rxq.Len() != 0 {
		t.Fatal("what was sent came in")
	}

	for range 1030 {
		w.receive(eth(addr(1), outside, 50))
	}
	if s := rxq.Stats; rxq.Len() != 1023 || s.Discarded != 7 || rxq.Posted() != 0 || w.Drops()[drop.HostQueue] != 7 {
		t.Fatalf("%d frames, %d buffers, %+v", rxq.Len(), rxq.Posted(), s)
	}
	f, _ := rxq.Next()
	f.Release()
	if w.receive(eth(addr(1), outside, 50)) != drop.HostQueue {
		t.Fatal("a buffer that was not posted again is used")
	}
	w.ok(rxq.Post(1))
	if w.receive(eth(addr(1), outside, 50)) != frame.DropNone || w.fired == 0 {
		t.Fatal("a posted buffer is not used")
	}
	take(rxq)
	if rxq.Stats.Received != 1024 {
		t.Fatalf("%+v", rxq.Stats)
	}
	// Frames larger than a buffer take several, at most all there are.
	small, err := w.RxQueueStart(QueueParams{Queue: 1, Size: 128}, 128)
	w.ok(err)
	w.ok(small.Post(6))
	w.ok(w.RxQueueStop(rxq)) // now all falls to the other
	for i, n := range []int{100, 400, 300} {
		want := frame.DropNone
		if i == 2 {
			want = drop.HostQueue
		}
		if r := w.receive(eth(addr(1), outside, n)); r != want {
			t.Fatalf("%d octets: %v", n, r)
		}
	}
	if small.Posted() != 1 || small.Len() != 2 {
		t.Fatalf("%d buffers posted, %d frames", small.Posted(), small.Len())
	}
	w.ok(w.RxQueueStop(small))
	w.ok(w.TxQueueStop(txq))
	w.idle()
}

// L2-06 L2-07 L2-15 L2-16
func TestOrder(t *testing.T) {
	w := newWorld(t, Config{})
	on, off, mtu := true, false, 900
	b := eth(addr(1), outside, 60)
	nothing := func(when string) {
		t.Helper()
		if r := w.receive(b); r != nicdrop.Vport && r != drop.NotOurMAC {
			t.Fatalf("%s: %v", when, r)
		}
	}
	nothing("at first")
	w.want(status.Inval, w.VportUpdate(UpdateParams{RxActive: &on})) // not started
	w.start(StartParams{})
	nothing("a vport, no queue")
	w.want(status.Inval, w.VportUpdate(UpdateParams{RxActive: &on})) // no queue
	q := w.rxq(0, 0)
	nothing("a queue, not active")
	w.ok(w.VportUpdate(UpdateParams{RxActive: &on}))
	nothing("active, accepting nothing")
	w.ok(w.FilterAccept(0, AcceptParams{UpdateRx: true, Rx: Regular}, nil))
	nothing("accepting, without a filter")
	w.ok(w.FilterUcast(UcastParams{Sides: Both, MAC: addr(1)}))
	if r := w.receive(b); r != frame.DropNone || q.Len() != 1 {
		t.Fatalf("all is there: %v", r)
	}
	w.want(status.Inval, w.VportUpdate(UpdateParams{MTU: &mtu})) // active
	same := 1500
	w.ok(w.VportUpdate(UpdateParams{MTU: &same}))
	w.want(status.Inval, w.VportStop(0)) // it has a queue
	if len(w.asserts) != 4 {
		t.Fatalf("asserted %q", w.asserts)
	}
	// A refused update changes nothing, an accepted one keeps the mode.
	w.want(status.Inval, w.VportUpdate(UpdateParams{RxActive: &off, DefaultVLAN: &DefaultVLAN{Enable: true}}))
	if r := w.receive(b); r != frame.DropNone {
		t.Fatalf("after a refusal: %v", r)
	}
	w.ok(w.VportUpdate(UpdateParams{RxActive: &off}))
	nothing("inactive")
	w.ok(w.VportUpdate(UpdateParams{MTU: &mtu}))
	w.ok(w.VportUpdate(UpdateParams{RxActive: &on}))
	if r := w.receive(b); r != frame.DropNone {
		t.Fatalf("active again: %v", r)
	}
	w.ok(w.VportUpdate(UpdateParams{RxActive: &off}))
	w.ok(w.RxQueueStop(q)) // what the driver has not taken is released
	w.ok(w.VportStop(0))
	nothing("stopped")
	// Of its filters and its mode nothing is left.
	w.start(StartParams{}, 0)
	w.ok(w.VportUpdate(UpdateParams{RxActive: &on}))
	nothing("started again")
	w.ok(w.FilterAccept(0, AcceptParams{UpdateRx: true, Rx: Regular}, nil))
	nothing("started again, filters are gone")
	if w.macs != 0 || w.vlans != 0 || len(w.tables[rx].by)+len(w.tables[tx].by) != 0 {
		t.Errorf("%d addresses, %d VLANs are still used", w.macs, w.vlans)
	}
	w.idle()
}

// What a queue still holds when it stops, or its vport is not active, is not sent.
//
// L2-15 L2-16
func TestStopWhileSending(t *testing.T) {
	w := newWorld(t, Config{})
	w.start(StartParams{}, 0)
	q := w.txq(0, 0)
	port := &link{room: 9}
	w.run(0, Regular)
	off := false
	w.ok(w.VportUpdate(UpdateParams{TxActive: &off}))
	for range 5 {
		q.Post(w.frame(eth(outside, addr(1), 60)), TxBD{})
	}
	q.Doorbell()
	w.Transmit(port)
	w.ok(w.TxQueueStop(q))
	w.Transmit(port)
	if len(port.frames) != 0 || len(w.dropped) != 5 || w.TxDrops()[nicdrop.Vport] != 5 {
		t.Errorf("sent %d, dropped %v", len(port.frames), w.dropped)
	}
	f := w.frame(eth(outside, addr(1), 60))
	if q.Post(f, TxBD{}) {
		t.Error("a stopped queue takes frames")
	}
	f.Release()
	w.idle()
}

func TestSizes(t *testing.T) {
	w := newWorld(t, Config{})
	q := w.start(StartParams{}, 0)[0]
	w.run(0, Promisc)
	for n := range 15 {
		if r := w.receive(make([]byte, n)); r != drop.Truncated {
			t.Errorf("%d octets: %v", n, r)
		}
	}
	if r := w.receive(eth(addr(1), outside, 0, 5)); r != drop.Truncated {
		t.Errorf("nothing behind the tag: %v", r)
	}
	for n, want := range map[int]frame.DropReason{15: 0, 60: 0, 1494: 0, 1514: 0, 1518: 0, 1522: 0, 1523: drop.Oversize, 9000: drop.Oversize} {
		if r := w.receive(eth(addr(1), outside, n-ether.HeaderLen)); r != want {
			t.Errorf("%d octets: %v, want %v", n, r, want)
		}
	}
	if s := w.vports[0].stats; s.PacketTooBigDiscard != 2 || q.Len() != 6 {
		t.Errorf("%d frames, %+v", q.Len(), s)
	}
}
