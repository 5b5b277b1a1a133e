package scsi

import (
	"bytes"
	"encoding/binary"
)

// modePages are the pages of a unit in ascending order (SBC-3 section 6.5, SPC-4 section
// 7.5), and which of their bits MODE SELECT changes.
func (u *Unit) modePages() (is, changeable [][]byte) {
	caching, control := make([]byte, 20), make([]byte, 12)
	caching[0], caching[1], caching[2] = 0x08, 18, 0x04 // write cache
	control[0], control[1], control[3] = 0x0a, 10, 0x10 // commands may pass each other
	may := [][]byte{bytes.Clone(caching), bytes.Clone(control)}
	may[1][3], may[1][4] = 0, 0x08 // software write protect
	if u.state.writeThrough {
		caching[2] = 0
	}
	if u.state.protected {
		control[4] = 0x08
	}
	exceptions := append([]byte{0x1c, 10, 0x08}, make([]byte, 9)...) // none is reported
	fixed := append([]byte{0x1c, 10}, make([]byte, 10)...)
	return [][]byte{caching, control, exceptions}, append(may, fixed)
}

// modeSense is MODE SENSE(6) and (10) (SPC-4 sections 6.13, 6.14).
func modeSense(c *Command) performer {
	page, subpage := c.cdb[2]&0x3f, c.cdb[3]
	is, changeable := c.unit.modePages()
	switch c.cdb[2] >> 6 {
	case 1:
		is = changeable
	case 2:
		is, _ = (&Unit{}).modePages()
	case 3:
		c.Fail(savingUnsupported)
		return nil
	}
	var pages []byte
	for _, p := range is {
		if (p[0] == page || page == 0x3f) && (subpage == 0 || subpage == 0xff) {
			pages = append(pages, p...)
		}
	}
	if pages == nil {
		return nil
	}
	device, descriptor := byte(0x10), c.unit.modeDescriptor() // DPO and FUA are known
	if c.unit.cfg.ReadOnly || c.unit.state.protected {
		device |= 0x80
	}
	if c.cdb[1]&0x08 != 0 {
		descriptor = nil
	}
	if c.cdb[0] == 0x1a {
		b := []byte{byte(3 + len(descriptor) + len(pages)), 0, device, byte(len(descriptor))}
		return c.give(append(append(b, descriptor...), pages...), int(c.cdb[4]))
	}
	b := []byte{0, byte(6 + len(descriptor) + len(pages)), 0, device, 0, 0, 0, byte(len(descriptor))}
	return c.give(append(append(b, descriptor...), pages...), u16(c.cdb[7:]))
}

// modeDescriptor is the short block descriptor (SBC-3 section 6.5.2.1).
func (u *Unit) modeDescriptor() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(min(u.blocks, 0xffffffff)))
	return binary.BigEndian.AppendUint32(b, uint32(u.cfg.Block))
}

// modeSelect is MODE SELECT(6) and (10) (SPC-4 sections 6.11, 6.12).
func modeSelect(c *Command) performer {
	if c.cdb[1]&0x11 != 0x10 { // pages in the standard's format, not saved
		return nil
	}
	c.Out = int(c.cdb[4])
	if c.cdb[0] == 0x55 {
		c.Out = u16(c.cdb[7:])
	}
	return func(c *Command, buf []byte) []byte {
		if len(buf) > 0 && !c.selectPages(buf) {
			return nil
		}
		return nil
	}
}

// selectPages takes a whole list, or nothing of it.
func (c *Command) selectPages(b []byte) bool {
	header, descriptor := 4, 3
	if c.cdb[0] == 0x55 {
		header, descriptor = 8, 7
	}
	if len(b) < header || len(b) < header+int(b[descriptor]) {
		return c.Fail(wrongListLength)
	}
	if d := b[header : header+int(b[descriptor])]; len(d) > 0 && !bytes.Equal(d, c.unit.modeDescriptor()) {
		return c.Fail(invalidParameter)
	}
	is, changeable := c.unit.modePages()
	state := c.unit.state
	for b = b[header+int(b[descriptor]):]; len(b) > 0; {
		i := 0
		for i < len(is) && is[i][0] != b[0]&0x3f {
			i++
		}
		switch {
		case i == len(is) || b[0]&0x40 != 0:
			return c.Fail(invalidParameter)
		case len(b) < len(is[i]):
			return c.Fail(wrongListLength)
		case int(b[1]) != len(is[i])-2:
			return c.Fail(invalidParameter)
		}
		for at := 2; at < len(is[i]); at++ {
			if (b[at]^is[i][at])&^changeable[i][at] != 0 {
				return c.Fail(invalidParameter)
			}
		}
		switch i {
		case 0:
			state.writeThrough = b[2]&0x04 == 0
		case 1:
			state.protected = b[4]&0x08 != 0
		}
		b = b[len(is[i]):]
	}
	if state != c.unit.state {
		c.unit.state = state
		c.unit.tell(c.nexus, modeChanged)
	}
	return true
}

// reserve is RESERVE(6) (SPC-2 section 7.21): of the whole unit.
func reserve(c *Command) performer {
	if c.cdb[1]&0x11 != 0 { // for others, of extents
		return nil
	}
	if len(c.unit.persist.registered) > 0 { // SPC-4 section 5.9.3
		c.Status = ReservationConflict
		return nil
	}
	c.unit.holder = c.nexus
	return nothing
}

// release is RELEASE(6) (SPC-2 section 7.16); that of another nexus does nothing.
func release(c *Command) performer {
	if c.cdb[1]&0x11 != 0 {
		return nil
	}
	if c.unit.holder == c.nexus {
		c.unit.holder = nil
	}
	return nothing
}

// startStop is START STOP UNIT (SBC-3 section 5.25).
func startStop(c *Command) performer {
	if c.cdb[4]&^1 != 0 { // power conditions, and a medium that could be ejected
		return nil
	}
	c.unit.state.stopped = c.cdb[4]&1 == 0
	return nothing
}
