package nic

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/l2"
	"tapir/wire/ether"
)

// vfDriver is the driver of a VF outside of the NIC.
type vfDriver struct {
	*vfdrv.Driver
	r      *vfRig
	vf     int
	writes []uint64 // addresses
}

// Send implements vfdrv.Channel.
func (d *vfDriver) Send(msg []byte) error { return d.r.b.VFs()[d.vf].Deliver(msg) }

// Wait implements vfdrv.Channel.
func (d *vfDriver) Wait(done func() bool) error {
	for range 3 {
		if done() {
			return nil
		}
		d.r.run(0)
	}
	return errors.New("no answer")
}

// hand gives a VF to a driver outside.
func (r *vfRig) hand(vf int, cfg vfdrv.Config) *vfDriver {
	r.t.Helper()
	d := &vfDriver{r: r, vf: vf}
	if cfg.Want == (tlv.Resources{}) {
		cfg.Want = tlv.Resources{RxQueues: 1, TxQueues: 1, Blocks: 1, MACs: 1, VLANs: 2, CIDs: 32}
	}
	d.Driver = vfdrv.New(d, cfg)
	r.ok(r.b.VFs()[vf].Hand(func(addr uint64, b []byte) error {
		d.writes = append(d.writes, addr)
		return d.Write(addr, b)
	}))
	return d
}

func (r *vfRig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// refused fails unless err is a refusal with the status.
func (r *vfRig) refused(s tlv.Status, err error) {
	r.t.Helper()
	var e *vfdrv.Refused
	if !errors.As(err, &e) || e.Status != s {
		r.t.Fatalf("%v, want %v", err, s)
	}
}

// up brings the VF up: with queues, all that is for mac, groups and broadcasts.
func (d *vfDriver) up(mac ether.Addr, queues int) {
	d.r.t.Helper()
	d.r.ok(d.VportStart(l2.StartParams{MTU: 1500}))
	for id := range queues {
		_, err := d.RxQueueStart(vfdrv.Queue{ID: id, Block: id, Pages: 2, BufSize: 32 << 10})
		d.r.ok(err)
		_, err = d.TxQueueStart(vfdrv.Queue{ID: id, Block: id, PI: 1, Pages: 2, Usage: 1})
		d.r.ok(err)
	}
	on := true
	d.r.ok(d.VportUpdate(l2.UpdateParams{RxActive: &on, TxActive: &on, Accept: &l2.AcceptParams{UpdateRx: true,
		UpdateTx: true, Rx: l2.Regular, Tx: l2.Regular}}, nil))
	d.r.ok(d.FilterUcast(l2.UcastParams{Op: l2.FilterReplace, Type: l2.FilterMAC, MAC: mac}))
	d.r.run(0)
	d.r.clear()
}

// passes fails unless what a VF sends to dst reaches just these.
func (r *vfRig) passes(from int, dst, src ether.Addr, want uint32) {
	r.t.Helper()
	r.send(from, vfFrame(dst, src, 0))
	if got := r.where(); got != want {
		r.t.Fatalf("from %d to %v: %#x, want %#x", from, dst, got, want)
	}
}

var vfPeer = ether.Addr{2, 9, 9, 9, 9, 9}

const vfWire = 1 << 31

// A driver outside of the NIC takes a VF, whose host TAP it serves by the queues that it
// starts, and when it goes, the VF is reset and its own driver has it again. Replies have
// their first octets written last.
//
// IO-07 IO-12 IO-17 IO-24
func TestVFDriverOutside(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 3)
	r.passes(0, vfPeer, r.mac[0], vfWire)
	d := r.hand(0, vfdrv.Config{})
	r.send(0, vfFrame(vfPeer, r.mac[0], 0))
	if got := r.where(); got != 0 {
		t.Errorf("a VF without a driver sends to %#x", got)
	}
	r.ok(d.Acquire())
	if n := len(d.writes); d.writes[n-2] != d.writes[n-1]+8 {
		t.Errorf("writes to %#x", d.writes)
	}
	mac := ether.Addr{2, 0, 0, 0, 0, 0x33}
	d.up(mac, 1)
	r.passes(0, r.mac[1], mac, 1<<1)
	r.passes(1, mac, r.mac[1], 1<<0)
	r.passes(0, vfPeer, mac, vfWire)
	if err := r.b.VFs()[0].Hand(nil); err == nil {
		t.Error("two drivers outside have the VF")
	}
	r.b.VFs()[0].TakeBack(r.w.now)
	r.passes(1, mac, r.mac[1], vfWire) // nothing of the old life
	r.passes(1, r.mac[2], r.mac[1], 1<<2)
	r.run(200 * time.Millisecond)
	r.clear()
	r.passes(1, r.mac[0], r.mac[1], 1<<0)
	r.passes(0, vfPeer, r.mac[0], vfWire)
}

