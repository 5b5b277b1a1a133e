package fastlinq

import (
	"fmt"
	"slices"

	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/pacing"
	"tapir/nic/view"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// The host function is the PF that the operating system sees: a vport of the
// Ethernet side with its queues, and their driver. What comes from the wire and is
// not the engines' goes through the vport into a receive queue, and from there to
// the same queue of the host TAP. What the operating system sends by a queue of the
// host TAP goes into the transmit queue of that number, and through the vport to
// the wire.

// MaxHostMTU is the longest IP packet of a host function, in octets.
const MaxHostMTU = l2.MaxMTU

// newNetdev makes the host function. Its netdev opens when the driver has loaded.
func (d *Device) newNetdev() error {
	i, sp := &d.interrupts, &slowpath{d: d}
	d.both = d.sched
	if d.cfg.Engines > 1 {
		d.both = d.sched.Child(true)
	}
	n, err := qede.New(l2.Config{Pool: d.pool, Engines: d.cfg.Engines, PF: d.both, Superframes: d.cfg.Superframes,
		Drop: d.dropFromVport, Fire: i.fired, Assert: sp.fwAssert}, sp.post, i.queueBlocks(), d.halves(&d.cfg)[0])
	if err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	d.function = n
	return nil
}

// halves are the settings of each engine's half of the netdev: all of it without a
// second.
func (d *Device) halves(cfg *settings.NIC) []qede.Settings {
	s := cfg.Netdev()
	if cfg.Engines == 1 {
		return []qede.Settings{s}
	}
	table := s.FullTable()
	return []qede.Settings{cmt.Settings(s, table, 0), cmt.Settings(s, table, 1)}
}

// checkNetdev tells whether the host function can be as cfg says.
func (d *Device) checkNetdev(cfg *settings.NIC) error {
	if d.function == nil {
		return nil
	}
	for _, s := range d.halves(cfg) {
		if err := d.function.Check(s); err != nil {
			return fmt.Errorf("host function: %w", err)
		}
	}
	return nil
}

// setNetdev makes the host function as cfg says, which was checked.
func (d *Device) setNetdev(cfg *settings.NIC) error {
	if d.cmt != nil {
		return d.setEngines(cfg)
	}
	if d.function == nil {
		return nil
	}
	if err := d.function.Apply(cfg.Netdev(), d.core.open); err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	return nil
}

// hostFunction is the operating system's interface to the device.
type hostFunction struct{ d *Device }

// FromWire implements hostfn.Function.
func (h hostFunction) FromWire(f *frame.Frame) {
	d := h.d
	if d.cmt != nil && d.steer(f) {
		return
	}
	if d.buffer.len() == 0 && d.function.Fill() < pacing.Full {
		h.receive(f)
		return
	}
	buffer, size := d.nic.Buffer(f)
	switch {
	case size == 0:
		h.receive(f)
		return
	case d.buffer == nil:
		d.buffer = new(brb)
	}
	if !d.buffer.push(f, buffer, size) {
		d.nic.Drop(frame.Host, f, drop.HostQueue)
	}
}

// receive takes a frame into a receive queue.
func (h hostFunction) receive(f *frame.Frame) {
	if r := h.d.function.Receive(f); r != frame.DropNone {
		h.d.nic.Drop(frame.Host, f, r)
	}
}

// Diverts implements hostfn.Function: a frame by a queue of the second engine,
// which the NIC drives.
func (h hostFunction) Diverts(f *frame.Frame) bool {
	c := h.d.cmt
	if c == nil || c.apart || cmt.Hwfn(int(f.Queue)) != 1 {
		return false
	}
	c.second.now = h.d.now()
	c.second.fromHost(f)
	return true
}

// FromHost implements hostfn.Function: the frame waits in the transmit queue until
// Poll.
func (h hostFunction) FromHost(f *frame.Frame) {
	d := h.d
	if d.failoverTx(f) {
		return
	}
	if d.cmt != nil {
		f.Queue = uint16(cmt.Local(int(f.Queue)))
	}
	if r := d.function.Queue(f); r != frame.DropNone {
		d.nic.Drop(frame.Wire, f, r)
	}
}

// dropFromVport hears of a frame that the vport has taken and does not pass on.
func (d *Device) dropFromVport(side l2.Sides, f *frame.Frame, r frame.DropReason) {
	p := frame.Wire
	if side == l2.Rx {
		p = frame.Host
	}
	d.nic.Dropped(p, f, r)
}

// Poll implements hostfn.Function: what was sent leaves at once, what was received
// once its queue has interrupted.
func (h hostFunction) Poll(now frame.Time) frame.Time {
	d := h.d
	next := d.pollSecond(now)
	for d.buffer.len() > 0 && d.function.Fill() < pacing.Full {
		h.receive(d.buffer.pop())
	}
	d.function.Flush()
	if d.interrupts.report(now) {
		d.interrupts.poll(now)
	}
	d.function.Transmit(vportOutput(h))
	d.function.Deliver(hostOutput(h))
	return next
}

// Due implements hostfn.Function.
func (h hostFunction) Due() bool {
	d := h.d
	return d.nic.HostRoom() > 0 && d.function.Due() || d.buffer.len() > 0 && d.function.Fill() < pacing.Full
}

// Waiting implements hostfn.Function.
func (h hostFunction) Waiting() int {
	return h.d.function.Waiting() + h.d.buffer.len() + h.d.cmt.waiting()
}

// Fill implements hostfn.Function. Queues of the second engine fill the ring to it.
func (h hostFunction) Fill() int { return max(h.d.function.Fill(), h.d.cmt.fill()) }

// Buffers implements hostfn.Function.
func (h hostFunction) Buffers() *pacing.Buffers {
	if h.d.buffer == nil {
		return nil
	}
	return &h.d.buffer.report
}

// shape limits the function, in both directions, to the share of the port that the
// management firmware gives it. Two engines have the rate of the host TAP together.
func (d *Device) shape() {
	s, high := d.management.mcp.LinkState(), 0
	if s.Speed < s.LineSpeed {
		high = int(s.Speed)
	}
	weight := int64(d.management.mcp.Info().BandwidthMin)
	d.sched.SetRate(high)
	d.sched.SetWeight(weight)
	d.limitReceived(high, weight)
	if d.function == nil {
		return
	}
	low, most := int(s.MinPFRate), d.cfg.Ethernet.TxMaxRate
	if d.cmt != nil && most > 0 && (high == 0 || most < high) {
		low, high = min(low, most), most
	}
	d.management.note(d.function.Function().SetPFRates(low, high))
	d.management.note(d.function.Weigh())
}

// vportOutput is the way out for what the vport sends, hostOutput the way to the
// host TAP for what it has received.
type (
	vportOutput struct{ d *Device }
	hostOutput  struct{ d *Device }
)

// Transmit implements frame.Link.
func (o vportOutput) Transmit(f *frame.Frame) {
	if o.d.cmt != nil {
		o.d.cmt.sent[0]++
	}
	o.d.ethernet.Transmit(f, o.d.nic.Now())
}

// Room implements frame.Link.
func (o vportOutput) Room() int { return o.d.ethernet.Room(o.d.nic.Now()) }

// Transmit implements frame.Link.
func (o hostOutput) Transmit(f *frame.Frame) {
	if o.d.cmt != nil {
		f.Queue = uint16(cmt.Queue(0, int(f.Queue)))
	}
	o.d.nic.ToHost(f)
}

// Room implements frame.Link.
func (o hostOutput) Room() int { return o.d.nic.HostRoom() }

// netdevs runs fn for the netdev of each engine, where it may be read; not at all
// without a host function.
func (d *Device) netdevs(fn func(hwfn int, n *qede.Netdev)) {
	if d.function == nil {
		return
	}
	fn(0, d.function)
	d.cmt.withSecond(func(e *SecondEngine) { fn(1, e.netdev) })
}

// hwfnName is the name of an engine's half of the device, empty if there is one.
func (d *Device) hwfnName(hwfn int) string {
	if d.cmt == nil {
		return ""
	}
	return fmt.Sprintf("%s-%d", d.cfg.Name, hwfn)
}

// ShowQueues describes the queues of the host function, none without one; those of
// two engines in turn, as the host TAP has them.
func (d display) ShowQueues() (list []view.QueueInfo) {
	var of [cmt.Engines][]view.QueueInfo
	d.netdevs(func(e int, n *qede.Netdev) { of[e] = queueInfo(n) })
	if d.cmt == nil {
		return of[0]
	}
	for local := range max(len(of[0]), len(of[1])) {
		for e := range of {
			if local >= len(of[e]) {
				continue // of an engine that has failed
			}
			q := of[e][local]
			q.Hwfn, q.Queue, q.RSSEntries = d.hwfnName(e), cmt.Queue(e, local), q.RSSEntries/cmt.Engines
			list = append(list, q)
		}
	}
	return list
}

// queueInfo describes the queues of one engine.
func queueInfo(n *qede.Netdev) (list []view.QueueInfo) {
	table := n.Table()
	for i, q := range n.Queues() {
		entries := len(slices.DeleteFunc(slices.Clone(table[:]), func(of int) bool { return of != i }))
		list = append(list, view.QueueInfo{Queue: i, RxPackets: q.Rx.Received, RxDiscards: q.Rx.Discarded,
			RxWaiting: q.RxWaiting,
			TxPackets: q.Tx.Sent, TxStopped: q.Tx.Stopped, TxWaiting: q.TxWaiting, RSSEntries: entries})
	}
	return list
}

// ShowVport describes the vport of the host function, none without one.
func (d display) ShowVport() (list []view.VportInfo) {
	d.netdevs(func(e int, n *qede.Netdev) {
		v := vportInfo(n)
		if v.Hwfn = d.hwfnName(e); e > 0 {
			v.TxMinRate, v.TxMaxRate = list[0].TxMinRate, list[0].TxMaxRate
		}
		list = append(list, v)
	})
	return list
}

func vportInfo(n *qede.Netdev) view.VportInfo {
	s, fn := n.Settings(), n.Function()
	promisc, allMulti, anyVLAN := n.Mode()
	v := view.VportInfo{MTU: s.MTU, RxMode: rxModeName(promisc, allMulti), AnyVLAN: anyVLAN, Groups: len(s.Mcast),
		Rules: len(s.Rules), Queues: s.Queues}
	v.MACs, v.VLANs = fn.Filters()
	v.TxMinRate, v.TxMaxRate = fn.PFRates()
	if s.TxMaxRate > 0 && (v.TxMaxRate == 0 || s.TxMaxRate < v.TxMaxRate) {
		v.TxMaxRate = s.TxMaxRate
	}
	if st, err := fn.Stats(0); err == nil {
		v.RxPackets = st.RxUcastPkts + st.RxMcastPkts + st.RxBcastPkts
		v.TxPackets = st.TxUcastPkts + st.TxMcastPkts + st.TxBcastPkts
		v.Filtered, v.TxErrors = st.MACFilterDiscards, st.TxErrDropPkts
	}
	return v
}

func rxModeName(promisc, allMulti bool) string {
	switch {
	case promisc:
		return "promisc"
	case allMulti:
		return "allmulti"
	}
	return "regular"
}
