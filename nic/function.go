package nic

import (
	"fmt"
	"hash/fnv"
	"slices"

	"tapir/nic/l2"
	"tapir/wire/frame"
)

// function is the PF that the operating system sees: a vport of the Ethernet
// side with its queues, and that part of a driver which serves them. What comes
// from the wire and is not the engines' goes through the vport into a receive
// queue, and from there to the same queue of the host TAP; what the operating
// system sends by a queue of the host TAP goes into the transmit queue of that
// number, and through the vport to the wire. nil without a host TAP.
type function struct {
	ethernet *l2.Function
	rx       []*l2.RxQueue
	tx       []*l2.TxQueue
	rss      RSS
	turn     int // the receive queue that is served first
}

// MaxHostMTU is the longest IP packet of a host function, in octets.
const MaxHostMTU = l2.MaxMTU

const (
	hostVport = 0
	// rxBuffer is the size of a buffer in octets: a super-frame of full length
	// fills two.
	rxBuffer = 64 << 10
	// queueSize is how many frames a queue of the host function holds.
	queueSize = 256
)

// RSS spreads what the host function receives over its queues.
type RSS struct {
	Table  [l2.TableLen]uint8 // indirection table: queues by the last bits of the hash
	Key    [l2.KeyLen]byte    // of the Toeplitz hash, first octet first
	Hashes l2.HashTypes       // kinds of packets that have a hash; others take entry 0
}

// newFunction starts the host function, in the order of the driver core: vport,
// queues, activation, receive mode.
func (d *Device) newFunction(seed uint64) error {
	f := &function{}
	f.ethernet = l2.New(l2.Config{Pool: d.pool, Superframes: d.cfg.Frames != Wire, Drop: d.dropFromHost})
	if err := f.ethernet.VportStart(l2.StartParams{Vport: hostVport, MTU: d.cfg.MTU}); err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	for i := range d.cfg.Queues {
		if err := f.startQueues(i); err != nil {
			return fmt.Errorf("host function: %w", err)
		}
	}
	d.function = f
	on := true
	// The operating system judges for itself what comes: it tells a TAP of some
	// addresses only that it wants to receive, and of those late.
	if err := f.ethernet.VportUpdate(l2.UpdateParams{Vport: hostVport, RxActive: &on, TxActive: &on,
		Accept: &l2.AcceptParams{UpdateRx: true, UpdateTx: true, Rx: l2.Promisc, Tx: l2.Promisc}}); err != nil {
		return fmt.Errorf("host function: %w", err)
	}
	return d.SetRSS(defaultRSS(seed, d.cfg.Queues))
}

func (f *function) startQueues(i int) error {
	p := l2.QueueParams{Vport: hostVport, Queue: i, Stats: hostVport, SB: uint16(i), Size: queueSize}
	rx, err := f.ethernet.RxQueueStart(p, rxBuffer)
	if err != nil {
		return err
	}
	p.PI = 1
	tx, err := f.ethernet.TxQueueStart(p, 0)
	if err != nil {
		return err
	}
	f.rx, f.tx = append(f.rx, rx), append(f.tx, tx)
	return rx.Post(queueSize)
}

// defaultRSS is what a driver begins with: a key by chance, all queues in turn.
func defaultRSS(seed uint64, queues int) (r RSS) {
	for i := 0; i < len(r.Key); i += 8 {
		h := fnv.New64a()
		fmt.Fprintf(h, "RSS %d %d", seed, i)
		h.Sum(r.Key[i:i])
	}
	r.Table = spread(queues)
	r.Hashes = l2.DefaultHash
	return r
}

// spread is a table with so many queues in turn.
func spread(queues int) (table [l2.TableLen]uint8) {
	for i := range table {
		table[i] = uint8(i % queues)
	}
	return table
}

// RSS is how the host function spreads what it receives; false without one.
func (d *Device) RSS() (RSS, bool) {
	if d.function == nil {
		return RSS{}, false
	}
	return d.function.rss, true
}

