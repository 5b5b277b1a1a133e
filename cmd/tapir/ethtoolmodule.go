package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tapir/nic"
)

// moduleText writes what a module's memory says, a line for each field, as
// ethtool -m does.
type moduleText struct{ strings.Builder }

func (w *moduleText) field(name, format string, args ...any) {
	fmt.Fprintf(w, "\t%-41s : %s\n", name, fmt.Sprintf(format, args...))
}

// code is a field of one octet with its meaning.
func (w *moduleText) code(name string, v byte, meanings map[byte]string) {
	meaning, ok := meanings[v]
	if !ok {
		meaning = "reserved or unknown"
	}
	w.field(name, "0x%02x (%s)", v, meaning)
}

// text is a field of characters without the blanks behind it.
func (w *moduleText) text(name string, b []byte) {
	s := []byte(strings.TrimRight(string(b), " "))
	for i, c := range s {
		if c < ' ' || c > '~' {
			s[i] = '_'
		}
	}
	w.field(name, "%s", s)
}

// codes are the octets of the transceiver's compliance, and what they say.
func (w *moduleText) codes(b []byte, more ...byte) {
	var list []string
	for _, v := range append(slices.Clone(b), more...) {
		list = append(list, fmt.Sprintf("0x%02x", v))
	}
	w.field("Transceiver codes", "%s", strings.Join(list, " "))
}

func (w *moduleText) oui(b []byte) { w.field("Vendor OUI", "%02x:%02x:%02x", b[0], b[1], b[2]) }

func word16(b []byte, at int) uint16 { return uint16(b[at])<<8 | uint16(b[at+1]) }

// bias is in 2 uA, power in 0.1 uW, a temperature in 1/256 degree, a voltage in
// 100 uV.
func (w *moduleText) bias(name string, v uint16) { w.field(name, "%.3f mA", float64(v)/500) }

func (w *moduleText) power(name string, v uint16) {
	mw := float64(v) / 10000
	dbm := "-inf"
	if v > 0 {
		dbm = fmt.Sprintf("%.2f", 10*math.Log10(mw))
	}
	w.field(name, "%.4f mW / %s dBm", mw, dbm)
}

func (w *moduleText) temperature(name string, v uint16) {
	c := float64(int16(v)) / 256
	w.field(name, "%.2f degrees C / %.2f degrees F", c, c*1.8+32)
}

func (w *moduleText) voltage(name string, v uint16) { w.field(name, "%.4f V", float64(v)/10000) }

// Codes of SFF-8024, as far as Ethernet modules have them.
var (
	moduleIDs  = map[byte]string{0: "no module present, unknown, or unspecified", 3: "SFP", 0xc: "QSFP", 0xd: "QSFP+", 0x11: "QSFP28"}
	connectors = map[byte]string{0: "unknown or unspecified", 1: "SC", 7: "LC", 0xb: "Optical pigtail", 0xc: "MPO Parallel Optic",
		0x21: "Copper pigtail", 0x22: "RJ45", 0x23: "No separable connector"}
	extended = map[byte]string{1: "100G AOC or 25GAUI C2M AOC with worst BER of 5x10^(-5)", 2: "100G Base-SR4 or 25GBase-SR", 3: "100G Base-LR4",
		4: "100G Base-ER4", 0xb: "100G Base-CR4 or 25G Base-CR CA-L"}
	encodingsSFP  = map[byte]string{0: "unspecified", 1: "8B/10B", 3: "NRZ", 5: "SONET Scrambled", 6: "64B/66B"}
	encodingsQSFP = map[byte]string{0: "unspecified", 1: "8B/10B", 3: "NRZ", 4: "SONET Scrambled", 5: "64B/66B"}
)

// decodeModule is what ethtool -m says of a module.
func decodeModule(m nic.ModuleEEPROM) string {
	var w moduleText
	w.code("Identifier", m.Data[0], moduleIDs)
	if m.Type == nic.SFF8472 {
		w.sfp(m.Data)
		w.diagnostics(m.Data)
	} else {
		w.qsfp(m.Data)
		w.lanes(m.Data)
	}
	return w.String()
}

