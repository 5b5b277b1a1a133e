package iwarp

import "tapir/ddp"

// Payload for memory of another process may wait in verbs for what follows it,
// so that the segments of a batch are placed by one system call. It waits for
// the end of its message, another connection's segment, or the engine's Poll,
// whichever is first: before TCP acknowledges it, and before any completion.

// takeOver makes c the connection whose payload is placed.
func (c *conn) takeOver() {
	if c.e.placing != c {
		c.e.settle()
		c.e.placing = c
	}
}

// mayNotWait has what comes before its turn placed at once: an error says then
// which segment it is about.
func (c *conn) mayNotWait() {
	c.takeOver()
	c.e.dev.Hold(false)
}

// mayWait decides whether the payload of segment b may wait. Nothing of a
// message does once its last segment has come.
func (c *conn) mayWait(b []byte) error {
	c.takeOver()
	last := ddp.IsLast(b)
	c.e.dev.Hold(!last)
	if !last || len(b) > ddp.UntaggedLen {
		return nil // its payload takes what waits along
	}
	if c.e.dev.Settle() != nil {
		return memoryGone()
	}
	return nil
}

// settle places what waits. Memory that has gone meanwhile ends the
// connection.
func (e *Engine) settle() {
	c := e.placing
	if c == nil {
		return
	}
	e.placing = nil
	if e.dev.Settle() != nil && c.phase == full {
		c.fail(memoryGone())
	}
}
