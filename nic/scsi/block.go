package scsi

import (
	"bytes"
	"encoding/binary"
)

// Bits of the second octet of a CDB.
const (
	protect  = 0xe0 // RDPROTECT, WRPROTECT, VRPROTECT
	fua      = 0x08 // force unit access
	byteChk  = 0x06 // what VERIFY compares
	anchor   = 0x10 // WRITE SAME
	unmapBit = 0x08
	noData   = 0x01
)

// extent reads LBA and number of blocks, and checks them.
func (c *Command) extent() bool {
	b := c.cdb[:]
	switch b[0] >> 5 { // the group, which decides the length of the CDB
	case 0:
		c.n, c.lba = uint64(b[4]), uint64(b[1]&0x1f)<<16|uint64(b[2])<<8|uint64(b[3])
		if c.n == 0 {
			c.n = 256
		}
	case 4:
		c.lba, c.n = binary.BigEndian.Uint64(b[2:]), uint64(u32(b[10:]))
	case 5:
		c.lba, c.n = uint64(u32(b[2:])), uint64(u32(b[6:]))
	default:
		c.lba, c.n = uint64(u32(b[2:])), uint64(u16(b[7:]))
	}
	if c.cdb[0] > 0x20 && c.cdb[1]&protect != 0 {
		return c.Fail(invalidFieldInCDB)
	}
	return c.inside(c.lba, c.n)
}

// inside checks a range of blocks.
func (c *Command) inside(lba, n uint64) bool {
	if all := c.unit.blocks; lba >= all && (n > 0 || lba > all) || n > all-lba {
		return c.Fail(outOfRange)
	}
	return true
}

// octets is the length of n blocks. It fails for more than a command may have.
func (c *Command) octets(n uint64) (int, bool) {
	if n > uint64(maxTransfer/c.unit.cfg.Block) {
		return 0, c.Fail(invalidFieldInCDB)
	}
	return int(n) * c.unit.cfg.Block, true
}

// at is the place of the command's first block in the store.
func (c *Command) at() int64 { return int64(c.lba) * int64(c.unit.cfg.Block) }

// failAt fails for a block of the medium.
func (c *Command) failAt(s Sense, lba uint64) []byte {
	s.Valid, s.Info = lba <= 0xffffffff, uint32(lba)
	c.Fail(s)
	return nil
}

func (c *Command) read() performer {
	ok := c.extent()
	if c.In, ok = both(ok, c, c.n); !ok {
		return nil
	}
	return readBlocks
}

// both is octets if all was well before.
func both(ok bool, c *Command, n uint64) (int, bool) {
	if !ok {
		return 0, false
	}
	return c.octets(n)
}

func readBlocks(c *Command, buf []byte) []byte {
	if err := c.unit.cfg.Store.ReadAt(buf, c.at()); err != nil {
		return c.failAt(readError, c.lba)
	}
	return buf
}

func (c *Command) write() performer {
	ok := c.extent()
	if c.Out, ok = both(ok, c, c.n); !ok {
		return nil
	}
	verifies := c.cdb[0]&0x0f == 0x0e // WRITE AND VERIFY
	if verifies && c.cdb[1]&byteChk > 2 {
		return nil
	}
	c.sync = c.unit.state.writeThrough || verifies || c.cdb[0] > 0x20 && c.cdb[1]&fua != 0
	return writeBlocks
}

// writeBlocks writes the whole blocks that have come.
func writeBlocks(c *Command, buf []byte) []byte {
	buf = buf[:len(buf)/c.unit.cfg.Block*c.unit.cfg.Block]
	if err := c.unit.cfg.Store.WriteAt(buf, c.at()); err != nil {
		return c.failAt(writeError, c.lba)
	}
	return c.stable()
}

// stable ends a command that has written.
func (c *Command) stable() []byte {
	if c.sync && c.unit.cfg.Store.Sync() != nil {
		return c.failAt(writeError, c.lba)
	}
	return nil
}

