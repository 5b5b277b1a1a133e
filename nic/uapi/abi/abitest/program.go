// Package abitest is a program that a test plays: memory, descriptors and the
// commands that it writes.
package abitest

import (
	"fmt"
	"syscall"

	"tapir/nic/uapi/errno"
	"tapir/nic/verbs"
)

// Program is a process with one thread. It implements abi.Caller. Its memory
// lies in pieces that Map made; addresses between them are not mapped.
type Program struct {
	PID      int
	NonBlock bool  // what Nonblocking says
	Gone     bool  // the thread waits no more
	Answers  []int // errnos of Done, in order

	Files map[int]int // installed descriptors by their number in the program
	Max   int         // descriptors that it may have; 0: 100

	Regions []*Region // what Region has returned, in order

	pieces []piece
	next   uint64
}

type piece struct {
	addr     uint64
	mem      []byte
	readOnly bool
}

// Map gives the program n octets and returns their address and themselves.
func (p *Program) Map(n int) (addr uint64, mem []byte) {
	if p.next == 0 {
		p.next = 0x7f00_0000_0000
	}
	addr, mem = p.next, make([]byte, n)
	p.pieces = append(p.pieces, piece{addr: addr, mem: mem})
	p.next += (uint64(n)+4095)&^4095 + 4096
	return addr, mem
}

// Unmap takes the piece at addr away.
func (p *Program) Unmap(addr uint64) {
	for i, have := range p.pieces {
		if have.addr == addr {
			p.pieces = append(p.pieces[:i:i], p.pieces[i+1:]...)
			return
		}
	}
}

// Protect makes the piece at addr read-only.
func (p *Program) Protect(addr uint64) {
	for i := range p.pieces {
		if p.pieces[i].addr == addr {
			p.pieces[i].readOnly = true
		}
	}
}

func (p *Program) at(addr, n uint64, write bool) []byte {
	for _, have := range p.pieces {
		off := addr - have.addr
		if addr >= have.addr && off <= uint64(len(have.mem)) && n <= uint64(len(have.mem))-off &&
			!(write && have.readOnly) {
			return have.mem[off : off+n : off+n]
		}
	}
	return nil
}

// Process implements abi.Caller.
func (p *Program) Process() int { return p.PID }

// Read implements abi.Caller.
func (p *Program) Read(addr uint64, b []byte) error {
	mem := p.at(addr, uint64(len(b)), false)
	if mem == nil {
		return syscall.EFAULT
	}
	copy(b, mem)
	return nil
}

// Write implements abi.Caller.
func (p *Program) Write(addr uint64, b []byte) error {
	mem := p.at(addr, uint64(len(b)), true)
	if mem == nil {
		return syscall.EFAULT
	}
	copy(mem, b)
	return nil
}

// Install implements abi.Caller: numbers count from 3.
func (p *Program) Install(fd, _ int) (int, error) {
	most := p.Max
	if most == 0 {
		most = 100
	}
	for n := 3; n < most; n++ {
		if _, taken := p.Files[n]; !taken {
			if p.Files == nil {
				p.Files = map[int]int{}
			}
			p.Files[n] = fd
			return n, nil
		}
	}
	_ = syscall.Close(fd)
	return -1, syscall.EMFILE
}

// CloseFiles closes what is installed.
func (p *Program) CloseFiles() {
	for n, fd := range p.Files {
		_ = syscall.Close(fd)
		delete(p.Files, n)
	}
}

// Region implements abi.Caller.
func (p *Program) Region(addr, n uint64, write bool) (verbs.Memory, error) {
	if p.at(addr, n, write) == nil {
		return nil, syscall.EFAULT
	}
	r := &Region{p: p, addr: addr, n: n, write: write}
	p.Regions = append(p.Regions, r)
	return r, nil
}

// Region is memory of a program, which may be unmapped meanwhile. Whoever
// touches what lies outside, or writes without the right, or comes after the
// end, has a bug and panics.
type Region struct {
	p     *Program
	addr  uint64
	n     uint64
	write bool
	ended bool
}

// End says that the region is registered no more.
func (r *Region) End() { r.ended = true }

// Len implements verbs.Memory.
func (r *Region) Len() uint64 { return r.n }

// Slice implements verbs.Memory.
func (r *Region) Slice(uint64, int) []byte { return nil }

// ReadAt implements verbs.Memory.
func (r *Region) ReadAt(b []byte, off uint64) error {
	r.guard(len(b), off, false)
	return r.p.Read(r.addr+off, b)
}

// WriteAt implements verbs.Memory.
func (r *Region) WriteAt(b []byte, off uint64) error {
	r.guard(len(b), off, true)
	return r.p.Write(r.addr+off, b)
}

func (r *Region) guard(n int, off uint64, write bool) {
	if r.ended || write && !r.write || off > r.n || uint64(n) > r.n-off {
		panic(fmt.Sprintf("%d octets at %d of a region of %d, write %v, registered for it %v, ended %v", n, off, r.n,
			write, r.write, r.ended))
	}
}

// Nonblocking implements abi.Caller.
func (p *Program) Nonblocking() bool { return p.NonBlock }

// Waits implements abi.Caller.
func (p *Program) Waits() bool { return !p.Gone }

// Done implements abi.Caller.
func (p *Program) Done(err error) { p.Answers = append(p.Answers, int(errno.Of(err))) }
