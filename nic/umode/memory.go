package umode

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
	"tapir/nic/umode/proxy"
	"tapir/nic/verbs"
)

// block is memory that this process shares with the NIC's.
type block struct {
	mem  []byte
	addr uint64
	mrs  int // regions in it
}

func addrOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// Alloc returns n octets of memory that the NIC can reach, in whole pages of
// its own and zero: what RegMR takes. It lasts until Free or Close.
func (c *Context) Alloc(n int) ([]byte, error) {
	if n < 1 {
		return nil, fmt.Errorf("allocate %d octets: %w", n, verbs.ErrInvalid)
	}
	size := (n + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1)
	mem, fd, err := ipc.NewMemory("tapir-umode", size)
	if err != nil {
		return nil, fmt.Errorf("allocate %d octets: %w", n, err)
	}
	defer unix.Close(fd)
	b := &block{mem: mem, addr: addrOf(mem)}
	if _, err := c.session.ask(&proxy.Request{Kind: proxy.Share, Addr: b.addr, Size: uint64(size)}, nil, fd); err !=
		nil {
		_ = unix.Munmap(mem)
		return nil, fmt.Errorf("allocate %d octets: share them: %w", n, explain(err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks = append(c.blocks, b)
	return mem[:n:n], nil
}

// Free gives back memory that Alloc returned; nothing may use it any more.
// ErrBusy while a region of it is registered.
func (c *Context) Free(mem []byte) error {
	b, err := c.removeBlock(mem)
	if err != nil {
		return fmt.Errorf("free memory: %w", err)
	}
	_, err = c.session.ask(&proxy.Request{Kind: proxy.Unshare, Addr: b.addr}, nil)
	if err = cmp.Or(unix.Munmap(b.mem), err); err != nil {
		return fmt.Errorf("free memory: %w", explain(err))
	}
	return nil
}

func (c *Context) removeBlock(mem []byte) (*block, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.blocks, func(b *block) bool { return b.addr == addrOf(mem) })
	if i < 0 {
		return nil, fmt.Errorf("Alloc did not return it: %w", verbs.ErrInvalid)
	}
	b := c.blocks[i]
	if b.mrs > 0 {
		return nil, fmt.Errorf("%d regions: %w", b.mrs, verbs.ErrBusy)
	}
	c.blocks = slices.Delete(c.blocks, i, i+1)
	return b, nil
}

// hold finds the block that buf is part of and counts a region in it.
func (c *Context) hold(buf []byte) (*block, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, n := addrOf(buf), uint64(len(buf))
	for _, b := range c.blocks {
		if off := at - b.addr; at >= b.addr && off <= uint64(len(b.mem)) && n <= uint64(len(b.mem))-off {
			b.mrs++
			return b, nil
		}
	}
	return nil, fmt.Errorf("memory that Alloc did not return: %w", verbs.ErrInvalid)
}

func (c *Context) release(b *block) {
	if b != nil {
		c.mu.Lock()
		b.mrs--
		c.mu.Unlock()
	}
}