// SetRSS changes it. The error is that of a queue or hash that there is not.
func (d *Device) SetRSS(r RSS) error {
	f := d.function
	if f == nil {
		return fmt.Errorf("NIC %s has no host TAP to spread frames over", d.cfg.Name)
	}
	p := l2.RSSParams{UpdateConfig: true, UpdateCaps: true, UpdateTable: true, UpdateKey: true,
		Enable: len(f.rx) > 1, Hashes: r.Hashes, TableLog: 7, Key: r.Key}
	for i, q := range r.Table {
		if int(q) >= len(f.rx) {
			return fmt.Errorf("NIC %s: entry %d of the indirection table is queue %d: there are %d", d.cfg.Name, i, q, len(f.rx))
		}
		p.Table[i] = f.rx[q]
	}
	if err := f.ethernet.VportUpdate(l2.UpdateParams{Vport: hostVport, RSS: &p}); err != nil {
		return fmt.Errorf("NIC %s: %w", d.cfg.Name, err)
	}
	f.rss = r
	return nil
}

// setMTU changes the vport's, which rests meanwhile.
func (f *function) setMTU(octets int) error {
	on, off := true, false
	if err := f.ethernet.VportUpdate(l2.UpdateParams{Vport: hostVport, RxActive: &off, TxActive: &off}); err != nil {
		return err
	}
	err := f.ethernet.VportUpdate(l2.UpdateParams{Vport: hostVport, MTU: &octets})
	if uerr := f.ethernet.VportUpdate(l2.UpdateParams{Vport: hostVport, RxActive: &on, TxActive: &on}); err == nil {
		err = uerr
	}
	return err
}

// toFunction takes a frame of the wire that is the operating system's.
func (d *Device) toFunction(f *frame.Frame) {
	switch r := d.function.ethernet.Receive(f); r {
	case frame.DropNone:
	case frame.DropNoBuffer:
		d.dropOut(&d.host, outgoing{f: f}, frame.DropHostQueue)
	default:
		d.dropOut(&d.host, outgoing{f: f}, r)
	}
}

// fromHost takes a frame of the operating system: it waits in the transmit
// queue until Poll.
func (d *Device) fromHost(f *frame.Frame) {
	q := d.function.tx[int(f.Queue)%len(d.function.tx)]
	if !q.Post(f, l2.TxBD{}) {
		d.dropOut(&d.wire, outgoing{f: f}, frame.DropTxQueue)
		return
	}
	q.Doorbell()
}

// dropFromHost hears of a frame of the operating system that the vport does not
// send.
func (d *Device) dropFromHost(f *frame.Frame, r frame.DropReason) {
	d.drops.Count(r)
	d.trace(&d.wire, frame.Outbound, f, nil, r)
}

// poll passes on what waits in the queues while the links have room.
func (f *function) poll(d *Device) {
	f.ethernet.Transmit(hostOutput{d})
	for i := range f.rx {
		f.serve(d, (f.turn+i)%len(f.rx))
	}
	f.turn++
}

// serve passes what receive queue i holds to the host TAP.
func (f *function) serve(d *Device, i int) {
	q := f.rx[i]
	for q.Len() > 0 && d.host.link.Room() > 0 {
		g, _ := q.Next()
		_ = q.Post(1 + (g.Len()-1)/rxBuffer) // as many as it has filled
		g.Queue = uint16(i)
		d.transmit(&d.host, outgoing{f: g})
	}
}

// waiting is the number of frames in the queues.
func (f *function) waiting() (n int) {
	if f == nil {
		return 0
	}
	for i, q := range f.rx {
		n += q.Len() + f.tx[i].Len()
	}
	return n
}

// hostOutput is the way out for the frames of the host function.
type hostOutput struct{ d *Device }

// Transmit implements frame.Link.
func (o hostOutput) Transmit(f *frame.Frame) { o.d.send(&o.d.wire, outgoing{f: f}) }

// Room implements frame.Link.
func (o hostOutput) Room() int { return toeOutput(o).Room() }

// QueueInfo describes a queue pair of the host function for display.
type QueueInfo struct {
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
func (d *Device) ShowQueues() []QueueInfo {
	f := d.function
	if f == nil {
		return nil
	}
	var list []QueueInfo
	for i, rx := range f.rx {
		tx := f.tx[i]
		entries := len(slices.DeleteFunc(slices.Clone(f.rss.Table[:]), func(q uint8) bool { return int(q) != i }))
		list = append(list, QueueInfo{Queue: i, RxPackets: rx.Stats.Received, RxDiscards: rx.Stats.Discarded, RxWaiting: rx.Len(),
			TxPackets: tx.Stats.Sent, TxStopped: tx.Stats.Stopped, TxWaiting: tx.Len(), RSSEntries: entries})
	}
	return list
}
