package mfw

import (
	"cmp"
	"encoding/binary"
	"fmt"
)

// Module is the kind of pluggable module in a port.
type Module uint8

// The modules.
const (
	NoModule Module = iota
	SFP             // SFF-8472: pages A0 and A2
	QSFP            // SFF-8636: page A0
)

func moduleOf(m Media) Module {
	switch m {
	case MediaModule, MediaDAC:
		return QSFP
	case MediaSFPP10G, MediaSFP1G, MediaXFP:
		return SFP
	}
	return NoModule
}

// TransceiverState is the lower octet of Port.TransceiverData.
type TransceiverState uint8

// The states.
const (
	TransceiverUnplugged TransceiverState = 0x0
	TransceiverPresent   TransceiverState = 0x1
	TransceiverUpdating  TransceiverState = 0x8
)

func (s TransceiverState) String() string {
	return cmp.Or(map[TransceiverState]string{TransceiverUnplugged: "unplugged", TransceiverPresent: "present",
		TransceiverUpdating: "updating"}[s], "unknown")
}

// Transceiver types, the second octet of Port.TransceiverData.
const (
	Transceiver10GSR   = 0x05
	Transceiver100GSR4 = 0x10
	Transceiver100GCR4 = 0x14
	Transceiver1GSX    = 0x04
	TransceiverBaseT   = 0x22
)

// DecodeTransceiver takes Port.TransceiverData apart.
func DecodeTransceiver(w uint32) (TransceiverState, uint8) {
	return TransceiverState(w), uint8(w >> transceiverTypeBits)
}

func (p *port) transceiver() uint32 {
	if p.gone() {
		return uint32(TransceiverUnplugged)
	}
	kind := map[Media]uint32{MediaModule: Transceiver100GSR4, MediaDAC: Transceiver100GCR4,
		MediaSFPP10G: Transceiver10GSR, MediaXFP: Transceiver10GSR, MediaSFP1G: Transceiver1GSX,
		MediaBaseT: TransceiverBaseT}[p.media]
	return uint32(TransceiverPresent) | kind<<transceiverTypeBits
}

// SetModule plugs the port's module in or pulls it out. The drivers are told.
func (f *Firmware) SetModule(n int, present bool) {
	p := &f.ports[n]
	if p.unplug == !present || p.media == MediaBaseT || p.media == MediaKR {
		return // these ports have no module
	}
	p.unplug = !present
	s := &f.shm.Port[n]
	s.TransceiverData = p.transceiver()
	s.MediaType = uint32(p.media)
	if !present {
		s.MediaType = uint32(MediaNotPresent)
	}
	f.postPort(n, MsgTransceiverChange)
	f.refresh(n)
}

// SetTxFault makes the module's laser fail, or work again.
func (f *Firmware) SetTxFault(n int, on bool) {
	f.ports[n].txFault = on
	f.refresh(n)
}

// I2C addresses of a module's pages.
const (
	PageA0 = 0xa0
	PageA2 = 0xa2
)

// PageLen is the length of a page.
const PageLen = 256

// transceiverRead reads the module's memory: port in bits 0-1, length in 2-7,
// I2C address in 8-15, offset in 16-31.
func (f *Firmware) transceiverRead(r *request) Response {
	n := f.cfg.Funcs[r.fn].Port
	length, addr, offset := int(r.param>>2&0x3f), r.param>>8&0xff, int(r.param>>16)
	if n != int(r.param&3) || length > NVMChunk || offset+length > PageLen {
		return Error
	}
	p := &f.ports[n]
	if p.gone() || p.module == NoModule {
		return TransceiverNotPresent
	}
	page, ok := f.page(n, addr)
	if !ok {
		return Error
	}
	r.value = uint32(copy(r.data, page[offset:offset+length]))
	return OK
}

// Identity of the modules that are plugged in.
const (
	moduleVendor = "TAPIR"
	moduleSerial = "T0000001"
	moduleDate   = "260101"
)