// With the hardware's channel a message comes by the event queue and the slowpath's interrupt,
// and waits for the PF's next turn; one that comes meanwhile shuts the VF out, and without the
// PF's driver nobody hears it. Without that channel the PF answers at once.
//
// IO-02 IO-03 IO-10 IO-11 IO-25
func TestVFHardwareChannel(t *testing.T) {
	for _, hw := range []bool{false, true} {
		r := newVFs(t, Config{}, fastlinq.SRIOV{HWChannel: hw}, 2)
		d := r.hand(1, vfdrv.Config{})
		msg := tlv.Request(tlv.Release, 0x10000, &tlv.First{})
		d.writes = nil
		r.ok(d.Send(msg))
		if e := r.b.IOV().PendingEvents(); e[0] != map[bool]uint64{true: 2}[hw] || (len(d.writes) == 0) != hw {
			t.Errorf("hardware's channel %v: events %b, %d writes", hw, e, len(d.writes))
		}
		if err := d.Send(msg); (err != nil) != hw {
			t.Errorf("hardware's channel %v: a second message: %v", hw, err)
		}
		r.run(0)
		if i, _ := r.b.IOV().VFInfo(1); i.Malicious != hw || r.b.IOV().PendingEvents()[0] != 0 {
			t.Errorf("hardware's channel %v: %+v", hw, i)
		}
		if hw {
			if n := *value(t, r.dev.ShowDevice(), "async_event", "COMMON VF_PF_CHANNEL").Ever; n < 10 {
				t.Errorf("%d events", n)
			}
			before := r.dev.IRQ().ShowVectors()[0].Interrupts
			r.ok(r.b.VFs()[0].SetMTU(1400))
			if after := r.dev.IRQ().ShowVectors()[0].Interrupts; after != before+1 {
				t.Errorf("%d interrupts for a message", after-before)
			}
		}
		r.passes(0, vfPeer, r.mac[0], vfWire) // the other VF
		r.ok(r.b.FLR(1, r.w.now))
		r.run(200 * time.Millisecond)
		r.ok(d.Acquire()) // a reset brings it back
	}
}

// Versions and resources: what does not fit fails cleanly, and what there is too little of
// is suggested; TLVs that are not known are skipped, RDMA is refused.
//
// IO-09 IO-13 IO-14 IO-15 IO-16 IO-18
func TestVFAcquire(t *testing.T) {
	var text []string
	r := newVFs(t, Config{}, fastlinq.SRIOV{Queues: 2}, 2)
	d := r.hand(0, vfdrv.Config{HSIMajor: 4})
	if err := d.Acquire(); err == nil || !strings.Contains(err.Error(), "the PF's fastpath is 3.11") {
		t.Errorf("%v", err)
	}
	r.b.VFs()[0].TakeBack(r.w.now)
	r.run(200 * time.Millisecond)
	r.clear()
	r.passes(0, vfPeer, r.mac[0], vfWire) // as if nobody had tried
	d = r.hand(0, vfdrv.Config{Want: tlv.Resources{RxQueues: 16, TxQueues: 16, Blocks: 16}, BulletinSize: 64,
		Log: func(s string) { text = append(text, s) }})
	r.ok(d.Acquire())
	if n := d.Resources(); n.RxQueues != 2 || n.Blocks != 2 || len(text) != 1 {
		t.Errorf("%+v %q", n, text)
	}
	if p := d.Device(); p.HSIMajor != 3 || p.HSIMinor != 11 || p.PortMAC != r.dev.cfg.MAC || p.IndicesPerSB == 0 || p.FWMajor == 0 {
		t.Errorf("%+v", p)
	}
	mac := ether.Addr{2, 0, 0, 0, 0, 0x34}
	d.up(mac, 2)
	future := []byte{0x99, 0x99, 12, 0, 1, 2, 3, 4, 5, 6, 7, 8}
	off := &tlv.Activate{Header: tlv.Header{Type: tlv.UpdateActivate, Length: 8}, UpdateTx: 1}
	r.ok(d.Send(tlv.Request(tlv.VportUpdate, 0x10000, &tlv.First{}, future, off)))
	r.send(0, vfFrame(vfPeer, mac, 0))
	if got := r.where(); got != 0 {
		t.Errorf("the TLV behind one that is not known has no effect: %#x", got)
	}
	for typ := tlv.RDMAFirst; typ <= tlv.RDMALast; typ++ {
		b := memOf(d, tlv.Request(typ, 0x10000, &tlv.First{}))
		if tlv.Status(b[4]) != tlv.NotSupported {
			t.Errorf("%v: %v", typ, tlv.Status(b[4]))
		}
	}
	if n := r.saying("asks for RDMA"); n != 1 || r.saying("VF 0 asks for RDMA (RDMA(29)): only the PF has it") != 1 {
		t.Errorf("%d lines about RDMA", n)
	}
	r.passes(0, vfPeer, mac, 0) // as before
	r.passes(1, mac, r.mac[1], 1<<0)
}

