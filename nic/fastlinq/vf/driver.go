package vf

import (
	"errors"
	"slices"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
)

// driver is the driver of a VF's netdev. All that it asks of the device it asks for by the
// channel; queues that have been started it then posts to and takes from by itself.
type driver struct {
	v      *VF
	ch     *vfdrv.Driver
	rx     []*l2.RxQueue // by number in the VF
	tx     []*l2.TxQueue
	mac    ether.Addr
	accept l2.Accept // what the netdev asks for
	posted bool      // there is a new bulletin
	gone   bool      // the VF was reset: it has to be acquired again
	up     bool      // the link
	remote bool      // it is in another process: ch is nil
}

// Sizes of a VF's queues: pages of its rings, and octets of a buffer.
const (
	rxPages = 8
	txPages = 4
	bufSize = 32 << 10
)

// Open gives the VF a netdev. The VF is acquired, and its vport started, by the channel.
func (v *VF) Open(n Netdev) error {
	if v.driver != nil {
		return errors.New("the VF has a netdev already")
	}
	v.netdev = n
	d := &driver{v: v, accept: l2.Regular}
	v.driver = d
	if err := d.start(); err != nil {
		v.driver = nil
		return err
	}
	return nil
}

// close ends the netdev, with no word to the PF.
func (v *VF) close() {
	if d := v.driver; d != nil {
		d.setLink(false)
		v.driver = nil
		v.cutter.Segments.Discard()
	}
}

// Close ends the netdev: its driver stops what it has started and gives the VF back.
func (v *VF) Close() {
	if v.driver != nil {
		v.driver.stop()
		v.close()
	}
}

// stop takes down what start has brought up. A device that has nothing of the VF any more
// refuses it.
func (d *driver) stop() {
	if d.gone || d.ch == nil {
		return
	}
	off := false
	_ = d.ch.VportUpdate(l2.UpdateParams{RxActive: &off, TxActive: &off}, nil)
	for id := range d.rx {
		_ = d.ch.TxQueueStop(vfdrv.Queue{ID: id, Usage: 1})
		_ = d.ch.RxQueueStop(vfdrv.Queue{ID: id})
	}
	_ = d.ch.VportStop()
	_ = d.ch.Close()
	_ = d.v.b.iov.Connect(d.v.id, nil)
}

// Send implements vfdrv.Channel.
func (d *driver) Send(msg []byte) error { return d.v.b.iov.Deliver(d.v.id, msg) }

// Wait implements vfdrv.Channel.
func (d *driver) Wait(done func() bool) error {
	if b := d.v.b; b.cfg.Work != nil {
		b.cfg.Work()
		b.channel()
	}
	if !done() {
		return status.Timeout.Errorf("VF %d: the PF does not answer", d.v.id)
	}
	return nil
}

// Write implements iov.Memory.
func (d *driver) Write(addr uint64, b []byte) error {
	d.posted = true
	d.v.touch()
	return d.ch.Write(addr, b)
}

// start acquires the VF and brings its vport up.
func (d *driver) start() error {
	v, n := d.v, &d.v.netdev
	q := uint8(max(1, n.Queues))
	d.ch = vfdrv.New(d, vfdrv.Config{Want: tlv.Resources{RxQueues: q, TxQueues: q, Blocks: q, MACs: iov.MaxMACs,
		VLANs: iov.MaxVLANs, CIDs: iov.MaxCIDs}})
	if err := v.b.iov.Connect(v.id, d); err != nil {
		return err
	}
	if err := d.ch.Acquire(); err != nil {
		return err
	}
	if _, err := d.ch.ReadBulletin(); err != nil {
		return err
	}
	if err := d.ch.VportStart(l2.StartParams{MTU: n.MTU}); err != nil {
		return err
	}
	for id := range int(min(q, d.ch.Resources().RxQueues)) {
		if err := d.startPair(id); err != nil {
			return err
		}
	}
	v.napi = make([]bool, len(d.rx))
	if err := errors.Join(d.useMAC(), d.ch.VportUpdate(d.update(), d.rss())); err != nil {
		return err
	}
	d.gone, d.posted = false, true
	v.touch()
	return nil
}

func (d *driver) startPair(id int) error {
	q := vfdrv.Queue{ID: id, Block: id, PI: irq.RxPI, Pages: rxPages, BufSize: bufSize}
	if _, err := d.ch.RxQueueStart(q); err != nil {
		return err
	}
	q.PI, q.Pages, q.Usage = irq.TxPI0, txPages, 1
	if _, err := d.ch.TxQueueStart(q); err != nil {
		return err
	}
	rx, tx := d.v.b.device.queues(d.v.vport())
	d.rx, d.tx = append(d.rx, rx), append(d.tx, tx)
	return rx.Post(rx.Free())
}

// queues are the last queues that a vport has got.
func (d *device) queues(vport int) (rx *l2.RxQueue, tx *l2.TxQueue) {
	for _, q := range d.rx {
		if q != nil && q.Vport() == vport {
			rx = q
		}
	}
	for _, q := range d.tx {
		if q.Vport() == vport {
			tx = q.TxQueue
		}
	}
	return rx, tx
}

