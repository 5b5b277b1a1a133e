package l2

import (
	"fmt"
	"testing"

	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// The driver's calls are ramrods with the ids of the firmware, and end with its
// codes. Only those of rules do not wait.
//
// L2-02 L2-03 L2-04 L2-06 L2-09 L2-10 L2-13 L2-15 L2-18 L2-22 L2-23
func TestRamrodsOfCalls(t *testing.T) {
	w := newWorld(t, Config{})
	var got string
	sp := Slowpath{Post: func(r *Ramrod) error {
		code := w.Execute(r)
		got = fmt.Sprintf("%d %v queue %d async %v: %d", r.Command, r.Command, r.Queue, r.Async, code)
		return r.Err
	}}
	var rxq *RxQueue
	var txq *TxQueue
	on, mtu := true, 9000
	mac, group := ether.Addr{2, 1}, ether.Addr{1, 2}
	add := UcastParams{Type: FilterMAC, Sides: Both, MAC: mac}
	rule := Rule{Tuple: Tuple{Proto: 6, DstPort: 80}, Queue: 3}
	for _, c := range []struct {
		name string
		do   func() error
		want string
		err  status.Code
	}{
		{"update before start", func() error { return sp.VportUpdate(UpdateParams{RxActive: &on}) }, "2 VPORT_UPDATE queue 0 async false: 255", status.Inval},
		{"start", func() error { return sp.VportStart(StartParams{MTU: 1500}) }, "1 VPORT_START queue 0 async false: 0", 0},
		{"rx without a queue", func() error { return sp.VportUpdate(UpdateParams{RxActive: &on}) }, "2 VPORT_UPDATE queue 0 async false: 255", status.Inval},
		{"rx queue", func() (err error) {
			rxq, err = sp.RxQueueStart(QueueParams{Queue: 3, Size: 128}, 2048)
			return err
		}, "4 RXQ_START queue 3 async false: 0", 0},
		{"tx queue", func() (err error) {
			txq, err = sp.TxQueueStart(QueueParams{Queue: 3, Size: 128}, 0)
			return err
		}, "6 TXQ_START queue 3 async false: 0", 0},
		{"tx queue beyond", func() error {
			_, err := sp.TxQueueStart(QueueParams{Queue: 32, Size: 128}, 0)
			return err
		}, "6 TXQ_START queue 32 async false: 255", status.Inval},
		{"activate", func() error { return sp.VportUpdate(UpdateParams{RxActive: &on, TxActive: &on}) }, "2 VPORT_UPDATE queue 0 async false: 0", 0},
		{"MTU", func() error { return sp.VportUpdate(UpdateParams{MTU: &mtu}) }, "2 VPORT_UPDATE queue 0 async false: 255", status.Inval},
		{"filter", func() error { return sp.FilterUcast(add) }, "8 FILTERS_UPDATE queue 0 async false: 0", 0},
		{"the same", func() error { return sp.FilterUcast(add) }, "8 FILTERS_UPDATE queue 0 async false: 4", status.Exists},
		{"group", func() error { return sp.FilterMcast(McastParams{MACs: []ether.Addr{group}}) }, "2 VPORT_UPDATE queue 0 async false: 0", 0},
		{"mode", func() error { return sp.FilterAccept(0, AcceptParams{UpdateRx: true, Rx: Regular}, nil) }, "2 VPORT_UPDATE queue 0 async false: 0", 0},
		{"rule", func() error { return sp.AddRule(rule) }, "16 GFT_UPDATE_FILTER queue 0 async true: 0", 0},
		{"the same", func() error { return sp.AddRule(rule) }, "16 GFT_UPDATE_FILTER queue 0 async true: 21", status.Exists},
		{"no rule", func() error { return sp.RemoveRule(rule.Tuple) }, "16 GFT_UPDATE_FILTER queue 0 async true: 0", 0},
		{"tunnels", func() error { return sp.SetTunnels(TunnelParams{VXLANPort: 1}) }, "0 PF_UPDATE queue 0 async false: 0", 0},
		{"stop with queues", func() error { return sp.VportStop(0) }, "3 VPORT_STOP queue 0 async false: 255", status.Inval},
		{"tx stop", func() error { return sp.TxQueueStop(txq) }, "7 TXQ_STOP queue 3 async false: 0", 0},
		{"rx stop", func() error { return sp.RxQueueStop(rxq) }, "5 RXQ_STOP queue 3 async false: 0", 0},
		{"stop", func() error { return sp.VportStop(0) }, "3 VPORT_STOP queue 0 async false: 0", 0},
	} {
		if err := c.do(); status.Of(err) != c.err || got != c.want {
			t.Errorf("%s: %v, %s, want %s", c.name, err, got, c.want)
		}
	}
	if w.Asserts() != 4 {
		t.Errorf("asserted %q", w.asserts)
	}
	skipped := Slowpath{Post: func(*Ramrod) error { return nil }}
	rxq, err := skipped.RxQueueStart(QueueParams{}, 2048)
	if w.want(status.Again, err); rxq != nil {
		t.Error("a queue that was not started")
	}
	_, err = skipped.TxQueueStart(QueueParams{}, 0)
	w.want(status.Again, err)
}

// The end of the function leaves nothing of it, whatever was started.
//
// L2-15 L2-16
func TestReset(t *testing.T) {
	w := newWorld(t, Config{})
	mac := ether.Addr{2, 1}
	b := append(ether.Header{Dst: mac, Src: ether.Addr{2, 2}, Type: 0x88b5}.AppendTo(nil), make([]byte, 46)...)
	for range 2 {
		w.start(StartParams{}, 0, 1)
		w.start(StartParams{Vport: 1}, 2)
		txq := w.txq(0, 0)
		w.run(0, Regular)
		w.ok(w.FilterUcast(UcastParams{Type: FilterMAC, Sides: Both, MAC: mac}))
		w.ok(w.AddRule(Rule{Tuple: Tuple{Proto: 6, DstPort: 80}}))
		w.ok(w.SetTunnels(TunnelParams{Enable: [numTunnels]bool{VXLAN: true}, VXLANPort: VXLANPort}))
		if r := w.receive(b); r != frame.DropNone || !txq.Post(w.frame(b), TxBD{}) || w.pool.Lent() != 2 {
			t.Fatalf("%v, %d frames lent", r, w.pool.Lent())
		}
		w.Reset()
		macs, _ := w.Filters()
		if w.pool.Lent() != 0 || macs != 0 || w.Profile() != ProfileNone || w.Tunnels() != (TunnelParams{}) || txq.Post(nil, TxBD{}) {
			t.Errorf("%d frames lent, %d filters, profile %v, tunnels %+v", w.pool.Lent(), macs, w.Profile(), w.Tunnels())
		}
		if r := w.receive(b); r == frame.DropNone {
			t.Error("a frame passes")
		}
	}
	if len(w.asserts) != 0 {
		t.Errorf("asserted %q", w.asserts)
	}
}
