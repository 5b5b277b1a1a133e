package ecore

import (
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
)

// kindChips are the generations as a firmware names them.
var kindChips = [...]fw.Chips{BB: fw.BB, AH: fw.AH}

// firmware is the image that hw_init is to load; nothing is asked of the chip
// before it is known to be whole.
func (d *Dev) firmware(p *InitParams) (im *fw.Image, err error) {
	switch {
	case p.Form >= fw.NumForms:
		return nil, status.Inval.Errorf("firmware form %d", p.Form)
	case p.Form.Zipped() && p.Inflate == nil:
		return nil, status.Inval.Errorf("firmware as %v: nothing unpacks it", p.Form)
	case p.Form.IsBinary() && p.BinFWData == nil:
		return nil, status.Inval.Errorf("firmware as %v: no bin_fw_data", p.Form)
	}
	data := p.BinFWData
	if data == nil && p.Form.Zipped() {
		data = fw.Builtin().Encode(p.Form)
	}
	if data == nil {
		im = fw.Builtin()
	} else if im, err = fw.Decode(data); err != nil {
		return nil, err
	}
	if im.Form != p.Form {
		return nil, status.Inval.Errorf("firmware as %v: the driver is built for %v", im.Form, p.Form)
	}
	return im, im.Check(kindChips[d.cfg.Chip.Kind])
}

// running is the version of the firmware that the storms of the engine have,
// 0 if they do not have the same one, or none.
func (e *Engine) running() uint32 {
	if n := e.Regs.Writes(); n != e.version.writes {
		e.version.writes, e.version.running = n, e.read()
	}
	return e.version.running
}

// read is running as the registers say it.
func (e *Engine) read() uint32 {
	v := e.Regs.Read(rt.TStorm.RAM() + rt.RAMVersion)
	for s := rt.MStorm; s < rt.NumStorms; s++ {
		if e.Regs.Read(s.RAM()+rt.RAMVersion) != v {
			return 0
		}
	}
	return v
}

// tsdmRAM is the fixed window onto TStorm's memory.
const tsdmRAM = 0x010000

// Firmware is the version that the storms run, read from where the IRO says; 0:
// none, as before hw_init.
func (h *Hwfn) Firmware() fw.Version {
	if h.dev.image == nil {
		return 0
	}
	v, err := h.BAR.RegRd(tsdmRAM + h.dev.image.IRO[fw.IROVersion].Base)
	if err != nil {
		return 0 // fw.Decode has seen that the offset lies in the window
	}
	return fw.Version(v)
}

// Image is the firmware that hw_init has loaded, nil before.
func (d *Dev) Image() *fw.Image { return d.image }
