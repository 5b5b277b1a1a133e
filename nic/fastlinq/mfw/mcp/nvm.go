package mcp

import (
	"encoding/binary"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// NVMRead reads length octets of the flash from offset on. INVAL: they are not
// there.
func (m *MCP) NVMRead(offset, length uint32, now frame.Time, done func([]byte, error)) {
	if uint64(offset)+uint64(length) > nvm.MaxSize {
		done(nil, beyond(max(offset, nvm.MaxSize)))
		return
	}
	m.read(mfw.CmdNVMRead, int(length), nil, mfw.NVMOK, func(at, n int) (uint32, except) {
		return chunk(offset+uint32(at), n)
	}, now, done)
}

// chunk is the parameter of a command about n octets of the flash, with the error
// of a flash that is shorter.
func chunk(at uint32, n int) (uint32, except) {
	return at | uint32(n)<<24, except{mfw.NVMBadOffset: beyond(at)}
}

func beyond(at uint32) error { return status.Inval.Errorf("NVM offset %#x is beyond its end", at) }

// NVMWrite writes octets into the flash.
func (m *MCP) NVMWrite(offset uint32, b []byte, now frame.Time, done func(error)) {
	n := min(len(b), mfw.NVMChunk)
	switch param, own := chunk(offset, n); {
	case n == 0:
		tell(done, nil)
	case offset >= nvm.MaxSize:
		tell(done, beyond(offset))
	default:
		m.ask(mfw.CmdNVMWrite, param, b[:n], mfw.NVMOK, own, now, func(err error) { tell(done, err) },
			func(_ Answer, now frame.Time) { m.NVMWrite(offset+uint32(n), b[n:], now, done) })
	}
}

// NVMImage reads an image of the flash. NOENT: there is none of that type.
func (m *MCP) NVMImage(t nvm.Type, now frame.Time, done func([]byte, error)) {
	m.ask(mfw.CmdNVMGetFileAtt, uint32(t), nil, mfw.NVMOK, nil, now, failing(done), func(a Answer, now frame.Time) {
		m.NVMRead(binary.LittleEndian.Uint32(a.Data), binary.LittleEndian.Uint32(a.Data[4:]), now, done)
	})
}

// NVMFlash writes a file of a kind (mfw.PutMFW and so on) into the flash. What
// was there stays if anything is wrong.
func (m *MCP) NVMFlash(kind uint32, file []byte, now frame.Time, done func(error)) {
	size := binary.LittleEndian.AppendUint32(nil, uint32(len(file)))
	m.ask(mfw.CmdNVMPutFileBegin, kind, size, mfw.NVMOK, except{mfw.NVMBadOffset: beyond(0)}, now, done,
		func(_ Answer, now frame.Time) { m.putData(file, 0, now, done) })
}

func (m *MCP) putData(file []byte, at int, now frame.Time, done func(error)) {
	end := min(len(file), at+mfw.NVMChunk)
	want, then := mfw.NVMOK, func(_ Answer, now frame.Time) { m.putData(file, end, now, done) }
	if end == len(file) {
		want, then = mfw.NVMPutFileFinishOK, func(Answer, frame.Time) { done(nil) }
	}
	param, own := chunk(uint32(at), end-at)
	m.ask(mfw.CmdNVMPutFileData, param, file[at:end], want, own, now, done, then)
}

// NVMGetOption reads an option of an entity. NOENT: it is not set.
func (m *MCP) NVMGetOption(id uint16, entity uint8, now frame.Time, done func([]byte, error)) {
	unset := except{mfw.NVMFileNotFound: status.NoEnt.Errorf("option %d of entity %d is not set", id, entity)}
	m.ask(mfw.CmdGetNVMOption, mfw.OptionParam(id, entity, 0), nil, mfw.OK, unset, now, failing(done),
		func(a Answer, _ frame.Time) { done(a.Data[:a.Param], nil) })
}

// NVMSetOption sets an option of an entity, of 1 to 32 octets; flags are
// mfw.OptionInit and so on.
func (m *MCP) NVMSetOption(id uint16, entity uint8, value []byte, flags uint32, now frame.Time, done func(error)) {
	b := append([]byte{byte(len(value))}, value...)
	own := except{mfw.NVMBadOffset: status.Inval.Errorf("option %d of %d octets: use 1 to %d", id, len(value),
		nvm.MaxOption)}
	m.ask(mfw.CmdSetNVMOption, mfw.OptionParam(id, entity, flags), b, mfw.OK, own, now, done,
		func(Answer, frame.Time) { done(nil) })
}
