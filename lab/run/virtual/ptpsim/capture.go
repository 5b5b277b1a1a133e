package ptpsim

import (
	"bufio"
	"io"
	"strconv"

	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// capture writes all frames as pcapng. Each port has two interfaces: one in
// true time, and one in that of the node's hardware clock. The two records of
// a frame have one packet id.
type capture struct {
	w    *bufio.Writer
	buf  []byte
	next uint32
	err  error
}

func newCapture(w io.Writer) *capture {
	c := &capture{w: bufio.NewWriterSize(w, 64<<10)}
	c.write(&pcapng.Section{Application: "tapir ptp sim"})
	return c
}

func (c *capture) write(b pcapng.Block) {
	if c.err != nil {
		return
	}
	c.buf = b.AppendTo(c.buf[:0])
	_, c.err = c.w.Write(c.buf)
}

// add describes the interfaces of a port and returns the first one's number.
func (c *capture) add(name string, mac [6]byte) uint32 {
	first := c.next
	c.write(&pcapng.Interface{LinkType: pcapng.LinkEthernet, Name: name, Description: "true time", MAC: mac})
	c.write(&pcapng.Interface{LinkType: pcapng.LinkEthernet, Name: name + "/phc", Description: "hardware clock",
		MAC: mac})
	c.next += 2
	return first
}

func (c *capture) flush() error {
	if c.err == nil {
		c.err = c.w.Flush()
	}
	return c.err
}

// tap shows a frame that passes an end of a link to the capture.
func (n *Node) tap(e *end, b []byte, dir pcapng.Flags, now frame.Time) {
	c := n.s.capture
	if c == nil {
		return
	}
	n.packet++
	stamp := n.Clock.At(now)
	p := pcapng.Packet{
		Interface: e.iface, Stamp: int64(Epoch) + int64(now), Data: b, OrigLen: uint32(len(b)),
		Has: pcapng.HasFlags | pcapng.HasID, Flags: dir, ID: n.packet,
	}
	c.write(&p)
	p.Interface, p.Stamp = e.iface+1, int64(stamp)
	verb := "rxstamp"
	if dir == pcapng.Outbound {
		verb = "txstamp"
	}
	p.Comments = []string{verb + " hw=" + strconv.FormatInt(int64(stamp), 10) + " ns"}
	c.write(&p)
}
