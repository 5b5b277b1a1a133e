package iov_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"tapir/nic/buf"
	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/nic/pacing"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// world is a PF whose hardware is an Ethernet function, and the drivers of its VFs. It
// is the hardware itself, and judges what it is asked for.
type world struct {
	t       testing.TB
	pf      *iov.PF
	fn      *l2.Function
	tree    pacing.Tree
	pool    *buf.Pool
	drivers []*vfdrv.Driver
	asserts []string
	log     []string
	rx      map[int]*l2.RxQueue
	tx      map[[2]int]*l2.TxQueue
	usage   map[int][]uint8
	enabled map[int][]uint16
	live    map[int]bool // VF_START
	phys    iov.Link
	wire    []*frame.Frame
	evil    []string
	perVF   int
}

func newWorld(t testing.TB, vfs int, hooks iov.Hooks) *world {
	return newWorldOf(t, vfs, iov.Config{Hooks: hooks, Info: iov.Info{Total: 120, First: 16}})
}

func newWorldOf(t testing.TB, vfs int, cfg iov.Config) *world {
	w := &world{t: t, pool: buf.NewPool(1<<12, 16000), rx: map[int]*l2.RxQueue{}, tx: map[[2]int]*l2.TxQueue{},
		usage: map[int][]uint8{}, enabled: map[int][]uint16{}, live: map[int]bool{},
		phys: iov.Link{Up: true, Speed: 25000, Capability: 0x20,
			State: tlv.LinkState{FullDuplex: 1, Autoneg: 1}, Params: tlv.LinkParams{Autoneg: 1}}}
	cfg.Share = l2.Share{Vports: 208, Queues: 320, MACs: 512, VLANs: 512, RSSEngines: 207, Rules: 16}
	cfg.Queues, cfg.Function = 32, w
	for id := range 256 {
		cfg.Blocks = append(cfg.Blocks, uint16(100+id))
	}
	w.fn = l2.New(l2.Config{Share: cfg.Share, Pool: w.pool, PF: w.tree.Port().Child(false),
		Assert: func(s string) { w.asserts = append(w.asserts, s) }})
	w.ok(w.fn.SetPFRates(10000, 0))
	if cfg.Hooks.Malicious == nil {
		cfg.Hooks.Malicious = func(vf int, why string) { w.evil = append(w.evil, fmt.Sprintf("%d %s", vf, why)) }
	}
	var err error
	w.pf, err = iov.New(cfg)
	w.ok(err)
	w.ok(w.pf.SetNumVFs(vfs))
	for vf := range vfs {
		w.drivers = append(w.drivers, w.driver(vf, vfdrv.Config{}))
	}
	t.Cleanup(func() {
		if len(w.asserts) > 0 {
			t.Errorf("the firmware asserts: %v", w.asserts)
		}
	})
	return w
}

// channel is the way to the PF within a process.
type channel struct {
	pf *iov.PF
	vf int
}

func (c channel) Send(msg []byte) error { return c.pf.Deliver(c.vf, msg) }
func (c channel) Wait(done func() bool) error {
	for range 3 {
		if done() {
			return nil
		}
		c.pf.Process(c.vf)
	}
	return status.Timeout
}

