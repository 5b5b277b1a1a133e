package mcp_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/mfw/tlv"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// MF-29 MF-30 MF-31 MF-32 MF-33 MF-34 MF-35 What a driver pushes is always
// taken, the same again too, in any state.
func TestPush(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	d := r.drv[0]
	for range 2 {
		for _, call := range []func(now frame.Time, done func(error)){
			func(now frame.Time, done func(error)) { d.OVUpdateCurrentConfig(mfw.ClientOS, now, done) },
			func(now frame.Time, done func(error)) { d.OVUpdateMTU(9000, now, done) },
			func(now frame.Time, done func(error)) { d.OVUpdateMAC([6]byte{2, 9, 8, 7, 6, 5}, now, done) },
			func(now frame.Time, done func(error)) { d.OVUpdateWoL(mfw.WoLEnabled, now, done) },
			func(now frame.Time, done func(error)) { d.OVUpdateDriverState(mfw.DriverActive, now, done) },
			func(now frame.Time, done func(error)) { d.OVUpdateESwitch(mfw.ESwitchVEB, now, done) },
			func(now frame.Time, done func(error)) { d.OVUpdateStormFW(0x083b0100, now, done) },
			func(now frame.Time, done func(error)) { d.SendDrvVersion(0x01020304, "tapir 1.0", now, done) },
		} {
			r.must(call)
		}
		if got, want := r.fw.Pushed(0), (mfw.Pushed{Client: mfw.ClientOS, MTU: 9000, MAC: [6]byte{2, 9, 8, 7, 6, 5}, WoL: mfw.WoLEnabled,
			State: mfw.DriverActive, ESwitch: mfw.ESwitchVEB, StormFW: 0x083b0100, Driver: "tapir 1.0", DriverNumber: 0x01020304}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if d.Info().MTU != 9000 {
		t.Errorf("func_info: MTU %d", d.Info().MTU)
	}
	r.up(0)
	if s := r.fw.Pushed(0).State; s != mfw.DriverLoading {
		t.Errorf("after a load: %v", s)
	}
	if _, err := r.unload(0); err != nil {
		t.Fatal(err)
	}
	r.must(d.UnloadDone)
	if s := r.fw.Pushed(0).State; s != mfw.DriverNotLoaded {
		t.Errorf("after the unload: %v", s)
	}
}

// MF-36 MF-37 MF-38 MF-39 MF-46 A request is only noted in the interrupt. The
// groups that fit the personality are filled, what is set is told, and the
// firmware hears that it is done, even of a request that nobody can read.
func TestPull(t *testing.T) {
	for _, c := range []struct {
		protocol mfw.Protocol
		groups   []tlv.Group
	}{
		{mfw.ProtocolEthernet, []tlv.Group{tlv.Generic, tlv.Eth}},
		{mfw.ProtocolRoCE, []tlv.Group{tlv.Generic, tlv.Eth}},
		{mfw.ProtocolISCSI, []tlv.Group{tlv.Generic, tlv.ISCSI}},
		{mfw.ProtocolFCoE, []tlv.Group{tlv.Generic, tlv.FCoE}},
	} {
		cfg := board(1, 1, 1)
		cfg.Funcs[0].Protocol = c.protocol
		r := newRig(t, cfg)
		var groups []tlv.Group
		r.seen[0].fill = func(g tlv.Group, v *tlv.Values) {
			groups = append(groups, g)
			switch g {
			case tlv.Generic:
				v.SetBytes(tlv.LocalMAC, []byte{2, 1, 2, 3, 4, 5})
				v.Set(tlv.RxFrames, 1<<40+7)
			case tlv.Eth:
				v.Set(tlv.TxRing, 8192)
			case tlv.ISCSI:
				v.Set(tlv.HeaderDigest, 1)
			case tlv.FCoE:
				v.SetText(tlv.SwitchName, "switch seven")
			}
		}
		r.up(0)
		asked := []tlv.Type{tlv.LocalMAC, tlv.RxFrames, tlv.TxFrames, tlv.TxRing, tlv.NetQueues, tlv.HeaderDigest, tlv.SwitchName, tlv.RDMADriverVersion}
		r.fw.AskTLV(0, tlv.Request(asked...))
		r.settle()
		if _, done := r.fw.TLVAnswer(0); done || r.seen[0].tlv != 1 || len(groups) != 0 || !r.drv[0].TLVRequested() {
			t.Fatalf("in the interrupt: done %v, %d requests, groups %v", done, r.seen[0].tlv, groups)
		}
		r.must(r.drv[0].ProcessTLVReq)
		b, done := r.fw.TLVAnswer(0)
		list, err := tlv.Parse(b)
		if err != nil || !done || !slices.Equal(groups, c.groups) {
			t.Fatalf("protocol %d: %v, done %v, groups %v", c.protocol, err, done, groups)
		}
		var filled []tlv.Type
		for _, v := range list {
			if v.Filled() {
				filled = append(filled, v.Type)
			}
		}
		expect := []tlv.Type{tlv.LocalMAC, tlv.RxFrames, map[tlv.Group]tlv.Type{tlv.Eth: tlv.TxRing, tlv.ISCSI: tlv.HeaderDigest, tlv.FCoE: tlv.SwitchName}[c.groups[1]]}
		if !slices.Equal(filled, expect) || list[1].Uint() != 1<<40+7 || !bytes.HasPrefix(list[0].Value, []byte{2, 1, 2, 3, 4, 5}) {
			t.Errorf("protocol %d: filled %v, want %v; frames %d", c.protocol, filled, expect, list[1].Uint())
		}
		r.fw.AskTLV(0, []byte{byte(tlv.RxFrames), 200, 0, 0})
		r.settle()
		want(t, "a request that does not end", r.do(r.drv[0].ProcessTLVReq), status.Inval)
		if _, done := r.fw.TLVAnswer(0); !done {
			t.Error("the firmware waits for ever")
		}
	}
}

// MF-42 Temperature, LED and GPIO.
func TestBoard(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	d := r.up(0)
	read := func() (list []mfw.Sensor) {
		r.must(func(now frame.Time, done func(error)) {
			d.Temperatures(now, func(s []mfw.Sensor, err error) { list = s; done(err) })
		})
		return list
	}
	if s := read(); len(s) != 2 || s[0] != (mfw.Sensor{ID: 0, ThresholdHigh: 95, CritHigh: 105, Current: 52}) {
		t.Errorf("%+v", s)
	}
	for _, c := range []int32{-7, 104, 105, 110, 60, 106} {
		r.fw.SetTemperature(0, c)
		r.settle()
		if s := read(); s[0].Current != c {
			t.Errorf("%d degrees: %+v", c, s[0])
		}
	}
	if n := len(r.seen[0].errors); n != 2 { // XX-05 each time that it gets too hot
		t.Errorf("%d alarms", n)
	}
	for _, mode := range []mfw.LED{mfw.LEDOn, mfw.LEDOff, mfw.LEDOper} {
		r.must(func(now frame.Time, done func(error)) { d.SetLED(mode, now, done) })
		if r.fw.LED(0) != mode {
			t.Errorf("LED %v", r.fw.LED(0))
		}
	}
	want(t, "LED mode 3", r.do(func(now frame.Time, done func(error)) { d.SetLED(3, now, done) }), status.Inval)
	level := uint32(9)
	r.must(func(now frame.Time, done func(error)) { d.GPIOWrite(3, 1, now, done) })
	r.must(func(now frame.Time, done func(error)) {
		d.GPIORead(3, now, func(v uint32, err error) { level = v; done(err) })
	})
	if level != 1 {
		t.Errorf("pin 3: %d", level)
	}
	want(t, "an input", r.do(func(now frame.Time, done func(error)) { d.GPIOWrite(20, 1, now, done) }), status.Inval)
	want(t, "pin 32", r.do(func(now frame.Time, done func(error)) { d.GPIOInfo(32, now, func(_ uint32, err error) { done(err) }) }), status.Inval)
}

// XX-05 A fan that fails and a firmware that finds its undoing are hardware
// errors.
func TestHardwareErrors(t *testing.T) {
	r := newRig(t, board(1, 1, 2))
	r.up(0)
	r.fw.FailFan()
	r.settle()
	r.fw.CriticalError()
	r.settle()
	if e := r.seen[0].errors; !slices.Equal(e, []mcp.HWError{mcp.HWErrFanFail, mcp.HWErrFWAssert}) || len(r.seen[1].errors) != 0 {
		t.Errorf("%v, and of a function without a driver %v", e, r.seen[1].errors)
	}
}

// MF-42 The module's memory, in the layout of SFF-8472 and SFF-8636.
func TestModuleMemory(t *testing.T) {
	read := func(r *rig, addr uint8, offset, length int) (b []byte, err error) {
		err = r.do(func(now frame.Time, done func(error)) {
			r.drv[0].ReadModule(addr, offset, length, now, func(got []byte, err error) { b = got; done(err) })
		})
		return b, err
	}
	sum := func(b []byte) (s byte) {
		for _, v := range b {
			s += v
		}
		return s
	}
	cfg := board(1, 1, 1)
	cfg.Ports[0].Media = mfw.MediaSFPP10G
	r := newRig(t, cfg)
	a0, err := read(r, mfw.PageA0, 0, 256)
	if err != nil || a0[0] != 3 || string(a0[20:25]) != "TAPIR" || a0[63] != sum(a0[:63]) || a0[95] != sum(a0[64:95]) {
		t.Errorf("A0: %v, %x", err, a0)
	}
	r.fw.SetTemperature(1, 33)
	if a2, err := read(r, mfw.PageA2, 96, 10); err != nil || a2[0] != 33 || a2[1] != 0 || a2[8]|a2[9] == 0 {
		t.Errorf("A2: %v, %x", err, a2)
	}
	r.fw.SetSignal(0, false)
	if a2, _ := read(r, mfw.PageA2, 104, 2); a2[0]|a2[1] != 0 {
		t.Errorf("power without light: %x", a2)
	}
	cfg.Ports[0].Media = mfw.MediaDAC
	r = newRig(t, cfg)
	q, err := read(r, mfw.PageA0, 0, 256)
	if err != nil || q[0] != 0x11 || q[191] != sum(q[128:191]) || q[223] != sum(q[192:223]) || !strings.HasPrefix(string(q[168:184]), "TAPIR-QSFP28-CR4") {
		t.Errorf("QSFP: %v, %x", err, q)
	}
	_, err = read(r, mfw.PageA2, 0, 16)
	want(t, "a page that there is not", err, status.Inval)
	_, err = read(r, mfw.PageA0, 250, 7)
	want(t, "beyond the page", err, status.Inval)
	r.fw.SetModule(0, false)
	_, err = read(r, mfw.PageA0, 0, 1)
	want(t, "without a module", err, status.NoDev)
}

// MF-43 The firmware asks for statistics of each kind, and gets them.
func TestProtocolStats(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	r.up(0)
	r.seen[0].stats = mfw.ProtocolStats{Rx: 1 << 33, Tx: 5, RxBytes: 6, TxBytes: 7, FCSErrors: 8, LoginFailures: 9}
	for kind := mfw.StatsLAN; kind <= mfw.StatsRDMA; kind++ {
		r.fw.AskStats(0, kind)
		r.settle()
		expect := mfw.ProtocolStats{Rx: 1<<33 + uint64(kind), Tx: 5, RxBytes: 6, TxBytes: 7}
		if kind <= mfw.StatsFCoE {
			expect = mfw.ProtocolStats{Rx: 1<<33 + uint64(kind), Tx: 5, FCSErrors: 8, LoginFailures: 9}
		}
		if got := r.fw.ProtocolStats(0, kind); got != expect {
			t.Errorf("kind %d: %+v, want %+v", kind, got, expect)
		}
	}
}

// MF-44 A resource has one owner, for as long as it said.
func TestResourceLocks(t *testing.T) {
	r := newRig(t, board(1, 1, 2))
	lock := func(fn int, seconds uint8) error {
		return r.do(func(now frame.Time, done func(error)) { r.drv[fn].Lock(mfw.LockRescAlloc, seconds, now, done) })
	}
	unlock := func(fn int, force bool) error {
		return r.do(func(now frame.Time, done func(error)) { r.drv[fn].Unlock(mfw.LockRescAlloc, force, now, done) })
	}
	for _, c := range []struct {
		seconds uint8
		ends    time.Duration
	}{{mfw.LockDefault, 5 * time.Second}, {2, 2 * time.Second}, {254, 254 * time.Second}, {mfw.LockNone, 0}} {
		want(t, "lock", lock(0, c.seconds), status.Success)
		want(t, "lock of another", lock(1, 1), status.Busy)
		want(t, "unlock of another", unlock(1, false), status.Inval)
		if c.ends == 0 {
			r.pass(1000 * time.Hour)
			want(t, "for ever", lock(1, 1), status.Busy)
			want(t, "by force", unlock(1, true), status.Success)
		} else {
			r.pass(c.ends - 1)
			want(t, "not yet", lock(1, 1), status.Busy)
			r.pass(1)
		}
		want(t, "lock", lock(1, 1), status.Success)
		want(t, "once more by the owner", lock(1, mfw.LockNone), status.Success)
		want(t, "unlock", unlock(1, false), status.Success)
		want(t, "unlocked before", unlock(1, false), status.Success)
	}
	r.up(0)
	want(t, "lock", lock(0, mfw.LockNone), status.Success)
	r.must(r.drv[0].InitiatePFFLR)
	want(t, "of one that was reset", lock(1, 1), status.Success)
}

// The firmware divides what functions of an engine share.
func TestResourceAlloc(t *testing.T) {
	r := newRig(t, board(2, 1, 8))
	for _, fn := range []int{0, 5, 15} {
		var s mcp.Share
		r.must(func(now frame.Time, done func(error)) {
			r.drv[fn].GetResource(mfw.ResourceLLHFilter, now, func(got mcp.Share, err error) { s = got; done(err) })
		})
		if s != (mcp.Share{Start: uint32(fn%8) * 64, Num: 64}) {
			t.Errorf("function %d: %+v", fn, s)
		}
	}
	for num, code := range map[uint32]status.Code{26: status.Success, 27: status.NoResources} {
		err := r.do(func(now frame.Time, done func(error)) {
			r.drv[0].SetResource(mfw.ResourceVPort, num, now, func(s mcp.Share, err error) {
				if s.Num != 26 {
					t.Errorf("share %d", s.Num)
				}
				done(err)
			})
		})
		want(t, "vports", err, code)
	}
	want(t, "an unknown one", r.do(func(now frame.Time, done func(error)) {
		r.drv[0].GetResource(99, now, func(_ mcp.Share, err error) { done(err) })
	}), status.NotImpl)
}

// MF-45 Crash data: logs while there is room, and what outlives them.
func TestMdump(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	d := r.up(0)
	var data []byte
	op := func(op uint32, words ...uint32) error {
		return r.do(func(now frame.Time, done func(error)) {
			d.Mdump(op, words, now, func(b []byte, err error) { data = slices.Clone(b); done(err) })
		})
	}
	want(t, "a dump before it is enabled", op(mfw.MdumpTrigger), status.Inval)
	want(t, "values", op(mfw.MdumpSetValues, 1234, 2, 3), status.Success)
	want(t, "enable", op(mfw.MdumpSetEnable), status.Success)
	for range 4 {
		want(t, "trigger", op(mfw.MdumpTrigger), status.Success)
	}
	want(t, "a fifth", op(mfw.MdumpTrigger), status.Inval)
	want(t, "config", op(mfw.MdumpGetConfig), status.Success)
	if c := mfw.DecodeMdumpConfig(data); c.Epoch != 1234 || c.ValidLogs != 4 || c.MaxLogs != 4 || c.Config != 1 {
		t.Errorf("%+v", c)
	}
	r.fw.CriticalError()
	r.settle()
	want(t, "retain", op(mfw.MdumpGetRetain), status.Success)
	if c := mfw.DecodeMdumpRetain(data); c.Valid != 1 || c.Epoch != 1234 || c.Status != 2 || r.fw.Shared().Global.MdumpReason != 2 {
		t.Errorf("%+v", c)
	}
	want(t, "ack", op(mfw.MdumpAck), status.Success)
	want(t, "clear", op(mfw.MdumpClearLogs), status.Success)
	want(t, "clear what is retained", op(mfw.MdumpClearRetain), status.Success)
	want(t, "retain", op(mfw.MdumpGetRetain), status.Success)
	if c := mfw.DecodeMdumpRetain(data); c.Valid != 0 || r.fw.Shared().Global.MdumpReason != 0 {
		t.Errorf("%+v", c)
	}
	want(t, "an unknown operation", op(0x77), status.NotImpl)
}

// Features are told both ways, and EEE only where there is EEE.
func TestFeatures(t *testing.T) {
	for media, expect := range map[mfw.Media]mfw.Features{mfw.MediaBaseT: mfw.FeatureEEE | mfw.FeatureLoadTimeout, mfw.MediaKR: mfw.FeatureLoadTimeout} {
		cfg := board(1, 1, 1)
		cfg.Ports[0].Media = media
		r := newRig(t, cfg)
		r.must(func(now frame.Time, done func(error)) {
			r.drv[0].GetCapabilities(mfw.FeatureEEE|mfw.FeatureSmartLinQ, now, func(f mfw.Features, err error) {
				if f != expect {
					t.Errorf("%v: %#x", media, f)
				}
				done(err)
			})
		})
	}
}

// MF-42 The flash through the mailbox: reads, writes, files, options, and
// selftests that find damage.
func TestNVMByMailbox(t *testing.T) {
	r := newRig(t, board(1, 1, 1))
	d := r.up(0)
	image := func(typ nvm.Type) (b []byte, err error) {
		err = r.do(func(now frame.Time, done func(error)) {
			d.NVMImage(typ, now, func(got []byte, err error) { b = got; done(err) })
		})
		return b, err
	}
	num := func() (n int, err error) {
		err = r.do(func(now frame.Time, done func(error)) {
			d.NVMNumImages(now, func(i int, err error) { n = i; done(err) })
		})
		return n, err
	}
	mf, err := image(nvm.TypeMFW)
	if v, ok := nvm.MFWVersion(mf); err != nil || !ok || v != mfw.DefaultVersion {
		t.Errorf("%v, %#x", err, v)
	}
	_, err = image(0x55)
	want(t, "no such image", err, status.NoEnt)
	flash := func(kind uint32, b []byte) error {
		return r.do(func(now frame.Time, done func(error)) { d.NVMFlash(kind, b, now, done) })
	}
	want(t, "flash", flash(mfw.PutMFW, append([]byte{9, 1, 2, 3}, make([]byte, 99)...)), status.Success)
	mf, err = image(nvm.TypeMFW)
	if v, _ := nvm.MFWVersion(mf); err != nil || v != 0x09010203 {
		t.Errorf("%v, %#x", err, v)
	}
	want(t, "no firmware", flash(mfw.PutMFW, make([]byte, 40)), status.Inval)
	want(t, "too large", flash(mfw.PutMFW, bytes.Repeat([]byte{1}, 5000)), status.Inval)
	want(t, "empty", flash(mfw.PutMFW, nil), status.Inval)
	want(t, "unknown kind", flash(9, make([]byte, 40)), status.NoEnt)
	if again, _ := image(nvm.TypeMFW); !bytes.Equal(again, mf) {
		t.Error("a refused file was written")
	}
	n, err := num()
	if err != nil || n != 6 {
		t.Errorf("%d images, %v", n, err)
	}
	for i := range n + 1 {
		err := r.do(func(now frame.Time, done func(error)) {
			d.NVMImageAtt(i, now, func(_ nvm.Entry, err error) { done(err) })
		})
		want(t, "image", err, map[bool]status.Code{true: status.Success, false: status.Inval}[i < n])
	}
	options(t, r)
	r.must(func(now frame.Time, done func(error)) { d.NVMWrite(8, []byte{0, 0, 0, 1}, now, done) }) // the directory's place
	_, err = num()
	want(t, "a damaged directory", err, status.NoDev)
	_, err = image(nvm.TypeMFW)
	want(t, "a damaged directory", err, status.IO)
	want(t, "flash", flash(mfw.PutMFW, []byte{9, 9, 9, 9}), status.IO)
	want(t, "beyond", r.do(func(now frame.Time, done func(error)) { d.NVMWrite(nvm.Size-2, []byte{1, 2, 3}, now, done) }), status.Inval)
	for test, code := range map[uint32]status.Code{mfw.BISTRegister: status.Success, mfw.BISTClock: status.IO, 9: status.Inval} {
		r.fw.SetFaults(mfw.Faults{BIST: 1 << mfw.BISTClock})
		want(t, "selftest", r.do(func(now frame.Time, done func(error)) { d.BIST(test, now, done) }), code)
	}
}

func options(t *testing.T, r *rig) {
	d := r.drv[0]
	get := func(id uint16, entity uint8) (b []byte, err error) {
		err = r.do(func(now frame.Time, done func(error)) {
			d.NVMGetOption(id, entity, now, func(got []byte, err error) { b = slices.Clone(got); done(err) })
		})
		return b, err
	}
	set := func(id uint16, entity uint8, v []byte, flags uint32) error {
		return r.do(func(now frame.Time, done func(error)) { d.NVMSetOption(id, entity, v, flags, now, done) })
	}
	want(t, "not committed", set(1, 0, []byte("abc"), mfw.OptionInit), status.Success)
	_, err := get(1, 0)
	want(t, "not committed", err, status.NoEnt)
	want(t, "committed", set(2, 3, []byte("defg"), mfw.OptionCommit|mfw.OptionFree), status.Success)
	for _, c := range []struct {
		id     uint16
		entity uint8
		value  string
	}{{1, 0, "abc"}, {2, 3, "defg"}} {
		if b, err := get(c.id, c.entity); err != nil || string(b) != c.value {
			t.Errorf("option %d: %q, %v", c.id, b, err)
		}
	}
	want(t, "another value", set(1, 0, []byte("x"), mfw.OptionInit|mfw.OptionCommit|mfw.OptionFree), status.Success)
	if b, _ := get(1, 0); string(b) != "x" {
		t.Errorf("%q", b)
	}
	want(t, "too long", set(1, 0, make([]byte, 33), mfw.OptionCommit), status.Inval)
	want(t, "no value", set(1, 0, nil, mfw.OptionCommit), status.Inval)
}
