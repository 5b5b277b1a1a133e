package verbs

// The private pointer of an object leads a layer above from a handle that it
// is told of to its own object. The owner's is Context.

// SetPrivate sets the pointer.
func (q *QP) SetPrivate(upper any) { q.private = upper }

// Private returns what SetPrivate was given.
func (q *QP) Private() any { return q.private }

// SetPrivate sets the pointer.
func (c *CQ) SetPrivate(upper any) { c.private = upper }

// Private returns what SetPrivate was given.
func (c *CQ) Private() any { return c.private }

// SetPrivate sets the pointer.
func (s *SRQ) SetPrivate(upper any) { s.private = upper }

// Private returns what SetPrivate was given.
func (s *SRQ) Private() any { return s.private }