// update is how the vport is to be: it passes frames, of all VLANs that the PF lets it
// have and of all groups, as the host TAP chooses among them itself.
func (d *driver) update() l2.UpdateParams {
	on := true
	bins := l2.Bins{}
	for i := range bins {
		bins[i] = ^uint32(0)
	}
	return l2.UpdateParams{RxActive: &on, TxActive: &on, AcceptAnyVLAN: &on, Bins: &bins,
		Accept: &l2.AcceptParams{UpdateRx: true, UpdateTx: true, Rx: d.accept, Tx: d.accept}}
}

// rss spreads flows over the receive queues; nil: there is one.
func (d *driver) rss() *iov.RSS {
	if len(d.rx) < 2 {
		return nil
	}
	r := &iov.RSS{RSSParams: l2.RSSParams{UpdateConfig: true, UpdateCaps: true, UpdateTable: true, UpdateKey: true,
		Enable: true, Hashes: l2.DefaultHash, TableLog: 7}}
	for i := range r.Queues {
		r.Queues[i] = i % len(d.rx)
	}
	for i := range r.Key {
		r.Key[i] = byte(0x9e * (i + 1))
	}
	return r
}

// useMAC takes the address that the PF sets, else the netdev's.
func (d *driver) useMAC() error {
	mac, set := d.ch.ForcedMAC()
	if mac.IsZero() {
		if mac = d.mac; mac.IsZero() {
			mac = d.v.netdev.MAC
		}
		if mac.IsZero() {
			mac = d.v.b.cfg.MAC(d.v.id)
		}
	}
	if mac == d.mac && !d.gone && set {
		return nil
	}
	if err := d.ch.FilterUcast(l2.UcastParams{Op: l2.FilterReplace, Type: l2.FilterMAC, MAC: mac}); err != nil {
		return err
	}
	d.tell(mac)
	return nil
}

// tell tells the netdev of its address.
func (d *driver) tell(mac ether.Addr) {
	if d.mac != mac {
		d.mac = mac
		if d.v.netdev.Address != nil {
			d.v.netdev.Address(mac)
		}
	}
}

// poll reads the bulletin, and has the VF come back after a reset.
func (d *driver) poll() {
	if d.remote {
		d.follow()
		return
	}
	if d.gone {
		if d.v.b.iov.WaitsForAcquire(d.v.id) {
			d.rx, d.tx = nil, nil
			_ = d.start() // fails while the PF does not let it
		}
		return
	}
	if !d.posted {
		return
	}
	d.posted = false
	if changed, err := d.ch.ReadBulletin(); err != nil || !changed && d.up {
		return
	}
	if mac, _ := d.ch.ForcedMAC(); !mac.IsZero() && mac != d.mac {
		_ = d.useMAC() // the PF has set the filter already
	}
	l, _ := d.ch.LinkState()
	d.setLink(l.Up != 0)
}

// setLink shows the netdev its link.
func (d *driver) setLink(up bool) {
	if up != d.up {
		d.up = up
		if d.v.netdev.Carrier != nil {
			d.v.netdev.Carrier(up)
		}
	}
}

// lost hears that the device has nothing of the VF any more.
func (d *driver) lost() {
	d.rx, d.tx, d.gone = slices.Delete(d.rx, 0, len(d.rx)), slices.Delete(d.tx, 0, len(d.tx)), true
	d.setLink(false)
	d.v.touch()
}

// MAC is the address of the netdev, zero without one.
func (v *VF) MAC() ether.Addr {
	if v.driver == nil {
		return ether.Addr{}
	}
	return v.driver.mac
}

// SetMAC has the netdev use another address. INVAL: the PF has set one. The driver of a
// trusted VF tells the PF (BULLETIN_UPDATE_MAC), which shows the address then.
func (v *VF) SetMAC(mac ether.Addr) error {
	d := v.driver
	if d == nil || d.ch == nil || !d.ch.CheckMAC(mac) {
		return status.Inval.Errorf("VF %d: the PF has set the address %v", v.id, v.MAC())
	}
	if err := d.ch.FilterUcast(l2.UcastParams{Op: l2.FilterReplace, Type: l2.FilterMAC, MAC: mac}); err != nil {
		return err
	}
	d.mac = mac
	_ = d.ch.TellMAC(mac) // the PF does not hear those that it does not trust
	return nil
}

// SetMTU changes the longest packet of the netdev, in octets of IP.
func (v *VF) SetMTU(mtu int) error {
	if v.driver == nil || v.driver.ch == nil {
		return status.Inval.Errorf("VF %d: its MTU is its driver's in another process", v.id)
	}
	err := v.driver.ch.SetMTU(mtu)
	if err == nil {
		v.netdev.MTU = mtu
	}
	return err
}

// SetMode has the netdev ask for frames of all stations, or of all groups. Without trust
// it does not get them.
func (v *VF) SetMode(promisc, allMulti bool) error {
	d := v.driver
	if d == nil || d.ch == nil {
		return status.Inval.Errorf("VF %d has no driver here", v.id)
	}
	d.accept = l2.Regular
	if allMulti {
		d.accept = l2.AllMulti
	}
	if promisc {
		d.accept = l2.Promisc
	}
	return d.ch.VportUpdate(l2.UpdateParams{Accept: &l2.AcceptParams{UpdateRx: true, UpdateTx: true, Rx: d.accept,
		Tx: d.accept}}, nil)
}

// Driver is the VF's end of the channel, nil without a netdev.
func (v *VF) Driver() *vfdrv.Driver {
	if v.driver == nil {
		return nil
	}
	return v.driver.ch
}
