package mcp

import (
	"encoding/binary"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// GetCapabilities asks for the firmware's features, and tells it the driver's.
func (m *MCP) GetCapabilities(mine mfw.Features, now frame.Time, done func(f mfw.Features, err error)) {
	m.value(mfw.CmdGetFeatureSupport, 0, now, func(theirs uint32, err error) {
		if err != nil {
			done(0, err)
			return
		}
		m.features = mfw.Features(theirs)
		m.simple(mfw.CmdFeatureSupport, uint32(mine&m.features), nil, mfw.OK, now, func(err error) {
			done(m.features, err)
		})
	})
}

// SetLED lights the port's LED, as ethtool -p does.
func (m *MCP) SetLED(mode mfw.LED, now frame.Time, done func(error)) {
	m.simple(mfw.CmdSetLEDMode, uint32(mode), nil, mfw.OK, now, done)
}

// Temperatures asks for what the sensors measure.
func (m *MCP) Temperatures(now frame.Time, done func([]mfw.Sensor, error)) {
	m.ask(mfw.CmdGetTemperature, 0, nil, mfw.OK, nil, now, failing(done), func(a Answer, _ frame.Time) {
		done(mfw.DecodeTemperatures(a.Data), nil)
	})
}

// GPIORead reads a pin.
func (m *MCP) GPIORead(pin uint16, now frame.Time, done func(uint32, error)) {
	m.value(mfw.CmdGPIORead, uint32(pin), now, done)
}

// GPIOWrite sets a pin to 0 or 1. INVAL: it is an input.
func (m *MCP) GPIOWrite(pin, level uint16, now frame.Time, done func(error)) {
	m.simple(mfw.CmdGPIOWrite, uint32(pin)|uint32(level)<<16, nil, mfw.OK, now, done)
}

// GPIOInfo tells a pin's direction: 1 for an output.
func (m *MCP) GPIOInfo(pin uint16, now frame.Time, done func(uint32, error)) {
	m.value(mfw.CmdGPIOInfo, uint32(pin), now, done)
}

// ReadModule reads length octets of the module's memory at an I2C address
// (mfw.PageA0, mfw.PageA2) from offset on. NODEV: there is no module.
func (m *MCP) ReadModule(addr uint8, offset, length int, now frame.Time, done func([]byte, error)) {
	if offset < 0 || length < 0 || offset+length > mfw.PageLen {
		done(nil, status.Inval.Errorf("octets %d to %d of a page of %d", offset, offset+length, mfw.PageLen))
		return
	}
	absent := except{mfw.TransceiverNotPresent: status.NoDev.Errorf("there is no module in port %d", m.port)}
	m.read(mfw.CmdTransceiverRead, length, nil, mfw.OK, func(at, n int) (uint32, except) {
		return uint32(m.port) | uint32(n)<<2 | uint32(addr)<<8 | uint32(offset+at)<<16, absent
	}, now, done)
}

// Lock locks a resource (0 to 31) for seconds (or mfw.LockDefault or
// mfw.LockNone). BUSY names its owner: try again after 10 ms, ten times.
func (m *MCP) Lock(resource int, seconds uint8, now frame.Time, done func(error)) {
	m.resource(mfw.LockRequest(resource, seconds), now, func(outcome, owner int, err error) {
		switch {
		case err != nil:
		case outcome == mfw.LockBusy:
			err = status.Busy.Errorf("resource %d is locked by function %d", resource, owner)
		case outcome != mfw.LockGranted:
			err = status.Inval.Errorf("resource %d: outcome %d", resource, outcome)
		}
		tell(done, err)
	})
}

// Unlock releases a resource, of another owner too if force is set. INVAL:
// another has it. What is not locked is released already.
func (m *MCP) Unlock(resource int, force bool, now frame.Time, done func(error)) {
	m.resource(mfw.UnlockRequest(resource, force), now, func(outcome, owner int, err error) {
		if err == nil && outcome != mfw.LockReleased && outcome != mfw.LockWasFree {
			err = status.Inval.Errorf("resource %d is locked by function %d", resource, owner)
		}
		tell(done, err)
	})
}

func (m *MCP) resource(param uint32, now frame.Time, done func(outcome, owner int, err error)) {
	m.value(mfw.CmdResource, param, now, func(answer uint32, err error) {
		outcome, owner := mfw.LockOutcome(answer)
		done(outcome, owner, err)
	})
}

// Share is how many of a resource a function has, from which one on.
type Share struct{ Start, Num uint32 }

// GetResource asks for the function's share of a resource. NOTIMPL: the
// firmware does not manage it.
func (m *MCP) GetResource(id mfw.ResourceID, now frame.Time, done func(Share, error)) {
	m.share(mfw.CmdGetResourceAlloc, id, 0, now, done)
}

// SetResource asks for a number of a resource. The share comes back, with
// NORESOURCES if it is smaller than that.
func (m *MCP) SetResource(id mfw.ResourceID, num uint32, now frame.Time, done func(Share, error)) {
	m.share(mfw.CmdSetResourceValue, id, num, now, done)
}

func (m *MCP) share(c mfw.Command, id mfw.ResourceID, num uint32, now frame.Time, done func(Share, error)) {
	var b [24]byte
	binary.LittleEndian.PutUint32(b[:], uint32(id))
	binary.LittleEndian.PutUint32(b[4:], num)
	m.Cmd(c, 2<<16, b[:], now, func(a Answer, err error, _ frame.Time) {
		var s Share
		if err == nil && a.Response != mfw.ResourceAllocUnknown {
			s = Share{Num: binary.LittleEndian.Uint32(a.Data[4:]), Start: binary.LittleEndian.Uint32(a.Data[8:])}
		}
		switch {
		case err != nil || a.Response == mfw.ResourceAllocOK:
		case a.Response == mfw.ResourceAllocUnknown:
			err = status.NotImpl.Errorf("the MFW does not manage resource %d", id)
		case a.Response == mfw.ResourceAllocDenied:
			err = status.NoResources.Errorf("%d of resource %d, the function's share is %d", num, id, s.Num)
		default:
			err = refusal(c, a.Response)
		}
		done(s, err)
	})
}

// Mdump does an operation of the crash dump (mfw.Mdump*), with words of its
// own. NOTIMPL: the firmware does not know it.
func (m *MCP) Mdump(op uint32, words []uint32, now frame.Time, done func(data []byte, err error)) {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	unknown := except{mfw.MdumpInvalidCmd: status.NotImpl.Errorf("mdump operation %#x", op)}
	m.ask(mfw.CmdMdump, op, b, mfw.OK, unknown, now, failing(done), func(a Answer, _ frame.Time) { done(a.Data, nil) })
}

// BIST does a selftest of the firmware (mfw.BISTRegister, mfw.BISTClock). IO:
// it failed.
func (m *MCP) BIST(test uint32, now frame.Time, done func(error)) {
	m.value(mfw.CmdBISTTest, test, now, func(outcome uint32, err error) {
		switch {
		case err != nil:
		case outcome == mfw.BISTFailed:
			err = status.IO.Errorf("selftest %d failed", test)
		case outcome != mfw.BISTPassed:
			err = status.Inval.Errorf("there is no selftest %d", test)
		}
		tell(done, err)
	})
}

// NVMNumImages is how many images the flash has. NODEV: its directory is
// damaged.
func (m *MCP) NVMNumImages(now frame.Time, done func(int, error)) {
	m.value(mfw.CmdBISTTest, mfw.BISTNumImages, now, func(n uint32, err error) {
		if err == nil && n == 0 {
			err = status.NoDev.Errorf("the NVM has no directory that can be read")
		}
		done(int(n), err)
	})
}

// NVMImageAtt tells about the image with a number, from 0 on.
func (m *MCP) NVMImageAtt(index int, now frame.Time, done func(e nvm.Entry, err error)) {
	m.ask(mfw.CmdBISTTest, mfw.BISTImage|uint32(index&0xff)<<8, nil, mfw.OK, nil, now, failing(done),
		func(a Answer, _ frame.Time) {
			var w [4]uint32
			_, _ = binary.Decode(a.Data, binary.LittleEndian, &w) // there are as many
			if a.Param != mfw.BISTPassed {
				done(nvm.Entry{}, status.Inval.Errorf("the NVM has no image %d", index))
				return
			}
			done(nvm.Entry{Type: nvm.Type(w[1]), Offset: w[2], Len: w[3]}, nil)
		})
}
