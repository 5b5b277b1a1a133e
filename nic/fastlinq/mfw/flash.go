package mfw

import (
	"bytes"
	"encoding/binary"
	"slices"

	"tapir/nic/fastlinq/mfw/nvm"
)

// flash is the memory that outlives power. Its content is made when it is
// first looked at.
type flash struct {
	b   []byte
	put *putFile
	opt []nvm.Option // not yet committed
}

// putFile is a file on its way into the flash.
type putFile struct {
	kind  nvm.Type
	whole bool // the flash
	data  []byte
}

// maxFile bounds a file that is flashed.
const maxFile = 1 << 16

// content is what lies in the flash.
func (f *Firmware) content() []byte {
	if f.flash.b == nil {
		f.flash.b = f.factory()
	}
	return f.flash.b
}

// factory is the flash as it is delivered.
func (f *Firmware) factory() []byte {
	b := nvm.Factory(f.cfg.Version)
	if f.cfg.InitHW == nil {
		return b
	}
	if im, err := nvm.Parse(b); err == nil {
		if with, err := im.Put(nvm.TypeInitHW, f.cfg.InitHW()); err == nil {
			return with
		}
	}
	return b
}

// SetNVM puts another image into the flash: what it is worth shows when it is
// used. nil stands for the factory's.
func (f *Firmware) SetNVM(b []byte) { f.flash.b = bytes.Clone(b) }

// DamageNVM turns the bits of an octet round.
func (f *Firmware) DamageNVM(offset int) {
	b := f.content()
	if offset >= 0 && offset < len(b) {
		b[offset] ^= 0xff
	}
}

// Kinds of file of NVM_PUT_FILE_BEGIN.
const (
	PutMFW    = 1
	PutImage  = 2 // the options
	PutMBI    = 3
	PutInitHW = 4 // the firmware of the storms
	PutWhole  = 5 // all of the flash
)

// nvmCmd reads and writes the flash: offset in the lower 24 bits of the
// parameter, length above.
func (f *Firmware) nvmCmd(c Command, param uint32, data []byte) (Response, uint32) {
	offset, length := param&0xffffff, param>>24
	switch c {
	case CmdNVMGetFileAtt:
		return f.fileAtt(nvm.Type(param), data), 0
	case CmdNVMPutFileBegin:
		return f.putBegin(param&0xff, data), 0
	}
	if length == 0 || length > NVMChunk {
		return NVMBadOffset, 0
	}
	if c == CmdNVMPutFileData {
		return f.putData(offset, data[:length])
	}
	b := f.content()
	if int64(offset)+int64(length) > int64(len(b)) {
		return NVMBadOffset, 0
	}
	if c == CmdNVMWrite {
		copy(b[offset:], data[:length])
	} else {
		copy(data, b[offset:offset+length])
	}
	return NVMOK, length
}

func (f *Firmware) fileAtt(t nvm.Type, data []byte) Response {
	im, err := f.NVM()
	if err != nil {
		return NVMInvalidDir
	}
	e, ok := im.Find(t)
	if !ok {
		return NVMFileNotFound
	}
	putWords(data, e.Offset, e.Len)
	return NVMOK
}

// putBegin starts a file: its length goes with it.
func (f *Firmware) putBegin(kind uint32, data []byte) Response {
	size := binary.LittleEndian.Uint32(data)
	if size == 0 || size > maxFile {
		return NVMBadOffset
	}
	p := &putFile{data: make([]byte, 0, size)}
	switch kind {
	case PutMFW:
		p.kind = nvm.TypeMFW
	case PutImage:
		p.kind = nvm.TypeConfig
	case PutMBI:
		p.kind = nvm.TypeMBI
	case PutInitHW:
		p.kind = nvm.TypeInitHW
	case PutWhole:
		p.whole = true
	default:
		return NVMFileNotFound
	}
	f.flash.put = p
	return NVMOK
}

// putData takes the next octets; with the last, the file is written.
func (f *Firmware) putData(offset uint32, b []byte) (Response, uint32) {
	p := f.flash.put
	switch {
	case p == nil || int(offset) != len(p.data):
		return NVMBadOffset, 0
	case len(p.data)+len(b) > cap(p.data):
		return NVMBadOffset, 0
	}
	p.data = append(p.data, b...)
	if len(p.data) < cap(p.data) {
		return NVMOK, uint32(len(p.data))
	}
	f.flash.put = nil
	return f.putFinish(p), uint32(len(p.data))
}

