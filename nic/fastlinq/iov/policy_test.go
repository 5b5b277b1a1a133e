package iov_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
)

// The numbers of errors that Linux has for wrong calls.
func TestPolicyErrors(t *testing.T) {
	w := newWorld(t, 4, iov.Hooks{})
	for name, err := range map[string]error{
		"vf 4":            w.pf.SetVFMAC(4, mac(1)),
		"vf -1":           w.pf.SetVFTrust(-1, true),
		"multicast":       w.pf.SetVFMAC(0, ether.Addr{1}),
		"vlan 4096":       w.pf.SetVFVLAN(0, 4096, 0, iov.VLANProto),
		"qos 8":           w.pf.SetVFVLAN(0, 5, 8, iov.VLANProto),
		"min above max":   w.pf.SetVFRate(0, 400, 300),
		"above the link":  w.pf.SetVFRate(0, 0, 25001),
		"state 3":         w.pf.SetVFLinkState(0, 3),
		"spoofchk of 9":   w.pf.SetVFSpoofchk(9, true),
		"query_rss of 9":  w.pf.SetVFQueryRSS(9, true),
		"information":     func() error { _, err := w.pf.VFInfo(4); return err }(),
		"connection of 4": w.pf.Connect(4, nil),
	} {
		t.Run(name, func(t *testing.T) { w.errno(syscall.EINVAL, err) })
	}
	w.errno(syscall.EPROTONOSUPPORT, w.pf.SetVFVLAN(0, 5, 0, 0x88a8))
	for vf := range 4 {
		if p := w.info(vf).Policy; p != (iov.Policy{}) {
			t.Errorf("VF %d: %+v", vf, p)
		}
	}
	if s, err := iov.ParseLinkState("enable"); err != nil || s != iov.LinkEnable || s.String() != "enable" {
		t.Error(s, err)
	}
	if _, err := iov.ParseLinkState("up"); err == nil {
		t.Error("a state that is none is read")
	}
}

// A forced MAC takes the place of the VF's own, and gives it back.
//
// IO-27
func TestForcedMAC(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	d := w.up(0)
	w.up(1)
	w.ok(w.pf.SetVFMAC(0, mac(77)))
	changed, err := d.ReadBulletin()
	if m, forced := d.ForcedMAC(); err != nil || !changed || m != mac(77) || !forced || d.CheckMAC(mac(0)) || !d.CheckMAC(mac(77)) {
		t.Errorf("%v %v %v %v", changed, err, m, forced)
	}
	w.want(tlv.Forced, d.FilterUcast(l2.UcastParams{Op: l2.FilterAdd, MAC: mac(5)}))
	w.want(tlv.Forced, d.FilterUcast(l2.UcastParams{Op: l2.FilterRemove, MAC: mac(77)}))
	w.want(tlv.Forced, d.FilterUcast(l2.UcastParams{Op: l2.FilterFlush}))
	if got := fmt.Sprint(w.send(1, eth(mac(77), mac(1))), w.send(1, eth(mac(0), mac(1)))); got != "[[0 -1]] [[-1 -1]]" {
		t.Error(got)
	}
	w.ok(w.pf.SetVFMAC(0, ether.Addr{}))
	if got := fmt.Sprint(w.send(1, eth(mac(77), mac(1))), w.send(1, eth(mac(0), mac(1)))); got != "[[-1 -1]] [[0 -1]]" {
		t.Error(got)
	}
	w.ok(w.pf.SetVFMAC(0, mac(77)))
	w.ok(d.FilterUcast(l2.UcastParams{Op: l2.FilterReplace, MAC: mac(77)})) // what a driver does with it
	w.ok(w.pf.SetVFMAC(0, ether.Addr{}))
	if got := fmt.Sprint(w.send(1, eth(mac(77), mac(1)))); got != "[[0 -1]]" {
		t.Error(got)
	}
}

