package nic

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/npar"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// saying counts the lines of the NIC's log with a text.
func (r *vfRig) saying(text string) (n int) {
	for _, l := range r.dev.ShowLog(0) {
		if strings.Contains(l.Text, text) {
			n++
		}
	}
	return n
}

func (r *vfRig) said(text string) bool { return r.saying(text) > 0 }

// With unique_mac a VF's driver may not use the address of the PF or of another VF, and goes
// on with its own; the PF's administrator may set any.
//
// OV-07
func TestVFUniqueMAC(t *testing.T) {
	for _, unique := range []bool{false, true} {
		r := newVFs(t, Config{}, fastlinq.SRIOV{UniqueMAC: unique}, 3)
		v, own := r.b.VFs()[0], r.mac[0]
		for _, a := range []ether.Addr{r.dev.cfg.MAC, r.mac[1]} {
			if err := v.SetMAC(a); (err != nil) != unique || r.said("may not use the address "+a.String()) != unique {
				t.Errorf("unique_mac %v: address %v of another: %v", unique, a, err)
			}
		}
		r.send(-1, vfFrame(r.mac[1], vfPeer, 0))
		if got := r.where(); (got == 1<<1) != unique { // else two VFs hear it
			t.Errorf("unique_mac %v: heard by %#x", unique, got)
		}
		if unique {
			r.passes(2, own, r.mac[2], 1<<0)
		}
		free := ether.Addr{2, 0, 0, 0, 0, 9}
		r.ok(v.SetMAC(free))
		r.passes(2, free, r.mac[2], 1<<0)
		r.set(2, "mac", r.mac[1].String())
	}
}

// vxlanTo is a frame of VXLAN for a station outside and one inside.
func vxlanTo(outer, inner ether.Addr, port uint16) []byte {
	in := append([]byte{0, 9, byte(port >> 8), byte(port), 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0}, vfFrame(inner, vfPeer, 0)...)
	in[4], in[5] = byte(len(in)>>8), byte(len(in))
	return append(ether.Header{Dst: outer, Src: vfPeer, Type: ether.TypeIPv4}.AppendTo(nil),
		packet(ip.Header{Proto: ip.ProtoUDP, Src: peer4, Dst: nic4}, in)...)
}

// A VF that may change the device's tunnels does so for all: frames come to the VF whose
// address is inside, the PF's settings and all bulletins have the port. What the device has
// not is refused and changes nothing; without vf_tunnels everything stays as it is.
//
// IO-33
func TestVFTunnels(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		r := newVFs(t, Config{}, fastlinq.SRIOV{Tunnels: allowed}, 3)
		r.setting("vxlan_port", "4789")
		d, other := r.hand(0, vfdrv.Config{}), r.hand(2, vfdrv.Config{})
		r.ok(d.Acquire())
		r.ok(other.Acquire())
		var got l2.TunnelParams
		got.VXLANPort, got.Enable[l2.VXLAN] = 4789, true
		if is, err := d.SetTunnels(got); err != nil || is != got {
			t.Errorf("the VF learns %+v: %v", is, err)
		}
		b := vxlanTo(vfPeer, r.mac[1], 5555)
		hears := func() bool { r.send(-1, b); return r.where()&(1<<1) != 0 }
		if hears() {
			t.Error("a VF gets a frame by the address inside")
		}
		want := got
		want.Enable[l2.IPGRE] = true
		if now, err := d.SetTunnels(want); (err != nil) != allowed || now != got {
			t.Errorf("vf_tunnels %v: GRE: %v %+v", allowed, err, now)
		}
		want = got
		want.VXLANPort, want.Class[l2.VXLAN] = 5555, l2.ClassInnerMACVLAN
		now, err := d.SetTunnels(want)
		r.ok(err)
		port := r.dev.cfg.Param("vxlan_port").Get()
		if (now.VXLANPort == 5555 && now.Class[l2.VXLAN] == l2.ClassInnerMACVLAN) != allowed || hears() != allowed || (port == "5555") != allowed {
			t.Errorf("vf_tunnels %v: %+v, vxlan_port %s", allowed, now, port)
		}
		if _, err := other.ReadBulletin(); err != nil {
			t.Error(err)
		}
		vxlan, _ := other.UDPPorts()
		if (vxlan == 5555) != allowed {
			t.Errorf("vf_tunnels %v: another VF learns port %d", allowed, vxlan)
		}
		r.setting("vxlan_port", "7777")
		if _, err := d.ReadBulletin(); err != nil {
			t.Error(err)
		}
		if vxlan, _ := d.UDPPorts(); vxlan != 7777 || hears() {
			t.Errorf("the administrator's port: VFs learn %d", vxlan)
		}
	}
}

