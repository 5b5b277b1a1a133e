package ethtool

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tapir/nic/view"
)

// moduleText is what ethtool -m says of a module's memory, a line for each
// field.
type moduleText struct{ strings.Builder }

func (w *moduleText) field(name, format string, args ...any) {
	fmt.Fprintf(w, "\t%-41s : %s\n", name, fmt.Sprintf(format, args...))
}

// moduleField is a named field of a module's memory b; decode prints it.
type moduleField struct {
	name   string
	decode func(w *moduleText, name string, b []byte)
}

type decoder = func(w *moduleText, name string, b []byte)

func (w *moduleText) fields(b []byte, list []moduleField) {
	for _, f := range list {
		f.decode(w, f.name, b)
	}
}

// computed is a field whose value is any function of the memory.
func computed(format string, values func(b []byte) []any) decoder {
	return func(w *moduleText, name string, b []byte) { w.field(name, format, values(b)...) }
}

// octet is a field of one octet times mult.
func octet(at, mult int, format string) decoder {
	return computed(format, func(b []byte) []any { return []any{int(b[at]) * mult} })
}

// octets is a field of consecutive octets, one for each verb of the format.
func octets(at int, format string) decoder {
	return computed(format, func(b []byte) (list []any) {
		for i := range strings.Count(format, "%") {
			list = append(list, b[at+i])
		}
		return list
	})
}

// code is a field of one octet, under a mask, with its meaning.
func code(at int, mask byte, meanings map[byte]string) decoder {
	return computed("0x%02x (%s)", func(b []byte) []any {
		meaning, ok := meanings[b[at]&mask]
		if !ok {
			meaning = "reserved or unknown"
		}
		return []any{b[at] & mask, meaning}
	})
}

// flag is a field of one bit.
func flag(at int, mask byte, set, clear string) decoder {
	return computed("%s", func(b []byte) []any { return []any{either(b[at]&mask != 0, set, clear)} })
}

// text is a field of characters without the blanks behind it.
func text(from, to int) decoder {
	return computed("%s", func(b []byte) []any {
		s := []byte(strings.TrimRight(string(b[from:to]), " "))
		for i, c := range s {
			if c < ' ' || c > '~' {
				s[i] = '_'
			}
		}
		return []any{s}
	})
}

// measured is a field of 16 bits in a unit of its own.
func measured(at int, format string, values func(v uint16) []any) decoder {
	return computed(format, func(b []byte) []any { return values(word16(b, at)) })
}

// scaled is a field of 16 bits, of which one unit is 1/per of the printed one.
func scaled(at int, per float64, format string) decoder {
	return measured(at, format, func(v uint16) []any { return []any{float64(v) / per} })
}

func word16(b []byte, at int) uint16 { return uint16(b[at])<<8 | uint16(b[at+1]) }

// bias is in 2 uA.
func bias(at int) decoder { return scaled(at, 500, "%.3f mA") }

// voltage is in 100 uV.
func voltage(at int) decoder { return scaled(at, 10000, "%.4f V") }

// power is in 0.1 uW.
func power(at int) decoder {
	return measured(at, "%.4f mW / %s dBm", func(v uint16) []any {
		mw := float64(v) / 10000
		return []any{mw, either(v > 0, fmt.Sprintf("%.2f", 10*math.Log10(mw)), "-inf")}
	})
}

// temperature is in 1/256 degree.
func temperature(at int) decoder {
	return measured(at, "%.2f degrees C / %.2f degrees F", func(v uint16) []any {
		celsius := float64(int16(v)) / 256
		return []any{celsius, celsius*1.8 + 32}
	})
}

// types is a line for each set bit of an octet that has a name, the highest
// first.
func types(at int, mask byte, names ...string) decoder {
	return func(w *moduleText, name string, b []byte) {
		for i, kind := range slices.Backward(names) {
			if b[at]&mask>>i&1 != 0 && kind != "" {
				w.field(name, "%s", kind)
			}
		}
	}
}

// when prints fields only if the condition holds.
func when(is func(b []byte) bool, list ...moduleField) moduleField {
	return moduleField{decode: func(w *moduleText, _ string, b []byte) {
		if is(b) {
			w.fields(b, list)
		}
	}}
}

// set is the condition that a bit of an octet is set, or clear.
func set(at int, mask byte) func([]byte) bool { return func(b []byte) bool { return b[at]&mask != 0 } }

func unset(at int, mask byte) func([]byte) bool {
	return func(b []byte) bool { return b[at]&mask == 0 }
}

// channels are the fields of four lanes, whose name has a place for the number.
func channels(name string, at int, decode func(at int) decoder) (list []moduleField) {
	for i := range 4 {
		list = append(list, moduleField{fmt.Sprintf(name, i+1), decode(at + 2*i)})
	}
	return list
}

const (
	moduleCodes   = "Transceiver codes"
	moduleType    = "Transceiver type"
	receivedOMA   = "Receiver signal OMA"
	opticalAlarms = "Alarm/warning flags implemented"
	moreID        = "Extended identifier description"
)

