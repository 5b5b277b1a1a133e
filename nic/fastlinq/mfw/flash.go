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
	kind nvm.Type
	data []byte
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
	im, err := nvm.Parse(b)
	if err == nil {
		b, err = im.Put(nvm.TypeInitHW, f.cfg.InitHW())
	}
	if err != nil {
		panic("mfw: " + err.Error()) // the firmware that is built in fits the factory's flash
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

// putTypes are the images that files of these kinds become.
var putTypes = map[uint32]nvm.Type{PutMFW: nvm.TypeMFW, PutImage: nvm.TypeConfig, PutMBI: nvm.TypeMBI,
	PutInitHW: nvm.TypeInitHW, PutWhole: nvm.Whole}

// nvmChunk reads or writes a part of the flash, or takes one of a file: offset in
// the lower 24 bits of the parameter, length above.
func (f *Firmware) nvmChunk(r *request) Response {
	offset, length, b := r.param&0xffffff, r.param>>24, f.content()
	switch {
	case length == 0 || length > NVMChunk:
		return NVMBadOffset
	case r.cmd == CmdNVMPutFileData:
		return f.putData(r, offset, r.data[:length])
	case int64(offset)+int64(length) > int64(len(b)):
		return NVMBadOffset
	case r.cmd == CmdNVMWrite:
		copy(b[offset:], r.data[:length])
	default:
		copy(r.data, b[offset:offset+length])
	}
	r.value = length
	return NVMOK
}

func (f *Firmware) fileAtt(r *request) Response {
	im, err := f.NVM()
	if err != nil {
		return NVMInvalidDir
	}
	e, ok := im.Find(nvm.Type(r.param))
	if !ok {
		return NVMFileNotFound
	}
	encode(r.data, [2]uint32{e.Offset, e.Len})
	return NVMOK
}

// putBegin starts a file: its length goes with it.
func (f *Firmware) putBegin(r *request) Response {
	size := binary.LittleEndian.Uint32(r.data)
	if size == 0 || size > maxFile {
		return NVMBadOffset
	}
	kind, ok := putTypes[r.param&0xff]
	if !ok {
		return NVMFileNotFound
	}
	f.flash.put = &putFile{kind, make([]byte, 0, size)}
	return NVMOK
}

// putData takes the next octets; with the last, the file is written.
func (f *Firmware) putData(r *request, offset uint32, b []byte) Response {
	p := f.flash.put
	if p == nil || int(offset) != len(p.data) || len(p.data)+len(b) > cap(p.data) {
		return NVMBadOffset
	}
	p.data = append(p.data, b...)
	r.value = uint32(len(p.data))
	if len(p.data) < cap(p.data) {
		return NVMOK
	}
	f.flash.put = nil
	return f.putFinish(p)
}

// putFinish writes a complete file, if it is what it should be.
func (f *Firmware) putFinish(p *putFile) Response {
	im, err := f.NVM()
	switch {
	case err != nil && p.kind != nvm.Whole:
		return NVMInvalidDir
	case f.cfg.Verify(p.kind, p.data) != nil:
		return NVMBadSignature
	}
	b := p.data
	switch p.kind {
	case nvm.Whole:
	case nvm.TypeInitHW:
		b, err = im.Put(p.kind, p.data)
	default:
		b, err = im.Raw(), im.Replace(p.kind, p.data)
	}
	if err != nil && p.kind != nvm.Whole {
		return NVMOperationFailed
	}
	f.flash.b = b
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
func (f *Firmware) bist(r *request) {
	test := r.param & 0xff
	im, err := f.NVM()
	if err != nil {
		im = &nvm.Image{}
	}
	switch index := int(r.param >> 8 & 0xff); {
	case test == BISTRegister || test == BISTClock:
		if test == BISTRegister {
			f.bistErr = f.bistRegisters()
		}
		r.value = BISTPassed
		if test == BISTRegister && f.bistErr != nil || f.fault.BIST>>test&1 != 0 {
			r.value = BISTFailed
		}
	case test == BISTNumImages:
		r.value = uint32(len(im.Entries()))
	case test == BISTImage && index < len(im.Entries()):
		e := im.Entries()[index]
		encode(r.data, [4]uint32{BISTPassed, uint32(e.Type), e.Offset, e.Len})
		r.value = BISTPassed
	default:
		r.value = BISTBadTest
	}
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

// options are those in the flash, none if it is damaged.
func (f *Firmware) options() []nvm.Option {
	b := f.flash.b
	if b == nil { // as delivered, for which storm firmware need not be packed
		b = nvm.Factory(f.cfg.Version)
	}
	im, err := nvm.Parse(b)
	if err != nil {
		return nil
	}
	list, _ := im.Options(nvm.TypeConfig)
	return list
}

func (f *Firmware) getOption(r *request) Response {
	for _, o := range f.options() {
		if o.ID == uint16(r.param) && o.Entity == uint8(r.param>>entityShift&0xf) {
			r.value = uint32(copy(r.data, o.Value))
			return OK
		}
	}
	return NVMFileNotFound
}

// setOption changes an option: in the flash with OptionCommit, until then only
// in the firmware's memory.
func (f *Firmware) setOption(r *request) Response {
	param, data, l := r.param, r.data, &f.flash
	if param&OptionInit != 0 || l.opt == nil {
		l.opt = nil
		for _, o := range f.options() {
			o.Value = bytes.Clone(o.Value)
			l.opt = append(l.opt, o)
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
