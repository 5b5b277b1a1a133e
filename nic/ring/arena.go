package ring

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"tapir/nic/verbs"
)

// arenaSize is how far the file of an arena may reach, chunkSize how much of it
// is mapped at a time: address space, not memory. The kernel bounds the mappings
// of a process, so rings, of which a program may make a great many, have none of
// their own.
const (
	arenaSize = 1 << 40
	chunkSize = 1 << 31
)

// Arena is the memory of one program's rings: a sparse file that the program
// has open too, and maps in pieces. Its length is sealed, so that no program
// can take memory away from under the NIC.
type Arena struct {
	fd     int
	page   int // octets: the unit of what is given out
	size   uint64
	used   uint64             // from the start; what was given back is in gaps
	gaps   map[int]([]uint64) // offsets by length
	chunks map[uint64][]byte  // those in use, by offset
}

// piece is a part of an arena, within one chunk.
type piece struct {
	off  uint64
	size uint32
	mem  []byte
}

// NewArena makes an empty arena.
func NewArena() (*Arena, error) {
	fd, err := unix.MemfdCreate("tapir-rings", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memory for rings: %w", err)
	}
	a := &Arena{fd: fd, page: unix.Getpagesize(), size: arenaSize, gaps: map[int][]uint64{},
		chunks: map[uint64][]byte{}}
	if err := a.seal(); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("memory for rings: %w", err)
	}
	return a, nil
}

func (a *Arena) seal() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	a.size = min(a.size, limit.Cur&^uint64(a.page-1)) // beyond it, SIGXFSZ
	if err := unix.Ftruncate(a.fd, int64(a.size)); err != nil {
		return err
	}
	_, err := unix.FcntlInt(uintptr(a.fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return err
}

// FD is the arena's own descriptor, borrowed: what inotify(7) watches by
// /proc/self/fd/N. The end of the program's is not the end of this one.
func (a *Arena) FD() int { return a.fd }

// Program opens the file for the program. The descriptor, which the caller
// takes, is a file of its own (struct file), with its position at the end: a
// write(2) that goes past whoever serves the commands fails with EPERM.
func (a *Arena) Program() (fd int, err error) {
	fd, err = unix.Open("/proc/self/fd/"+strconv.Itoa(a.fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("memory for rings: %w", err)
	}
	if _, err := unix.Seek(fd, int64(a.size), unix.SEEK_SET); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("memory for rings: %w", err)
	}
	return fd, nil
}

// errArenaFull means that there are more rings than address space for them.
var errArenaFull = fmt.Errorf("memory for rings is used up: %w", verbs.ErrLimit)

// alloc gives out n octets that are all zero.
func (a *Arena) alloc(n int) (piece, error) {
	n = (n + a.page - 1) &^ (a.page - 1)
	off, gaps := a.used, a.gaps[n]
	switch left := chunkSize - off%chunkSize; {
	case len(gaps) > 0:
		off = gaps[len(gaps)-1]
	case uint64(n) > left:
		off += left
	}
	if n > chunkSize || off > a.size || uint64(n) > a.size-off {
		return piece{}, fmt.Errorf("%d octets: %w", n, errArenaFull)
	}
	chunk, err := a.chunk(off &^ (chunkSize - 1))
	if err != nil {
		return piece{}, err
	}
	if len(gaps) > 0 {
		a.gaps[n] = gaps[:len(gaps)-1]
	} else {
		a.used = off + uint64(n)
	}
	in := off % chunkSize
	return piece{off: off, size: uint32(n), mem: chunk[in : in+uint64(n) : in+uint64(n)]}, nil
}

// chunk maps the chunk at off if it is not mapped yet.
func (a *Arena) chunk(off uint64) ([]byte, error) {
	if mem := a.chunks[off]; mem != nil {
		return mem, nil
	}
	mem, err := unix.Mmap(a.fd, int64(off), int(min(chunkSize, a.size-off)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map memory for rings: %w", err)
	}
	a.chunks[off] = mem
	return mem, nil
}

// free gives the memory of p back; a program that still has it mapped sees
// zeros.
func (a *Arena) free(p *piece) {
	if p.mem == nil {
		return
	}
	_ = unix.Fallocate(a.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(p.off), int64(p.size))
	a.gaps[int(p.size)] = append(a.gaps[int(p.size)], p.off)
	p.mem = nil
}

// Close gives everything back. No ring of the arena may be in use by then.
func (a *Arena) Close() {
	for _, mem := range a.chunks {
		_ = unix.Munmap(mem)
	}
	clear(a.chunks)
	_ = unix.Close(a.fd)
}
