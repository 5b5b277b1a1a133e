package inspect

import (
	"io"

	"tapir/lab/capture"
	"tapir/wire/pcapng"
)

// Read gives the packets of a capture, pcap or pcapng, to in. A file that ends
// inside a packet is read up to there, with the error.
func Read(r io.Reader, in *Inspector) error {
	next, err := capture.Blocks(r)
	if err != nil {
		return err
	}
	var links []uint16
	var chosen []bool
	first := 0 // interface of the section in hand
	for n := 1; ; {
		b, err := next()
		switch b := b.(type) {
		case *pcapng.Section:
			first, links, chosen = first+len(links), links[:0], chosen[:0]
		case *pcapng.Interface:
			links = append(links, b.LinkType)
			chosen = append(chosen, in.opt.Interface == nil || in.opt.Interface(b.Name))
		case *pcapng.Packet:
			if int(b.Interface) < len(links) && chosen[b.Interface] {
				in.Packet(&Packet{Number: n, Time: b.Stamp, Interface: first + int(b.Interface), Link: links[b.Interface],
					Data: b.Data, OrigLen: int(b.OrigLen)})
			}
			n++
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