// setting changes a setting of the NIC.
func (r *vfRig) setting(name, value string) {
	r.t.Helper()
	r.ok(r.dev.Set(Setting{name, value}))
	r.run(0)
}

// A malicious VF is logged, counted and shown, and sends and receives nothing; the others go
// on. A reset ends it.
//
// IO-25
func TestVFMalicious(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{}, 3)
	d := r.hand(1, vfdrv.Config{})
	r.ok(d.Acquire())
	mac := ether.Addr{2, 0, 0, 0, 0, 0x41}
	d.up(mac, 1)
	r.passes(1, r.mac[0], mac, 1<<0)
	r.refused(tlv.Malicious, d.VportStop()) // with queues open
	r.run(0)
	if row := r.b.Show()[1]; row.Malicious != "VPORT_TEARDOWN with open queues" || r.b.Show()[0].Malicious != "" {
		t.Errorf("%+v", row)
	}
	if !r.said("VF 1 (absolute 1) is malicious: VPORT_TEARDOWN with open queues") ||
		r.counter("vf1_malicious") != 1 || r.counter("vf0_malicious") != 0 || r.ethtoolStat("vf1_malicious") != 1 {
		t.Errorf("counted %d, by ethtool -S %d", r.counter("vf1_malicious"), r.ethtoolStat("vf1_malicious"))
	}
	r.refused(tlv.Malicious, d.SetMTU(1400))
	r.passes(1, r.mac[0], mac, 0)
	r.passes(0, mac, r.mac[0], vfWire) // nobody here has the address
	r.passes(0, r.mac[2], r.mac[0], 1<<2)
	r.passes(2, vfPeer, r.mac[2], vfWire)
	r.b.VFs()[1].TakeBack(r.w.now)
	r.run(200 * time.Millisecond)
	r.clear()
	r.passes(1, r.mac[0], r.mac[1], 1<<0)
	if row := r.b.Show()[1]; row.Malicious != "" || r.counter("vf1_malicious") != 1 || row.Resets == 0 {
		t.Errorf("after a reset: %+v", row)
	}
}

// The PF's driver dies and recovers: VFs lose their link, and a driver outside reads on its
// bulletin board that the channel is closed. Afterwards VFs work again by themselves, with
// the policies that they had, and the driver outside once it acquires its VF again.
func TestVFPFRecovery(t *testing.T) {
	lost := map[string]func(r *vfRig){
		"process kill": func(r *vfRig) { r.dev.MFW().ProcessKill(0); r.dev.Manage(r.w.now) },
		"auto_recover": func(r *vfRig) {
			r.setting("auto_recover", "1")
			r.dev.begin(r.w.now)
			fastlinq.Of(r.dev.Hardware).Core().Lead().HWError(ecore.FWAssert, errors.New("a ramrod that must not be"))
		},
		"MCP reset": func(r *vfRig) {
			r.setting("mfw", "stuck")
			r.setting("link_speed", "25G")
			r.run(10 * time.Second) // the driver gives the firmware up
			r.setting("mfw", "running")
		},
	}
	for _, engines := range []int{1, 2} {
		for name, lose := range lost {
			testPFRecovery(t, name, lose, engines, name == "process kill") // by any channel
		}
	}
}

func testPFRecovery(t *testing.T, name string, lose func(r *vfRig), engines int, hw bool) {
	r := newVFs(t, Config{Hardware: &fastlinq.Config{Engines: engines}, Queues: engines},
		fastlinq.SRIOV{HWChannel: hw}, 3)
	d := r.hand(2, vfdrv.Config{})
	r.ok(d.Acquire())
	mac := ether.Addr{2, 0, 0, 0, 0, 0x42}
	d.up(mac, 1)
	r.set(0, "vlan", "7")
	r.set(0, "vlan", "0")
	r.set(0, "mac", "02:00:00:00:00:77")
	r.passes(0, r.mac[1], r.mac[0], 1<<1)
	r.passes(2, r.mac[1], mac, 1<<1)
	lose(r)
	r.b.Poll(r.w.now)
	if r.vfs[0].up || r.vfs[1].up {
		t.Errorf("%s: a VF has its link while the PF recovers", name)
	}
	r.clear()
	r.passes(0, r.mac[1], r.mac[0], 0)
	if changed, err := d.ReadBulletin(); !changed || err != nil || !d.Closed() {
		t.Errorf(name+": the bulletin: %v %v %+v", changed, err, d.Bulletin())
	}
	if err := d.SetMTU(1400); err == nil {
		t.Error("a message by a closed channel")
	}
	r.run(200 * time.Millisecond)
	r.clear()
	if !r.vfs[0].up || r.mac[0] != (ether.Addr{2, 0, 0, 0, 0, 0x77}) {
		t.Fatalf("%s: the VF does not come back as it was: %v %v %+v", name, r.vfs[0].up, r.mac[0], r.b.Show()[0])
	}
	r.passes(0, r.mac[1], r.mac[0], 1<<1)
	r.passes(1, r.mac[0], r.mac[1], 1<<0)
	r.passes(2, r.mac[1], mac, 0)
	r.ok(d.Acquire())
	d.up(mac, 1)
	r.passes(2, r.mac[1], mac, 1<<1)
	r.passes(1, mac, r.mac[1], 1<<2)
}