// Codes of SFF-8024, as far as Ethernet modules have them.
var (
	moduleIDs = map[byte]string{0: "no module present, unknown, or unspecified", 3: "SFP", 0xc: "QSFP", 0xd: "QSFP+",
		0x11: "QSFP28"}
	connectors = map[byte]string{0: "unknown or unspecified", 1: "SC", 7: "LC", 0xb: "Optical pigtail",
		0xc: "MPO Parallel Optic", 0x21: "Copper pigtail", 0x22: "RJ45", 0x23: "No separable connector"}
	extended = map[byte]string{1: "100G AOC or 25GAUI C2M AOC with worst BER of 5x10^(-5)",
		2: "100G Base-SR4 or 25GBase-SR",
		3: "100G Base-LR4", 4: "100G Base-ER4", 0xb: "100G Base-CR4 or 25G Base-CR CA-L"}
	encodingsSFP = map[byte]string{0: "unspecified", 1: "8B/10B", 3: "NRZ", 5: "SONET Scrambled", 6: "64B/66B"}
	revisions    = []string{"Revision not specified", "SFF-8436 Rev 4.8 or earlier", "SFF-8436 Rev 4.8 or earlier",
		"SFF-8636 Rev 1.3 or earlier", "SFF-8636 Rev 1.4", "SFF-8636 Rev 1.5", "SFF-8636 Rev 2.0",
		"SFF-8636 Rev 2.5/2.6/2.7", "SFF-8636 Rev 2.8/2.9/2.10"}
	revisionsSFP = map[byte]string{1: "Rev 9.3", 2: "Rev 9.5", 3: "Rev 10.2", 4: "Rev 10.4", 5: "Rev 11.0",
		6: "Rev 11.3",
		7: "Rev 11.4", 8: "Rev 12.3"}
	encodingsQSFP = map[byte]string{0: "unspecified", 1: "8B/10B", 3: "NRZ", 4: "SONET Scrambled", 5: "64B/66B"}
	transmitters  = map[byte]string{0: "850 nm VCSEL", 0x10: "1310 nm VCSEL", 0x40: "1310 nm DFB",
		0xa0: "Copper cable unequalized"}
)

// sfpFields are page A0 of SFF-8472, and behind it the diagnostics of page A2.
var sfpFields = []moduleField{
	{"Extended identifier", code(1, 0xff, map[byte]string{0: "GBIC not specified / not MOD_DEF compliant",
		4: "GBIC/SFP defined by 2-wire interface ID"})},
	{"Connector", code(2, 0xff, connectors)},
	{moduleCodes, computed("% #x", func(b []byte) []any { return []any{append(slices.Clone(b[3:11]), b[36])} })},
	{moduleType, types(3, 0xf0, "", "", "", "", "10G Ethernet: 10G Base-SR", "10G Ethernet: 10G Base-LR",
		"10G Ethernet: 10G Base-LRM", "10G Ethernet: 10G Base-ER [SFF-8472 rev10.4 onwards]")},
	{moduleType, types(6, 0xf, "Ethernet: 1000BASE-SX", "Ethernet: 1000BASE-LX", "Ethernet: 1000BASE-CX",
		"Ethernet: 1000BASE-T")},
	{"Encoding", code(11, 0xff, encodingsSFP)},
	{"BR, Nominal", octet(12, 100, "%dMBd")},
	{"Rate identifier", code(13, 0xff, map[byte]string{0: "unspecified"})},
	{"Length (SMF,km)", octet(14, 1, "%dkm")},
	{"Length (SMF)", octet(15, 100, "%dm")},
	{"Length (50um)", octet(16, 10, "%dm")},
	{"Length (62.5um)", octet(17, 10, "%dm")},
	{"Length (Copper)", octet(18, 1, "%dm")},
	{"Length (OM3)", octet(19, 10, "%dm")},
	{"Laser wavelength", measured(60, "%dnm", func(v uint16) []any { return []any{v} })},
	{"Vendor name", text(20, 36)},
	{"Vendor OUI", octets(37, "%02x:%02x:%02x")},
	{"Vendor PN", text(40, 56)},
	{"Vendor rev", text(56, 60)},
	{"Option values", octets(64, "0x%02x 0x%02x")},
	{"BR margin, max", octet(66, 1, "%d%%")},
	{"BR margin, min", octet(67, 1, "%d%%")},
	{"Vendor SN", text(68, 84)},
	{"Date code", text(84, 92)},
	when(set(94, 0xff),
		moduleField{"8472 Compliance", code(94, 0xff, revisionsSFP)},
		moduleField{"Optical diagnostics support", flag(92, 0x40, "Yes", "No")},
		when(set(92, 0x40),
			moduleField{"Laser bias current", bias(256 + 100)},
			moduleField{"Laser output power", power(256 + 102)},
			when(set(92, 8), moduleField{"Receiver signal average optical power", power(256 + 104)}),
			when(unset(92, 8), moduleField{receivedOMA, power(256 + 104)}),
			moduleField{"Module temperature", temperature(256 + 96)},
			moduleField{"Module voltage", voltage(256 + 98)},
			moduleField{opticalAlarms, flag(0, 0, "", "No")})),
}

