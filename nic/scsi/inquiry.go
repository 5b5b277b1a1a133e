package scsi

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// Who made the disk, as INQUIRY tells: 8, 16 and 4 octets.
const (
	vendor   = "TAPIR   "
	product  = "DISK            "
	revision = "0001"
)

// inquiry is INQUIRY (SPC-4 section 6.6).
func inquiry(c *Command) performer {
	page, allocation := c.cdb[2], u16(c.cdb[3:])
	switch {
	case c.cdb[1]&1 == 0 && page != 0:
		return nil
	case c.cdb[1]&1 == 0:
		return c.give(standardInquiry(c.unit != nil), allocation)
	case c.unit == nil:
		return nil
	}
	p := c.unit.vpd(page)
	if p == nil {
		return nil
	}
	b := []byte{0, page, 0, 0}
	binary.BigEndian.PutUint16(b[2:], uint16(len(p)))
	return c.give(append(b, p...), allocation)
}

func standardInquiry(there bool) []byte {
	b := make([]byte, 96)
	if !there {
		b[0] = 0x7f // no unit can be there
	}
	b[2], b[3], b[4], b[7] = 6, 0x12, byte(len(b)-5), 0x02 // SPC-4; LUNs in order, format 2; command queuing
	copy(b[8:], vendor+product+revision)
	for i, version := range []uint16{0x00a0, 0x0960, 0x0460, 0x04c0} { // SAM-5, iSCSI, SPC-4, SBC-3
		binary.BigEndian.PutUint16(b[58+2*i:], version)
	}
	return b
}

// vpd is a page of vital product data, without its header (SPC-4 section 7.8, SBC-3
// section 6.6); nil: there is none of that number.
func (u *Unit) vpd(page byte) []byte {
	switch page {
	case 0x00:
		if u.cfg.Thin {
			return []byte{0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2}
		}
		return []byte{0x00, 0x80, 0x83, 0xb0, 0xb1}
	case 0x80:
		return []byte(u.cfg.Serial)
	case 0x83:
		id := vendor + u.cfg.Serial
		b := append([]byte{2, 1, 0, byte(len(id))}, id...)                 // ASCII, T10 vendor
		return binary.BigEndian.AppendUint64(append(b, 1, 3, 0, 8), u.naa) // binary, NAA
	case 0xb0:
		return u.blockLimits()
	case 0xb1:
		return append([]byte{0, 1}, make([]byte, 58)...) // nothing rotates
	case 0xb2:
		if u.cfg.Thin {
			return []byte{0, 0xe4, 2, 0} // UNMAP and both WRITE SAME unmap; unmapped blocks read as zeros
		}
	}
	return nil
}

func (u *Unit) blockLimits() []byte {
	b, block := make([]byte, 60), uint32(u.cfg.Block)
	put := func(at int, v uint32) { binary.BigEndian.PutUint32(b[at-4:], v) } // offsets of the standard
	b[0], b[1] = 1, maxCompare                                                // WRITE SAME of 0 blocks is refused
	put(8, maxTransfer/block)
	put(12, optimal/block)
	if u.cfg.Thin {
		put(20, maxUnmap/block)
		put(24, maxUnmaps)
		put(28, uint32(u.cfg.Physical)/block)
	}
	put(40, maxWriteSame/block)
	return b
}

// readCapacity10 is READ CAPACITY(10) (SBC-3 section 5.15).
func readCapacity10(c *Command) performer {
	if u32(c.cdb[2:]) != 0 && c.cdb[8]&1 == 0 {
		return nil
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(min(c.unit.blocks-1, 0xffffffff)))
	return c.give(binary.BigEndian.AppendUint32(b, uint32(c.unit.cfg.Block)), 8)
}

// readCapacity16 is READ CAPACITY(16) (SBC-3 section 5.16).
func readCapacity16(c *Command) performer {
	b := make([]byte, 32)
	binary.BigEndian.PutUint64(b, c.unit.blocks-1)
	binary.BigEndian.PutUint32(b[8:], uint32(c.unit.cfg.Block))
	b[13] = byte(bits.TrailingZeros(uint(c.unit.cfg.Physical / c.unit.cfg.Block)))
	if c.unit.cfg.Thin {
		b[14] = 0xc0 // thin; unmapped blocks read as zeros
	}
	return c.give(b, u32(c.cdb[10:]))
}

// reportLUNs is REPORT LUNS (SPC-4 section 6.33).
func reportLUNs(c *Command) performer {
	allocation := u32(c.cdb[6:])
	switch selected := c.cdb[2]; {
	case allocation < 16 || selected > 2:
		return nil
	case selected == 1: // well-known units, of which there are none
		return c.give(make([]byte, 8), allocation)
	}
	return c.give(c.nexus.reportLUNs(), allocation)
}

// requestSense is REQUEST SENSE (SPC-4 section 6.39).
func requestSense(c *Command) performer {
	var s Sense
	switch {
	case c.cdb[1]&1 != 0: // descriptor format
		return nil
	case c.unit == nil:
		s = noLogicalUnit
	default:
		due := c.nexus.attentionOf(c.unit)
		s, *due = *due, Sense{}
		if s == (Sense{}) && c.unit.state.stopped {
			s = stopped
		}
	}
	return c.give(s.Append(nil), int(c.cdb[4]))
}

// supportedOpcodes is REPORT SUPPORTED OPERATION CODES (SPC-4 section 6.35).
func supportedOpcodes(c *Command) performer {
	options, op, action, allocation := c.cdb[2]&7, c.cdb[3], u16(c.cdb[4:]), u32(c.cdb[6:])
	timeouts := c.cdb[2]&0x80 != 0
	acts := hasActions(op)
	switch {
	case options == 0:
		return c.give(allOpcodes(timeouts, c.unit), allocation)
	case options > 3, options == 1 && acts, options == 2 && !acts:
		return nil
	}
	probe := [2]byte{op, byte(action)}
	k := find(probe[:])
	if k == nil || !k.offered(c.unit) || acts && action > 0x1f {
		return c.give([]byte{0, 1, 0, 0}, allocation) // not supported
	}
	usage, _ := hex.DecodeString(k.usage) // a constant
	b := append([]byte{0, 3, 0, byte(len(usage))}, usage...)
	if timeouts {
		b[1] |= 0x80
		b = append(b, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	return c.give(b, allocation)
}

// offered tells whether a unit has a command.
func (k *kind) offered(u *Unit) bool { return k.op != 0x42 || u == nil || u.cfg.Thin }

func allOpcodes(timeouts bool, u *Unit) []byte {
	b := make([]byte, 4)
	for i := range commands {
		k := &commands[i]
		if !k.offered(u) {
			continue
		}
		row := []byte{k.op, 0, 0, 0, 0, 0, 0, byte(len(k.usage) / 2)}
		if k.action >= 0 {
			row[3], row[5] = byte(k.action), 1
		}
		if timeouts {
			row[5] |= 2
			row = append(row, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		}
		b = append(b, row...)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}
