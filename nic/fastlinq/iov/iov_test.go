package iov_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
)

// Numbers of VFs: how many there can be, what each gets, and that they go before others
// come.
//
// IO-01 IO-04 IO-05 IO-06
func TestNumVFs(t *testing.T) {
	w := newWorld(t, 4, iov.Hooks{})
	if !w.pf.Capable() || w.pf.NumVFs() != 4 || w.info(3).AbsoluteID != 19 || w.info(3).FID != 0x23 ||
		len(w.enabled[3]) != 16 || w.log[3] != "enable 3 with 16 vectors" {
		t.Errorf("%+v, %v", w.info(3), w.log)
	}
	w.errno(syscall.EBUSY, w.pf.SetNumVFs(8))
	w.ok(w.pf.SetNumVFs(4))
	w.errno(syscall.ERANGE, w.pf.SetNumVFs(121))
	w.up(2)
	w.ok(w.pf.SetNumVFs(0))
	if len(w.enabled)+len(w.rx)+len(w.tx)+w.fn.Used().Vports > 0 {
		t.Errorf("left: %v %v %v %+v", w.enabled, w.rx, w.tx, w.fn.Used())
	}
	for _, n := range []int{120, 0, 1, 0, 64} {
		w.ok(w.pf.SetNumVFs(n))
	}
	if q := w.info(63).Queues; q != 4 {
		t.Errorf("%d queues of each of 64 VFs", q)
	}
	w.ok(w.pf.SetNumVFs(0))
	w.ok(w.pf.InitHW(iov.InitParams{VF: 0, RxQueues: []int{40}, TxQueues: []int{40}, Vport: 1, RSSEngine: 1}))
	for name, p := range map[string]iov.InitParams{
		"again":        {VF: 0, RxQueues: []int{41}, TxQueues: []int{41}, Vport: 2, RSSEngine: 2},
		"beyond":       {VF: 120, RxQueues: []int{41}, TxQueues: []int{41}, Vport: 2, RSSEngine: 2},
		"the PF's":     {VF: 1, RxQueues: []int{31}, TxQueues: []int{41}, Vport: 2, RSSEngine: 2},
		"no such":      {VF: 1, RxQueues: []int{320}, TxQueues: []int{41}, Vport: 2, RSSEngine: 2},
		"another's":    {VF: 1, RxQueues: []int{40}, TxQueues: []int{41}, Vport: 2, RSSEngine: 2},
		"vport":        {VF: 1, RxQueues: []int{41}, TxQueues: []int{41}, Vport: 0, RSSEngine: 2},
		"taken vport":  {VF: 1, RxQueues: []int{41}, TxQueues: []int{41}, Vport: 1, RSSEngine: 2},
		"taken engine": {VF: 1, RxQueues: []int{41}, TxQueues: []int{41}, Vport: 2, RSSEngine: 1},
		"uneven":       {VF: 1, RxQueues: []int{41, 42}, TxQueues: []int{41}, Vport: 2, RSSEngine: 2},
	} {
		if err := w.pf.InitHW(p); status.Of(err) != status.Inval {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.ok(w.pf.ReleaseHW(0))
	w.code(status.Inval, w.pf.ReleaseHW(0))
}

// A VF from ACQUIRE to RELEASE, and what its driver learns.
//
// IO-07 IO-21 IO-26
func TestLife(t *testing.T) {
	w := newWorld(t, 4, iov.Hooks{})
	if !w.pf.WaitsForAcquire(1) {
		t.Error("a VF begins acquired")
	}
	d := w.up(1)
	if i := w.info(1); i.State != iov.Enabled || i.Vport != 2 || i.MTU != 1500 || i.RxQueues != 1 || i.TxQueues != 1 ||
		!slices.Equal(i.MACs, []ether.Addr{mac(1)}) || i.Address != mac(1) {
		t.Errorf("%+v", i)
	}
	if r := d.Resources(); r.RxQueues != 16 || r.Blocks != 16 || r.MACs != 1 || r.VLANs != 2 {
		t.Errorf("%+v", r)
	}
	w.up(0)
	if got := fmt.Sprint(w.send(1, eth(mac(0), mac(1))), w.send(1, eth(mac(9), mac(1)))); got != "[[0 -1]] [[-1 -1]]" {
		t.Errorf("delivered to %s", got)
	}
	if got := fmt.Sprint(w.send(1, eth(ether.Broadcast, mac(1)))); got != "[[-1 -1] [0 -1]]" {
		t.Errorf("broadcast to %s", got)
	}
}

// What the driver of a VF can do wrong: it is told, and nothing changes.
func TestRefusals(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	d := w.drivers[0]
	w.want(tlv.Failure, d.VportStart(l2.StartParams{MTU: 1500}))
	w.ok(d.Acquire())
	on := true
	w.want(tlv.Failure, d.VportUpdate(l2.UpdateParams{TxActive: &on}, nil))
	w.want(tlv.Failure, d.VportStop())
	w.want(tlv.Failure, d.FilterUcast(l2.UcastParams{MAC: mac(1)}))
	w.want(tlv.Failure, d.SetMTU(1500))
	_, err := d.RxQueueStart(vfdrv.Queue{Pages: 1, BufSize: 2048})
	w.want(tlv.NoResource, err)
	for _, mtu := range []int{0, 45, 9601, 65535} {
		w.want(tlv.Failure, d.VportStart(l2.StartParams{MTU: mtu}))
	}
	w.ok(d.VportStart(l2.StartParams{MTU: 1500}))
	before := w.info(0)
	w.want(tlv.Failure, d.VportStart(l2.StartParams{MTU: 1500}))
	for _, q := range []vfdrv.Queue{{ID: 16, Pages: 1, BufSize: 2048}, {Block: 16, Pages: 1, BufSize: 2048},
		{PI: 12, Pages: 1, BufSize: 2048}} {
		_, err = d.RxQueueStart(q)
		w.want(tlv.NoResource, err)
		_, err = d.TxQueueStart(q)
		w.want(tlv.NoResource, err)
	}
	for _, q := range []vfdrv.Queue{{BufSize: 2048}, {Pages: 1, BufSize: 63}} {
		_, err = d.RxQueueStart(q)
		w.want(tlv.Failure, err)
	}
	w.want(tlv.NotSupported, d.VportUpdate(l2.UpdateParams{RxActive: &on}, nil))
	w.want(tlv.NotSupported, d.VportUpdate(l2.UpdateParams{}, nil))
	w.want(tlv.Failure, d.RxQueueStop(vfdrv.Queue{ID: 0}))
	w.want(tlv.Failure, d.TxQueueStop(vfdrv.Queue{ID: 99}))
	w.want(tlv.Failure, d.SetCoalesce(0, 10, 0))
	_, err = d.Coalesce(0, true)
	w.want(tlv.Failure, err)
	w.want(tlv.Failure, d.FilterUcast(l2.UcastParams{MAC: ether.Broadcast}))
	w.want(tlv.Failure, d.FilterUcast(l2.UcastParams{Op: l2.FilterMove, MAC: mac(1)}))
	w.want(tlv.NotSupported, d.TellMAC(mac(7)))
	after := w.info(0)
	before.Counts, after.Counts = iov.Counts{}, iov.Counts{}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("changed from %+v to %+v", before, after)
	}
}

// ACQUIRE: versions, capabilities and resources, as far as drivers can differ.
//
// IO-13 IO-14 IO-16
func TestAcquireMatrix(t *testing.T) {
	w := newWorld(t, 16, iov.Hooks{Acquire: func(vf int) error {
		if vf == 15 {
			return status.Inval
		}
		return nil
	}})
	var text []string
	log := func(s string) { text = append(text, s) }
	all := tlv.Resources{RxQueues: 16, TxQueues: 16, Blocks: 16, MACs: 1, VLANs: 2, CIDs: 32}
	d := w.driver(0, vfdrv.Config{Want: all, Log: log})
	w.ok(d.Acquire()) // 18 queues are left for each, so 16
	w2 := newWorld(t, 64, iov.Hooks{})
	d = w2.driver(0, vfdrv.Config{Want: all, Log: log})
	w2.ok(d.Acquire())
	if len(text) != 1 || d.Resources().RxQueues != 4 || w2.info(0).Counts.Messages != 2 {
		t.Errorf("%q, %+v, %+v", text, d.Resources(), w2.info(0).Counts)
	}
	d = w.driver(1, vfdrv.Config{HSIMajor: 4, HSIMinor: 1})
	err := d.Acquire()
	if status.Of(err) != status.Inval || !strings.Contains(err.Error(), "the PF's fastpath is 3.11") {
		t.Error(err)
	}
	d = w.driver(1, vfdrv.Config{HSIMajor: 2, HSIMinor: 1, Capabilities: tlv.VFPreFPHSI})
	w.ok(d.Acquire())
	if p := d.Device(); p.HSIMajor != 3 || p.HSIMinor != 5 || p.Capabilities != tlv.PFDefaultUntagged|tlv.PFPostFWOverride {
		t.Errorf("%+v", p)
	}
	d = w.driver(2, vfdrv.Config{HSIMajor: 3, HSIMinor: 99, Capabilities: tlv.VFQueueQIDs})
	w.ok(d.Acquire())
	if p := d.Device(); p.HSIMinor != 11 || p.Capabilities&tlv.PFQueueQIDs == 0 {
		t.Errorf("%+v", p)
	}
	w.want(tlv.NotSupported, w.drivers[15].Acquire())
	for i, want := range []tlv.Resources{{MACs: 2}, {VLANs: 3}, {Mcasts: 65}, {CIDs: 33}} {
		d = w.driver(3+i, vfdrv.Config{Want: want})
		w.ok(d.Acquire())
		if n := w.info(3 + i).Counts.Messages; n != 2 {
			t.Errorf("%+v: granted after %d messages", want, n)
		}
	}
	d = w2.driver(1, vfdrv.Config{Want: all, HSIMajor: 2, Capabilities: tlv.VFPreFPHSI, OSType: tlv.OSWindows})
	w2.ok(d.Acquire())
	if n := w2.info(1).Counts.Messages; n != 1 {
		t.Errorf("an old driver for Windows is answered NO_RESOURCE: %d messages", n)
	}
	cmt := newWorldOf(t, 1, iov.Config{Info: iov.Info{Total: 2}, Device: iov.Device{CMT: true}})
	cmt.ok(cmt.drivers[0].Acquire())
	if cmt.drivers[0].Device().Capabilities&tlv.PF100G == 0 {
		t.Error("a PF with two engines does not say so")
	}
}

// A driver that was killed left its VF acquired: the next one has it reset.
//
// IO-34
func TestSoftFLR(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	w.up(0)
	w.up(1)
	var slept time.Duration
	d := w.driver(0, vfdrv.Config{Pause: func(t time.Duration) { slept += t }})
	w.ok(d.Acquire())
	if i := w.info(0); slept != 3*time.Second || i.State != iov.Acquired || i.Counts.Resets != 1 || i.RxQueues != 0 {
		t.Errorf("%v, %+v", slept, i)
	}
	if i := w.info(1); i.State != iov.Enabled || i.Counts.Resets != 0 {
		t.Errorf("the other VF: %+v", i)
	}
}

// A function-level reset: nothing of the old life passes, messages are dropped until it
// is done, and other VFs notice nothing.
//
// IO-24
func TestFLR(t *testing.T) {
	w := newWorld(t, 3, iov.Hooks{})
	d := w.up(0)
	w.up(1)
	w.up(2)
	w.ok(w.pf.SetVFMAC(0, mac(77)))
	w.ok(w.pf.FLR(0))
	if i := w.info(0); i.State != iov.Reset || w.rx[w.first(0)] != nil {
		t.Errorf("%+v", i)
	}
	w.code(status.NoDev, d.SetMTU(1400))
	if got := w.pf.FLRCleanup(); !slices.Equal(got, []int{0}) || w.pf.FLRCleanup() != nil {
		t.Errorf("%v", got)
	}
	if !w.pf.WaitsForAcquire(0) || fmt.Sprint(w.send(1, eth(mac(2), mac(1)))) != "[[2 -1]]" ||
		fmt.Sprint(w.send(1, eth(mac(0), mac(1)))) != "[[-1 -1]]" {
		t.Errorf("%+v", w.info(0))
	}
	w.drivers[0] = w.driver(0, vfdrv.Config{})
	w.ok(w.drivers[0].Acquire())
	_, err := w.drivers[0].ReadBulletin()
	w.ok(err)
	if m, forced := w.drivers[0].ForcedMAC(); m != mac(77) || !forced {
		t.Errorf("%v %v: the policy is gone", m, forced)
	}
}

// Malicious drivers are shut out until a reset.
//
// IO-25
func TestMalicious(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	d := w.up(0)
	w.up(1)
	w.want(tlv.Malicious, d.VportStop())
	if !w.info(0).Malicious || len(w.evil) != 1 || w.send(0, eth(mac(1), mac(0))) != nil {
		t.Errorf("%v", w.evil)
	}
	w.want(tlv.Malicious, d.SetMTU(1400))
	w.want(tlv.Malicious, d.Release())
	w.ok(w.pf.FLR(0))
	w.pf.FLRCleanup()
	w.drivers[0] = w.driver(0, vfdrv.Config{})
	w.up(0)
	if fmt.Sprint(w.send(0, eth(mac(1), mac(0)))) != "[[1 -1]]" {
		t.Error("the VF does not send after a reset")
	}
}
