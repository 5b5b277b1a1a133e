package qede

import (
	"slices"
	"testing"

	"tapir/nic/buf"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/nic/nicdrop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

var own = ether.Addr{2, 0, 0, 0, 0, 1}

func settings() Settings {
	s := Settings{MAC: own, MTU: 1500, Queues: 1, RxRing: 128, TxRing: 128, Hashes: l2.DefaultHash | l2.HashIPv4UDP}
	for i := range s.Key {
		s.Key[i] = byte(i * 29)
	}
	return s
}

// firstBlock is the status block of the first queue.
const firstBlock = 40

// blocks are those of 32 queues.
var blocks = func() (list []uint16) {
	for i := range uint16(32) {
		list = append(list, firstBlock+i)
	}
	return list
}()

type world struct {
	*testing.T
	*Netdev
	pool    *buf.Pool
	asserts []string
	out     []*frame.Frame
	room    int
	masked  bool // nothing interrupts
}

func open(t *testing.T, s Settings) *world {
	w := &world{T: t, pool: buf.NewPool(4096, 2048), room: 1000}
	var err error
	w.Netdev, err = New(l2.Config{
		Pool: w.pool, Assert: func(s string) { w.asserts = append(w.asserts, s) },
		Fire: func(sb uint16, pi uint8) {
			if pi == rxPI && !w.masked {
				w.Schedule(int(sb) - firstBlock)
			}
		},
	}, nil, blocks, s)
	if err == nil {
		err = w.Apply(s, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Room and Transmit make the world the netdev's and the port's link.
func (w *world) Room() int               { return w.room - len(w.out) }
func (w *world) Transmit(f *frame.Frame) { w.out = append(w.out, f) }

func (w *world) apply(s Settings) {
	w.Helper()
	if err := w.Apply(s, true); err != nil {
		w.Fatal(err)
	}
}

func (w *world) frame(dst ether.Addr, vlan uint16, port byte) *frame.Frame {
	h := ether.Header{Dst: dst, Src: ether.Addr{2, 9}, Type: ether.TypeIPv4}
	if vlan != 0 {
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: vlan}
	}
	f := w.pool.Get(100)
	f.Append(h.AppendTo(nil))
	b := f.Extend(60)
	clear(b)
	b[0], b[3], b[8], b[9], b[21] = 0x45, 60, 64, ip.ProtoUDP, port
	return f
}

// in tells whether a frame of the port reaches the netdev.
func (w *world) in(dst ether.Addr, vlan uint16) bool {
	f := w.frame(dst, vlan, 0)
	if r := w.Receive(f); r != frame.DropNone {
		f.Release()
		return false
	}
	w.Flush()
	w.Deliver(w)
	return w.take() == 1
}

func (w *world) take() int {
	n := len(w.out)
	for _, f := range w.out {
		f.Release()
	}
	w.out = w.out[:0]
	return n
}

func (w *world) end() {
	w.Helper()
	if err := w.Apply(w.Settings(), false); err != nil || w.pool.Lent() != 0 || len(w.asserts) != 0 {
		w.Errorf("%v, %d frames lost, asserted %q", err, w.pool.Lent(), w.asserts)
	}
}

func addrs(n int, first byte) (list []ether.Addr) {
	for i := range n {
		list = append(list, ether.Addr{first, 0, 0x5e, 1, 0, byte(i)})
	}
	return list
}

// More addresses than filters make the netdev promiscuous, until they fit; more
// groups than a command takes, all of them.
//
// L2-09 L2-10
func TestOverflow(t *testing.T) {
	w := open(t, settings())
	stranger := ether.Addr{2, 7, 7, 7, 7, 7}
	if !w.in(own, 0) || w.in(stranger, 0) || !w.in(ether.Broadcast, 0) {
		t.Fatal("the regular mode")
	}
	s := settings()
	s.Ucast = append(addrs(63, 2), own, addrs(63, 2)[0]) // some twice
	s.Ucast = s.Ucast[:63]
	w.apply(s)
	if !w.in(s.Ucast[62], 0) || w.in(stranger, 0) {
		t.Error("63 addresses beside the own")
	}
	s.Ucast = addrs(64, 2)
	w.apply(s)
	if p, _, any := w.Mode(); !p || !any || !w.in(stranger, 0) || !w.in(stranger, 9) {
		t.Error("64 addresses beside the own")
	}
	s.Ucast = addrs(3, 2)
	w.apply(s)
	if p, _, _ := w.Mode(); p || w.in(stranger, 0) || !w.in(s.Ucast[2], 0) || w.in(addrs(4, 2)[3], 0) {
		t.Error("three addresses beside the own")
	}
	s.Mcast = addrs(64, 1)
	other := ether.Addr{1, 0, 0x5e, 2, 2, 2}
	for i := byte(0); slices.ContainsFunc(s.Mcast, func(a ether.Addr) bool { return l2.Bin(a) == l2.Bin(other) }); i++ {
		other[5] = i
	}
	w.apply(s)
	if !w.in(s.Mcast[63], 0) || w.in(other, 0) {
		t.Error("64 groups")
	}
	s.Mcast = addrs(65, 1)
	w.apply(s)
	if _, all, _ := w.Mode(); !all || !w.in(other, 0) {
		t.Error("65 groups")
	}
	s.Mcast = nil
	w.apply(s)
	if w.in(other, 0) {
		t.Error("no group")
	}
	w.end()
}

// Promiscuous wins over all multicast, in whichever order they are set and
// cleared.
//
// L2-08
func TestPromiscWins(t *testing.T) {
	w := open(t, settings())
	stranger, group := ether.Addr{2, 7, 7, 7, 7, 7}, ether.Addr{1, 0, 0x5e, 7, 7, 7}
	s := settings()
	for _, step := range []struct{ promisc, all bool }{
		{true, false}, {true, true}, {false, true}, {true, true}, {true, false}, {false, false}, {false, true}, {false, false},
	} {
		s.Promisc, s.AllMulti = step.promisc, step.all
		w.apply(s)
		if w.in(stranger, 0) != step.promisc || w.in(group, 0) != (step.promisc || step.all) || !w.in(own, 0) {
			t.Errorf("%+v", step)
		}
	}
	w.end()
}

// L2-11
func TestVLANOverflow(t *testing.T) {
	w := open(t, settings())
	s := settings()
	if !w.in(own, 9) {
		t.Error("a VLAN before the first filter")
	}
	s.VLANs = []uint16{5}
	w.apply(s)
	if !w.in(own, 5) || w.in(own, 9) || !w.in(own, 0) {
		t.Error("one VLAN")
	}
	s.VLANs = []uint16{0} // costs no filter
	for v := range uint16(64) {
		s.VLANs = append(s.VLANs, 100+v)
	}
	w.apply(s)
	if _, _, any := w.Mode(); any || !w.in(own, 163) || w.in(own, 164) {
		t.Error("64 VLANs")
	}
	s.VLANs = append(s.VLANs, 164)
	w.apply(s)
	if _, _, any := w.Mode(); !any || !w.in(own, 164) || !w.in(own, 9) {
		t.Error("65 VLANs")
	}
	s.VLANs = s.VLANs[1:]
	s.VLANs = s.VLANs[1:]
	w.apply(s)
	if _, _, any := w.Mode(); any || w.in(own, 100) || !w.in(own, 164) {
		t.Error("64 again")
	}
	s.Promisc = true
	w.apply(s)
	if !w.in(own, 9) {
		t.Error("promiscuous")
	}
	w.end()
}

// What is refused leaves everything as it was.
func TestRefused(t *testing.T) {
	w := open(t, settings())
	before := w.Settings()
	for name, change := range map[string]func(*Settings){
		"no MAC": func(s *Settings) { s.MAC = ether.Addr{} }, "group": func(s *Settings) { s.MAC = ether.Broadcast },
		"MTU 45": func(s *Settings) { s.MTU = 45 }, "MTU 9601": func(s *Settings) { s.MTU = 9601 },
		"no queue": func(s *Settings) { s.Queues = 0 }, "33 queues": func(s *Settings) { s.Queues = 33 },
		"small ring": func(s *Settings) { s.RxRing = 127 }, "large ring": func(s *Settings) { s.TxRing = 8192 },
		"hash": func(s *Settings) { s.Hashes = 64 }, "TPA": func(s *Settings) { s.TPA = 3 },
		"table": func(s *Settings) { s.Table = []int{0, 1} }, "long table": func(s *Settings) { s.Table = make([]int, 129) },
		"ucast": func(s *Settings) { s.Ucast = addrs(1, 1) }, "mcast": func(s *Settings) { s.Mcast = addrs(1, 2) },
		"VLAN": func(s *Settings) { s.VLANs = []uint16{4095} }, "PVID": func(s *Settings) { s.PVID = l2.DefaultVLAN{Enable: true} },
		"rule's place": func(s *Settings) { s.Rules = []Rule{{Location: 256}} },
		"rule's queue": func(s *Settings) { s.Rules = []Rule{{Tuple: l2.Tuple{Proto: 6, DstPort: 1}, Queue: 1}} },
		"rule":         func(s *Settings) { s.Rules = []Rule{{}} },
		"two places":   func(s *Settings) { s.Rules = []Rule{{Drop: true}, {Drop: true}} },
		"two profiles": func(s *Settings) {
			s.Rules = []Rule{{Tuple: l2.Tuple{Proto: 6, DstPort: 1}, Drop: true}, {Location: 1, Tuple: l2.Tuple{Proto: 6, Tunnel: l2.VXLAN}, Drop: true}}
		},
		"class":    func(s *Settings) { s.Tunnel.Class[l2.VXLAN] = 9 },
		"one port": func(s *Settings) { s.Tunnel.VXLANPort, s.Tunnel.GenevePort = 1, 1 },
	} {
		s := settings()
		s.Promisc, s.Queues = true, 1
		change(&s)
		if err := w.Apply(s, true); status.Of(err) != status.Inval {
			t.Errorf("%s: %v", name, err)
		}
		if now := w.Settings(); now.Promisc != before.Promisc || now.Queues != 1 || !w.in(own, 0) || w.in(ether.Addr{2, 7}, 0) {
			t.Errorf("%s changed something", name)
		}
		if n, err := New(l2.Config{Pool: w.pool}, nil, blocks, s); err == nil || n != nil {
			t.Errorf("%s: opened", name)
		}
	}
	w.end()
}

// Queues, MTU and rings change while frames wait; RSS, rules and filters hold on
// afterwards.
//
// L2-15 L2-18 L2-22
func TestReload(t *testing.T) {
	w := open(t, settings())
	s := settings()
	w.Receive(w.frame(own, 0, 1))
	w.Queue(w.frame(own, 0, 1))
	if w.Waiting() != 2 {
		t.Fatalf("%d frames wait", w.Waiting())
	}
	s.Queues, s.Promisc = 4, true
	w.apply(s) // what waited is lost
	spread := func() (n [4]int) {
		for port := range byte(64) {
			w.Receive(w.frame(own, 0, port))
		}
		w.room = 10
		for w.Deliver(w) { // the netdev has room for ten at a time
			w.room += 10
		}
		for _, f := range w.out {
			n[f.Queue]++
		}
		w.take()
		w.room = 1000
		return n
	}
	if n := spread(); n[0] < 4 || n[1] < 4 || n[2] < 4 || n[3] < 4 || n[0]+n[1]+n[2]+n[3] != 64 {
		t.Errorf("spread over %v", n)
	}
	s.Table = []int{3}
	s.MTU, s.RxRing = 9000, 256
	w.apply(s)
	if n := spread(); n != [4]int{3: 64} {
		t.Errorf("by the table %v", n)
	}
	s.Rules = []Rule{{Location: 7, Tuple: l2.Tuple{Proto: ip.ProtoUDP, DstPort: 256}, Queue: 1}}
	s.Rules[0].DstPort = 1
	w.apply(s)
	s.Queues = 2
	if err := w.Apply(s, true); status.Of(err) != status.Inval { // the table names queue 3
		t.Errorf("%v", err)
	}
	s.Table = nil
	w.apply(s)
	f := w.frame(own, 0, 0)
	f.Bytes()[14+23] = 1 // destination port 1
	w.Receive(f)
	w.Deliver(w)
	if len(w.out) != 1 || w.out[0].Queue != 1 {
		t.Errorf("by the rule: %d frames", len(w.out))
	}
	w.take()

	for i := range 4 {
		f := w.frame(ether.Broadcast, 0, 0)
		f.Queue = uint16(i)
		w.Queue(f)
	}
	if w.Netdev.Transmit(w) || w.take() != 4 {
		t.Error("not all were sent")
	}
	values := map[string]uint64{}
	for _, st := range append(w.QueueStats(), w.Stats()...) {
		values[st.Name] = st.Value
	}
	if values["1: rcv_pkts"] != 1 || values["0_0: xmit_pkts"] != 2 || values["1_0: xmit_pkts"] != 2 || values["tx_bcast_pkts"] != 4 || values["rx_ucast_pkts"] != 1 {
		t.Errorf("%v", values)
	}
	if err := w.Function().ResetStats(0); err != nil || w.Stats()[0].Value != 0 {
		t.Errorf("%v", err)
	}
	w.end()
	if len(w.QueueStats()) != 0 || w.Stats()[0].Value != 0 || w.Queue(nil) != nicdrop.Vport || w.Function().Asserts() != 0 {
		t.Error("it runs after it was closed")
	}
}

// A queue is served once it has interrupted, until it is empty. One that is half
// full says so.
func TestInterrupts(t *testing.T) {
	s := settings()
	s.Queues, s.Table = 2, []int{1}
	w := open(t, s)
	w.masked = true
	w.Receive(w.frame(own, 0, 0))
	if w.Deliver(w) || w.take() != 0 || w.Due() || w.Waiting() != 1 {
		t.Error("served before it has interrupted")
	}
	w.Schedule(0)
	w.Schedule(2) // of which there are two
	if w.Deliver(w) || w.take() != 0 || w.Due() {
		t.Error("the other queue's interrupt serves it")
	}
	w.Schedule(1)
	w.Receive(w.frame(own, 0, 0))
	if w.room = 1; !w.Due() || !w.Deliver(w) || w.take() != 1 || !w.Due() {
		t.Error("one of two frames, for which there is room")
	}
	if w.Deliver(w) || w.take() != 1 || w.Due() {
		t.Error("the second of two")
	}
	w.room = 1000
	for range 64 {
		w.Receive(w.frame(own, 0, 0))
	}
	if w.Relieve(); w.Due() {
		t.Error("served with 64 frames of 128")
	}
	w.Receive(w.frame(own, 0, 0))
	if w.Relieve(); !w.Due() || w.Deliver(w) || w.take() != 65 {
		t.Error("not served with 65 frames of 128")
	}
	w.end()
}