// memOf is the first octets of the reply to a message.
func memOf(d *vfDriver, msg []byte) []byte {
	r := &rawMemory{}
	d.r.ok(d.r.b.IOV().Connect(d.vf, r))
	d.r.ok(d.Send(msg))
	d.r.run(0)
	return r.last
}

type rawMemory struct{ last []byte }

// Write implements iov.Memory.
func (m *rawMemory) Write(_ uint64, b []byte) error { m.last = bytes.Clone(b); return nil }

// The bulletin: versions, the whole image each time, its CRC, and what VFs learn by it.
// With the cable out, a link that is forced up lets VFs talk to one another.
//
// IO-19 IO-20 IO-21 IO-22 IO-23 IO-26
func TestVFBulletin(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 2)
	d := r.hand(0, vfdrv.Config{})
	r.ok(d.Acquire())
	read := func() {
		t.Helper()
		if changed, err := d.ReadBulletin(); err != nil || !changed {
			t.Fatalf("%v %v", changed, err)
		}
	}
	read()
	if l, speed := d.LinkState(); l.Up != 1 || speed == 0 || d.Resources().MACs != 1 {
		t.Errorf("%+v at %d Mb/s", l, speed)
	}
	version := d.Bulletin().Version
	p := r.b.IOV()
	r.ok(p.SetVFMAC(0, ether.Addr{2, 0, 0, 0, 0, 1}))
	r.ok(p.SetVFVLAN(0, 9, 0, iov.VLANProto))
	r.ok(p.SetVFRate(0, 0, 700))
	read() // three changes, of which the driver has read the last only
	mac, forced := d.ForcedMAC()
	if _, speed := d.LinkState(); d.Bulletin().Version != version+3 || d.ForcedVLAN() != 9 || speed != 700 || !forced ||
		mac != (ether.Addr{2, 0, 0, 0, 0, 1}) || d.CheckMAC(vfPeer) {
		t.Errorf("%+v", d.Bulletin())
	}
	if changed, err := d.ReadBulletin(); changed || err != nil {
		t.Errorf("the same bulletin again: %v %v", changed, err)
	}
	r.ok(p.SetVFVLAN(0, 0, 0, iov.VLANProto))
	r.ok(p.SetVFMAC(0, ether.Addr{}))
	r.dev.LinkDown(r.w.now)
	r.run(0)
	read()
	if l, _ := d.LinkState(); l.Up != 0 {
		t.Errorf("%+v without a cable", l)
	}
	r.ok(p.SetVFLinkState(0, iov.LinkEnable))
	r.ok(p.SetVFLinkState(1, iov.LinkEnable))
	read()
	if l, _ := d.LinkState(); l.Up != 1 {
		t.Errorf("%+v forced up", l)
	}
	own := ether.Addr{2, 0, 0, 0, 0, 0x35}
	d.up(own, 1)
	r.passes(0, r.mac[1], own, 1<<1)
	r.passes(1, own, r.mac[1], 1<<0)
}

