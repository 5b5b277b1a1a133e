package inspect

import (
	"io"
	"strings"

	"tapir/lab/tool/capture"
	"tapir/wire/pcapng"
)

// corrupted begins the comment of a frame that leaves for a link of a lab, which
// flips one of its bits on the way; see lab/host/link.
const corrupted = "corrupted on the link"

// Read gives the packets of a capture, pcap or pcapng, to in. A file that ends
// inside a packet is read up to there, with the error.
func Read(r io.Reader, in *Inspector) error {
	next, err := capture.Blocks(r)
	if err != nil {
		return err
	}
	var links []uint16
	var names []string
	lab := false
	struck := map[uint64]bool{} // by ID: frames that arrive otherwise than they left
	first := 0                  // interface of the section in hand
	for n := 1; ; {
		b, err := next()
		switch b := b.(type) {
		case *pcapng.Section:
			first, links, names = first+len(links), links[:0], names[:0]
			lab = b.Application == capture.LabApplication
		case *pcapng.Interface:
			links = append(links, b.LinkType)
			names = append(names, b.Name)
		case *pcapng.Packet:
			if int(b.Interface) < len(links) {
				p := Packet{Number: n, Time: b.Stamp, Interface: first + int(b.Interface), Link: links[b.Interface],
					Data: b.Data, OrigLen: int(b.OrigLen)}
				if lab {
					p.End = names[b.Interface]
					if b.Flags.Direction() == pcapng.Inbound {
						p.Corrupted = struck[b.ID]
					} else if strings.Contains(strings.Join(b.Comments, "\n"), corrupted) {
						struck[b.ID] = true
					}
				}
				if choose := in.opt.Choose; lab && b.ID == 0 { // it never was on the link
					in.report.Packets++
				} else if choose == nil {
					in.Packet(&p)
				} else if choose(names[b.Interface], b.Has&pcapng.HasFlags != 0 &&
					b.Flags.Direction() == pcapng.Inbound) {
					p.Interface, p.End = 0, ""
					in.Packet(&p)
				}
			}
			n++
		case *pcapng.Journal: // which Wireshark numbers, too
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
