package pcapng

import (
	"encoding/binary"
	"fmt"
	"io"
)

// ErrNotClassic means that the input does not begin with the header of a
// classic pcap file.
var ErrNotClassic = fmt.Errorf("%w: not a pcap file", ErrMalformed)

// Classic reads the format that came before pcapng: one header with the link
// type, then packets (draft-ietf-opsawg-pcap).
type Classic struct {
	r     Reader // its buffer
	order binary.ByteOrder
	ticks int64 // nanoseconds in a unit of the stamps' fraction
	link  Interface
}

// NewClassic reads the header from r: of either byte order, with stamps in
// microseconds or nanoseconds. Other input gives ErrNotClassic.
func NewClassic(r io.Reader) (*Classic, error) {
	var head [24]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, ErrNotClassic
	}
	c := &Classic{r: Reader{r: r}, order: le, ticks: 1000}
	if head[0] == 0xa1 {
		c.order = binary.BigEndian
	}
	switch c.order.Uint32(head[:]) {
	case 0xa1b2c3d4:
	case 0xa1b23c4d:
		c.ticks = 1
	default:
		return nil, ErrNotClassic
	}
	if c.order.Uint16(head[4:]) != 2 || c.order.Uint16(head[6:]) != 4 {
		return nil, ErrNotClassic
	}
	// The upper bits tell of an FCS.
	c.link = Interface{LinkType: uint16(c.order.Uint32(head[20:])), SnapLen: c.order.Uint32(head[16:])}
	return c, nil
}

// Interface is the only one of the file.
func (c *Classic) Interface() *Interface { return &c.link }

// Next returns the next packet. Its Data is borrowed until the following call.
// At the end of the file the error is io.EOF; a file that ends in a packet gives
// ErrTruncated, impossible lengths an error that wraps ErrMalformed.
func (c *Classic) Next() (*Packet, error) {
	var head [16]byte
	if _, err := io.ReadFull(c.r.r, head[:]); err != nil {
		return nil, truncated(err, err == io.EOF)
	}
	n, orig := c.order.Uint32(head[8:]), c.order.Uint32(head[12:])
	if n > maxBlock || n > orig {
		return nil, fmt.Errorf("%w: a packet of %d octets has %d in the file", ErrMalformed, orig, n)
	}
	data, err := c.r.rest(nil, int(n))
	if err != nil {
		return nil, truncated(err, false)
	}
	stamp := int64(c.order.Uint32(head[:]))*1e9 + int64(c.order.Uint32(head[4:]))*c.ticks
	return &Packet{Stamp: stamp, Data: data, OrigLen: orig}, nil
}
