package verbs

const (
	writeBatchSize   = 64 << 10 // how much may wait: a super-frame's payload
	writeBatchPlaces = 256      // for how many places
)

// writeBatch collects octets for memory of another process, so that one system call
// places what came in many segments. They follow each other, or the memory takes
// octets for several places.
type writeBatch struct {
	hold   bool
	r      *Region
	mem    Memory
	places []Place
	buf    []byte
	err    error // found when nobody could be told
}

// BatchWrites says whether octets that are placed from now on in memory that this
// process cannot address may wait for others. A transport that lets them calls
// FlushWrites before anyone may rely on them: before it acknowledges or completes
// a message.
func (d *Device) BatchWrites(on bool) { d.writes.hold = on }

// FlushWrites places what waits. The error is that of any octet placed since the
// last call that has not been reported.
func (d *Device) FlushWrites() error {
	b := &d.writes
	err := b.flush()
	if err == nil {
		err = b.err
	}
	b.err = nil
	return err
}

// place stores p at off of r's memory, or lets it wait.
func (b *writeBatch) place(r *Region, p []byte, off uint64) error {
	if len(b.buf) > 0 && (b.r != r || len(p) > writeBatchSize-len(b.buf) || !b.extend(off, len(p))) {
		if err := b.flush(); err != nil {
			return err
		}
	}
	if len(p) >= writeBatchSize || len(b.buf) == 0 && !b.hold {
		return r.mem.WriteAt(p, off)
	}
	if len(b.buf) == 0 {
		b.r, b.mem, b.places = r, r.mem, append(b.places, Place{off, len(p)})
	}
	if b.buf == nil {
		b.buf = make([]byte, 0, writeBatchSize)
	}
	b.buf = append(b.buf, p...)
	if b.hold && len(b.buf) < writeBatchSize {
		return nil
	}
	return b.flush()
}

// extend makes n octets at off follow those that wait. False: they cannot.
func (b *writeBatch) extend(off uint64, n int) bool {
	last := &b.places[len(b.places)-1]
	if last.Off+uint64(last.N) == off {
		last.N += n
		return true
	}
	_, scattered := b.mem.(Scattered)
	if scattered = scattered && len(b.places) < writeBatchPlaces; scattered {
		b.places = append(b.places, Place{off, n})
	}
	return scattered
}

// fetch reads from r's memory, in which nothing waits then.
func (b *writeBatch) fetch(r *Region, p []byte, off uint64) error {
	b.settle()
	return r.mem.ReadAt(p, off)
}

// settle places what waits; the next FlushWrites reports an error.
func (b *writeBatch) settle() {
	if err := b.flush(); err != nil {
		b.err = err
	}
}

func (b *writeBatch) flush() error {
	if len(b.buf) == 0 {
		return nil
	}
	var err error
	if len(b.places) == 1 {
		err = b.mem.WriteAt(b.buf, b.places[0].Off)
	} else {
		err = b.mem.(Scattered).WriteScattered(b.buf, b.places)
	}
	b.r, b.mem, b.places, b.buf = nil, nil, b.places[:0], b.buf[:0]
	return err
}