// While the PF's driver is unloaded there can be no new VFs, and those that there are do not
// work; with the driver they do again.
func TestVFPFUnloaded(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{Total: 4}, 2)
	r.setting("driver", "unloaded")
	r.run(300 * time.Millisecond)
	r.clear()
	r.passes(0, r.mac[1], r.mac[0], 0)
	r.ok(r.b.IOV().SetNumVFs(0))
	if err := r.b.IOV().SetNumVFs(3); fastlinq.VFErrno(err) != "ENODEV" {
		t.Errorf("3 VFs without a driver: %v", err)
	}
	r.setting("driver", "loaded")
	r.run(200 * time.Millisecond)
	r.numVFs(3)
	r.clear()
	r.passes(0, r.mac[2], r.mac[0], 1<<2)
}

// Two functions of a device with four VFs each: a VF of the second has an absolute id that is
// not the one it has at its PF, and is reached by the latter.
//
// IO-04
func TestVFAbsoluteIDs(t *testing.T) {
	const vfs = 4
	x, cfgs := prepareFunctions(t, "1x25G", fastlinq.NPAR, []int{0, 0}, nil)
	var bridges []*fastlinq.VFBridge
	ends := map[int]*vfEnd{}
	mac := map[int]ether.Addr{}
	for fn, cfg := range cfgs {
		slot := x.card.Slot(fn)
		b := fastlinq.NewVFBridge(x.pool, slot)
		d, err := New(cfg, Env{Pool: x.pool, Wire: b, Device: x.chip, Function: fn, Line: slot.Line(), Tagged: slot.SetTag})
		if err != nil {
			t.Fatal(err)
		}
		x.devs, bridges = append(x.devs, d), append(bridges, b)
		slot.Enter(b, npar.Parts{Station: &d.IP.MAC, Wire: d.Wire, Owns: b.Owns})
		d.LinkUp(x.now)
		if err := x.fastlinq(fn).OpenVFs(b, fastlinq.VFEngine{Engine: d, Wire: d.Wire}, fastlinq.SRIOV{Total: vfs, Queues: 1}); err != nil {
			t.Fatal(err)
		}
		if err := b.IOV().SetNumVFs(vfs); err != nil {
			t.Fatal(err)
		}
		for i, v := range b.VFs() {
			at := vfs*fn + i
			ends[at] = &vfEnd{room: 64}
			if err := v.Open(fastlinq.VFNetdev{Host: ends[at], MTU: 1500, Queues: 1}); err != nil {
				t.Fatal(err)
			}
			mac[at] = v.MAC()
		}
	}
	x.rest()
	for fn := range cfgs {
		for i, row := range x.fastlinq(fn).ShowVF() {
			info, err := bridges[fn].IOV().VFInfo(i)
			if at := vfs*fn + i; err != nil || row.VF != i || row.Absolute != at || info.FID != iov.FirstFID+at {
				t.Errorf("function %d, VF %d: %+v: %v", fn, i, row, err)
			}
		}
	}
	// from VF 1 of the second function to VF 1 of the first, by way of the port's switch
	b := vfFrame(mac[1], mac[5], 0)
	f := x.pool.Get(len(b))
	f.Append(b)
	x.now += frame.Time(time.Second)
	x.rest()
	for _, e := range ends {
		e.take()
	}
	x.card.Receive(npar.VFPort(1)+1, []*frame.Frame{f}, x.now)
	x.rest()
	x.now += frame.Time(time.Second)
	x.rest()
	for at, e := range ends {
		if got := len(e.take()); got != map[bool]int{true: 1}[at == 1] {
			t.Errorf("the VF with absolute id %d gets %d frames", at, got)
		}
	}
	// a policy names a VF by its number at its PF
	set, err := fastlinq.ParseVFSet([]string{"state", "disable"})
	if err == nil {
		err = set.Apply(bridges[1].IOV(), 2)
	}
	first, _ := bridges[0].IOV().VFInfo(2)
	second, _ := bridges[1].IOV().VFInfo(2)
	if err != nil || !first.Link.Up || second.Link.Up {
		t.Errorf("%v: VF 2 of the first function %v, of the second %v", err, first.Link.Up, second.Link.Up)
	}
}
