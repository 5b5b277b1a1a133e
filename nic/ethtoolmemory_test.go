package nic

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/status"
)

// MF-42 The flash is read through the firmware, as long as its header says; a
// firmware that does not answer ends the call with TIMEOUT.
func TestReadEEPROM(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	read := func(offset, length uint32) (b []byte, err error) {
		t.Helper()
		ended := false
		a.dev.ReadEEPROM(offset, length, w.now, func(got []byte, e error) { b, err, ended = got, e, true })
		for i := 0; i < 100 && !ended; i++ {
			w.run(100 * time.Millisecond)
		}
		if !ended {
			t.Fatal("the call does not end")
		}
		return b, err
	}
	all, err := read(0, 0)
	if err != nil || len(all) < nvm.Size || binary.BigEndian.Uint32(all) != nvm.Signature {
		t.Fatalf("%d octets, %v", len(all), err)
	}
	size := uint32(len(all))
	if b, err := read(size-96, 96); err != nil || len(b) != 96 {
		t.Errorf("%d octets, %v", len(b), err)
	}
	for _, r := range [][2]uint32{{size - 96, 97}, {size, 0}, {size + 1000, 0}, {0, 1 << 31}, {1 << 31, 1 << 31}} {
		if _, err := read(r[0], r[1]); !errors.Is(err, status.Inval) {
			t.Errorf("%v: %v", r, err)
		}
	}
	small, err := nvm.New(512, []nvm.Part{{Type: nvm.TypeVPD, Data: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	a.dev.MFW().SetNVM(small)
	if b, err := read(0, 0); err != nil || len(b) != 512 {
		t.Errorf("%d octets, %v", len(b), err)
	}
	a.set("mfw=stuck")
	if _, err := read(0, 16); !errors.Is(err, status.Timeout) {
		t.Errorf("of a firmware that is stuck: %v", err)
	}
}

// XX-04 A register dump consists of features, each as long as it says.
func TestRegisterDump(t *testing.T) {
	_, a, _ := twoNICs(t, Config{})
	features := func(b []byte) (list map[uint32][]byte) {
		list = map[uint32][]byte{}
		for len(b) >= 4 {
			head := binary.LittleEndian.Uint32(b)
			n := int(head&0xffffff) * 4
			if n > len(b)-4 {
				t.Fatalf("feature %#x reaches beyond the end", head)
			}
			list[head>>24], b = b[4:4+n], b[4+n:]
		}
		if len(b) > 0 {
			t.Errorf("%d octets are left over", len(b))
		}
		return list
	}
	const noEngine = 1 << 6
	all := features(a.dev.RegisterDump())
	if len(all[fastlinq.DumpGRC]) < 4096 || len(all[fastlinq.DumpNVMConfig|noEngine]) != 512 || len(all[fastlinq.DumpNVMMeta|noEngine]) != 16*len(a.dev.ShowNVM()) || len(all) != 5 {
		t.Errorf("%d features", len(all))
	}
	before := string(all[fastlinq.DumpGRC])
	a.set("rx_usecs=77")
	if string(features(a.dev.RegisterDump())[fastlinq.DumpGRC]) == before {
		t.Error("coalescing does not show in the registers")
	}
	a.dev.MFW().DamageNVM(0)
	if all = features(a.dev.RegisterDump()); len(all) != 1 {
		t.Errorf("of a damaged flash: %d features", len(all))
	}
	const second = 1 << 7
	two := newTwoEngines(t, 4, Config{})
	first := features(two.n.dev.RegisterDump())
	two.n.set("rx_usecs=77")
	now := features(two.n.dev.RegisterDump())
	if len(first[fastlinq.DumpGRC|second]) < 4096 || string(first[fastlinq.DumpGRC|second]) == string(now[fastlinq.DumpGRC|second]) {
		t.Errorf("the second engine has %d octets of registers, or they do not change", len(first[fastlinq.DumpGRC|second]))
	}
}

// MF-42 The LED blinks once a second, and then shows the operation of the port.
func TestIdentify(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	led := func() mfw.LED { return a.dev.MFW().LED(0) }
	var failed error
	begin := func() { a.dev.Identify(w.now, func(err error) { failed = err }) }
	begin()
	for _, want := range []mfw.LED{mfw.LEDOn, mfw.LEDOff, mfw.LEDOn, mfw.LEDOff} {
		if w.run(10 * time.Millisecond); led() != want || failed != nil {
			t.Errorf("%v, not %v, %v", led(), want, failed)
		}
		w.run((500 * time.Millisecond) - 10*time.Millisecond)
	}
	if begin(); !errors.Is(failed, status.Busy) {
		t.Errorf("a second time: %v", failed)
	}
	a.dev.IdentifyEnd(w.now)
	a.dev.IdentifyEnd(w.now)
	if w.run(2 * time.Second); led() != mfw.LEDOper {
		t.Errorf("afterwards %v", led())
	}
}

// XX-02 XX-03 A recovery on demand loads the function anew, keeps the settings,
// and ends the error that was reported; the first error leaves the dump.
func TestHealth(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	if h := a.dev.Health(); h.State != "healthy" || h.Errors != 0 || h.Dump != 0 {
		t.Errorf("%+v", h)
	}
	a.set("rx_usecs=33", "temperature=110")
	h := a.dev.Health()
	if h.State != "error" || h.Errors != 1 || h.LastKind == "" || h.Dump == 0 {
		t.Errorf("too hot: %+v", h)
	}
	failed, ended := error(nil), false
	a.dev.Recover(w.now, func(err error) { failed, ended = err, true })
	for i := 0; i < 200 && !ended; i++ {
		w.run(100 * time.Millisecond)
	}
	if h = a.dev.Health(); !ended || failed != nil || h.State != "healthy" || h.Recoveries != 1 || h.Dump == 0 || !a.passes() {
		t.Errorf("recovered %v, %v: %+v", ended, failed, h)
	}
	if a.dev.under.Config().Interrupts.RxUsecs != 33 {
		t.Error("a recovery changed a setting")
	}
	a.dev.ClearHealthDump()
	if a.dev.Health().Dump != 0 || len(a.dev.HealthDump()) == 0 || a.dev.Health().Dump == 0 {
		t.Error("a dump that was cleared is not made anew")
	}
	a.set("driver=unloaded")
	if a.dev.Recover(w.now, func(err error) { failed = err }); !errors.Is(failed, status.Inval) {
		t.Errorf("of a function that is unloaded: %v", failed)
	}
	a.set("driver=loaded", "mfw=stuck")
	if a.dev.Recover(w.now, func(err error) { failed = err }); !errors.Is(failed, status.IO) {
		t.Errorf("with a firmware that is stuck: %v", failed)
	}
}
