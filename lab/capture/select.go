package capture

import (
	"bufio"
	"errors"
	"io"

	"tapir/wire/pcapng"
)

// Select copies from r, a capture in pcapng or pcap, to w the packets that keep
// wants, with the interfaces of all, and returns their number. Journal entries
// are left out.
func Select(w io.Writer, r io.Reader, keep func(i *pcapng.Interface, p *pcapng.Packet) bool) (n int, err error) {
	next, err := Blocks(r)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	var ifaces []*pcapng.Interface
	var buf []byte
	for {
		b, err := next()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return n, errors.Join(err, out.Flush())
		}
		switch b := b.(type) {
		case *pcapng.Section:
			ifaces = ifaces[:0]
		case *pcapng.Interface:
			ifaces = append(ifaces, b)
		case *pcapng.Packet:
			if int(b.Interface) >= len(ifaces) || !keep(ifaces[b.Interface], b) {
				continue
			}
			n++
		default:
			continue
		}
		buf = b.AppendTo(buf[:0])
		if _, err := out.Write(buf); err != nil {
			return n, err
		}
	}
}
