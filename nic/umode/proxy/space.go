package proxy

import (
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
	"tapir/nic/verbs"
)

// maxBlocks is how many pieces of memory a client may share, maxShared how many
// octets. A client has paid for each page before it shares it; one that punches
// holes has the NIC's process pay for what is then placed there, up to this.
const (
	maxBlocks = 1024
	maxShared = 64 << 30
)

// block is a piece of memory that a client shares: a mapping, which lasts as
// long as something refers to the block.
type block struct {
	addr uint64
	mem  []byte
}

// space is what a client shares, by address.
type space struct{ blocks []*block }

// share maps the file fd, which stays the caller's, as [addr, addr+size). Errors:
// those of ipc.Map, EINVAL, ENOMEM, EEXIST.
func (s *space) share(fd int, addr, size uint64) error {
	left := uint64(maxShared)
	for _, b := range s.blocks {
		left -= uint64(len(b.mem))
	}
	switch {
	case size == 0, addr < Base+MaxMemory, addr+size < addr:
		return syscall.EINVAL
	case len(s.blocks) == maxBlocks, size > left:
		return syscall.ENOMEM
	}
	for _, b := range s.blocks {
		if addr < b.addr+uint64(len(b.mem)) && b.addr < addr+size {
			return syscall.EEXIST
		}
	}
	mem, err := ipc.Map(fd, int(size))
	if err != nil {
		return err
	}
	b := &block{addr, mem}
	runtime.AddCleanup(b, func(mem []byte) { _ = unix.Munmap(mem) }, mem)
	s.blocks = append(s.blocks, b)
	return nil
}

// unshare forgets the block at addr. Regions made of it keep it.
func (s *space) unshare(addr uint64) error {
	for i, b := range s.blocks {
		if b.addr == addr {
			s.blocks = slices.Delete(s.blocks, i, i+1)
			return nil
		}
	}
	return syscall.EINVAL
}

// region is [addr, addr+n), nil if not all of it is shared.
func (s *space) region(addr, n uint64) *region {
	for _, b := range s.blocks {
		if off := addr - b.addr; addr >= b.addr && off <= uint64(len(b.mem)) && n <= uint64(len(b.mem))-off {
			return &region{verbs.Bytes(b.mem[off : off+n : off+n]), b}
		}
	}
	return nil
}

// region is memory of a block, and keeps it mapped.
type region struct {
	verbs.Bytes
	block *block
}
