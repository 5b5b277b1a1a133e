package fastlinq

import (
	"bytes"
	"fmt"
	"strings"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// coreFirmware puts the firmware that the driver is to load into p. NOENT: the
// flash has none; INVAL: it is none.
func (d tools) coreFirmware(p *ecore.InitParams, now frame.Time, done ecore.Done) {
	p.Inflate = fw.Inflate
	take := func(file []byte) (err error) {
		p.BinFWData = file
		p.Form, err = fw.FormOf(file)
		return err
	}
	switch d.cfg.Firmware.Policy {
	case settings.LoadDisk:
		done(now, take(d.cfg.Firmware.File))
	case settings.LoadFlash:
		d.management.mcp.NVMImage(nvm.TypeInitHW, now, func(file []byte, err error) {
			if status.Of(err) == status.NoEnt {
				err = d.noInitHW()
			} else if err == nil {
				err = take(file)
			}
			done(d.now(), err)
		})
	default:
		done(now, nil)
	}
}

// checkFirmware refuses settings with which the driver could not load, because
// of what lies in the flash.
func (d tools) checkFirmware(to *settings.NIC) error {
	loads := d.cfg.Board.Unloaded && !to.Board.Unloaded
	if to.Firmware.Policy != settings.LoadFlash || !loads && d.cfg.Firmware.Policy == settings.LoadFlash {
		return nil
	}
	im, err := d.management.fw.NVM()
	if err != nil {
		return err
	}
	e, ok := im.Find(nvm.TypeInitHW)
	if !ok {
		return d.noInitHW()
	}
	if err := checkStorm(im.Bytes(e)); err != nil {
		return fmt.Errorf("INIT_HW of the flash: %w", err)
	}
	return nil
}

func (d tools) noInitHW() error {
	return status.NoEnt.Errorf("the flash has no storm firmware: write it with: tapir ethtool -f %s FILE", d.cfg.Name)
}

// regions are the kinds of NVM_PUT_FILE_BEGIN for the images that files replace.
var regions = map[nvm.Type]uint32{nvm.TypeMFW: mfw.PutMFW, nvm.TypeMBI: mfw.PutMBI, nvm.TypeInitHW: mfw.PutInitHW,
	nvm.Whole: mfw.PutWhole}

// checkStorm is whether a file is firmware that the chip can run.
func checkStorm(file []byte) error {
	im, err := fw.Decode(file)
	if err != nil {
		return err
	}
	return im.Check(fw.AH)
}

// FlashAll is the region of a file that says itself what it is: storm firmware,
// or the image of a whole flash.
const FlashAll = nvm.Whole

// verifyFile tells why a file cannot replace an image of the flash, or all of it.
func verifyFile(t nvm.Type, file []byte) error {
	if t == nvm.TypeInitHW {
		return checkStorm(file)
	}
	return nvm.Verify(t, file)
}

// regionOf is the image that a file for a region replaces.
func regionOf(t nvm.Type, file []byte) (nvm.Type, error) {
	if t == FlashAll && !nvm.Is(file) {
		if _, err := fw.FormOf(file); err != nil {
			return t, status.Inval.Errorf("neither storm firmware nor the image of a flash: "+
				"name the region it is for: %v", err)
		}
		t = nvm.TypeInitHW
	}
	if _, ok := regions[t]; !ok {
		return t, status.Inval.Errorf("region %v is not written by files: use MFW (1), MBI (3) or INIT_HW (25)", t)
	}
	return t, verifyFile(t, file)
}

// Flash begins to write a file into the flash, as ethtool -f does; done is told
// how that ended. What was there stays if anything is wrong: INVAL or IO, and
// the error says which place of the file; BUSY: another file is on its way.
// Storm firmware is loaded with the next load of the driver, if the setting
// fw_load_policy says so.
func (d tools) Flash(t nvm.Type, file []byte, done func(error)) error {
	m := &d.management
	if m.flashing {
		return status.Busy.Errorf("%s: a file is being written into the flash", d.cfg.Name)
	}
	t, err := regionOf(t, file)
	if err != nil {
		return err
	}
	m.flashing = true
	m.mcp.NVMFlash(regions[t], file, d.now(), func(err error) {
		m.flashing = false
		done(err)
	})
	d.nic.Schedule(d.now(), d.Manage) // in the next Poll, which knows the time
	return nil
}

// bootVersion is that of the boot code in the flash; empty: there is none.
func (d tools) bootVersion() string {
	text, _, _ := bytes.Cut(d.stored(nvm.TypeMBI), []byte{0xff})
	if v, ok := strings.CutPrefix(string(text), "MBI "); ok {
		return v
	}
	return ""
}

// firmwareVersion is what qede tells as such: of the boot code, and of the
// management firmware.
func (d tools) firmwareVersion() string {
	mfw := version(d.management.mcp.Version())
	if v := d.bootVersion(); v != "" {
		return "mbi " + v + " [mfw " + mfw + "]"
	}
	return "mfw " + mfw
}
