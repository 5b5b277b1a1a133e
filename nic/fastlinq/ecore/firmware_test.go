package ecore

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
)

// firmware are hw_init's parameters for a form.
func firmware(f fw.Form) InitParams {
	return InitParams{Tunnels: DefaultTunnels(), IntMode: MSIX, Form: f, BinFWData: fw.Builtin().Encode(f), Inflate: fw.Inflate}
}

// The four forms of the firmware write the same to the same registers in the
// same order, on both engines.
//
// IN-18 IN-19 IN-20 IN-21
func TestFourForms(t *testing.T) {
	var first []string
	for _, builtin := range []bool{false, true} {
		for f := range fw.NumForms {
			if builtin && f.IsBinary() {
				continue
			}
			x := dual(t).to("resc_setup")
			var trace []string
			for _, h := range x.d.Hwfns {
				h.BAR.Trace = func(a hw.Access) { trace = append(trace, fmt.Sprint(h.Index, " ", a)) }
			}
			p := firmware(f)
			if builtin {
				p.BinFWData = nil
			}
			if err := x.init(p); err != nil {
				t.Fatalf("%v: %v", f, err)
			}
			if first == nil {
				first = trace
			}
			if len(trace) < 50 || !slices.Equal(trace, first) {
				t.Errorf("%v, built in %v: %d accesses, not the %d of the first form", f, builtin, len(trace), len(first))
			}
			for i, h := range x.d.Hwfns {
				if h.Firmware() != fw.Wanted || x.d.Image().Form != f {
					t.Errorf("%v: engine %d runs %v", f, i, h.Firmware())
				}
				if regs := &x.chip.Engines[i].Regs; regs.Read(rt.TStorm.RAM()+rt.RAMTable+4) != 0xf26b8303 || regs.Read(rt.PStorm.RAM()+rt.RAMStorm) != 6 {
					t.Errorf("%v: the storms of engine %d have not their memory", f, i)
				}
			}
			x.down()
		}
	}
}

// What is not the firmware that the driver wants is refused before anything is
// asked of the management firmware or the chip: nothing has changed, and the
// right one loads at once.
//
// IN-18 IN-19 IN-20 IN-21 IN-22. B 1
func TestFirmwareRefused(t *testing.T) {
	old, bb := fw.Builtin(), fw.Builtin()
	old.Version, bb.Chips = 8<<24|37<<16, fw.BB
	cut := func(f fw.Form) InitParams {
		p := firmware(f)
		p.BinFWData = p.BinFWData[:len(p.BinFWData)/2]
		return p
	}
	flipped := func(f fw.Form) InitParams {
		p := firmware(f)
		p.BinFWData = bytes.Clone(p.BinFWData)
		p.BinFWData[len(p.BinFWData)*3/4] ^= 1
		return p
	}
	for what, c := range map[string]struct {
		p    InitParams
		want string
	}{
		"no pointer":          {InitParams{Form: fw.Binary}, "firmware as bin: no bin_fw_data"},
		"no pointer, zipped":  {InitParams{Form: fw.ZippedBinary, Inflate: fw.Inflate}, "firmware as zipped-bin: no bin_fw_data"},
		"nothing unpacks":     {InitParams{Form: fw.ZippedHeader}, "firmware as zipped-header: nothing unpacks it"},
		"another form":        {InitParams{Form: fw.Binary, BinFWData: fw.Builtin().Encode(fw.Header)}, "firmware as header: the driver is built for bin"},
		"no form":             {InitParams{Form: fw.NumForms}, "firmware form 4"},
		"another version":     {InitParams{Form: fw.Binary, BinFWData: old.Encode(fw.Binary)}, "firmware 8.37.0.0: the driver wants 8.40.33.0"},
		"another chip":        {InitParams{BinFWData: bb.Encode(fw.Header)}, "firmware 8.40.33.0 is for BB: the chip is AH"},
		"cut, binary":         {cut(fw.Binary), "it ends within section VAL"},
		"cut, header":         {cut(fw.Header), "it ends within init_val"},
		"cut, zipped binary":  {cut(fw.ZippedBinary), "offset 0x"},
		"cut, zipped header":  {cut(fw.ZippedHeader), "line "},
		"damaged, binary":     {flipped(fw.Binary), "section VAL is damaged"},
		"damaged, zipped bin": {flipped(fw.ZippedBinary), "section VAL is damaged"},
		"damaged, header":     {flipped(fw.Header), "line "},
		"damaged, zipped":     {flipped(fw.ZippedHeader), "line "},
		"empty":               {InitParams{Form: fw.Binary, BinFWData: []byte{}}, "it is empty"},
	} {
		x := single(t).to("resc_setup")
		before, said, wrote := x.d.Show(), len(x.mfw[0].log), 0
		x.d.Lead().BAR.Trace = func(hw.Access) { wrote++ }
		err := x.init(c.p)
		if status.Of(err) != status.Inval || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		if wrote > 0 || len(x.mfw[0].log) > said || !reflect.DeepEqual(x.d.Show(), before) || x.d.State() != Setup || x.d.Image() != nil {
			t.Errorf("%s: %d accesses, %v", what, wrote, x.mfw[0].log[said:])
		}
		if err := x.init(firmware(fw.ZippedBinary)); err != nil {
			t.Errorf("%s: the right one afterwards: %v", what, err)
		}
		x.down()
	}
}

// An engine whose storms have no firmware starts no function.
func TestNoFirmwareInStorms(t *testing.T) {
	needEmulation(t)
	x := single(t)
	x.fault = func(_ int, step string) error {
		if step == "hw_init/pf_start" {
			x.chip.Engines[0].Regs.Write(rt.MStorm.RAM()+rt.RAMVersion, 0)
		}
		return nil
	}
	x.to("resc_setup")
	if err := x.init(InitParams{Tunnels: DefaultTunnels(), IntMode: MSIX}); status.Of(err) != status.UnknownError {
		t.Errorf("%v", err)
	}
}