// A trusted VF may change the address that was set for it, and tells so.
//
// IO-28
func TestTrustedMAC(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	d := w.up(0)
	w.up(1)
	w.ok(w.pf.SetVFMAC(0, mac(77)))
	w.ok(w.pf.SetVFTrust(0, true))
	_, err := d.ReadBulletin()
	w.ok(err)
	if m, forced := d.ForcedMAC(); m != mac(77) || forced {
		t.Errorf("%v %v", m, forced)
	}
	w.ok(d.FilterUcast(l2.UcastParams{Op: l2.FilterReplace, MAC: mac(78)}))
	w.ok(d.TellMAC(mac(78)))
	_, err = d.ReadBulletin()
	w.ok(err)
	if m, _ := d.ForcedMAC(); m != mac(78) || w.info(0).Address != mac(78) {
		t.Errorf("%v %v", m, w.info(0).Address)
	}
	if got := fmt.Sprint(w.send(1, eth(mac(78), mac(1)))); got != "[[0 -1]]" {
		t.Error(got)
	}
	w.ok(w.pf.SetVFTrust(0, false))
	w.want(tlv.NotSupported, d.TellMAC(mac(79)))
	if got := fmt.Sprint(w.send(1, eth(mac(77), mac(1))), w.send(1, eth(mac(78), mac(1)))); got != "[[0 -1]] [[-1 -1]]" {
		t.Error(got)
	}
}

