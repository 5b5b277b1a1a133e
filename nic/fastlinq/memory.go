package fastlinq

import (
	"encoding/binary"

	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/status"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// ReadEEPROM reads length octets of the flash from offset on, through the
// management firmware; length 0: all that there are. INVAL: they are not there.
func (d tools) ReadEEPROM(offset, length uint32, now frame.Time, done func([]byte, error)) {
	m := d.management.mcp
	m.NVMRead(0, 16, now, func(header []byte, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		size := uint32(nvm.Size)
		if binary.BigEndian.Uint32(header) == nvm.Signature {
			size = min(binary.BigEndian.Uint32(header[12:]), nvm.MaxSize)
		}
		if length == 0 && offset < size {
			length = size - offset
		}
		if offset > size || length > size-offset || length == 0 {
			done(nil, status.Inval.Errorf("octets %d to %d of an EEPROM of %d", offset, uint64(offset)+uint64(length),
				size))
			return
		}
		m.NVMRead(offset, length, d.now(), done)
	})
	d.Manage(now)
}

// ReadModule reads all memory of the port's module, through the management
// firmware. NODEV: there is no module.
func (d tools) ReadModule(now frame.Time, done func(view.ModuleEEPROM, error)) {
	m := d.management.mcp
	read := func(addr uint8, then func([]byte)) {
		m.ReadModule(addr, 0, mfw.PageLen, d.now(), func(b []byte, err error) {
			if err != nil {
				done(view.ModuleEEPROM{}, err)
				return
			}
			then(b)
		})
	}
	d.nic.Enter(now)
	read(mfw.PageA0, func(a0 []byte) {
		if a0[0] != idSFP {
			done(view.ModuleEEPROM{Type: view.SFF8636, Data: a0}, nil)
			return
		}
		read(mfw.PageA2, func(a2 []byte) { done(view.ModuleEEPROM{Type: view.SFF8472, Data: append(a0, a2...)}, nil) })
	})
	d.Manage(now)
}

// idSFP is the first octet of an SFP's memory (SFF-8024).
const idSFP = 0x03

// Features of a register dump, numbered as qed's.
const (
	DumpGRC        = 2
	DumpNVMConfig  = 9
	DumpDefaultCfg = 10
	DumpNVMMeta    = 11
	DumpMdump      = 12
)

// RegisterDump is what ethtool -d shows: for each feature a word with its
// length in words in bits 0 to 23, the feature in 24 to 29, in bit 30 that it is
// of no engine, else in bit 31 which, and then its octets; all words little
// endian. Features are the registers of each engine (blocks as GRCDump of the
// driver core has them, and those of the interrupts), then images of the flash.
func (d tools) RegisterDump() []byte {
	var out []byte
	feature := func(id, engine uint32, b []byte) {
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(b)/4)|id<<24|engine<<30), b...)
	}
	for _, h := range d.core.dev.Hwfns {
		feature(DumpGRC, uint32(h.Index)<<1, append(h.GRCDump(), d.interruptDump(h.Index)...))
	}
	const noEngine = 1
	im, err := d.management.fw.NVM()
	if err != nil { // a damaged directory: there are no images
		return out
	}
	for _, part := range []struct {
		id uint32
		t  nvm.Type
	}{{DumpNVMConfig, nvm.TypeConfig}, {DumpDefaultCfg, nvm.TypeDefault}, {DumpMdump, nvm.TypeMdump}} {
		if e, ok := im.Find(part.t); ok {
			feature(part.id, noEngine, append([]byte(nil), im.Bytes(e)...))
		}
	}
	var meta []byte
	for _, e := range im.Entries() {
		for _, v := range []uint32{uint32(e.Type), e.Offset, e.Len, e.CRC} {
			meta = binary.LittleEndian.AppendUint32(meta, v)
		}
	}
	feature(DumpNVMMeta, noEngine, meta)
	return out
}

// interruptDump has the registers of an engine's interrupts as one more block.
func (d tools) interruptDump(engine int) []byte {
	const name = "IGU_CAU"
	out := append([]byte{byte(len(name))}, name...)
	d.onIRQ(engine, func(h *irq.Hwfn) {
		regs := h.Registers()
		out = binary.LittleEndian.AppendUint32(out, uint32(len(regs)))
		for _, r := range regs {
			out = binary.LittleEndian.AppendUint32(out, r.Read())
		}
	})
	return out
}
