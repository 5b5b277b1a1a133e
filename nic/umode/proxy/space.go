package proxy

import (
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/verbs"
)

// maxBlocks is how many pieces of memory a client may share.
const maxBlocks = 1024

// block is a piece of memory that a client shares: a mapping, which lasts as
// long as something refers to the block.
type block struct {
	addr uint64
	mem  []byte
}

// space is what a client shares, by address.
type space struct{ blocks []*block }

// share maps the file fd, which stays the caller's, as [addr, addr+size).
// Memory that could vanish is refused with EPERM: an access to it would kill
// this process.
func (s *space) share(fd int, addr, size uint64) error {
	var st unix.Stat_t
	var fs unix.Statfs_t
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return syscall.EPERM
	}
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || unix.Fstat(fd, &st) != nil {
		return syscall.EPERM
	}
	switch {
	case size == 0, size > uint64(st.Size), addr < Base+MaxMemory, addr+size < addr:
		return syscall.EINVAL
	case len(s.blocks) == maxBlocks:
		return syscall.ENOMEM
	}
	for _, b := range s.blocks {
		if addr < b.addr+uint64(len(b.mem)) && b.addr < addr+size {
			return syscall.EEXIST
		}
	}
	mem, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
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
