package verbs

// writeBatchSize is how much may wait: a super-frame's payload.
const writeBatchSize = 64 << 10

// writeBatch collects octets that follow each other in memory of another process,
// so that one system call places what came in many segments. A message's last
// octets are never left here.
type writeBatch struct {
	hold bool
	r    *Region
	mem  Memory
	off  uint64
	buf  []byte
	err  error // found when nobody could be told
}

// BatchWrites says whether octets that are placed from now on in memory that this
// process cannot address may wait for others. A transport that lets them calls
// FlushWrites before anyone may rely on them, and places the end of each message
// with hold off.
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
	if len(b.buf) > 0 && (b.r != r || b.off+uint64(len(b.buf)) != off || len(p) > writeBatchSize-len(b.buf)) {
		if err := b.flush(); err != nil {
			return err
		}
	}
	if len(p) >= writeBatchSize || len(b.buf) == 0 && !b.hold {
		return r.mem.WriteAt(p, off)
	}
	if len(b.buf) == 0 {
		b.r, b.mem, b.off = r, r.mem, off
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
	err := b.mem.WriteAt(b.buf, b.off)
	b.r, b.mem, b.buf = nil, nil, b.buf[:0]
	return err
}
