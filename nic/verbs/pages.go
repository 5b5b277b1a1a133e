package verbs

import (
	"fmt"
	"math/bits"
)

// PageList is memory that lies in pages scattered over a space, as a driver
// sees physical memory.
type PageList struct {
	Space    Memory
	Pages    []uint64 // where each page begins in Space, multiples of PageSize
	PageSize uint64   // octets, a power of two
	Offset   uint64   // of the first octet within the first page
	Length   uint64   // octets
}

func (l *PageList) check(most int) error {
	size := l.PageSize
	switch {
	case l.Space == nil:
		return fmt.Errorf("page list without a space: %w", ErrInvalid)
	case bits.OnesCount64(size) != 1:
		return fmt.Errorf("page size %d is no power of two: %w", size, ErrInvalid)
	case len(l.Pages) > most:
		return fmt.Errorf("%d pages, room for %d: %w", len(l.Pages), most, ErrInvalid)
	case l.Offset >= size:
		return fmt.Errorf("offset %d in a page of %d: %w", l.Offset, size, ErrInvalid)
	}
	left := l.Length
	for i, p := range l.Pages {
		n := min(size, l.Offset+left)
		if i > 0 {
			n = min(size, left)
		}
		if p&(size-1) != 0 || p > l.Space.Len() || n > l.Space.Len()-p {
			return fmt.Errorf("page %d at %#x: unaligned or outside of the space: %w", i, p, ErrInvalid)
		}
		if i == 0 {
			n -= min(n, l.Offset)
		}
		left -= n
	}
	if left > 0 {
		return fmt.Errorf("%d octets in %d pages of %d from offset %d: %w", l.Length, len(l.Pages), size, l.Offset,
			ErrInvalid)
	}
	return nil
}

// pageMemory is a page list as Memory.
type pageMemory struct {
	space  Memory
	pages  []uint64
	shift  int
	offset uint64
	length uint64
}

// set takes over l, which has been checked. Pages are copied.
func (m *pageMemory) set(l *PageList) {
	m.space, m.offset, m.length = l.Space, l.Offset, l.Length
	m.shift = bits.TrailingZeros64(l.PageSize)
	m.pages = append(m.pages[:0], l.Pages...)
}

// Len implements Memory.
func (m *pageMemory) Len() uint64 { return m.length }

// run returns where octet off lies in the space and how many octets, up to n,
// follow it there.
func (m *pageMemory) run(off uint64, n int) (at uint64, have int) {
	off += m.offset
	i, in := off>>m.shift, off&(1<<m.shift-1)
	at = m.pages[i] + in
	room := uint64(1)<<m.shift - in
	for i++; room < uint64(n) && i < uint64(len(m.pages)) && m.pages[i] == m.pages[i-1]+1<<m.shift; i++ {
		room += 1 << m.shift
	}
	return at, int(min(room, uint64(n)))
}

// Slice implements Memory: nil also where the pages are not contiguous.
func (m *pageMemory) Slice(off uint64, n int) []byte {
	at, have := m.run(off, n)
	if have < n {
		return nil
	}
	return m.space.Slice(at, n)
}

// ReadAt implements Memory.
func (m *pageMemory) ReadAt(p []byte, off uint64) error {
	for len(p) > 0 {
		at, n := m.run(off, len(p))
		if err := m.space.ReadAt(p[:n], at); err != nil {
			return err
		}
		p, off = p[n:], off+uint64(n)
	}
	return nil
}

// WriteAt implements Memory.
func (m *pageMemory) WriteAt(p []byte, off uint64) error {
	for len(p) > 0 {
		at, n := m.run(off, len(p))
		if err := m.space.WriteAt(p[:n], at); err != nil {
			return err
		}
		p, off = p[n:], off+uint64(n)
	}
	return nil
}