// verify reads, and compares where it is told to: with all data, or with one block.
func (c *Command) verify() performer {
	if !c.extent() {
		return nil
	}
	block, one := c.unit.cfg.Block, false
	var ok bool
	switch c.cdb[1] & byteChk >> 1 {
	case 0:
		return func(c *Command, _ []byte) []byte { return nil } // there is no medium that might fail
	case 1:
		if c.Out, ok = c.octets(c.n); !ok {
			return nil
		}
	case 3:
		c.Out, one = block, true
		if _, ok = c.octets(c.n); !ok {
			return nil
		}
	default:
		return nil
	}
	return func(c *Command, buf []byte) []byte {
		n := len(buf) / block
		if one {
			n = int(c.n)
		}
		is := make([]byte, n*block)
		if readBlocks(c, is); c.Status != Good {
			return nil
		}
		for i := 0; i < n; i++ {
			want := buf[:min(block, len(buf))]
			if !one {
				want = buf[i*block:][:block]
			}
			if !c.equal(is[i*block:][:block], want, i*block) {
				break
			}
		}
		return nil
	}
}

// equal fails with a miscompare, and its offset in the data.
func (c *Command) equal(a, b []byte, off int) bool {
	if bytes.Equal(a, b) {
		return true
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	return c.Fail(Sense{Key: Miscompare, Code: 0x1d00, Valid: true, Info: uint32(off + i)})
}

func (c *Command) prefetch() performer {
	if !c.extent() {
		return nil
	}
	return nothing
}

func (c *Command) synchronize() performer {
	if !c.extent() {
		return nil
	}
	c.sync = true
	return func(c *Command, _ []byte) []byte { return c.stable() }
}

// orWrite is ORWRITE(16) (SBC-3 section 5.10).
func (c *Command) orWrite() performer {
	ok := c.extent()
	if c.Out, ok = both(ok, c, c.n); !ok {
		return nil
	}
	c.sync = c.unit.state.writeThrough || c.cdb[1]&fua != 0
	return func(c *Command, buf []byte) []byte {
		buf = buf[:len(buf)/c.unit.cfg.Block*c.unit.cfg.Block]
		is := make([]byte, len(buf))
		if readBlocks(c, is); c.Status != Good {
			return nil
		}
		for i := range buf {
			buf[i] |= is[i]
		}
		return writeBlocks(c, buf)
	}
}

// compareAndWrite is COMPARE AND WRITE (SBC-3 section 5.2): the first half of the data is
// compared, the second written.
func (c *Command) compareAndWrite() performer {
	if c.lba, c.n = binary.BigEndian.Uint64(c.cdb[2:]), uint64(c.cdb[13]); !c.inside(c.lba, c.n) {
		return nil
	}
	if c.n > maxCompare || c.cdb[1]&protect != 0 {
		return nil
	}
	half := int(c.n) * c.unit.cfg.Block
	c.Out, c.Exact, c.sync = 2*half, true, c.unit.state.writeThrough || c.cdb[1]&fua != 0
	return func(c *Command, buf []byte) []byte {
		is := make([]byte, half)
		if readBlocks(c, is); c.Status != Good || !c.equal(is, buf[:half], 0) {
			return nil
		}
		return writeBlocks(c, buf[half:])
	}
}

// writeSame is WRITE SAME (SBC-3 section 5.49): one block again and again, or nothing.
func (c *Command) writeSame() performer {
	if !c.extent() {
		return nil
	}
	flags, block := c.cdb[1], c.unit.cfg.Block
	none := flags&noData != 0 && c.cdb[0] == 0x93
	thin := flags&unmapBit != 0
	switch {
	case c.n == 0, c.n > uint64(maxWriteSame/block), flags&anchor != 0, thin && !c.unit.cfg.Thin,
		flags&noData != 0 && !none:
		return nil
	}
	if !none {
		c.Out, c.Exact = block, true
	}
	c.sync = c.unit.state.writeThrough
	return func(c *Command, buf []byte) []byte {
		if none {
			buf = make([]byte, block)
		}
		var err error
		if size := int64(c.n) * int64(block); thin && len(bytes.Trim(buf, "\x00")) == 0 {
			err = c.unit.cfg.Store.Unmap(c.at(), size)
		} else {
			err = repeat(c.unit.cfg.Store, buf, c.at(), size)
		}
		if err != nil {
			return c.failAt(writeError, c.lba)
		}
		return c.stable()
	}
}

// repeat writes a block again and again, many at a time.
func repeat(s Store, block []byte, off, size int64) error {
	many := bytes.Repeat(block, max(1, int(min(size, chunkSize))/len(block)))
	for size > 0 {
		k := min(size, int64(len(many)))
		if err := s.WriteAt(many[:k], off); err != nil {
			return err
		}
		off, size = off+k, size-k
	}
	return nil
}

// unmap is UNMAP (SBC-3 section 5.28).
func (c *Command) unmap() performer {
	if !c.unit.cfg.Thin {
		c.Fail(invalidOpcode)
		return nil
	}
	if c.cdb[1]&1 != 0 {
		return nil
	}
	c.Out = u16(c.cdb[7:])
	return func(c *Command, buf []byte) []byte {
		if len(buf) == 0 {
			return nil
		}
		if len(buf) < 8 {
			c.Fail(wrongListLength)
			return nil
		}
		list := buf[8:min(len(buf), 8+u16(buf[2:]))]
		if len(list)/16 > maxUnmaps {
			c.Fail(invalidParameter)
			return nil
		}
		for whole := list; len(whole) >= 16; whole = whole[16:] {
			n := uint64(u32(whole[8:]))
			if n > uint64(maxUnmap/c.unit.cfg.Block) {
				c.Fail(invalidParameter)
				return nil
			}
			if !c.inside(binary.BigEndian.Uint64(whole), n) {
				return nil
			}
		}
		block := int64(c.unit.cfg.Block)
		for ; len(list) >= 16; list = list[16:] {
			c.lba = binary.BigEndian.Uint64(list)
			if err := c.unit.cfg.Store.Unmap(c.at(), int64(u32(list[8:]))*block); err != nil {
				return c.failAt(writeError, c.lba)
			}
		}
		return nil
	}
}

// mostExtents is how many descriptors a GET LBA STATUS gives.
const mostExtents = 64

// lbaStatus is GET LBA STATUS (SBC-3 section 5.4).
func (c *Command) lbaStatus() performer {
	c.lba = binary.BigEndian.Uint64(c.cdb[2:])
	if !c.unit.cfg.Thin {
		return nil
	}
	if c.lba >= c.unit.blocks {
		c.Fail(outOfRange)
		return nil
	}
	allocation := u32(c.cdb[10:])
	c.In = min(allocation, 8+16*mostExtents)
	return func(c *Command, buf []byte) []byte {
		b := make([]byte, 8, 8+16*mostExtents)
		u := c.unit
		for lba, was := c.lba, -1; lba < u.blocks; {
			mapped, octets := u.cfg.Store.Mapped(int64(lba) * int64(u.cfg.Block))
			n := max(1, min(uint64(octets)/uint64(u.cfg.Block), u.blocks-lba))
			is := 1
			if mapped {
				is = 0
			}
			if is == was && uint64(u32(b[len(b)-8:]))+n < 1<<32 {
				binary.BigEndian.PutUint32(b[len(b)-8:], uint32(u32(b[len(b)-8:]))+uint32(n))
			} else if len(b) == cap(b) {
				break
			} else {
				b = binary.BigEndian.AppendUint64(b, lba)
				b = append(binary.BigEndian.AppendUint32(b, uint32(n)), byte(is), 0, 0, 0)
			}
			lba, was = lba+n, is
		}
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		return append(buf[:0], b[:min(len(b), allocation)]...)
	}
}
