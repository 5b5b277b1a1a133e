// Package chain is the driver core's chain (ecore_chain): a ring of elements
// of one size in pages of 4 KiB, which one side produces and the other
// consumes by free-running indices of 16 or 32 bits.
//
// A page of memory exists from the first use of one of its elements until the
// consumer has left it, or the chain is empty; a part of 128 octets may stay. A chain is
// not safe for concurrent use.
package chain

import (
	"encoding/binary"

	"tapir/nic/fastlinq/status"
)

// Mode says how the pages of a chain hang together.
type Mode uint8

// The modes.
const (
	NextPtr Mode = iota // the last elements of a page hold the address of the next
	Single              // one page
	PBL                 // a list apart, of 8 octets for each page
)

// Use says which side the owner of the chain is.
type Use uint8

// The uses.
const (
	ToProduce        Use = iota // the device consumes
	ToConsume                   // the device produces: Reset offers it all elements
	ToConsumeProduce            // the device fills what the owner offers
)

// Width is that of the indices.
type Width uint8

// The widths.
const (
	Count16 Width = 16
	Count32 Width = 32
)

const (
	// PageSize is the size of a page in octets.
	PageSize = 0x1000
	// PBLEntry is the size of an entry of the page base list in octets.
	PBLEntry = 8
	// nextSize is that of the next pointer at the end of a page: the address
	// as the device sees it, and as the host does.
	nextSize = 16
)

// Config describes a chain.
type Config struct {
	Mode  Mode
	Use   Use
	Width Width // 0: Count16
	Elems uint64
	Size  int // of an element in octets, a power of two
	// PBL is the caller's memory for the page base list; nil: the chain's own.
	PBL []byte
	// Base is the address of the first page, as the list and the pointers
	// show it.
	Base uint64
}

// Chain is a ring of elements.
type Chain struct {
	cfg        Config
	perPage    uint32   // elements of a page, a power of two
	unusable   uint32   // of them taken by the next pointer
	pages      [][]byte // those that exist, all but a part whole
	part       place
	pbl        []byte
	mask       uint32
	capacity   uint64
	used       uint64 // produced and not consumed
	prod, cons cursor
	offer      cursor
}

// place is where the part of a page begins that was made of it: an idle chain that
// gets a single element needs no more.
type place struct {
	page uint32
	from int
}

// partSize is the size of such a part.
const partSize = 128

// cursor is a place in the chain.
type cursor struct {
	index uint32 // free-running, unusable elements counted
	page  uint32
}

// Unusable is the number of elements at the end of a page that a next pointer
// takes.
func Unusable(size int, mode Mode) int {
	if mode != NextPtr {
		return 0
	}
	return 1 + (nextSize-1)/size
}

// Usable is the number of elements of a page that hold data.
func Usable(size int, mode Mode) int { return PageSize/size - Unusable(size, mode) }

// Pages is the number of pages that elems usable elements need.
func Pages(elems uint64, size int, mode Mode) uint64 {
	if mode == Single {
		return 1
	}
	u := uint64(Usable(size, mode))
	return elems/u + min(elems%u, 1)
}

// New returns an empty chain. INVAL: a size that is no power of two or leaves
// no usable element, more elements than the indices can count (the size is
// rounded up to whole pages), none at all, or too short a PBL.
func New(cfg Config) (*Chain, error) {
	if cfg.Width == 0 {
		cfg.Width = Count16
	}
	if cfg.Size <= 0 || cfg.Size > PageSize || cfg.Size&(cfg.Size-1) != 0 {
		return nil, status.Inval.Errorf("chain of elements of %d octets: want a power of two up to %d", cfg.Size,
			PageSize)
	}
	usable := Usable(cfg.Size, cfg.Mode)
	if usable <= 0 {
		return nil, status.Inval.Errorf("chain of elements of %d octets: no room beside the pointer to the next page",
			cfg.Size)
	}
	if cfg.Elems == 0 && cfg.Mode != Single {
		return nil, status.Inval.Errorf("chain without elements")
	}
	n := Pages(cfg.Elems, cfg.Size, cfg.Mode)
	perPage := uint64(PageSize / cfg.Size)
	most := uint64(1) << 16
	if cfg.Width == Count32 {
		most = 1<<32 - 1
	}
	if n > most/perPage {
		return nil, status.Inval.Errorf("chain of %d elements: indices of %d bits count %d", cfg.Elems, cfg.Width, most)
	}
	c := &Chain{
		cfg: cfg, perPage: uint32(perPage), unusable: uint32(Unusable(cfg.Size, cfg.Mode)),
		pages: make([][]byte, n), mask: uint32(1<<cfg.Width - 1), capacity: n * uint64(usable),
	}
	if cfg.Mode == PBL && cfg.PBL != nil { // else List makes it
		if err := c.list(cfg.PBL); err != nil {
			return nil, err
		}
	}
	c.Reset()
	return c, nil
}

// list fills the page base list.
func (c *Chain) list(external []byte) error {
	if len(external) < PBLEntry*len(c.pages) {
		return status.Inval.Errorf("page base list of %d octets for %d pages", len(external), len(c.pages))
	}
	c.pbl = external
	for i := range c.pages {
		binary.LittleEndian.PutUint64(c.pbl[PBLEntry*i:], c.address(uint32(i)))
	}
	return nil
}

