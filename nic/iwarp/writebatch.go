package iwarp

import (
	"tapir/ddp"
	"tapir/rdmap"
)

// Payload for memory of another process may wait in verbs for what follows it,
// so that the segments of a batch are placed by one system call. It waits for
// the end of a message that completes something, another connection's segment, or
// the engine's Poll, whichever is first: before TCP acknowledges it, and before any
// completion.

// takeOver makes c the connection whose payload is placed.
func (in *inbound) takeOver() {
	if in.c.e.placing != in.c {
		in.c.e.flushWrites()
		in.c.e.placing = in.c
	}
}

// placeNow has what comes before its turn placed at once: an error says then
// which segment it is about.
func (in *inbound) placeNow() {
	in.takeOver()
	in.c.e.dev.BatchWrites(false)
}

// batchWrites decides whether the payload of segment b may wait. Nothing does once the
// last segment of a message has come, except of RDMA Writes, which complete nothing here.
func (in *inbound) batchWrites(b []byte) error {
	in.takeOver()
	last := ddp.IsLast(b) && (len(b) < ddp.TaggedLen || rdmap.ParseControl(b[1]).Opcode != rdmap.Write)
	in.c.e.dev.BatchWrites(!last)
	if !last || len(b) > ddp.UntaggedLen {
		return nil // its payload takes what waits along
	}
	if in.c.e.dev.FlushWrites() != nil {
		return memoryGone()
	}
	return nil
}

// flushWrites places what waits. Memory that has gone meanwhile ends the
// connection.
func (e *Engine) flushWrites() {
	c := e.placing
	if c == nil {
		return
	}
	e.placing = nil
	if e.dev.FlushWrites() != nil && c.phase == full {
		c.fail(memoryGone())
	}
}