// page renders a page of a module's memory.
func (f *Firmware) page(n int, addr uint32) (b [PageLen]byte, ok bool) {
	p := &f.ports[n]
	celsius := uint16(f.board.sensors[1].Current) << 8 // in 1/256 degree
	switch {
	case p.module == QSFP && addr == PageA0:
		p.qsfp(&b, celsius)
	case p.module == SFP && addr == PageA0:
		p.sfp(&b)
	case p.module == SFP && addr == PageA2:
		copy(b[96:], words(celsius, 33000, 3500, 5800, p.power()))
	default:
		return b, false
	}
	return b, true
}

// sum is the check code of a part of a page.
func sum(b []byte) (s byte) {
	for _, v := range b {
		s += v
	}
	return s
}

// fields are the octets of a page from some places on.
type fields map[int][]byte

func (l fields) write(b []byte) {
	for at, octets := range l {
		copy(b[at:], octets)
	}
}

// text is a name of n octets, filled up with blanks.
func text(n int, s string) []byte { return fmt.Appendf(nil, "%-*s", n, s) }

// words are 16 bits each, the first octet the higher.
func words(list ...uint16) (b []byte) {
	for _, w := range list {
		b = binary.BigEndian.AppendUint16(b, w)
	}
	return b
}

// sfp is page A0 of SFF-8472.
func (p *port) sfp(b *[PageLen]byte) {
	fields{
		0:  {0x03, 0x04, 0x07, 0x10}, // SFP, by two-wire interface, LC; 10GBASE-SR
		11: {0x06, 103},              // 64B/66B
		16: {8},                      // 80 m on OM2
		20: text(16, moduleVendor), 40: text(16, "TAPIR-SFP10G-SR"), 56: text(4, "A"),
		60: words(850), // nm
		68: text(16, moduleSerial), 84: text(8, moduleDate),
		92: {0x68, 0, 0x08}, // diagnostics, internally calibrated; SFF-8472 12.0
	}.write(b[:])
	if p.media == MediaSFP1G {
		fields{3: {0, 0, 0, 0x01}, 12: {13}, 40: text(16, "TAPIR-SFP1G-SX")}.write(b[:])
	}
	b[63], b[95] = sum(b[:63]), sum(b[64:95])
}

// qsfp is page A0 of SFF-8636.
func (p *port) qsfp(b *[PageLen]byte, celsius uint16) {
	in := p.power()
	fields{
		0:   {0x11, 0x08, 0x04}, // QSFP28, SFF-8636 2.8; flat memory: no further pages
		22:  words(celsius),
		26:  words(33000),                  // 3.3 V in 100 uV
		34:  words(in, in, in, in),         // by lane
		42:  words(3500, 3500, 3500, 3500), // 7 mA in 2 uA
		50:  words(8000, 8000, 8000, 8000), // 0.8 mW in 0.1 uW
		128: {0x11, 0, 0x0c, 0x80},         // MPO; extended specification in octet 192
		139: {0x05, 255},                   // 64B/66B; more than 25.4 Gb/s a lane: octet 222 says how much
		148: text(16, moduleVendor), 168: text(16, "TAPIR-QSFP28-SR4"), 184: text(2, "A"),
		186: words(850 * 20), // nm / 20
		192: {0x02},          // 100GBASE-SR4
		196: text(16, moduleSerial), 212: text(8, moduleDate), 222: {103},
	}.write(b[:])
	if p.media == MediaDAC {
		fields{
			130: {0x23}, 192: {0x0b}, 168: text(16, "TAPIR-QSFP28-CR4"), // no connector; 100GBASE-CR4
			146: {1, 0xa0},    // 1 m of copper, unequalized
			186: {3, 4, 5, 8}, // dB at 2.5, 5, 7 and 12.9 GHz
		}.write(b[:])
	}
	b[191], b[223] = sum(b[128:191]), sum(b[192:223])
}

// power is what comes in, in 0.1 uW: about 0.7 mW, or nothing.
func (p *port) power() uint16 {
	if !p.signal {
		return 0
	}
	return 7200
}
