package trap

import "sync"

// ByFile holds what is known of files that programs have open. The zero value is
// empty.
type ByFile[T any] struct {
	mu   sync.Mutex
	open map[FileID]*T
}

// Find returns what is known of the caller's descriptor fd, nil if nothing is.
func (b *ByFile[T]) Find(c *Call, fd int) *T {
	b.mu.Lock()
	none := len(b.open) == 0
	b.mu.Unlock()
	if none { // to ask takes long
		return nil
	}
	id, err := c.File(fd)
	if err != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[id]
}

// Put stores what is known of a file.
func (b *ByFile[T]) Put(id FileID, v *T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[FileID]*T{}
	}
	b.open[id] = v
}

// Take removes what is known of a file and returns it.
func (b *ByFile[T]) Take(id FileID) *T {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.open[id]
	delete(b.open, id)
	return v
}