// MTU, coalescing, RSS, filters, tunnels and the soft reset, each by what the NIC does
// then.
//
// IO-31 IO-32 IO-33 IO-34
func TestVFMessages(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{Queues: 2}, 2)
	d := r.hand(0, vfdrv.Config{Want: tlv.Resources{RxQueues: 2, TxQueues: 2, Blocks: 2, MACs: 1}})
	r.ok(d.Acquire())
	mac := ether.Addr{2, 0, 0, 0, 0, 0x36}
	d.up(mac, 2)
	long := append(vfFrame(vfPeer, mac, 0), make([]byte, 3000)...)
	r.send(0, long)
	before := r.where()
	r.ok(d.SetMTU(9000))
	r.send(0, long)
	if after := r.where(); before != 0 || after != vfWire {
		t.Errorf("MTU 1500: %#x, 9000: %#x", before, after)
	}
	r.refused(tlv.Failure, d.SetMTU(20))

	r.ok(d.SetCoalesce(0, 200, 0))
	us, err := d.Coalesce(0, false)
	r.ok(err)
	r.send(1, vfFrame(mac, r.mac[1], 0))
	r.send(1, vfFrame(mac, r.mac[1], 0))
	early := len(r.vfs[0].take())
	r.run(300 * time.Microsecond)
	if late := len(r.vfs[0].take()); us != 200 || early+late != 2 || late == 0 {
		t.Errorf("%d µs: %d frames at once, %d later", us, early, late)
	}

	rss := &iov.RSS{RSSParams: l2.RSSParams{UpdateConfig: true, UpdateTable: true, Enable: true, TableLog: 1}}
	rss.Queues = [l2.TableLen]int{0, 5}
	r.refused(tlv.NotSupported, d.VportUpdate(l2.UpdateParams{}, rss))
	rss.Queues[1] = 1
	r.ok(d.VportUpdate(l2.UpdateParams{}, rss))
	group := ether.Addr{1, 0, 0x5e, 1, 2, 3}
	r.send(1, vfFrame(group, r.mac[1], 0))
	r.run(time.Millisecond)
	without := r.where()
	bins := l2.Bins{}
	bins.Add(group)
	r.ok(d.VportUpdate(l2.UpdateParams{Bins: &bins}, nil))
	r.send(1, vfFrame(group, r.mac[1], 0))
	r.run(time.Millisecond)
	if with := r.where(); without&1 != 0 || with&1 == 0 {
		t.Errorf("group: %#x, with a filter %#x", without, with)
	}

	var want l2.TunnelParams
	want.Enable[l2.VXLAN], want.VXLANPort = true, 5555
	if got, err := d.SetTunnels(want); err != nil || got.VXLANPort == 5555 {
		t.Errorf("%v: %+v: a VF has changed the tunnels of the PF", err, got)
	}

	e := *d // the same VF, found by a driver that does not know that it is acquired
	e.Driver = vfdrv.New(d, vfdrv.Config{Want: tlv.Resources{RxQueues: 1}})
	r.ok(r.b.IOV().Connect(0, e.Driver))
	d.Driver = e.Driver
	r.ok(e.Acquire())
	r.run(0)
	r.clear()
	r.passes(1, mac, r.mac[1], vfWire)
	if i, _ := r.b.IOV().VFInfo(0); i.Counts.Resets == 0 || i.State != iov.Acquired {
		t.Errorf("%+v", i)
	}
}

// A VF that is about to go is not served; one that has gone is a number too high.
//
// IO-01 IO-05 IO-06 IO-08
func TestVFNumbers(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{Total: 8, Queues: 2}, 4)
	p := r.b.IOV()
	if i, err := p.VFInfo(3); err != nil || !p.Capable() || p.Info().Total != 8 || len(i.Blocks) != i.Queues || i.Queues < 2 {
		t.Errorf("%v %+v", err, i)
	}
	d := r.hand(3, vfdrv.Config{})
	r.ok(p.SetToDisable(3, true))
	if err := d.Acquire(); err == nil {
		t.Error("a VF that is about to go is acquired")
	}
	r.ok(p.SetToDisable(3, false))
	r.ok(d.Acquire())
	r.ok(p.SetNumVFs(0))
	if _, err := p.VFInfo(0); err == nil || fmt.Sprint(p.NumVFs()) != "0" {
		t.Error("VFs are left")
	}
	r.numVFs(8)
	r.clear()
	r.passes(7, r.mac[6], r.mac[7], 1<<6)
}
