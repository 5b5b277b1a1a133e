package ethtool

import (
	"strings"
	"testing"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// moduleOf reads the module of a firmware's port.
func moduleOf(t *testing.T, media mfw.Media, dark bool) (m view.ModuleEEPROM) {
	t.Helper()
	fw := mfw.New(mfw.Config{Ports: []mfw.PortConfig{{Media: media, NoSignal: dark}}, Funcs: []mfw.FuncConfig{{}}})
	driver := mcp.New(fw.Shared(), 0, 0, mcp.Hooks{})
	read := func(addr uint8) {
		driver.ReadModule(addr, 0, mfw.PageLen, 0, func(b []byte, err error) {
			if err != nil {
				t.Fatal(err)
			}
			m.Data = append(m.Data, b...)
		})
		for driver.Pending() > 0 {
			now := frame.Time(0)
			fw.Poll(now)
			driver.Poll(now)
		}
	}
	m.Type = view.SFF8636
	read(mfw.PageA0)
	if m.Data[0] == 3 {
		m.Type = view.SFF8472
		read(mfw.PageA2)
	}
	return m
}

// XX-06 Each kind of module is decoded; one that sees no light says so.
func TestDecodeModule(t *testing.T) {
	for _, c := range []struct {
		media mfw.Media
		dark  bool
		want  []string
	}{
		{mfw.MediaModule, false, []string{"Connector : 0x0c (MPO Parallel Optic)", "Receiver signal OMA(Channel 4) : 0.7200 mW / -1.43 dBm"}},
		{mfw.MediaModule, true, []string{"Receiver signal OMA(Channel 1) : 0.0000 mW / -inf dBm"}},
		{mfw.MediaDAC, false, []string{"Connector : 0x23 (No separable connector)", "100G Ethernet: 100G Base-CR4 or 25G Base-CR CA-L",
			"Transmitter technology : 0xa0 (Copper cable unequalized)", "Attenuation at 12.9GHz : 8db", "Vendor PN : TAPIR-QSFP28-CR4"}},
		{mfw.MediaSFPP10G, false, []string{"Identifier : 0x03 (SFP)", "10G Ethernet: 10G Base-SR", "BR, Nominal : 10300MBd", "Length (50um) : 80m",
			"Optical diagnostics support : Yes", "Laser bias current : 7.000 mA", "Laser output power : 0.5800 mW / -2.37 dBm",
			"Receiver signal average optical power : 0.7200 mW / -1.43 dBm", "Module temperature : 41.00 degrees C / 105.80 degrees F"}},
		{mfw.MediaSFP1G, true, []string{"Ethernet: 1000BASE-SX", "BR, Nominal : 1300MBd", "optical power : 0.0000 mW / -inf dBm"}},
	} {
		text := strings.Join(strings.Fields(decodeModule(moduleOf(t, c.media, c.dark))), " ")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%v: no %q in\n%s", c.media, want, text)
			}
		}
	}
	// What is damaged is decoded as it is.
	m := moduleOf(t, mfw.MediaModule, false)
	m.Data[0], m.Data[148] = 0x77, 1
	if text := decodeModule(m); !strings.Contains(text, "0x77 (reserved or unknown)") || !strings.Contains(text, ": _APIR\n") {
		t.Error(text)
	}
}
