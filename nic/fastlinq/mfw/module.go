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
		put16(b[96:], celsius)
		p.diagnostics(b[98:])
	default:
		return b, false
	}
	return b, true
}

func put16(b []byte, v uint16) { binary.BigEndian.PutUint16(b, v) }

// pad writes a name, filled up with blanks.
func pad(b []byte, s string) { copy(b, fmt.Sprintf("%-*s", len(b), s)) }

// sum is the check code of a part of a page.
func sum(b []byte) (s byte) {
	for _, v := range b {
		s += v
	}
	return s
}

// sfp is page A0 of SFF-8472.
func (p *port) sfp(b *[PageLen]byte) {
	b[0], b[1], b[2] = 0x03, 0x04, 0x07 // SFP, by two-wire interface, LC
	b[3] = 0x10                         // 10GBASE-SR
	part := "TAPIR-SFP10G-SR"
	b[12] = 103
	if p.media == MediaSFP1G {
		b[3], b[6], b[12], part = 0, 0x01, 13, "TAPIR-SFP1G-SX"
	}
	b[11] = 0x06 // 64B/66B
	b[16] = 8    // 80 m on OM2
	pad(b[20:36], moduleVendor)
	pad(b[40:56], part)
	pad(b[56:60], "A")
	put16(b[60:], 850) // nm
	b[63] = sum(b[:63])
	pad(b[68:84], moduleSerial)
	pad(b[84:92], moduleDate)
	b[92], b[94] = 0x68, 0x08 // diagnostics, internally calibrated; SFF-8472 12.0
	b[95] = sum(b[64:95])
}

// qsfp is page A0 of SFF-8636.
func (p *port) qsfp(b *[PageLen]byte, celsius uint16) {
	b[0], b[1] = 0x11, 0x08 // QSFP28, SFF-8636 2.8
	b[2] = 0x04             // flat memory: no further pages
	put16(b[22:], celsius)
	put16(b[26:], 33000) // 3.3 V in 100 uV
	for lane := range 4 {
		put16(b[34+2*lane:], p.power())
		put16(b[42+2*lane:], 3500) // 7 mA in 2 uA
		put16(b[50+2*lane:], 8000) // 0.8 mW in 0.1 uW
	}
	b[128] = 0x11
	b[130], b[131], b[192] = 0x0c, 0x80, 0x02 // MPO; extended: 100GBASE-SR4
	part := "TAPIR-QSFP28-SR4"
	if p.media == MediaDAC {
		b[130], b[192], part = 0x23, 0x0b, "TAPIR-QSFP28-CR4" // no connector; 100GBASE-CR4
		b[146], b[147] = 1, 0xa0                              // 1 m of copper, unequalized
	}
	b[139] = 0x05 // 64B/66B
	b[140] = 255  // more than 25.4 Gb/s a lane; b[222] says
	b[222] = 103
	pad(b[148:164], moduleVendor)
	pad(b[168:184], part)
	pad(b[184:186], "A")
	put16(b[186:], 850*20) // nm / 20
	if p.media == MediaDAC {
		copy(b[186:190], []byte{3, 4, 5, 8}) // dB at 2.5, 5, 7 and 12.9 GHz
	}
	b[191] = sum(b[128:191])
	pad(b[196:212], moduleSerial)
	pad(b[212:220], moduleDate)
	b[223] = sum(b[192:223])
}

// diagnostics are the values of page A2 behind the temperature.
func (p *port) diagnostics(b []byte) {
	put16(b, 33000)
	put16(b[2:], 3500)
	put16(b[4:], 5800)
	put16(b[6:], p.power())
}

// power is what comes in, in 0.1 uW: about 0.7 mW, or nothing.
func (p *port) power() uint16 {
	if !p.signal {
		return 0
	}
	return 7200
}