// putFinish writes a file that is there in whole, if it is what it should be.
func (f *Firmware) putFinish(p *putFile) Response {
	if p.whole {
		im, err := nvm.Parse(p.data)
		if err != nil || im.Check() != nil {
			return NVMBadSignature
		}
		f.flash.b = p.data
		return NVMPutFileFinishOK
	}
	im, err := f.NVM()
	if err != nil {
		return NVMInvalidDir
	}
	if p.kind == nvm.TypeMFW {
		if v, ok := nvm.MFWVersion(p.data); !ok || v == 0 || v == 0xffffffff {
			return NVMBadSignature
		}
	}
	if f.cfg.Verify != nil && f.cfg.Verify(p.kind, p.data) != nil {
		return NVMBadSignature
	}
	if p.kind == nvm.TypeInitHW {
		b, err := im.Put(p.kind, p.data)
		if err != nil {
			return NVMOperationFailed
		}
		f.flash.b = b
	} else if im.Replace(p.kind, p.data) != nil {
		return NVMOperationFailed
	}
	return NVMPutFileFinishOK
}

// Tests of BIST_TEST, and its outcomes.
const (
	BISTRegister  = 1
	BISTClock     = 2
	BISTNumImages = 3
	BISTImage     = 4

	BISTPassed  = 1
	BISTFailed  = 2
	BISTBadTest = 3
)

// bist does a selftest: its number in the lowest octet of the parameter, that
// of an image above. Image attributes are an outcome, type, offset and length.
func (f *Firmware) bist(param uint32, data []byte) (Response, uint32) {
	switch param & 0xff {
	case BISTRegister, BISTClock:
		if param&0xff == BISTRegister {
			if f.bistErr = f.bistRegisters(); f.bistErr != nil {
				return OK, BISTFailed
			}
		}
		if f.fault.BIST>>(param&0xff)&1 != 0 {
			return OK, BISTFailed
		}
		return OK, BISTPassed
	case BISTNumImages:
		im, err := f.NVM()
		if err != nil {
			return OK, 0
		}
		return OK, uint32(len(im.Entries()))
	case BISTImage:
		im, err := f.NVM()
		index := int(param >> 8 & 0xff)
		if err != nil || index >= len(im.Entries()) {
			return OK, BISTBadTest
		}
		e := im.Entries()[index]
		putWords(data, BISTPassed, uint32(e.Type), e.Offset, e.Len)
		return OK, BISTPassed
	}
	return OK, BISTBadTest
}

// OptionWoL is the option of a function whose value of one octet, 1, lets a
// magic packet wake it unless its driver says otherwise.
const OptionWoL = 0x11

// Fields of the parameter of GET_ and SET_NVM_CFG_OPTION, besides the identity
// in the lower half: the entity in bits 24-27, and what to do. The octets of
// the value follow their number in the data.
const (
	OptionInit   = 1 << 17 // forget what was not committed
	OptionCommit = 1 << 18 // write into the flash
	OptionFree   = 1 << 19 // forget, when it is done
	entityShift  = 24
)

// OptionParam is the parameter for an option of an entity.
func OptionParam(id uint16, entity uint8, flags uint32) uint32 {
	return uint32(id) | uint32(entity&0xf)<<entityShift | flags
}

func (f *Firmware) options() []nvm.Option {
	b := f.flash.b
	if b == nil { // as delivered, for which storm firmware need not be packed
		b = nvm.Factory(f.cfg.Version)
	}
	im, err := nvm.Parse(b)
	if err != nil {
		return nil
	}
	list, err := im.Options(nvm.TypeConfig)
	if err != nil {
		return nil
	}
	return list
}

func (f *Firmware) getOption(param uint32, data []byte) (Response, uint32) {
	for _, o := range f.options() {
		if o.ID == uint16(param) && o.Entity == uint8(param>>entityShift&0xf) {
			return OK, uint32(copy(data, o.Value))
		}
	}
	return NVMFileNotFound, 0
}

// setOption changes an option: in the flash with OptionCommit, until then only
// in the firmware's memory.
func (f *Firmware) setOption(param uint32, data []byte) Response {
	l := &f.flash
	if param&OptionInit != 0 || l.opt == nil {
		l.opt = nil
		for _, o := range f.options() {
			l.opt = append(l.opt, nvm.Option{ID: o.ID, Entity: o.Entity, Value: bytes.Clone(o.Value)})
		}
	}
	id, entity, n := uint16(param), uint8(param>>entityShift&0xf), int(data[0])
	if n == 0 || n > nvm.MaxOption || id == 0xffff {
		return NVMBadOffset
	}
	l.opt = slices.DeleteFunc(l.opt, func(o nvm.Option) bool { return o.ID == id && o.Entity == entity })
	l.opt = append(l.opt, nvm.Option{ID: id, Entity: entity, Value: bytes.Clone(data[1 : 1+n])})
	resp := OK
	if param&OptionCommit != 0 {
		im, err := f.NVM()
		if err != nil {
			resp = NVMInvalidDir
		} else if im.SetOptions(l.opt) != nil {
			resp = NVMOperationFailed
		}
	}
	if param&OptionFree != 0 {
		l.opt = nil
	}
	return resp
}

// nvmWoL is what the flash says about waking a function.
func (f *Firmware) nvmWoL(fn int) bool {
	for _, o := range f.options() {
		if o.ID == OptionWoL && int(o.Entity) == fn {
			return len(o.Value) == 1 && o.Value[0] == 1
		}
	}
	return false
}