func (c *Chain) address(page uint32) uint64 { return c.cfg.Base + uint64(page)*PageSize }

// Reset empties the chain. One that is used to consume offers the device all
// its elements.
func (c *Chain) Reset() {
	clear(c.pages)
	c.prod, c.cons, c.offer, c.used = cursor{}, cursor{}, cursor{}, 0
	if c.cfg.Use == ToConsume { // a whole turn
		c.offer.index = uint32(c.Size()) & c.mask
	}
}

// advance moves a cursor to the next usable element.
func (c *Chain) advance(at *cursor) {
	at.index++
	if at.index&(c.perPage-1) == (c.perPage-c.unusable)&(c.perPage-1) {
		at.index += c.unusable
		if at.page++; at.page == uint32(len(c.pages)) {
			at.page = 0
		}
	}
	at.index &= c.mask
}

// element is that at a cursor; its memory comes into being if need be.
func (c *Chain) element(at cursor) []byte {
	p, off := c.pages[at.page], int(at.index&(c.perPage-1))*c.cfg.Size
	if len(p) == PageSize {
		return p[off : off+c.cfg.Size]
	}
	if p == nil || off < c.part.from || off >= c.part.from+len(p) {
		p = c.extend(at.page, off)
	}
	if len(p) < PageSize {
		off -= c.part.from
	}
	return p[off : off+c.cfg.Size]
}

// extend gives a page the memory of an offset: the part that it is in if the chain
// is idle and has no pointers, else all of it.
func (c *Chain) extend(n uint32, off int) []byte {
	size := max(partSize, c.cfg.Size)
	if c.used == 0 && c.cfg.Mode != NextPtr && size < PageSize {
		p := c.pages[c.part.page] // moves on
		if len(p) != size {
			p = make([]byte, size)
		} else {
			c.pages[c.part.page] = nil
		}
		c.pages[n], c.part = p, place{n, off &^ (size - 1)}
		return p
	}
	all := make([]byte, PageSize)
	if c.part.page == n {
		copy(all[c.part.from:], c.pages[n])
	}
	if c.cfg.Mode == NextPtr {
		next := (n + 1) % uint32(len(c.pages))
		binary.LittleEndian.PutUint64(all[int(c.perPage-c.unusable)*c.cfg.Size:], c.address(next))
	}
	c.pages[n] = all
	return all
}

// Produce takes the next element to be filled, nil if none is free.
func (c *Chain) Produce() []byte {
	if c.used == c.capacity {
		return nil
	}
	e := c.element(c.prod)
	c.used++
	c.advance(&c.prod)
	return e
}

// Consume returns the oldest element that was produced, nil if there is none.
// It is borrowed until the next call.
func (c *Chain) Consume() []byte {
	if c.used == 0 {
		return nil
	}
	c.leave()
	e := c.element(c.cons)
	if c.used--; c.used == 0 {
		if p := &c.pages[c.cons.page]; len(*p) == PageSize {
			*p = nil // of an idle chain no more than a part is left
		}
	}
	c.advance(&c.cons)
	c.advance(&c.offer)
	return e
}

// leave gives the page back that the consumer has just left, if nothing new
// is in it.
func (c *Chain) leave() {
	n := uint64(len(c.pages))
	if n == 1 || c.cons.index&(c.perPage-1) != 0 || c.used > (n-1)*(c.capacity/n) {
		return
	}
	c.pages[(uint64(c.cons.page)+n-1)%n] = nil
}

// Peek is the i-th of the elements that are produced and not consumed, 0 the
// oldest; nil if there are fewer.
func (c *Chain) Peek(i uint64) []byte {
	if i >= c.used {
		return nil
	}
	usable := c.capacity / uint64(len(c.pages))
	at := (uint64(c.cons.page)*usable + uint64(c.cons.index&(c.perPage-1)) + i) % c.capacity
	return c.element(cursor{uint32(at % usable), uint32(at / usable)})
}

// Prod is the producer index, as doorbells have it.
func (c *Chain) Prod() uint32 { return c.prod.index }

// Cons is the consumer index.
func (c *Chain) Cons() uint32 { return c.cons.index }

// Offer is the index up to which the device may fill a chain to consume.
func (c *Chain) Offer() uint32 { return c.offer.index }

// Left is the number of elements that can be produced.
func (c *Chain) Left() uint64 { return c.capacity - c.used }

// Capacity counts the usable elements.
func (c *Chain) Capacity() uint64 { return c.capacity }

// Size counts all elements, those that pointers take included.
func (c *Chain) Size() uint64 { return uint64(c.perPage) * uint64(len(c.pages)) }

// PageCount is the number of pages.
func (c *Chain) PageCount() int { return len(c.pages) }

// List is the page base list of a PBL chain, entries in little endian,
// borrowed.
func (c *Chain) List() []byte {
	if c.pbl == nil && c.cfg.Mode == PBL {
		_ = c.list(make([]byte, PBLEntry*len(c.pages))) // which is long enough
	}
	return c.pbl
}

// Resident is the number of pages that exist, but for the part of an idle chain.
func (c *Chain) Resident() (n int) {
	for _, p := range c.pages {
		if len(p) == PageSize || p != nil && c.used > 0 {
			n++
		}
	}
	return n
}