// driver is another driver for a VF.
func (w *world) driver(vf int, cfg vfdrv.Config) *vfdrv.Driver {
	if cfg.Want == (tlv.Resources{}) {
		cfg.Want = tlv.Resources{RxQueues: 2, TxQueues: 2, Blocks: 2, MACs: 1, VLANs: 2, CIDs: 32}
	}
	d := vfdrv.New(channel{w.pf, vf}, cfg)
	w.ok(w.pf.Connect(vf, d))
	return d
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// want fails unless err is a refusal with the status.
func (w *world) want(s tlv.Status, err error) {
	w.t.Helper()
	var r *vfdrv.Refused
	if !errors.As(err, &r) || r.Status != s {
		w.t.Fatalf("%v, want %v", err, s)
	}
}

// errno fails unless err has the number.
func (w *world) errno(n syscall.Errno, err error) {
	w.t.Helper()
	if !errors.Is(err, n) {
		w.t.Fatalf("%v, want %v", err, n)
	}
}

func (w *world) code(c status.Code, err error) {
	w.t.Helper()
	if status.Of(err) != c {
		w.t.Fatalf("%v, want %v", err, c)
	}
}

func (w *world) info(vf int) iov.VFInfo {
	w.t.Helper()
	i, err := w.pf.VFInfo(vf)
	w.ok(err)
	return i
}

func mac(n int) ether.Addr { return ether.Addr{2, 0, 0, 0, byte(n >> 8), byte(n)} }

// up brings a VF up: its vport with one pair of queues and an address.
func (w *world) up(vf int) *vfdrv.Driver {
	w.t.Helper()
	d := w.drivers[vf]
	w.ok(d.Acquire())
	w.ok(d.VportStart(l2.StartParams{MTU: 1500}))
	w.queues(d, 0)
	on := true
	w.ok(d.VportUpdate(l2.UpdateParams{RxActive: &on, TxActive: &on, Accept: &l2.AcceptParams{UpdateRx: true,
		UpdateTx: true, Rx: l2.Regular, Tx: l2.Regular}}, nil))
	w.ok(d.FilterUcast(l2.UcastParams{Op: l2.FilterReplace, Type: l2.FilterMAC, MAC: mac(vf)}))
	_, err := d.ReadBulletin()
	w.ok(err)
	return d
}

func (w *world) queues(d *vfdrv.Driver, id int) {
	w.t.Helper()
	_, err := d.RxQueueStart(vfdrv.Queue{ID: id, Block: id, Pages: 1, BufSize: 2048})
	w.ok(err)
	_, err = d.TxQueueStart(vfdrv.Queue{ID: id, Block: id, PI: 1, Pages: 1})
	w.ok(err)
}

// send has a VF send a frame on its first queue, and returns who gets it: VFs by their
// numbers, -1 for the wire, with its VLAN or -1.
func (w *world) send(vf int, b []byte) (got [][2]int) {
	w.t.Helper()
	f := w.pool.Get(len(b))
	f.Append(b)
	var q *l2.TxQueue
	for id := range w.tx {
		if id[0] == w.first(vf) {
			q = w.tx[id]
		}
	}
	if q == nil || !q.Post(f, l2.TxBD{}) {
		f.Release()
		return nil
	}
	q.Doorbell()
	w.fn.Transmit(w)

	for _, f := range w.wire {
		got = append(got, [2]int{-1, vid(f.Bytes())})
		f.Release()
	}
	w.wire = nil
	for n := range w.pf.NumVFs() {
		if q := w.rx[w.first(n)]; q != nil {
			for f, _ := q.Next(); f != nil; f, _ = q.Next() {
				got = append(got, [2]int{n, vid(f.Bytes())})
				f.Release()
				w.ok(q.Post(1))
			}
		}
	}
	return got
}

func vid(b []byte) int {
	if b[12] != 0x81 || b[13] != 0 {
		return -1
	}
	return int(binary.BigEndian.Uint16(b[14:]))
}

// Transmit and Room make the world a link: the wire.
func (w *world) Transmit(f *frame.Frame) { w.wire = append(w.wire, f) }
func (w *world) Room() int               { return 64 }

// eth is a frame.
func eth(dst, src ether.Addr, tags ...uint16) []byte {
	b := append(dst[:], src[:]...)
	for _, t := range tags {
		b = append(b, 0x81, 0, byte(t>>8), byte(t))
	}
	return append(b, append([]byte{0x88, 0xb5}, make([]byte, 46)...)...)
}

// first is the id of the first queue of a VF.
func (w *world) first(vf int) int { return 32 + vf*w.pf.QueuesPerVF(w.pf.NumVFs()) }

// own fails unless a queue or vport is the VF's.
func (w *world) own(vf, vport, queue int) {
	w.t.Helper()
	if !w.live[vf] || vport != vf+1 && vport != -1 {
		w.t.Errorf("VF %d uses vport %d, started %v", vf, vport, w.live[vf])
	}
	if n := w.pf.QueuesPerVF(w.perVF); queue >= 0 && (queue < 32+vf*n || queue >= 32+(vf+1)*n) {
		w.t.Errorf("VF %d uses queue %d", vf, queue)
	}
}

func (w *world) Enable(vf int, blocks []uint16) error {
	w.enabled[vf] = blocks
	w.perVF = max(w.perVF, vf+1)
	w.log = append(w.log, fmt.Sprintf("enable %d with %d vectors", vf, len(blocks)))
	return nil
}
func (w *world) Disable(vf int) { delete(w.enabled, vf); delete(w.live, vf) }
func (w *world) Start(vf int) error {
	w.live[vf] = true
	return nil
}
func (w *world) Stop(vf int) error {
	w.live[vf] = false
	return nil
}
func (w *world) FinalCleanup(vf int)       { w.log = append(w.log, fmt.Sprintf("final cleanup %d", vf)) }
func (w *world) Interrupts(vf int, _ bool) {}

func (w *world) VportStart(vf int, p l2.StartParams) error {
	w.perVF = w.pf.NumVFs()
	w.own(vf, p.Vport, -1)
	return w.fn.VportStart(p)
}

func (w *world) VportUpdate(vf int, p l2.UpdateParams, rss *iov.RSS) error {
	w.own(vf, p.Vport, -1)
	if rss != nil {
		r := rss.RSSParams
		for i := range 1 << r.TableLog {
			if r.UpdateTable {
				w.own(vf, -1, rss.Queues[i])
				r.Table[i] = w.rx[rss.Queues[i]]
			}
		}
		p.RSS = &r
	}
	return w.fn.VportUpdate(p)
}

func (w *world) VportStop(vf, vport int) error { w.own(vf, vport, -1); return w.fn.VportStop(vport) }

func (w *world) FilterUcast(vf int, p l2.UcastParams) error {
	w.own(vf, p.Add, -1)
	w.own(vf, p.Remove, -1)
	return w.fn.FilterUcast(p)
}

func (w *world) RxQueueStart(vf int, p l2.QueueParams, r iov.RxRing) (uint32, error) {
	w.own(vf, p.Vport, p.Queue)
	if !slices.Contains(w.enabled[vf], p.SB) {
		w.t.Errorf("VF %d uses status block %d", vf, p.SB)
	}
	q, err := w.fn.RxQueueStart(p, r.BufSize)
	if err == nil {
		w.rx[p.Queue] = q
		err = q.Post(q.Free())
	}
	return uint32(p.Queue) * 8, err
}

func (w *world) TxQueueStart(vf int, p l2.QueueParams, usage uint8) (uint32, error) {
	w.own(vf, p.Vport, p.Queue)
	q, err := w.fn.TxQueueStart(p, 0)
	if err == nil {
		w.tx[[2]int{p.Queue, int(usage)}] = q
	}
	return 0x1000 + uint32(p.Queue)*8, err
}

func (w *world) RxQueueStop(vf, queue int) error {
	w.own(vf, -1, queue)
	q := w.rx[queue]
	delete(w.rx, queue)
	return w.fn.RxQueueStop(q)
}

func (w *world) TxQueueStop(vf, queue int, usage uint8) error {
	w.own(vf, -1, queue)
	key := [2]int{queue, int(usage)}
	q := w.tx[key]
	delete(w.tx, key)
	return w.fn.TxQueueStop(q)
}

func (w *world) SetCoalesce(vf, queue, rx, tx int) error {
	w.own(vf, -1, queue)
	if rx > 0 {
		return w.rx[queue].SetCoalesce(rx)
	}
	for key, q := range w.tx {
		if key[0] == queue {
			return q.SetCoalesce(tx)
		}
	}
	return status.Inval
}

func (w *world) Coalesce(_, queue int, tx bool) int {
	if !tx {
		return w.rx[queue].Coalesce()
	}
	for key, q := range w.tx {
		if key[0] == queue {
			return q.Coalesce()
		}
	}
	return 0
}

func (w *world) SetRate(_, vport, rate int) error    { return w.fn.SetVportRate(vport, rate) }
func (w *world) SetMinRate(_, vport, rate int) error { return w.fn.SetVportWFQ(vport, rate) }
func (w *world) Tunnels() l2.TunnelParams            { return w.fn.Tunnels() }
func (w *world) SetTunnels(p l2.TunnelParams) error  { return w.fn.SetTunnels(p) }
func (w *world) Link() iov.Link                      { return w.phys }
