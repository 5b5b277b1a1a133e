package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"tapir/lab/tool/files"
	"tapir/lab/tool/usage"
	"tapir/wire/pcapng"
)

// Input is a capture that Merge reads, in pcapng or pcap.
type Input struct {
	Name string // such as a file's, for errors and comments
	R    io.Reader
}

// Merged says what a Merge wrote.
type Merged struct {
	Packets   uint64
	Backwards uint64 // packets with an earlier stamp than the one before them in their file
}

// Merge writes the packets and log lines of several captures to w as one pcapng file,
// by their stamps. Interfaces keep their names and settings, with a comment that names
// the capture; those that carry packet ids get ids that no two captures have in common.
// Stamps are not changed: the clocks that made them must agree. Memory is bounded by
// the largest packet of each capture. An input that breaks off is merged up to there,
// and the error says so.
func Merge(w io.Writer, all []Input) (m Merged, err error) {
	out := &merger{w: bufio.NewWriterSize(w, 64<<10), inputs: uint64(len(all))}
	out.put(&pcapng.Section{Application: "tapir export --merge"})
	var parts []*mergeInput
	var errs []error
	for i := range all {
		next, err := Blocks(all[i].R)
		if err != nil {
			return m, fmt.Errorf("%s: %w", all[i].Name, err)
		}
		parts = append(parts, &mergeInput{Input: &all[i], number: uint64(i), blocks: next})
	}
	for _, p := range parts {
		errs = append(errs, p.next(out))
	}
	for {
		var first *mergeInput
		for _, p := range parts {
			if p.block != nil && (first == nil || p.at < first.at) {
				first = p
			}
		}
		if first == nil {
			break
		}
		out.put(first.block)
		errs = append(errs, first.next(out))
	}
	for _, p := range parts {
		out.Packets += p.packets
		out.Backwards += p.backwards
	}
	return out.Merged, errors.Join(append(errs, out.err, out.w.Flush())...)
}

// merger writes blocks.
type merger struct {
	Merged
	w      *bufio.Writer
	buf    []byte
	err    error
	inputs uint64
	ifaces uint32 // described so far
}

func (m *merger) put(b pcapng.Block) {
	m.buf = b.AppendTo(m.buf[:0])
	if _, err := m.w.Write(m.buf); m.err == nil {
		m.err = err
	}
}

// mergeInput holds the next packet or line of a capture.
type mergeInput struct {
	*Input
	number             uint64
	blocks             func() (pcapng.Block, error)
	block              pcapng.Block // nil: there is no more
	at                 int64
	ifaces             []uint32 // of the section, as the merged file numbers them
	packets, backwards uint64
}

// next reads on to the next block with a time. Interfaces are written at once, so that
// they are described before their first packet.
func (p *mergeInput) next(out *merger) error {
	before := p.at
	for {
		b, err := p.blocks()
		if err != nil {
			p.block = nil
			if err == io.EOF {
				return nil
			}
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		switch b := b.(type) {
		case *pcapng.Section:
			p.ifaces = p.ifaces[:0]
		case *pcapng.Interface:
			p.ifaces = append(p.ifaces, out.ifaces)
			out.ifaces++
			b.Comments = append(b.Comments, "captured in "+p.Name)
			out.put(b)
		case *pcapng.Statistics:
			b.Interface = p.ifaces[b.Interface] // the reader has checked it
			out.put(b)
		case *pcapng.Packet:
			b.Interface = p.ifaces[b.Interface]
			if b.ID != 0 {
				b.ID = (b.ID-1)*out.inputs + p.number + 1
			}
			p.packets++
			if p.block, p.at = b, b.Stamp; p.packets > 1 && p.at < before {
				p.backwards++
			}
			return nil
		case *pcapng.Journal:
			p.block, p.at = b, b.Stamp
			return nil
		}
	}
}

// MergeFiles merges the captures of those names into the file to, - for out, and says
// on note what it wrote.
func MergeFiles(names []string, to string, out, note io.Writer) error {
	if to == "" {
		return usage.Errorf("no output file: add -w FILE, or -w - for a pipe")
	}
	var all []Input
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if files.Same(f, to) {
			return usage.Errorf("%s is read and cannot be written at the same time", to)
		}
		all = append(all, Input{Name: name, R: f})
	}
	return files.Write(to, out, "capture", func(w io.Writer) error {
		m, err := Merge(w, all)
		fmt.Fprintf(note, "%d packets of %d captures written\n", m.Packets, len(all))
		if m.Backwards > 0 {
			fmt.Fprintf(note, "%d packets have an earlier stamp than the one before them in their file: "+
				"the clock was set back while it was captured\n", m.Backwards)
		}
		return err
	})
}
