package verbs

import "tapir/wire/frame"

// Asynchronous destroy is allowed anywhere, in a handler too. The object goes
// with the next Dispatch, behind the handlers already queued; then done, which
// may be nil, is told what the plain call would have returned. No handler of
// the object runs after that. Objects go in the order of the calls, so that
// children may be followed by their parents.

func (d *Device) destroyAsync(destroy func() error, done func(error)) {
	d.Defer(func(frame.Time) {
		err := destroy()
		if done != nil {
			done(err)
		}
	})
}

// CloseAsync is Close, asynchronously.
func (c *Context) CloseAsync(done func(error)) { c.dev.destroyAsync(c.Close, done) }

// DeallocAsync is Dealloc, asynchronously.
func (p *PD) DeallocAsync(done func(error)) { p.dev.destroyAsync(p.Dealloc, done) }

// DeregAsync is Dereg, asynchronously.
func (m *MR) DeregAsync(done func(error)) { m.pd.dev.destroyAsync(m.Dereg, done) }

// DeallocAsync is Dealloc, asynchronously.
func (w *MW) DeallocAsync(done func(error)) { w.pd.dev.destroyAsync(w.Dealloc, done) }

// DestroyAsync is Destroy, asynchronously.
func (c *CQ) DestroyAsync(done func(error)) { c.dev.destroyAsync(c.Destroy, done) }

// DestroyAsync is Destroy, asynchronously.
func (q *QP) DestroyAsync(done func(error)) { q.dev.destroyAsync(q.Destroy, done) }

// DestroyAsync is Destroy, asynchronously.
func (s *SRQ) DestroyAsync(done func(error)) { s.pd.dev.destroyAsync(s.Destroy, done) }

// DestroyAsync is Destroy, asynchronously.
func (a *AH) DestroyAsync(done func(error)) { a.dev.destroyAsync(a.Destroy, done) }