// sfp is page A0 of SFF-8472.
func (w *moduleText) sfp(b []byte) {
	w.code("Extended identifier", b[1], map[byte]string{0: "GBIC not specified / not MOD_DEF compliant", 4: "GBIC/SFP defined by 2-wire interface ID"})
	w.code("Connector", b[2], connectors)
	w.codes(b[3:11], b[36])
	w.types(b[3], []string{4: "10G Ethernet: 10G Base-SR", 5: "10G Ethernet: 10G Base-LR", 6: "10G Ethernet: 10G Base-LRM",
		7: "10G Ethernet: 10G Base-ER [SFF-8472 rev10.4 onwards]"})
	w.types(b[6], []string{"Ethernet: 1000BASE-SX", "Ethernet: 1000BASE-LX", "Ethernet: 1000BASE-CX", "Ethernet: 1000BASE-T"})
	w.code("Encoding", b[11], encodingsSFP)
	w.field("BR, Nominal", "%dMBd", int(b[12])*100)
	w.code("Rate identifier", b[13], map[byte]string{0: "unspecified"})
	for _, l := range []struct {
		name string
		at   int
		mult int
		unit string
	}{{"Length (SMF,km)", 14, 1, "km"}, {"Length (SMF)", 15, 100, "m"}, {"Length (50um)", 16, 10, "m"}, {"Length (62.5um)", 17, 10, "m"},
		{"Length (Copper)", 18, 1, "m"}, {"Length (OM3)", 19, 10, "m"}} {
		w.field(l.name, "%d%s", int(b[l.at])*l.mult, l.unit)
	}
	w.field("Laser wavelength", "%dnm", word16(b, 60))
	w.text("Vendor name", b[20:36])
	w.oui(b[37:])
	w.text("Vendor PN", b[40:56])
	w.text("Vendor rev", b[56:60])
	w.field("Option values", "0x%02x 0x%02x", b[64], b[65])
	w.field("BR margin, max", "%d%%", b[66])
	w.field("BR margin, min", "%d%%", b[67])
	w.text("Vendor SN", b[68:84])
	w.text("Date code", b[84:92])
}

// types are the kinds of transceiver whose bits are set, the highest first.
func (w *moduleText) types(v byte, names []string) {
	for i, name := range slices.Backward(names) {
		if v>>i&1 != 0 && name != "" {
			w.field("Transceiver type", "%s", name)
		}
	}
}

// diagnostics are those of page A2 of SFF-8472.
func (w *moduleText) diagnostics(b []byte) {
	if b[94] == 0 {
		return
	}
	w.code("8472 Compliance", b[94], map[byte]string{1: "Rev 9.3", 2: "Rev 9.5", 3: "Rev 10.2", 4: "Rev 10.4", 5: "Rev 11.0", 6: "Rev 11.3", 7: "Rev 11.4", 8: "Rev 12.3"})
	if b[92]&0x40 == 0 {
		w.field("Optical diagnostics support", "No")
		return
	}
	a2 := b[256:]
	w.field("Optical diagnostics support", "Yes")
	w.bias("Laser bias current", word16(a2, 100))
	w.power("Laser output power", word16(a2, 102))
	rx := "Receiver signal OMA"
	if b[92]&8 != 0 {
		rx = "Receiver signal average optical power"
	}
	w.power(rx, word16(a2, 104))
	w.temperature("Module temperature", word16(a2, 96))
	w.voltage("Module voltage", word16(a2, 98))
	w.field("Alarm/warning flags implemented", "No")
}

