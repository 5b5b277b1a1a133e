package verbs

// Memory is what a memory region covers. Offsets count octets from its start;
// callers have checked them against Len.
type Memory interface {
	Len() uint64
	// Slice returns [off, off+n) itself when this process can address it,
	// nil otherwise.
	Slice(off uint64, n int) []byte
	// ReadAt copies len(p) octets from off into p.
	ReadAt(p []byte, off uint64) error
	// WriteAt copies p to off. Where others may watch the memory meanwhile, the
	// last 64 octets of p appear there after the rest: programs poll them.
	WriteAt(p []byte, off uint64) error
}

// Scattered is Memory of another process that takes octets for several places in one call.
type Scattered interface {
	// WriteScattered copies p to the places, one behind the other, each as WriteAt does.
	WriteScattered(p []byte, places []Place) error
}

// Place is where N octets go.
type Place struct {
	Off uint64
	N   int
}

// Bytes is memory of this process.
type Bytes []byte

// Len implements Memory.
func (b Bytes) Len() uint64 { return uint64(len(b)) }

// Slice implements Memory.
func (b Bytes) Slice(off uint64, n int) []byte { return b[off : off+uint64(n) : off+uint64(n)] }

// ReadAt implements Memory; it cannot fail.
func (b Bytes) ReadAt(p []byte, off uint64) error {
	copy(p, b[off:])
	return nil
}

// WriteAt implements Memory; it cannot fail.
func (b Bytes) WriteAt(p []byte, off uint64) error {
	copy(b[off:], p)
	return nil
}
