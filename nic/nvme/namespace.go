package nvme

import (
	"bytes"

	"tapir/nic/scsi"
	wire "tapir/wire/nvme"
)

// Namespace is a disk of a target.
type Namespace struct {
	Store    scsi.Store
	Size     int64 // octets, whole blocks
	Block    int   // octets: 512 or 4096
	ReadOnly bool
	Thin     bool // unmapping gives memory back
	NGUID    [16]byte
	// Offload has work done that may block, in the order of the calls, on a thread other than the
	// NIC's, then done on the NIC's; nil: the store never blocks.
	Offload func(work, done func())
}

// blocks is how many there are.
func (n *Namespace) blocks() uint64 { return uint64(n.Size) / uint64(n.Block) }

// info is what Identify tells.
func (n *Namespace) info() wire.NamespaceInfo {
	return wire.NamespaceInfo{Blocks: n.blocks(), BlockLen: n.Block, Used: n.blocks(), Thin: n.Thin,
		Protected: n.ReadOnly, NGUID: n.NGUID}
}

// maxUnmap is how many octets a command gives back at most; ranges beyond stay as they are,
// which Dataset Management allows.
const maxUnmap = 1 << 30

// Bits of commands.
const (
	deallocate = 1 << 2 // double word 11 of Dataset Management
)

// transfer is which way the data of a command goes.
type transfer uint8

const (
	none     transfer = iota
	fromHost          // to the controller
	toHost
)

// prepare tells how much data an I/O command moves, or why it cannot.
func (n *Namespace) prepare(c *wire.Command) (octets int, dir transfer, st wire.Status) {
	switch op := c.Opcode(); op {
	case wire.Flush:
		return 0, none, wire.Success
	case wire.DSM:
		return int(c.DWord(10)&0xff+1) * 16, fromHost, n.writable()
	case wire.Read, wire.Write, wire.Compare, wire.WriteZeroes:
		lba, k := c.LBA(), uint64(c.Blocks())
		if lba >= n.blocks() || k > n.blocks()-lba {
			return 0, none, wire.LBAOutOfRange | wire.DNR
		}
		switch op {
		case wire.WriteZeroes:
			return 0, none, n.writable()
		case wire.Read:
			dir = toHost
		case wire.Write:
			dir, st = fromHost, n.writable()
		default:
			dir = fromHost
		}
		if octets = int(k) * n.Block; octets > maxTransfer {
			st = wire.InvalidField | wire.DNR
		}
		return octets, dir, st
	}
	return 0, none, wire.InvalidOpcode | wire.DNR
}

// writable refuses a change of what is read only.
func (n *Namespace) writable() wire.Status {
	if n.ReadOnly {
		return wire.NamespaceProtected | wire.DNR
	}
	return wire.Success
}

// perform does a command that prepare has accepted; through has what is written outlive the
// system. It may block.
func (n *Namespace) perform(c *wire.Command, data []byte, through bool) wire.Status {
	off := int64(c.LBA()) * int64(n.Block)
	through = through || c.DWord(12)&wire.FUA != 0
	var err error
	switch c.Opcode() {
	case wire.Read:
		if n.Store.ReadAt(data, off) != nil {
			return wire.ReadError
		}
		return wire.Success
	case wire.Compare:
		is := make([]byte, len(data))
		if n.Store.ReadAt(is, off) != nil {
			return wire.ReadError
		}
		if !bytes.Equal(is, data) {
			return wire.CompareFailure | wire.DNR
		}
		return wire.Success
	case wire.Flush:
		through = true
	case wire.Write:
		err = n.Store.WriteAt(data, off)
	case wire.WriteZeroes:
		err = n.Store.Unmap(off, int64(c.Blocks())*int64(n.Block))
	case wire.DSM:
		if c.DWord(11)&deallocate == 0 {
			return wire.Success
		}
		return n.unmap(wire.ParseRanges(data))
	}
	if err == nil && through {
		err = n.Store.Sync()
	}
	if err != nil {
		return wire.WriteFault
	}
	return wire.Success
}

// unmap gives ranges back.
func (n *Namespace) unmap(list []wire.Range) wire.Status {
	for _, r := range list {
		if r.LBA > n.blocks() || uint64(r.Blocks) > n.blocks()-r.LBA {
			return wire.LBAOutOfRange | wire.DNR
		}
	}
	left := int64(maxUnmap)
	for _, r := range list {
		k := min(int64(r.Blocks)*int64(n.Block), left)
		left -= k
		if n.Store.Unmap(int64(r.LBA)*int64(n.Block), k) != nil {
			return wire.WriteFault
		}
	}
	return wire.Success
}
