package capture

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"tapir/opa"
	"tapir/wire/enum"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// Form is what an exported capture holds of a fabric's packets.
type Form uint8

const (
	// FormERF: the packets, 16B and 9B, as ERF records of type 28, the form of
	// Intel's capture tool.
	FormERF Form = iota
	// FormUser0: the bare 16B packets, of link type DLT_USER0.
	FormUser0
	// FormInner: the Ethernet frames inside 16B packets, the fields of the
	// packets as comments.
	FormInner
)

var formNames = [...]string{"erf", "user0", "inner"}

// ParseForm reads erf, user0 or inner.
func ParseForm(s string) (Form, error) {
	return enum.Parse[Form](formNames[:], s, "form %q; expected "+strings.Join(formNames[:], ", "))
}

// Exported counts packets: those written, and those that the form has no place
// for or that hold no fabric packet.
type Exported struct {
	Written uint64
	Left    uint64
}

// ErrNotCapture means that the input is neither pcapng nor pcap.
var ErrNotCapture = errors.New("neither a pcapng nor a pcap file")

// Export reads a capture of a fabric from r, pcapng or pcap, and writes it to
// w as pcapng in the form given. The capture may hold Ethernet frames of any
// framing, bare 16B packets (DLT_USER0) or ERF records. Stamps, directions,
// comments and drop reasons are kept. What is read is written before Export
// waits for more.
func Export(w io.Writer, r io.Reader, form Form) (Exported, error) {
	e := &exporter{form: form, out: bufio.NewWriterSize(w, 64<<10)}
	next, err := Blocks(&flushing{r, e.out})
	for err == nil {
		var blk pcapng.Block
		if blk, err = next(); err == nil {
			err = e.block(blk)
		}
	}
	if err != io.EOF {
		return e.Exported, errors.Join(err, e.out.Flush())
	}
	return e.Exported, e.out.Flush()
}

// flushing is a reader that has out written before it may have to wait.
type flushing struct {
	r   io.Reader
	out *bufio.Writer
}

func (f *flushing) Read(b []byte) (int, error) {
	if err := f.out.Flush(); err != nil {
		return 0, err
	}
	return f.r.Read(b)
}

// Blocks returns what reads the blocks of r, a capture in pcapng or pcap, compressed
// by gzip or not, one by one up to io.EOF. What is no capture gives ErrNotCapture.
func Blocks(r io.Reader) (func() (pcapng.Block, error), error) {
	const ngMagic = 0x0a0d0d0a
	in := bufio.NewReaderSize(r, 64<<10)
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, ErrNotCapture
		}
		in = bufio.NewReaderSize(z, 64<<10)
	}
	magic, err := in.Peek(4)
	if err != nil {
		return nil, ErrNotCapture
	}
	if binary.LittleEndian.Uint32(magic) == ngMagic {
		return pcapng.NewReader(in).Next, nil
	}
	old, err := pcapng.NewClassic(in)
	if err != nil {
		return nil, ErrNotCapture
	}
	head := []pcapng.Block{&pcapng.Section{}, old.Interface()}
	return func() (pcapng.Block, error) {
		if len(head) > 0 {
			b := head[0]
			head = head[1:]
			return b, nil
		}
		p, err := old.Next()
		if err != nil {
			return nil, err // not a Block that holds a nil *Packet
		}
		return p, nil
	}, nil
}

// exporter is one run of Export.
type exporter struct {
	Exported
	form  Form
	out   *bufio.Writer
	links []uint16 // link type of each interface of the section
	data  []byte   // of the packet in hand
	buf   []byte
}

func (e *exporter) block(blk pcapng.Block) error {
	switch blk := blk.(type) {
	case *pcapng.Section:
		e.links = e.links[:0]
	case *pcapng.Interface:
		e.links = append(e.links, blk.LinkType)
		e.describe(blk)
	case *pcapng.Packet:
		if int(blk.Interface) >= len(e.links) || !e.packet(blk) {
			e.Left++
			return nil
		}
		e.Written++
	}
	e.buf = blk.AppendTo(e.buf[:0])
	_, err := e.out.Write(e.buf)
	return err
}

func (e *exporter) describe(i *pcapng.Interface) {
	i.SnapLen = 0
	switch e.form {
	case FormERF:
		i.LinkType = linkERF
		i.Comments = append(i.Comments, "Omni-Path packets as ERF records of type 28")
	case FormUser0:
		i.LinkType = linkUser0
		i.Comments = append(i.Comments, "bare Omni-Path 16B packets")
	default:
		i.LinkType = pcapng.LinkEthernet
		i.Comments = append(i.Comments, "Ethernet frames out of Omni-Path 16B packets")
	}
}

// packet turns p into what the form asks for, or reports false. What a snap
// length has cut is no whole packet and is left.
func (e *exporter) packet(p *pcapng.Packet) bool {
	if len(p.Data) < int(p.OrigLen) {
		return false
	}
	b, format, flags, ok := FabricPacket(e.links[p.Interface], p.Data)
	if !ok {
		return false
	}
	if flags != 0 && p.Has&pcapng.HasFlags == 0 {
		p.Has, p.Flags = p.Has|pcapng.HasFlags, flags
	}
	if format == opa.Format9B {
		return e.packet9B(p, b)
	}
	v, drop := opa.Parse(b, opa.ICRCNone)
	if drop == opa.DropL4 && e.form != FormInner { // a MAD, or a notification of congestion
		if v, drop = opa.ParseCNP(b, opa.ICRCNone); drop == opa.DropL4 {
			var m opa.PacketMAD
			m, drop = opa.ParseMAD(b, opa.ICRCNone)
			v = m.Packet
		}
	}
	if drop != frame.DropNone {
		return false
	}
	good := v.ICRCGood()
	switch e.form {
	case FormERF:
		e.erf(p, b, format, good)
	case FormUser0:
		p.Data = b
	default:
		p.Data = v.Frame()
		p.Comments = append(p.Comments, comment(v, good))
	}
	p.OrigLen = uint32(len(p.Data))
	return true
}

func (e *exporter) packet9B(p *pcapng.Packet, b []byte) bool {
	v, drop := opa.Parse9B(b, opa.ICRCNone)
	if drop != frame.DropNone || e.form != FormERF {
		return false
	}
	e.erf(p, b, opa.Format9B, v.ICRCGood())
	p.OrigLen = uint32(len(p.Data))
	return true
}

func (e *exporter) erf(p *pcapng.Packet, b []byte, format opa.Format, good bool) {
	e.data = appendERF(e.data[:0], b, format, p.Flags.Direction() != pcapng.Inbound, good, p.Stamp)
	p.Data = e.data
}

// comment is the fields of p in a line that display filters can search.
func comment(p opa.Packet, good bool) string {
	h, icrc := p.Header(), "bad"
	if good {
		icrc = "good"
	}
	return fmt.Sprintf(
		"OPA16B vesw=%d slid=%v dlid=%v sc=%d rc=%d fecn=%d becn=%d pkey=%#04x entropy=%#02x age=%d pad=%d icrc=%s",
		h.VESW, h.SLID, h.DLID, h.SC, h.RC, bit(h.FECN), bit(h.BECN), h.PKey, h.Entropy, h.Age, p.Pad(), icrc)
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}
