package nic

import (
	"fmt"
	"slices"

	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/port"
	"tapir/wire/frame"
)

// function is the PF that the operating system sees: a vport of the Ethernet
// side with its queues, and their driver. What comes from the wire and is not
// the engines' goes through the vport into a receive queue, and from there to
// the same queue of the host TAP; what the operating system sends by a queue of
// the host TAP goes into the transmit queue of that number, and through the
// vport to the wire. nil without a host TAP.
type function struct{ *qede.Netdev }

// MaxHostMTU is the longest IP packet of a host function, in octets.
const MaxHostMTU = l2.MaxMTU

// RSS spreads what the host function receives over its queues.
type RSS struct {
	Table  [l2.TableLen]uint8 // indirection table: queues by the last bits of the hash
	Key    [l2.KeyLen]byte    // of the Toeplitz hash, first octet first
	Hashes l2.HashTypes       // kinds of packets that have a hash; others take entry 0
}

// newFunction makes the host function. Its netdev opens when the driver has
// loaded.
func (d *Device) newFunction() error {
	i, sp := &d.interrupts, &slowpath{d: d}
	n, err := qede.New(l2.Config{Pool: d.pool, Engines: d.cfg.Engines, Superframes: d.cfg.Frames != Wire, Drop: d.dropFromFunction, Fire: i.fired, Assert: sp.asserted},
		sp.post, i.queueBlocks(), d.firstHalf(&d.cfg))
	if err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	d.function = &function{n}
	return nil
}

// checkFunction tells whether the host function can be as cfg says.
func (d *Device) checkFunction(cfg *Config) error {
	if d.coupled != nil {
		return d.checkCoupled(cfg)
	}
	if d.function == nil {
		return nil
	}
	if err := d.function.Check(cfg.netdev()); err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	return nil
}

// setFunction makes the host function as cfg says, which was checked.
func (d *Device) setFunction(cfg *Config) error {
	if d.coupled != nil {
		return d.setCoupled(cfg)
	}
	if d.function == nil {
		return nil
	}
	if err := d.function.Apply(cfg.netdev(), d.core.open); err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	return nil
}

// RSS is how the host function spreads what it receives; false without one.
func (d *Device) RSS() (r RSS, ok bool) {
	if d.function == nil {
		return RSS{}, false
	}
	s := d.function.Settings()
	r.Key, r.Hashes = s.Key, s.Hashes
	full := d.cfg.netdev()
	for i, q := range full.FullTable() {
		r.Table[i] = uint8(q)
	}
	return r, true
}

// SetRSS changes it. The error is that of a queue or hash that there is not.
func (d *Device) SetRSS(r RSS) error {
	if d.function == nil {
		return fmt.Errorf("NIC %s has no host TAP to spread frames over", d.cfg.Name)
	}
	cfg := d.cfg
	cfg.Ethernet.Key, cfg.Ethernet.Hashes = r.Key, r.Hashes
	cfg.Ethernet.Table = make([]int, len(r.Table))
	for i, q := range r.Table {
		if n := d.function.Settings().Queues; int(q) >= n {
			return fmt.Errorf("NIC %s: entry %d of the indirection table is queue %d: there are %d", d.cfg.Name, i, q, n)
		}
		cfg.Ethernet.Table[i] = int(q)
	}
	if err := d.setFunction(&cfg); err != nil {
		return fmt.Errorf("NIC %s: %w", d.cfg.Name, err)
	}
	d.cfg = cfg
	return nil
}

// toFunction takes a frame of the wire that is the operating system's.
func (d *Device) toFunction(f *frame.Frame) {
	if d.coupled != nil && d.steer(f) {
		return
	}
	if r := d.function.Receive(f); r != frame.DropNone {
		d.host.Drop(port.Out{Frame: f}, r, d.now)
	}
}

// fromHost takes a frame of the operating system: it waits in the transmit
// queue until Poll.
func (d *Device) fromHost(f *frame.Frame) {
	if d.failoverTx(f) {
		return
	}
	if d.coupled != nil {
		f.Queue = uint16(cmt.Local(int(f.Queue)))
	}
	if r := d.function.Queue(f); r != frame.DropNone {
		d.wire.Drop(port.Out{Frame: f}, r, d.now)
	}
}

// dropFromFunction hears of a frame that the vport has taken and does not pass on.
func (d *Device) dropFromFunction(side l2.Sides, f *frame.Frame, r frame.DropReason) {
	d.common.Drops.Count(r)
	if side == l2.Rx {
		d.host.Trace(frame.Outbound, f, nil, r, d.now)
		return
	}
	d.wire.Trace(frame.Outbound, f, nil, r, d.now)
}

// poll passes on what waits in the queues while the links have room: sent at
// once, received once its queue has interrupted.
func (f *function) poll(d *Device) {
	f.Flush()
	f.Function().Pace(d.now)
	if d.interrupts.report(d.now) {
		d.pollInterrupts()
	}
	f.Transmit(hostOutput{d})
	f.Deliver(hostInput{d})
}

// nextTx is when a frame may leave that a rate holds back.
func (f *function) nextTx() frame.Time {
	if f == nil {
		return frame.Never
	}
	return f.Function().NextTx()
}