// qsfp is page 00h of SFF-8636.
func (w *moduleText) qsfp(b []byte) {
	w.field("Extended identifier", "0x%02x", b[129])
	const more = "Extended identifier description"
	w.field(more, "%s max. Power consumption", [...]string{"1.5W", "2.0W", "2.5W", "3.5W"}[b[129]>>6])
	w.field(more, "%s in TX, %s in RX", cdr(b[129]&8 != 0), cdr(b[129]&4 != 0))
	w.field(more, "High Power Class (> 3.5 W) %s", map[bool]string{true: "enabled", false: "not enabled"}[b[93]&4 != 0])
	w.field("Power set", "%s", onOffWord(b[93]&2 != 0))
	w.field("Power override", "%s", onOffWord(b[93]&1 != 0))
	w.code("Connector", b[130], connectors)
	w.codes(b[131:139])
	w.types(b[131]&0x7f, []string{"40G Ethernet: 40G Active Cable (XLPPI)", "40G Ethernet: 40G Base-LR4", "40G Ethernet: 40G Base-SR4",
		"40G Ethernet: 40G Base-CR4", "10G Ethernet: 10G Base-SR", "10G Ethernet: 10G Base-LR", "10G Ethernet: 10G Base-LRM"})
	if name := extended[b[192]]; b[131]&0x80 != 0 && name != "" {
		w.field("Transceiver type", "100G Ethernet: %s", name)
	}
	w.code("Encoding", b[139], encodingsQSFP)
	rate := int(b[140]) * 100
	if b[140] == 255 {
		rate = int(b[222]) * 250
	}
	w.field("BR, Nominal", "%dMbps", rate)
	w.field("Rate identifier", "0x%02x", b[141])
	for i, name := range []string{"Length (SMF,km)", "Length (OM3 50um)", "Length (OM2 50um)", "Length (OM1 62.5um)", "Length (Copper or Active cable)"} {
		unit := "m"
		if i == 0 {
			unit = "km"
		}
		w.field(name, "%d%s", int(b[142+i])*[...]int{1, 2, 1, 1, 1}[i], unit)
	}
	w.transmitter(b)
	w.text("Vendor name", b[148:164])
	w.oui(b[165:])
	w.text("Vendor PN", b[168:184])
	w.text("Vendor rev", b[184:186])
	w.text("Vendor SN", b[196:212])
	w.text("Date code", b[212:220])
	w.field("Revision Compliance", "%s", revision(b[1]))
}

func onOffWord(on bool) string {
	if on {
		return "On"
	}
	return "Off"
}

func cdr(has bool) string {
	if has {
		return "CDR present"
	}
	return "No CDR"
}

// transmitter is the technology of a QSFP's transmitter.
func (w *moduleText) transmitter(b []byte) {
	tech := b[147] & 0xf0
	names := map[byte]string{0: "850 nm VCSEL", 0x10: "1310 nm VCSEL", 0x40: "1310 nm DFB", 0xa0: "Copper cable unequalized"}
	w.code("Transmitter technology", tech, names)
	if tech >= 0xa0 {
		for i, at := range []string{"2.5GHz", "5.0GHz", "7.0GHz", "12.9GHz"} {
			w.field("Attenuation at "+at, "%ddb", b[186+i])
		}
		return
	}
	w.field("Laser wavelength", "%.3fnm", float64(word16(b, 186))*0.05)
	w.field("Laser wavelength tolerance", "%.3fnm", float64(word16(b, 188))*0.005)
}

func revision(v byte) string {
	names := []string{"Revision not specified", "SFF-8436 Rev 4.8 or earlier", "SFF-8436 Rev 4.8 or earlier", "SFF-8636 Rev 1.3 or earlier",
		"SFF-8636 Rev 1.4", "SFF-8636 Rev 1.5", "SFF-8636 Rev 2.0", "SFF-8636 Rev 2.5/2.6/2.7", "SFF-8636 Rev 2.8/2.9/2.10"}
	if int(v) < len(names) {
		return names[v]
	}
	return "Unallocated"
}

// lanes are what a QSFP measures.
func (w *moduleText) lanes(b []byte) {
	w.temperature("Module temperature", word16(b, 22))
	w.voltage("Module voltage", word16(b, 26))
	w.field("Alarm/warning flags implemented", "No")
	for i := range 4 {
		w.bias(fmt.Sprintf("Laser tx bias current (Channel %d)", i+1), word16(b, 42+2*i))
	}
	for i := range 4 {
		w.power(fmt.Sprintf("Transmit avg optical power (Channel %d)", i+1), word16(b, 50+2*i))
	}
	rx := "Receiver signal OMA"
	if b[220]&8 != 0 {
		rx = "Rcvr signal avg optical power"
	}
	for i := range 4 {
		w.power(fmt.Sprintf("%s(Channel %d)", rx, i+1), word16(b, 34+2*i))
	}
}
