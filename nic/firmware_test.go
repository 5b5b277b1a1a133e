package nic

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/fastlinq/status"
)

// row is a row of tapir show device.
func (n *node) deviceRow(name string) string {
	for _, r := range n.dev.DeviceRows() {
		if r.Name == name {
			return r.Value
		}
	}
	n.w.t.Fatalf("no row %s", name)
	return ""
}

// A NIC runs with a file of each form, and what it writes to its chip is the
// same with all of them.
//
// IN-18 IN-19 IN-20 IN-21
func TestFirmwareForms(t *testing.T) {
	for f := range fw.NumForms {
		w, n, s := pair(t, Config{Hardware: &fastlinq.Config{Firmware: fastlinq.Firmware{Policy: settings.LoadDisk, File: fw.Builtin().Encode(f)}}})
		answered(w, n, s)
		if got, want := n.deviceRow("storm_firmware"), "8.40.33.0 as "+f.String()+", fw_load_policy disk"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := n.management("driver"); !strings.HasSuffix(got, "storm firmware 8.40.33.0") {
			t.Errorf("pushed: %s", got)
		}
	}
}

// A NIC whose firmware is not the one does not start.
//
// IN-18 IN-19 IN-20 IN-21
func TestFirmwareOfNICRefused(t *testing.T) {
	whole := fw.Builtin().Encode(fw.ZippedBinary)
	old := fw.Builtin()
	old.Version++
	w := newWorld(t)
	for want, f := range map[string]fastlinq.Firmware{
		"start the NIC with --firmware FILE":           {Policy: settings.LoadDisk},
		"firmware, offset 0x64: it ends within":        {Policy: settings.LoadDisk, File: whole[:100]},
		"firmware 8.40.33.1: the driver wants 8.40.33": {Policy: settings.LoadDisk, File: old.Encode(fw.Header)},
		"offset 0: neither the marker of a binary":     {Policy: settings.LoadDisk, File: []byte("#!/bin/sh\n")},
	} {
		d, err := newNIC(Config{Name: "nic0", Hardware: &fastlinq.Config{Firmware: f}}, Env{Pool: w.pool, Wire: &node{w: w, room: 64}})
		if err == nil || d != nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// flash writes a file and waits for the end.
func (n *node) flash(t nvm.Type, file []byte) (err error) {
	ended := false
	if err := n.dev.Flash(t, file, func(e error) { ended, err = true, e }); err != nil {
		return err
	}
	n.w.run(time.Millisecond)
	if !ended {
		n.w.t.Fatal("flashing does not end")
	}
	return err
}

// The flash is delivered with firmware; another file of any form goes there by
// the mailbox, and the driver loads it from there.
//
// IN-18 IN-19 IN-20 IN-21 MF-42
func TestFirmwareInFlash(t *testing.T) {
	w, n, s := pair(t, Config{Hardware: &fastlinq.Config{Firmware: fastlinq.Firmware{Policy: settings.LoadFlash}}})
	for f := range fw.NumForms {
		if f > 0 {
			if err := n.flash(fastlinq.FlashAll, fw.Builtin().Encode(f)); err != nil {
				t.Fatalf("%v: %v", f, err)
			}
			n.set("driver=unloaded")
			n.set("driver=loaded")
		} else {
			f = fw.ZippedBinary
		}
		if got, want := n.deviceRow("storm_firmware"), "8.40.33.0 as "+f.String()+", fw_load_policy flash"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		answered(w, n, s)
	}
	for _, row := range n.dev.ShowNVM() {
		if row.State != "good" {
			t.Errorf("%+v", row)
		}
	}
}

// What is wrong with a file is told with its place, and the flash stays.
//
// IN-18 IN-19 IN-20 IN-21 MF-42
func TestFlashRefused(t *testing.T) {
	w, n, s := pair(t, Config{})
	im, err := n.dev.MFW().NVM()
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(im.Raw())
	damaged := bytes.Clone(before)
	e, _ := im.Find(nvm.TypeVPD)
	damaged[e.Offset+3] ^= 1
	storm, bb := fw.Builtin().Encode(fw.Binary), fw.Builtin()
	bb.Chips = fw.BB
	cut := fw.Builtin().Encode(fw.Header)
	for what, c := range map[string]struct {
		t    nvm.Type
		file []byte
		code status.Code
		want string
	}{
		"truncated NVM image":   {fastlinq.FlashAll, before[:700], status.IO, "NVM image, offset 0xc: it has 700 octets, the header says"},
		"an octet of NVM image": {fastlinq.FlashAll, damaged, status.IO, "VPD has the checksum"},
		"a cut firmware":        {fastlinq.FlashAll, storm[:900], status.Inval, "firmware, offset 0x384: it ends within section VAL"},
		"a cut header":          {fastlinq.FlashAll, cut[:len(cut)/2], status.Inval, "firmware, line "},
		"another chip":          {fastlinq.FlashAll, bb.Encode(fw.ZippedHeader), status.Inval, "is for BB: the chip is AH"},
		"anything":              {fastlinq.FlashAll, []byte("hello"), status.Inval, "name the region"},
		"nothing":               {fastlinq.FlashAll, nil, status.Inval, "it is empty"},
		"no such region":        {0x77, storm, status.Inval, "use MFW (1), MBI (3) or INIT_HW (25)"},
		"no version":            {nvm.TypeMFW, make([]byte, 512), status.Inval, "no version of a management firmware"},
		"no room":               {nvm.TypeMBI, make([]byte, 4096), status.Inval, "NVM_PUT_FILE_DATA"},
	} {
		err := n.flash(c.t, c.file)
		if status.Of(err) != c.code || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v (%v), want %q", what, err, status.Of(err), c.want)
		}
		if im, err := n.dev.MFW().NVM(); err != nil || !bytes.Equal(im.Raw(), before) {
			t.Fatalf("%s: the flash has changed, %v", what, err)
		}
	}
	if err := n.dev.Flash(fastlinq.FlashAll, storm, func(error) {}); err != nil {
		t.Fatal(err)
	}
	if err := n.dev.Flash(fastlinq.FlashAll, storm, nil); status.Of(err) != status.Busy {
		t.Errorf("two at once: %v", err)
	}
	w.run(time.Millisecond)
	if err := n.flash(fastlinq.FlashAll, before); err != nil { // the whole, as it was delivered
		t.Error(err)
	}
	answered(w, n, s)
}

// Damage in the flash is told when the driver would have to load from there,
// and nothing changes; a NIC that runs goes on.
//
// IN-19. B 1
func TestDamagedFlashKeepsDriver(t *testing.T) {
	w, n, s := pair(t, Config{})
	im, err := n.dev.MFW().NVM()
	if err != nil {
		t.Fatal(err)
	}
	e, _ := im.Find(nvm.TypeInitHW)
	n.dev.MFW().DamageNVM(int(e.Offset) + 500)
	cfg, core := n.dev.ShowParams(), n.dev.Core().Show()
	err = n.dev.Set(Setting{"fw_load_policy", "flash"})
	if status.Of(err) != status.Inval || !strings.Contains(err.Error(), "INIT_HW of the flash: ") || !strings.Contains(err.Error(), "section VAL is damaged") {
		t.Errorf("%v", err)
	}
	if !reflect.DeepEqual(n.dev.ShowParams(), cfg) || !reflect.DeepEqual(n.dev.Core().Show(), core) {
		t.Error("something has changed")
	}
	answered(w, n, s)
	n.dev.MFW().SetNVM(nvm.Factory(1)) // without INIT_HW
	if err = n.dev.Set(Setting{"fw_load_policy", "flash"}); status.Of(err) != status.NoEnt {
		t.Errorf("%v", err)
	}
	n.dev.MFW().SetNVM(nil)
	n.set("fw_load_policy=flash", "driver=unloaded")
	n.dev.MFW().DamageNVM(int(e.Offset) + 500)
	if err = n.dev.Set(Setting{"driver", "loaded"}); status.Of(err) != status.Inval || n.dev.Core().State() != ecore.Struct {
		t.Errorf("%v, %v", err, n.dev.Core().State())
	}
	n.dev.MFW().SetNVM(nil)
	n.set("driver=loaded")
	answered(w, n, s)
}
