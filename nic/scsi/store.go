package scsi

// Store holds the octets of a unit. Offsets and lengths are whole blocks inside it; a
// length may be 0.
type Store interface {
	ReadAt(p []byte, off int64) error
	WriteAt(p []byte, off int64) error
	// Sync makes what has been written outlive the process and the system.
	Sync() error
	// Unmap makes n octets read as zeros, and gives their memory back where it can.
	Unmap(off, n int64) error
	// Mapped tells whether there is memory behind the octet at off, and for how many
	// octets from there, at least one block, it is the same.
	Mapped(off int64) (mapped bool, n int64)
}

// chunkSize is how much a Memory takes at a time, in octets.
const chunkSize = 1 << 16

// chunk is part of a Memory; mapped has a bit for each 512 octets.
type chunk struct {
	data   [chunkSize]byte
	mapped [chunkSize / 512 / 64]uint64
}

func (c *chunk) mark(off, n int, on bool) (any bool) {
	for i := off / 512; i < (off+n)/512; i++ {
		if bit := uint64(1) << (i % 64); on {
			c.mapped[i/64] |= bit
		} else {
			c.mapped[i/64] &^= bit
		}
	}
	return c.mapped[0]|c.mapped[1] != 0
}

// Memory is a Store of memory that is taken when it is first written.
type Memory struct{ chunks []*chunk }

// NewMemory makes a Memory of a size in octets.
func NewMemory(size int64) *Memory { return &Memory{make([]*chunk, (size+chunkSize-1)/chunkSize)} }

// each calls do for each chunk of a range, with the place in the chunk and in the range.
func each(off, n int64, do func(i int64, at, from, to int)) {
	for done := int64(0); done < n; {
		at := (off + done) % chunkSize
		k := min(n-done, chunkSize-at)
		do((off+done)/chunkSize, int(at), int(done), int(done+k))
		done += k
	}
}

// ReadAt reads; what was never written is zeros.
func (m *Memory) ReadAt(p []byte, off int64) error {
	each(off, int64(len(p)), func(i int64, at, from, to int) {
		if c := m.chunks[i]; c != nil {
			copy(p[from:to], c.data[at:])
		} else {
			clear(p[from:to])
		}
	})
	return nil
}

// WriteAt writes.
func (m *Memory) WriteAt(p []byte, off int64) error {
	each(off, int64(len(p)), func(i int64, at, from, to int) {
		c := m.chunks[i]
		if c == nil {
			c = new(chunk)
			m.chunks[i] = c
		}
		copy(c.data[at:], p[from:to])
		c.mark(at, to-from, true)
	})
	return nil
}

// Sync has nothing to do: memory does not outlive the process.
func (m *Memory) Sync() error { return nil }

// Unmap gives memory back.
func (m *Memory) Unmap(off, n int64) error {
	each(off, n, func(i int64, at, from, to int) {
		c := m.chunks[i]
		if c == nil {
			return
		}
		clear(c.data[at : at+to-from])
		if !c.mark(at, to-from, false) {
			m.chunks[i] = nil
		}
	})
	return nil
}

// Mapped looks at one chunk.
func (m *Memory) Mapped(off int64) (mapped bool, n int64) {
	c, at := m.chunks[off/chunkSize], int(off%chunkSize)/512
	if c == nil {
		return false, chunkSize - off%chunkSize
	}
	bit := func(i int) bool { return c.mapped[i/64]>>(i%64)&1 != 0 }
	end := at + 1
	for end < chunkSize/512 && bit(end) == bit(at) {
		end++
	}
	return bit(at), int64(end-at) * 512
}
