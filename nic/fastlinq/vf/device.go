package vf

import (
	"slices"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Config is what the VFs of a PF are to be.
type Config struct {
	// L2 is the Ethernet side of all VFs. Of its share vport 0 is the PF's.
	L2     l2.Config
	Info   iov.Info
	Device iov.Device
	Queues int // pairs of each VF
	MTU    int // octets of IP
	VEPA   bool
	// Storm limits the frames to groups and to all that a VF sends, and those of the PF and
	// of the port that VFs get copies of, of each by itself.
	Storm frame.Rate
	// Trigger rings the hardware's channel for a VF, and after it Bridge.Message tells that the
	// PF has heard; nil: the PF answers messages at once. Work lets the device work until then.
	Trigger func(vf int) error
	Work    func()
	// Least is the rate in Mb/s that minimal rates of VFs are parts of; 0: none can be.
	Least func() int
	// MAC is the address that the driver of a VF has unless the PF sets one.
	MAC func(vf int) ether.Addr
	// Tunnels are those that the device knows; SetTunnels lets VFs change them, nil: none may.
	Tunnels    func() l2.TunnelParams
	SetTunnels func(l2.TunnelParams) error
	// Taken tells whether another function of the device has an address, which a VF then may
	// not use; nil: VFs may use any.
	Taken func(ether.Addr) bool
	// Log is told what the administrator is to know.
	Log func(format string, args ...any)
	// Changed is told that a policy or a VF has changed; nil: nobody asks.
	Changed func(vf int)
}

// device is the hardware of the VFs, as the PF's side of the channel uses it.
type device struct {
	b      *Bridge
	rx     []*l2.RxQueue // by id
	tx     []txQueue
	blocks []blockOf // by id of a status block
	least  []int     // minimal rates in Mb/s, by VF
}

// txQueue is a transmit queue, with its place among those that share an id.
type txQueue struct {
	*l2.TxQueue
	usage uint8
}

// blockOf is whose a status block is, and its number there.
type blockOf struct {
	vf *VF
	n  int
}

var _ iov.Function = (*device)(nil)

// Open gives the PF the capability to have VFs. INVAL: one that cannot be.
func (b *Bridge) Open(c Config) (err error) {
	c.L2.Fire, c.L2.Coalesce, c.L2.Drop, c.L2.Switched = b.fired, b.coalesce, b.dropped, b.switched
	b.cfg, b.fn = c, l2.New(c.L2)
	b.storms[fromPF].Set(c.Storm)
	b.storms[fromWire].Set(c.Storm)
	total := c.Info.Total
	b.device = device{b: b, rx: make([]*l2.RxQueue, c.L2.Share.Queues),
		blocks: make([]blockOf, total*c.Queues)}
	ids := make([]uint16, total*c.Queues)
	for i := range ids {
		ids[i] = uint16(i)
	}
	b.iov, err = iov.New(iov.Config{Info: c.Info, HWChannel: c.Trigger != nil, Share: c.L2.Share, Queues: 1,
		Blocks: ids, Device: c.Device, Function: &b.device, Hooks: b.hooks()})
	if err != nil {
		return err
	}
	return b.TunnelsChanged()
}

// hooks are what the administrator decides on VFs, and learns of them.
func (b *Bridge) hooks() iov.Hooks {
	h := iov.Hooks{Message: b.cfg.Trigger, Changed: b.cfg.Changed, Malicious: func(vf int, why string) {
		b.cfg.Log("VF %d (absolute %d) is malicious: %s: it is shut out until it is reset", vf, b.iov.AbsoluteID(vf),
			why)
	}, RDMA: func(vf int, t tlv.Type) {
		b.cfg.Log("VF %d asks for RDMA (%v): only the PF has it", vf, t)
	}}
	if b.cfg.Taken != nil {
		h.CheckUcast = b.checkUcast
	}
	if b.cfg.SetTunnels != nil {
		h.Tunnels = func(_ int, want l2.TunnelParams) (l2.TunnelParams, error) { return want, nil }
	}
	return h
}

// checkUcast refuses a VF the address of another function. INVAL: one has it.
func (b *Bridge) checkUcast(vf int, p l2.UcastParams) error {
	if p.Op != l2.FilterAdd && p.Op != l2.FilterReplace || p.Type == l2.FilterVLAN {
		return nil
	}
	taken := b.cfg.Taken(p.MAC)
	for _, o := range b.all() {
		if i, err := b.iov.VFInfo(o.id); err == nil && o.id != vf && slices.Contains(i.MACs, p.MAC) {
			taken = true
		}
	}
	if !taken {
		return nil
	}
	b.cfg.Log("VF %d may not use the address %v: another function has it", vf, p.MAC)
	return status.Inval.Errorf("address %v of another function", p.MAC)
}

// IOV is the PF's side of SR-IOV, nil without it.
func (b *Bridge) IOV() *iov.PF { return b.iov }

// VFs are the virtual functions.
func (b *Bridge) VFs() []*VF { return b.vfs }

// dropped hears of a frame that a vport has taken and does not pass on.
func (b *Bridge) dropped(side l2.Sides, f *frame.Frame, r frame.DropReason) {
	b.pf.Wire.Drops.Count(r)
	dir := frame.Outbound
	if side == l2.Rx {
		dir = frame.Inbound
	}
	b.pf.Wire.Trace(dir, f, b.sayVF(int(f.Queue), ""), r, b.called)
}

// switched hears of a frame that stays inside.
func (b *Bridge) switched(vport int, f *frame.Frame) {
	b.pf.Wire.Trace(frame.Outbound, f, b.sayTo(b.sayVF(vport, " ")), frame.DropNone, b.called)
}

// fired notes a completion of a queue.
func (b *Bridge) fired(sb uint16, pi uint8) {
	if of := b.blocks[sb]; of.vf != nil {
		of.vf.fired(of.n, pi)
	}
}

// coalesce has a status block interrupt later.
func (b *Bridge) coalesce(sb uint16, pi uint8, us int) {
	if of := b.blocks[sb]; of.vf != nil {
		machine := irq.Rx
		if pi != irq.RxPI {
			machine = irq.Tx
		}
		_ = of.vf.blocks[of.n].SetTimer(machine, us, b.called) // the time was checked
	}
}

// Enable implements iov.Function: the VF comes to be, with its interrupts.
func (d *device) Enable(id int, blocks []uint16) error {
	b := d.b
	for len(b.vfs) <= id {
		b.vfs = append(b.vfs, nil)
	}
	v := &VF{b: b, id: id}
	v.storm.Set(b.cfg.Storm)
	dev, err := irq.New(irq.Config{SBs: len(blocks), Mode: irq.MSIX,
		Platform: irq.Platform{Vectors: len(blocks) + 1, VF: true}})
	if err != nil {
		return err
	}
	v.irq = dev
	for n, sb := range blocks {
		block, err := dev.Hwfns[0].SBInit(n)
		if err != nil {
			return err
		}
		dev.Hwfns[0].Setup(block)
		block.Handle(func(*irq.SB, frame.Time) { v.schedule(n) })
		v.blocks, d.blocks[sb] = append(v.blocks, block), blockOf{v, n}
	}
	v.events = make([][2]int, len(blocks))
	b.vfs[id] = v
	return nil
}

// Disable implements iov.Function.
func (d *device) Disable(id int) {
	d.FinalCleanup(id)
	v := d.b.vfs[id]
	for sb := range d.blocks {
		if d.blocks[sb].vf == v {
			d.blocks[sb] = blockOf{}
		}
	}
	v.close()
	d.b.vfs[id] = nil
	for n := len(d.b.vfs); n > 0 && d.b.vfs[n-1] == nil; n-- {
		d.b.vfs = d.b.vfs[:n-1]
	}
}

// Start implements iov.Function.
func (d *device) Start(int) error { return nil }

// Stop implements iov.Function.
func (d *device) Stop(int) error { return nil }

// FinalCleanup implements iov.Function.
func (d *device) FinalCleanup(id int) {
	vport := id + 1
	d.tx = slices.DeleteFunc(d.tx, func(t txQueue) bool {
		return t.Vport() == vport && d.b.fn.TxQueueStop(t.TxQueue) == nil
	})
	for at, q := range d.rx {
		if q != nil && q.Vport() == vport {
			_ = d.b.fn.RxQueueStop(q) // is started
			d.rx[at] = nil
		}
	}
	if _, err := d.b.fn.Stats(vport); err == nil {
		_ = d.VportStop(id, vport)
	}
	d.b.vfs[id].reset()
}

// Interrupts implements iov.Function.
func (d *device) Interrupts(id int, on bool) {
	h := d.b.vfs[id].irq.Hwfns[0]
	if h.IntDisable(); on {
		h.IntEnable(d.b.called)
	}
}

// VportStart implements iov.Function.
func (d *device) VportStart(_ int, p l2.StartParams) error {
	p.TxSwitching = p.TxSwitching && !d.b.cfg.VEPA
	return d.b.fn.VportStart(p)
}

// VportUpdate implements iov.Function.
func (d *device) VportUpdate(_ int, p l2.UpdateParams, rss *iov.RSS) error {
	if rss != nil {
		r := rss.RSSParams
		for i, id := range rss.Queues {
			r.Table[i] = d.rx[id]
		}
		p.RSS = &r
	}
	if p.TxSwitching != nil && d.b.cfg.VEPA {
		p.TxSwitching = new(false)
	}
	return d.b.fn.VportUpdate(p)
}

// VportStop implements iov.Function.
func (d *device) VportStop(id, vport int) error {
	if id < len(d.least) && d.least[id] > 0 {
		_ = d.SetMinRate(id, vport, 0)
	}
	return d.b.fn.VportStop(vport)
}

// FilterUcast implements iov.Function.
func (d *device) FilterUcast(_ int, p l2.UcastParams) error { return d.b.fn.FilterUcast(p) }

// RxQueueStart implements iov.Function.
func (d *device) RxQueueStart(_ int, p l2.QueueParams, r iov.RxRing) (uint32, error) {
	q, err := d.b.fn.RxQueueStart(p, r.BufSize)
	if err != nil {
		return 0, err
	}
	d.rx[p.Queue] = q
	return uint32(p.Queue) * producerLen, nil
}

// producerLen is the distance of two producers, or doorbells, in the VF's part of the device.
const producerLen = 8

// TxQueueStart implements iov.Function.
func (d *device) TxQueueStart(_ int, p l2.QueueParams, usage uint8) (uint32, error) {
	q, err := d.b.fn.TxQueueStart(p, 0)
	if err != nil {
		return 0, err
	}
	d.tx = append(d.tx, txQueue{q, usage})
	return uint32(p.Queue) * producerLen, nil
}

// RxQueueStop implements iov.Function.
func (d *device) RxQueueStop(_, queue int) error {
	q := d.rx[queue]
	d.rx[queue] = nil
	return d.b.fn.RxQueueStop(q)
}

// TxQueueStop implements iov.Function.
func (d *device) TxQueueStop(_, queue int, usage uint8) error {
	q := d.txOf(queue, usage)
	d.tx = slices.DeleteFunc(d.tx, func(t txQueue) bool { return t.TxQueue == q })
	return d.b.fn.TxQueueStop(q)
}

// txOf is a transmit queue, nil: there is none.
func (d *device) txOf(queue int, usage uint8) *l2.TxQueue {
	for _, t := range d.tx {
		if t.ID == queue && t.usage == usage {
			return t.TxQueue
		}
	}
	return nil
}

// firstTx is the first transmit queue with an id: all of them have its coalescing time.
func (d *device) firstTx(queue int) *l2.TxQueue {
	for _, t := range d.tx {
		if t.ID == queue {
			return t.TxQueue
		}
	}
	return nil
}

// SetCoalesce implements iov.Function.
func (d *device) SetCoalesce(_, queue, rx, tx int) error {
	r, t := d.rx[queue], d.firstTx(queue)
	if rx > 0 && r == nil || tx > 0 && t == nil {
		return status.Inval.Errorf("queue %d is not started", queue)
	}
	if rx > 0 {
		if err := r.SetCoalesce(rx); err != nil {
			return err
		}
	}
	if tx > 0 {
		return t.SetCoalesce(tx)
	}
	return nil
}

// Coalesce implements iov.Function.
func (d *device) Coalesce(_, queue int, tx bool) int {
	if q := d.rx[queue]; q != nil && !tx {
		return q.Coalesce()
	}
	if q := d.firstTx(queue); q != nil && tx {
		return q.Coalesce()
	}
	return 0
}

// SetRate implements iov.Function.
func (d *device) SetRate(_, vport, rate int) error { return d.b.fn.SetVportRate(vport, rate) }

// SetMinRate implements iov.Function. What VFs have not for certain they share with the
// PF, which counts as one of them.
func (d *device) SetMinRate(id, vport, rate int) error {
	fn, least := d.b.fn, d.b.cfg.Least()
	for len(d.least) <= id {
		d.least = append(d.least, 0)
	}
	was := d.least[id]
	d.least[id] = rate
	sum, with := 0, 0
	for _, r := range d.least {
		if sum += r; r > 0 {
			with++
		}
	}
	others := fn.Used().Vports - with
	switch {
	case sum == 0: // nobody is promised anything
		_ = fn.SetVportWFQ(vport, 0)
		d.weigh(max(1, fn.Used().Vports), 0)
		return fn.SetPFRates(0, 0)
	case rate*100 < least && rate > 0:
		d.least[id] = was
		return status.Inval.Errorf("minimal rate %d Mb/s: want a hundredth of the port's %d at least", rate, least)
	case sum > least-(others+1)*least/100:
		d.least[id] = was
		return status.Inval.Errorf("minimal rates of %d Mb/s in all: the port has %d, and others keep a hundredth each",
			sum, least)
	}
	part := (least - sum) / (others + 1)
	for i := range d.least {
		_ = fn.SetVportWFQ(i+1, 0) // not started: it has none
	}
	err := fn.SetPFRates(sum+others*part, 0)
	for i, r := range d.least {
		if r > 0 && err == nil {
			err = fn.SetVportWFQ(i+1, r)
		}
	}
	d.weigh(others, (sum+part/2)/part)
	return err
}

// weigh gives all VFs together their parts of the PF: one for each that is promised
// nothing, and more.
func (d *device) weigh(others, more int) { d.b.cfg.L2.PF.SetWeight(int64(others + more)) }

// Tunnels implements iov.Function.
func (d *device) Tunnels() l2.TunnelParams { return d.b.cfg.Tunnels() }

// SetTunnels implements iov.Function.
func (d *device) SetTunnels(p l2.TunnelParams) error { return d.b.cfg.SetTunnels(p) }

// Link implements iov.Function.
func (d *device) Link() iov.Link { return d.b.pf.Link() }
