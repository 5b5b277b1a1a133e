package capture

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"tapir/wire/pcapng"
)

// Keep says which packets of which interfaces are wanted. It may change them.
type Keep func(i *pcapng.Interface, p *pcapng.Packet) bool

// AtEnd wants what an interface of that name saw, such as a link end of a Lab.
func AtEnd(name string) Keep {
	return func(i *pcapng.Interface, _ *pcapng.Packet) bool { return i.Name == name }
}

// Entering wants of a Lab the frames that entered a link, each once, as if they
// had all passed one interface: that of the end of the first of them, from
// which they are outbound.
func Entering(link string) Keep {
	first, any := uint32(0), false
	return func(i *pcapng.Interface, p *pcapng.Packet) bool {
		if at, _, ok := strings.Cut(i.Name, ":"); !ok || at != link || p.ID == 0 ||
			p.Flags.Direction() != pcapng.Outbound {
			return false
		}
		if !any {
			first, any = p.Interface, true
		}
		if p.Interface != first {
			p.Interface, p.Flags = first, p.Flags&^pcapng.Outbound|pcapng.Inbound
		}
		return true
	}
}

// LabFile is the name of a lab's capture in the lab's directory.
const LabFile = "lab.pcapng"

// Select copies from r, a capture in pcapng or pcap, to w the packets that keep
// wants, with the interfaces of all, and returns their number. Journal entries
// are left out.
func Select(w io.Writer, r io.Reader, keep Keep) (n int, err error) {
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