// shape limits the function to the share of the port that the management
// firmware gives it.
func (f *function) shape(d *Device) {
	if f == nil || d.coupled != nil { // two engines cannot share a rate
		return
	}
	s, high := d.management.mcp.LinkState(), 0
	if s.Speed < s.LineSpeed {
		high = int(s.Speed)
	}
	f.Function().Pace(d.now)
	d.management.note(f.Function().SetPFRates(int(s.MinPFRate), high))
}

// due tells whether a queue that has interrupted can be served.
func (f *function) due(d *Device) bool {
	return f != nil && d.host.External().Room() > 0 && f.Due()
}

// waiting is the number of frames in the queues.
func (f *function) waiting(c *engines) int {
	if f == nil {
		return 0
	}
	return f.Waiting() + c.waiting()
}

// hostOutput is the way out for the frames of the host function, hostInput
// that for those that it has received.
type (
	hostOutput struct{ d *Device }
	hostInput  struct{ d *Device }
)

// Transmit implements frame.Link.
func (o hostOutput) Transmit(f *frame.Frame) {
	if o.d.coupled != nil {
		o.d.coupled.sent[0]++
	}
	o.d.wire.Send(port.Out{Frame: f}, o.d.now)
}

// Room implements frame.Link.
func (o hostOutput) Room() int { return o.d.wire.Room() }

// Transmit implements frame.Link.
func (i hostInput) Transmit(f *frame.Frame) {
	f.Queue = i.d.tapQueue(f.Queue)
	i.d.host.Transmit(port.Out{Frame: f}, i.d.now)
}

// Room implements frame.Link.
func (i hostInput) Room() int { return i.d.host.External().Room() }

// QueueInfo describes a queue pair of the host function for display.
type QueueInfo struct {
	Hwfn       string `json:"hwfn,omitempty"` // of two
	Queue      int    `json:"queue"`
	RxPackets  uint64 `json:"rx_packets"` // handed to the host TAP
	RxDiscards uint64 `json:"rx_discards"`
	RxWaiting  int    `json:"rx_waiting"`
	TxPackets  uint64 `json:"tx_packets"`
	TxStopped  uint64 `json:"tx_stopped"` // frames that found the queue full
	TxWaiting  int    `json:"tx_waiting"`
	RSSEntries int    `json:"rss_entries"` // of the indirection table
}

// ShowQueues describes the queues of the host function, none without one.
func (d *Device) ShowQueues() (list []QueueInfo) {
	if d.function == nil {
		return nil
	}
	list = queueInfo(d.function.Netdev)
	if d.coupled == nil {
		return list
	}
	var second []QueueInfo
	d.coupled.look(func(e *Engine) { second = queueInfo(e.netdev) })
	return d.coupledQueues(list, second)
}

// queueInfo describes the queues of one engine.
func queueInfo(n *qede.Netdev) (list []QueueInfo) {
	table := n.Table()
	for i, q := range n.Queues() {
		entries := len(slices.DeleteFunc(slices.Clone(table[:]), func(of int) bool { return of != i }))
		list = append(list, QueueInfo{Queue: i, RxPackets: q.Rx.Received, RxDiscards: q.Rx.Discarded, RxWaiting: q.RxWaiting,
			TxPackets: q.Tx.Sent, TxStopped: q.Tx.Stopped, TxWaiting: q.TxWaiting, RSSEntries: entries})
	}
	return list
}

// VportInfo describes the vport of the host function for display.
type VportInfo struct {
	Hwfn      string `json:"hwfn,omitempty"` // of two
	Vport     int    `json:"vport"`
	MTU       int    `json:"mtu"`
	RxMode    string `json:"rx_mode"`
	AnyVLAN   bool   `json:"accept_any_vlan"`
	MACs      int    `json:"mac_filters"`
	Groups    int    `json:"mcast_filters"`
	VLANs     int    `json:"vlan_filters"`
	Rules     int    `json:"ntuple_rules"`
	Queues    int    `json:"queues"`
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	Filtered  uint64 `json:"mac_filter_discards"`
	TxErrors  uint64 `json:"tx_err_drop_pkts"`
	TxMinRate int    `json:"tx_minrate"` // Mb/s, of the port's function
	TxMaxRate int    `json:"tx_maxrate"` // 0: no limit
}

// ShowVport describes the vport of the host function, none without one.
func (d *Device) ShowVport() []VportInfo {
	if d.function == nil {
		return nil
	}
	list := []VportInfo{vportInfo(d.function.Netdev)}
	d.coupled.look(func(e *Engine) { list = append(list, vportInfo(e.netdev)) })
	if len(list) > 1 {
		for e := range list {
			list[e].Hwfn = hwfnName(&d.cfg, e)
		}
	}
	return list
}

func vportInfo(n *qede.Netdev) VportInfo {
	s, fn := n.Settings(), n.Function()
	promisc, allMulti, anyVLAN := n.Mode()
	v := VportInfo{MTU: s.MTU, RxMode: rxModeName(promisc, allMulti), AnyVLAN: anyVLAN, Groups: len(s.Mcast), Rules: len(s.Rules), Queues: s.Queues}
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
