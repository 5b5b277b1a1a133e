package fastlinq

import (
	"slices"
	"testing"

	"tapir/nic"
	"tapir/nic/buf"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/linkmode"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// sink is a link that takes everything.
type sink struct{}

func (sink) Transmit(f *frame.Frame) { f.Release() }
func (sink) Room() int               { return 64 }

// IT-18, XX-03: firmware that is stuck at the end does not keep a NIC from
// closing; what happened is told.
func TestCoreStuckFirmware(t *testing.T) {
	n, err := nic.New(nic.Config{Name: "nic0", Hardware: &Config{}}, nic.Env{Pool: buf.NewPool(64, 0), Wire: sink{}})
	if err != nil {
		t.Fatal(err)
	}
	d := Of(n.Hardware)
	d.Chip().Engines[0].Faults(0).Stuck = true
	var got error
	ended := false
	d.coreDown(0, func(_ frame.Time, err error) { got, ended = err, true })
	for now := frame.Time(0); !ended; {
		next := d.pump(now)
		if next == frame.Never && !ended {
			t.Fatal("the life cycle does not end")
		}
		now = max(now, next)
	}
	if got == nil || d.Core().State() != ecore.Struct {
		t.Errorf("%v, state %v", got, d.Core().State())
	}
	rows := d.DeviceRows()
	if i := slices.IndexFunc(rows, func(r view.DeviceRow) bool { return r.Value == "RAMROD_FAIL" }); i < 0 || *rows[i].Ever != 2 { // FUNC_CLOSE of RDMA, PF_STOP
		t.Errorf("%+v", rows)
	}
}

func TestVPDFields(t *testing.T) {
	for _, b := range []string{"", "\x82", "\x82\x05\x00ab", "\x90\x04\x00PN\x05x", "\x90\xff\xffPN\x01x", "\x91\x04\x00PN\x01x", "\x78"} {
		if f := vpdFields([]byte(b)); len(f) != 0 {
			t.Errorf("%q: %v", b, f)
		}
	}
	if f := vpdFields([]byte("\x82\x01\x00n\x90\x09\x00PN\x02ab" + "SN\x01c\x78")); f["PN"] != "ab" || f["SN"] != "c" {
		t.Errorf("%v", f)
	}
}

func FuzzVPDFields(f *testing.F) {
	f.Add(nvm.Factory(1)[:64])
	f.Fuzz(func(t *testing.T, b []byte) { vpdFields(b) })
}

// Every speed that a port has over a medium has a link mode there, once, and
// no mode has another's bit.
func TestLinkModes(t *testing.T) {
	for _, w := range settings.MediaWords {
		media := (&Link{Media: w.Value}).Medium()
		list := linkModes(media, linkmode.AllSpeeds)
		var speeds mfw.Speeds
		bits := map[int]bool{}
		for _, m := range list {
			one := linkmode.SpeedOf(uint32(m.Mbps))
			if speeds&one != 0 || bits[m.Bit] || one.String() != m.Speed {
				t.Errorf("%s: %+v", w.Name, m)
			}
			speeds, bits[m.Bit] = speeds|one, true
		}
		if have := settings.PortSpeeds(media); have&^speeds != 0 {
			t.Errorf("%s has %v, and modes of %v", w.Name, have, speeds)
		}
		if !slices.IsSortedFunc(list, func(a, b view.EthtoolMode) int { return a.Bit - b.Bit }) {
			t.Errorf("%s: %v", w.Name, list)
		}
	}
}