// Trust makes a VF promiscuous that has asked for it, at once and until it ends.
//
// IO-28
func TestTrustedModes(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	d := w.up(0)
	w.up(1)
	w.ok(d.VportUpdate(l2.UpdateParams{Accept: &l2.AcceptParams{UpdateRx: true, UpdateTx: true, Rx: l2.Promisc,
		Tx: l2.Promisc}}, nil))
	group, other, pause := ether.Addr{1, 0, 0x5e, 0, 0, 9}, mac(500), ether.Addr{1, 0x80, 0xc2, 0, 0, 1}
	reaches := func(want string) {
		t.Helper()
		if got := fmt.Sprint(w.send(1, eth(group, mac(1))), w.send(1, eth(other, mac(1))), w.send(0, eth(pause, mac(0)))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	reaches("[[-1 -1]] [[-1 -1]] []")
	w.ok(w.pf.SetVFTrust(0, true))
	reaches("[[-1 -1] [0 -1]] [[0 -1]] [[-1 -1]]")
	if i := w.info(0); !i.Promisc || !i.AllMulti {
		t.Errorf("%+v", i)
	}
	w.ok(w.pf.SetVFTrust(0, false))
	reaches("[[-1 -1]] [[-1 -1]] []")
	bins := l2.Bins{}
	bins.Add(group)
	w.ok(d.VportUpdate(l2.UpdateParams{Bins: &bins}, nil))
	reaches("[[-1 -1] [0 -1]] [[-1 -1]] []")
}

// A forced VLAN is put on and taken off without the VF's knowledge; its own VLANs come
// back afterwards.
//
// IO-27
func TestForcedVLAN(t *testing.T) {
	w := newWorld(t, 3, iov.Hooks{})
	d := w.up(0)
	w.up(1)
	w.up(2)
	vlan := func(op l2.Opcode, id uint16) error {
		return d.FilterUcast(l2.UcastParams{Op: op, Type: l2.FilterVLAN, VLAN: id})
	}
	w.ok(vlan(l2.FilterAdd, 7))
	w.ok(vlan(l2.FilterAdd, 8))
	w.ok(w.pf.SetVFVLAN(0, 5, 3, iov.VLANProto))
	w.ok(w.pf.SetVFVLAN(1, 5, 0, iov.VLANProto))
	if _, err := d.ReadBulletin(); err != nil || d.ForcedVLAN() != 5 {
		t.Errorf("%v, VLAN %d", err, d.ForcedVLAN())
	}
	w.want(tlv.Forced, vlan(l2.FilterAdd, 9))
	w.ok(vlan(l2.FilterRemove, 8))
	all := true
	w.ok(d.VportUpdate(l2.UpdateParams{AcceptAnyVLAN: &all}, nil))
	off := false
	w.ok(d.VportUpdate(l2.UpdateParams{InnerVLANRemoval: &off}, nil))
	for _, c := range []struct {
		from int
		b    []byte
		want string
	}{
		{0, eth(mac(9), mac(0)), fmt.Sprintf("[[-1 %d]]", 3<<13|5)},
		{0, eth(mac(9), mac(0), 7), "[]"}, // it has no way to another VLAN
		{0, eth(mac(1), mac(0)), "[[1 -1]]"},
		{1, eth(mac(0), mac(1)), "[[0 -1]]"},
		{2, eth(mac(0), mac(2)), "[[-1 -1]]"},
		{2, eth(mac(0), mac(2), 7), "[[-1 7]]"},
		{2, eth(mac(0), mac(2), 5), "[[0 -1]]"},
	} {
		if got := fmt.Sprint(w.send(c.from, c.b)); got != c.want {
			t.Errorf("from VF %d: %s, want %s", c.from, got, c.want)
		}
	}
	w.ok(w.pf.SetVFVLAN(0, 0, 0, iov.VLANProto))
	w.ok(d.VportUpdate(l2.UpdateParams{AcceptAnyVLAN: &off}, nil))
	if v := w.info(0).VLANs; !slices.Equal(v, []uint16{7}) {
		t.Errorf("VLANs %v", v)
	}
	if got := fmt.Sprint(w.send(0, eth(mac(9), mac(0))), w.send(2, eth(mac(0), mac(2), 7))); got != "[[-1 -1]] [[0 7]]" {
		t.Error(got)
	}
}

// What does not come from the VF's own address is not sent if that is checked.
//
// IO-29
func TestSpoofchk(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	w.ok(w.pf.SetVFSpoofchk(0, true))
	d := w.up(0)
	foreign, own := eth(mac(9), mac(3)), eth(mac(9), mac(0))
	if got := fmt.Sprint(w.send(0, foreign), w.send(0, own)); got != "[] [[-1 -1]]" {
		t.Error(got)
	}
	w.ok(w.pf.SetVFSpoofchk(0, false))
	if got := fmt.Sprint(w.send(0, foreign)); got != "[[-1 -1]]" {
		t.Error(got)
	}
	w.ok(w.pf.SetVFSpoofchk(0, true))
	w.ok(d.RxQueueStop(vfdrv.Queue{}))
	w.ok(d.TxQueueStop(vfdrv.Queue{Usage: 1}))
	w.ok(d.VportStop())
	w.ok(d.Release())
	w.up(0)
	if got := fmt.Sprint(w.send(0, foreign)); got != "[]" {
		t.Errorf("the policy is gone with the driver: %s", got)
	}
}

// What a VF is told of the link need not be so.
//
// IO-20 IO-21 IO-22
func TestLinkState(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	d := w.up(0)
	link := func(up uint8, speed int) {
		t.Helper()
		_, err := d.ReadBulletin()
		if l, s := d.LinkState(); err != nil || l.Up != up || up != 0 && s != speed || d.LinkCaps() != 0x20 || d.LinkParams().Autoneg != 1 {
			t.Errorf("%v: %+v %d, want %d %d", err, l, s, up, speed)
		}
	}
	link(1, 25000)
	w.phys.Up = false
	w.pf.Post()
	link(0, 0)
	w.ok(w.pf.SetVFLinkState(0, iov.LinkEnable))
	link(1, 40000)
	w.ok(w.pf.SetVFRate(0, 100, 2000))
	link(1, 2000)
	w.ok(w.pf.SetVFLinkState(0, iov.LinkDisable))
	link(0, 0)
	w.phys.Up = true
	w.ok(w.pf.SetVFLinkState(0, iov.LinkAuto))
	link(1, 2000)
	w.ok(w.pf.SetVFRate(0, 0, 0))
	link(1, 25000)
	if changed, err := d.ReadBulletin(); changed || err != nil {
		t.Errorf("an old bulletin is new: %v", err)
	}
}

// The bulletin's size is agreed on; what lies behind it in the driver's memory stays.
//
// IO-17 IO-18 IO-23
func TestBulletinSize(t *testing.T) {
	w := newWorld(t, 3, iov.Hooks{})
	for vf, size := range []int{32, 80, 200} {
		d := w.driver(vf, vfdrv.Config{BulletinSize: size})
		w.ok(d.Acquire())
		w.ok(w.pf.SetVFMAC(vf, mac(77)))
		_, err := d.ReadBulletin()
		if m, _ := d.ForcedMAC(); err != nil || m != mac(77) || w.info(vf).Counts.Unreachable != 0 {
			t.Errorf("%d octets: %v, %v", size, err, m)
		}
	}
}

// Filters: one address, two VLANs and one that is never used up, more is not set and
// not told; a hook has the last word.
//
// OV-07
func TestFilters(t *testing.T) {
	asked := 0
	w := newWorld(t, 2, iov.Hooks{CheckUcast: func(vf int, p l2.UcastParams) error {
		asked++
		switch p.MAC {
		case mac(66):
			return status.Inval
		case mac(67):
			return status.Exists
		}
		return nil
	}})
	d := w.up(0)
	add := func(typ l2.FilterType, n int) error {
		return d.FilterUcast(l2.UcastParams{Op: l2.FilterAdd, Type: typ, MAC: mac(n), VLAN: uint16(n)})
	}
	w.ok(add(l2.FilterMAC, 0)) // again
	w.ok(add(l2.FilterMAC, 9)) // beyond: as the firmware says
	for n := 1; n <= 5; n++ {
		w.ok(add(l2.FilterVLAN, n))
	}
	if i := w.info(0); !slices.Equal(i.MACs, []ether.Addr{mac(0)}) || !slices.Equal(i.VLANs, []uint16{1, 2, 3}) {
		t.Errorf("%v %v", i.MACs, i.VLANs)
	}
	w.ok(d.FilterUcast(l2.UcastParams{Op: l2.FilterFlush}))
	w.want(tlv.Failure, add(l2.FilterMAC, 66))
	w.ok(add(l2.FilterMAC, 67))
	if i := w.info(0); len(i.MACs) != 0 {
		t.Errorf("%v: what the hook refuses is set", i.MACs)
	}
	w.ok(d.FilterUcast(l2.UcastParams{Op: l2.FilterFlush, Type: l2.FilterVLAN}))
	w.ok(add(l2.FilterMACVLAN, 4))
	if i := w.info(0); fmt.Sprint(i.MACs, i.VLANs) != "[02:00:00:00:00:04] [4]" || asked < 8 {
		t.Errorf("%v %v, %d questions", i.MACs, i.VLANs, asked)
	}
}

// Queues, RSS, coalescing and MTU by the channel.
//
// IO-31 IO-32
func TestQueues(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	d := w.up(0)
	w.up(1)
	w.queues(d, 1)
	r := &iov.RSS{RSSParams: l2.RSSParams{UpdateConfig: true, UpdateCaps: true, UpdateTable: true, UpdateKey: true,
		Enable: true, Hashes: l2.DefaultHash, TableLog: 1, Key: [l2.KeyLen]byte{1, 2, 3}}}
	r.Queues[1] = 1
	w.ok(d.VportUpdate(l2.UpdateParams{}, r))
	_, _, err := w.pf.RSSConfig(0)
	w.errno(syscall.EPERM, err)
	w.ok(w.pf.SetVFQueryRSS(0, true))
	if table, key, err := w.pf.RSSConfig(0); err != nil || !slices.Equal(table, []int{0, 1}) || key[2] != 3 {
		t.Errorf("%v %v %v", table, key, err)
	}
	bad := *r
	bad.Queues[0] = 2
	w.want(tlv.NotSupported, d.VportUpdate(l2.UpdateParams{}, &bad))
	strip := true
	w.want(tlv.NotSupported, d.VportUpdate(l2.UpdateParams{InnerVLANRemoval: &strip}, &bad)) // that part alone
	w.ok(d.SetCoalesce(1, 30, 60))
	rx, err := d.Coalesce(1, false)
	tx, err2 := d.Coalesce(1, true)
	if rx != 30 || tx != 60 || err != nil || err2 != nil {
		t.Errorf("%d %d %v %v", rx, tx, err, err2)
	}
	w.ok(d.SetCoalesce(1, 0, 90))
	if rx, _ = d.Coalesce(1, false); rx != 30 {
		t.Errorf("0 does not leave it: %d", rx)
	}
	w.want(tlv.Failure, d.SetCoalesce(1, 512, 0))
	w.ok(d.SetMTU(9000))
	long := append(eth(mac(9), mac(0)), make([]byte, 4000)...)
	if got := fmt.Sprint(w.send(0, long)); got != "[[-1 -1]]" || w.info(0).MTU != 9000 {
		t.Errorf("%s after the MTU is longer", got)
	}
	w.want(tlv.Failure, d.SetMTU(9601))
	w.ok(d.RxQueueStop(vfdrv.Queue{ID: 1}))
	w.want(tlv.Failure, d.RxQueueStop(vfdrv.Queue{ID: 1}))
	w.ok(d.TxQueueStop(vfdrv.Queue{ID: 1}))
}

// Several queues of a zone are told apart by QID TLVs if both sides know them.
func TestQueueIDs(t *testing.T) {
	w := newWorld(t, 1, iov.Hooks{})
	d := w.driver(0, vfdrv.Config{Capabilities: tlv.VFQueueQIDs})
	w.ok(d.Acquire())
	w.ok(d.VportStart(l2.StartParams{MTU: 1500}))
	for usage := range 5 {
		_, err := d.TxQueueStart(vfdrv.Queue{Usage: usage, PI: 1, Pages: 1})
		w.ok(err)
	}
	_, err := d.TxQueueStart(vfdrv.Queue{Usage: 4, Pages: 1})
	w.want(tlv.NoResource, err)
	_, err = d.TxQueueStart(vfdrv.Queue{Usage: 64, Pages: 1})
	w.want(tlv.NoResource, err)
	_, err = d.RxQueueStart(vfdrv.Queue{Usage: 9, Pages: 1, BufSize: 2048})
	w.ok(err)
	w.want(tlv.Failure, d.RxQueueStop(vfdrv.Queue{Usage: 3}))
	w.ok(d.TxQueueStop(vfdrv.Queue{Usage: 3}))
	if i := w.info(0); i.TxQueues != 4 || i.RxQueues != 1 {
		t.Errorf("%+v", i)
	}
	w.ok(d.Close())
	if n := len(w.tx) + len(w.rx); n > 0 || w.info(0).State != iov.Stopped {
		t.Errorf("%d queues after CLOSE and RELEASE", n)
	}
}

// Tunnels are as the PF's driver decides, and all VFs hear of the ports.
//
// IO-33
func TestTunnels(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{Tunnels: func(vf int, want l2.TunnelParams) (l2.TunnelParams, error) {
		if want.VXLANPort == 1 {
			return want, status.Inval
		}
		return want, nil
	}})
	d, other := w.up(0), w.up(1)
	var p l2.TunnelParams
	p.Enable[l2.VXLAN], p.Class[l2.VXLAN], p.VXLANPort, p.GenevePort = true, l2.ClassInnerMACVLAN, 4789, 6081
	got, err := d.SetTunnels(p)
	if err != nil || got != p || w.fn.Tunnels() != p {
		t.Errorf("%v, %+v, %+v", err, got, w.fn.Tunnels())
	}
	_, err = other.ReadBulletin()
	w.ok(err)
	if v, g := other.UDPPorts(); v != 4789 || g != 6081 {
		t.Errorf("ports %d and %d", v, g)
	}
	p.VXLANPort = 1
	if got, err = d.SetTunnels(p); got.VXLANPort != 4789 {
		t.Errorf("%+v", got)
	}
	w.want(tlv.Failure, err)
	w = newWorld(t, 1, iov.Hooks{})
	if got, err = w.up(0).SetTunnels(p); err != nil || got != (l2.TunnelParams{}) {
		t.Errorf("%v, %+v: the PF's driver has not decided", err, got)
	}
}

// Rates are the vport's, and wait for it.
//
// IO-30
func TestRates(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	w.ok(w.pf.SetVFRate(0, 200, 1000))
	w.up(0)
	if p := w.info(0).Policy; p.MinRate != 200 || p.MaxRate != 1000 {
		t.Errorf("%+v", p)
	}
	w.errno(syscall.EINVAL, w.pf.SetVFRate(0, 1, 1000)) // less than a hundredth of the PF's
	if p := w.info(0).Policy; p.MinRate != 200 {
		t.Errorf("%+v", p)
	}
}
