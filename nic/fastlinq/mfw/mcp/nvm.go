package mcp

import (
	"encoding/binary"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// NVMRead reads length octets of the flash from offset on, so many as a
// command carries at a time. INVAL: they are not there.
func (m *MCP) NVMRead(offset, length uint32, now frame.Time, done func([]byte, error)) {
	m.nvmRead(offset, int(min(length, nvm.MaxSize)), nil, now, done)
}

func (m *MCP) nvmRead(offset uint32, length int, have []byte, now frame.Time, done func([]byte, error)) {
	n := uint32(min(length-len(have), mfw.NVMChunk))
	if n == 0 {
		done(have, nil)
		return
	}
	at := offset + uint32(len(have))
	if at >= nvm.MaxSize {
		done(nil, beyond(at))
		return
	}
	m.Cmd(mfw.CmdNVMRead, at|n<<24, nil, now, func(a Answer, err error, now frame.Time) {
		if err == nil {
			err = nvmError(mfw.CmdNVMRead, a.Response, at)
		}
		if err != nil {
			done(nil, err)
			return
		}
		m.nvmRead(offset, length, append(have, a.Data[:n]...), now, done)
	})
}

func beyond(at uint32) error { return status.Inval.Errorf("NVM offset %#x is beyond its end", at) }

// NVMWrite writes octets into the flash.
func (m *MCP) NVMWrite(offset uint32, b []byte, now frame.Time, done func(error)) {
	if len(b) == 0 {
		tell(done, nil)
		return
	}
	n := min(len(b), mfw.NVMChunk)
	if offset >= nvm.MaxSize {
		tell(done, beyond(offset))
		return
	}
	m.Cmd(mfw.CmdNVMWrite, offset|uint32(n)<<24, b[:n], now, func(a Answer, err error, now frame.Time) {
		if err == nil {
			err = nvmError(mfw.CmdNVMWrite, a.Response, offset)
		}
		if err != nil {
			tell(done, err)
			return
		}
		m.NVMWrite(offset+uint32(n), b[n:], now, done)
	})
}

func nvmError(c mfw.Command, r mfw.Response, at uint32) error {
	switch r {
	case mfw.NVMOK, mfw.NVMPutFileFinishOK:
		return nil
	case mfw.NVMBadOffset:
		return beyond(at)
	case mfw.NVMInvalidDir:
		return status.IO.Errorf("%v: the directory of the NVM is damaged", c)
	case mfw.NVMFileNotFound:
		return status.NoEnt.Errorf("%v: there is no such image in the NVM", c)
	case mfw.NVMBadSignature:
		return status.Inval.Errorf("%v: the file is no firmware", c)
	}
	return expect(c, r, mfw.NVMOK)
}

// NVMImage reads an image of the flash. NOENT: there is none of that type.
func (m *MCP) NVMImage(t nvm.Type, now frame.Time, done func([]byte, error)) {
	m.Cmd(mfw.CmdNVMGetFileAtt, uint32(t), nil, now, func(a Answer, err error, now frame.Time) {
		if err == nil {
			err = nvmError(mfw.CmdNVMGetFileAtt, a.Response, 0)
		}
		if err != nil {
			done(nil, err)
			return
		}
		m.NVMRead(binary.LittleEndian.Uint32(a.Data), binary.LittleEndian.Uint32(a.Data[4:]), now, done)
	})
}

// NVMFlash writes a file of a kind (mfw.PutMFW and so on) into the flash. What
// was there stays if anything is wrong.
func (m *MCP) NVMFlash(kind uint32, file []byte, now frame.Time, done func(error)) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(len(file)))
	m.Cmd(mfw.CmdNVMPutFileBegin, kind, b[:], now, func(a Answer, err error, now frame.Time) {
		if err == nil {
			err = nvmError(mfw.CmdNVMPutFileBegin, a.Response, 0)
		}
		if err != nil {
			tell(done, err)
			return
		}
		m.putData(file, 0, now, done)
	})
}

func (m *MCP) putData(file []byte, at int, now frame.Time, done func(error)) {
	n := min(len(file)-at, mfw.NVMChunk)
	m.Cmd(mfw.CmdNVMPutFileData, uint32(at)|uint32(n)<<24, file[at:at+n], now,
		func(a Answer, err error, now frame.Time) {
			if err == nil {
				err = nvmError(mfw.CmdNVMPutFileData, a.Response, uint32(at))
			}
			if err != nil || at+n == len(file) {
				tell(done, err)
				return
			}
			m.putData(file, at+n, now, done)
		})
}

// NVMGetOption reads an option of an entity. NOENT: it is not set.
func (m *MCP) NVMGetOption(id uint16, entity uint8, now frame.Time, done func([]byte, error)) {
	m.Cmd(mfw.CmdGetNVMOption, mfw.OptionParam(id, entity, 0), nil, now, func(a Answer, err error, _ frame.Time) {
		switch {
		case err == nil && a.Response == mfw.NVMFileNotFound:
			err = status.NoEnt.Errorf("option %d of entity %d is not set", id, entity)
		case err == nil:
			err = expect(mfw.CmdGetNVMOption, a.Response, mfw.OK)
		}
		if err != nil {
			done(nil, err)
			return
		}
		done(a.Data[:a.Param], nil)
	})
}

// NVMSetOption sets an option of an entity, of 1 to 32 octets; flags are
// mfw.OptionInit and so on.
func (m *MCP) NVMSetOption(id uint16, entity uint8, value []byte, flags uint32, now frame.Time, done func(error)) {
	b := append([]byte{byte(len(value))}, value...)
	m.Cmd(mfw.CmdSetNVMOption, mfw.OptionParam(id, entity, flags), b, now, func(a Answer, err error, _ frame.Time) {
		switch {
		case err == nil && a.Response == mfw.NVMBadOffset:
			err = status.Inval.Errorf("option %d of %d octets: use 1 to %d", id, len(value), nvm.MaxOption)
		case err == nil && a.Response != mfw.OK:
			err = nvmError(mfw.CmdSetNVMOption, a.Response, 0)
		}
		tell(done, err)
	})
}