// qsfpFields are page 00h of SFF-8636, and behind it what the lanes measure.
var qsfpFields = slices.Concat([]moduleField{
	{"Extended identifier", octets(129, "0x%02x")},
	{moreID, computed("%s max. Power consumption", func(b []byte) []any {
		return []any{[...]string{"1.5W", "2.0W", "2.5W", "3.5W"}[b[129]>>6]}
	})},
	{moreID, computed("%s in TX, %s in RX", func(b []byte) []any {
		const has, hasNot = "CDR present", "No CDR"
		return []any{either(b[129]&8 != 0, has, hasNot), either(b[129]&4 != 0, has, hasNot)}
	})},
	{moreID, flag(93, 4, "High Power Class (> 3.5 W) enabled", "High Power Class (> 3.5 W) not enabled")},
	{"Power set", flag(93, 2, "On", "Off")},
	{"Power override", flag(93, 1, "On", "Off")},
	{"Connector", code(130, 0xff, connectors)},
	{moduleCodes, computed("% #x", func(b []byte) []any { return []any{b[131:139]} })},
	{moduleType, types(131, 0x7f, "40G Ethernet: 40G Active Cable (XLPPI)", "40G Ethernet: 40G Base-LR4",
		"40G Ethernet: 40G Base-SR4", "40G Ethernet: 40G Base-CR4", "10G Ethernet: 10G Base-SR",
		"10G Ethernet: 10G Base-LR", "10G Ethernet: 10G Base-LRM")},
	when(func(b []byte) bool { return b[131]&0x80 != 0 && extended[b[192]] != "" },
		moduleField{moduleType, computed("100G Ethernet: %s", func(b []byte) []any {
			return []any{extended[b[192]]}
		})}),
	{"Encoding", code(139, 0xff, encodingsQSFP)},
	{"BR, Nominal", computed("%dMbps", func(b []byte) []any {
		if b[140] == 255 {
			return []any{int(b[222]) * 250}
		}
		return []any{int(b[140]) * 100}
	})},
	{"Rate identifier", octets(141, "0x%02x")},
	{"Length (SMF,km)", octet(142, 1, "%dkm")},
	{"Length (OM3 50um)", octet(143, 2, "%dm")},
	{"Length (OM2 50um)", octet(144, 1, "%dm")},
	{"Length (OM1 62.5um)", octet(145, 1, "%dm")},
	{"Length (Copper or Active cable)", octet(146, 1, "%dm")},
	{"Transmitter technology", code(147, 0xf0, transmitters)},
	when(isCopper,
		moduleField{"Attenuation at 2.5GHz", octet(186, 1, "%ddb")},
		moduleField{"Attenuation at 5.0GHz", octet(187, 1, "%ddb")},
		moduleField{"Attenuation at 7.0GHz", octet(188, 1, "%ddb")},
		moduleField{"Attenuation at 12.9GHz", octet(189, 1, "%ddb")}),
	when(func(b []byte) bool { return !isCopper(b) },
		moduleField{"Laser wavelength", scaled(186, 20, "%.3fnm")},
		moduleField{"Laser wavelength tolerance", scaled(188, 200, "%.3fnm")}),
	{"Vendor name", text(148, 164)},
	{"Vendor OUI", octets(165, "%02x:%02x:%02x")},
	{"Vendor PN", text(168, 184)},
	{"Vendor rev", text(184, 186)},
	{"Vendor SN", text(196, 212)},
	{"Date code", text(212, 220)},
	{"Revision Compliance", computed("%s", func(b []byte) []any {
		return []any{slices.Concat(revisions, []string{"Unallocated"})[min(int(b[1]), len(revisions))]}
	})},
	{"Module temperature", temperature(22)},
	{"Module voltage", voltage(26)},
	{opticalAlarms, flag(0, 0, "", "No")},
},
	channels("Laser tx bias current (Channel %d)", 42, bias),
	channels("Transmit avg optical power (Channel %d)", 50, power),
	[]moduleField{
		when(set(220, 8), channels("Rcvr signal avg optical power(Channel %d)", 34, power)...),
		when(unset(220, 8), channels(receivedOMA+"(Channel %d)", 34, power)...),
	})

func isCopper(b []byte) bool { return b[147] >= 0xa0 }

// decodeModule is what ethtool -m says of a module.
func decodeModule(m view.ModuleEEPROM) string {
	var w moduleText
	code(0, 0xff, moduleIDs)(&w, "Identifier", m.Data)
	if m.Type == view.SFF8472 {
		w.fields(m.Data, sfpFields)
	} else {
		w.fields(m.Data, qsfpFields)
	}
	return w.String()
}
