package layers_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/ether"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// packet is one frame of a capture, taken apart into value structs.
type packet struct {
	raw     []byte // as captured
	eth     ether.Header
	ip      ip.Header
	tcp     tcp.Header
	payload []byte
}

// readCapture returns the frames of a little-endian pcap file.
func readCapture(t testing.TB, file string) (frames [][]byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const fileHeader, recordHeader = 24, 16
	for b = b[fileHeader:]; len(b) > 0; {
		captured, length := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
		if captured != length {
			t.Fatalf("%s: frame cut to %d of %d octets", file, captured, length)
		}
		frames = append(frames, b[recordHeader:recordHeader+captured])
		b = b[recordHeader+captured:]
	}
	return frames
}

func parsePacket(raw []byte) (p packet, err error) {
	p.raw = raw
	eth, n, err := ether.Parse(raw)
	if err != nil {
		return p, err
	}
	p.eth = eth
	h, segment, err := ip.Parse(raw[n:])
	if err != nil {
		return p, err
	}
	p.ip = h
	p.tcp, p.payload, err = tcp.Parse(segment)
	return p, err
}

// encode writes the whole frame again around payload; checksums are computed.
func (p *packet) encode(payload []byte) []byte {
	b := p.eth.AppendTo(nil)
	h, th := p.ip, p.tcp
	h.PayloadLen = th.Len() + len(payload)
	b = append(b, make([]byte, h.HeaderLen()+th.Len())...)
	n := p.eth.Len()
	h.Put(b[n:])
	n += h.HeaderLen()
	th.Checksum = 0
	th.Put(b[n:])
	b = append(b, payload...)
	th.Checksum = ip.Checksum(b[n:], ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, h.PayloadLen))
	th.Put(b[n:])
	return b
}

type endpoint struct{ src, dst netip.AddrPort }

func (p *packet) flow() endpoint {
	return endpoint{netip.AddrPortFrom(p.ip.Src, p.tcp.SrcPort), netip.AddrPortFrom(p.ip.Dst, p.tcp.DstPort)}
}

// stream is one direction of a connection: its octets as captured and as
// encoded again from value structs.
type stream struct {
	first     tcp.Seq // of the first octet
	syn       bool
	initiator bool // sent a SYN without ACK
	captured  []byte
	encoded   []byte
	peer      *stream
	start     mpa.Frame
	fpdus     int
}

// streams puts the byte streams of a capture together; order is that of the
// SYNs.
func streams(packets []packet) (byFlow map[endpoint]*stream, order []*stream) {
	byFlow = map[endpoint]*stream{}
	for i := range packets {
		p := &packets[i]
		s := byFlow[p.flow()]
		if p.tcp.Flags.Has(tcp.SYN) {
			s = &stream{first: p.tcp.Seq.Add(1), syn: true, initiator: !p.tcp.Flags.Has(tcp.ACK)}
			byFlow[p.flow()] = s
			order = append(order, s)
			if peer := byFlow[endpoint{p.flow().dst, p.flow().src}]; peer != nil && !s.initiator {
				s.peer, peer.peer = peer, s
			}
		}
		if s == nil || len(p.payload) == 0 {
			continue
		}
		at := int(p.tcp.Seq.Sub(s.first))
		if end := at + len(p.payload); at >= 0 && at <= len(s.captured) && end > len(s.captured) {
			s.captured = append(s.captured[:at], p.payload...)
		}
	}
	return byFlow, order
}

// encodeStart encodes the start-up frame again.
func (s *stream) encodeStart() error {
	kind := mpa.Reply
	if s.initiator {
		kind = mpa.Request
	}
	f, n, err := mpa.ParseFrame(s.captured, kind)
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("start-up frame incomplete")
	}
	s.start = f
	if f.Enhanced && len(f.PrivateData) > 0 {
		e, rest, err := mpa.ParseEnhanced(f.PrivateData)
		if err != nil {
			return err
		}
		f.PrivateData = append(e.AppendTo(nil), rest...)
	}
	s.encoded = f.AppendTo(nil)
	return nil
}

// encodeFPDUs encodes everything behind the start-up frame again.
func (s *stream) encodeFPDUs(visit func(ulpdu []byte)) error {
	layout := mpa.Layout{
		CRC:     s.start.CRC || s.peer != nil && s.peer.start.CRC,
		Markers: s.peer != nil && s.peer.start.Markers,
	}
	base := len(s.encoded)
	for rest := s.captured[base:]; len(rest) > 0; {
		pos := uint64(len(s.encoded) - base)
		u, n, err := layout.ParseFPDU(rest, pos, make([]byte, mpa.MaxULPDU))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%d octets behind the last FPDU", len(rest))
		}
		visit(u)
		again, err := encodeULPDU(u)
		if err != nil {
			return fmt.Errorf("FPDU %d: %w", s.fpdus, err)
		}
		fpdu := make([]byte, layout.FPDULen(pos, len(again)))
		copy(layout.Body(fpdu, len(again)), again)
		layout.SealTrailer(fpdu, pos, len(again), layout.Trailer(rest[:n], pos))
		s.encoded = append(s.encoded, fpdu...)
		s.fpdus++
		rest = rest[n:]
	}
	return nil
}

// encodeULPDU takes a DDP segment with its RDMAP header apart and encodes it
// again.
func encodeULPDU(u []byte) ([]byte, error) {
	h, payload, err := ddp.Parse(u)
	if err != nil {
		return nil, err
	}
	c := rdmap.ParseControl(h.ULP)
	h.ULP = c.Byte()
	b := h.AppendTo(nil)
	switch c.Opcode {
	case rdmap.ReadRequestOp:
		r, err := rdmap.ParseReadRequest(payload)
		if err != nil {
			return nil, err
		}
		b, payload = r.AppendTo(b), payload[rdmap.ReadRequestLen:]
	case rdmap.TerminateOp:
		term, rest, err := rdmap.ParseTerminate(payload)
		if err != nil {
			return nil, err
		}
		if term.Order != rdmap.OrderSiw && (term.HasDDP || term.Layer != rdmap.LayerLLP) {
			return nil, fmt.Errorf("Terminate % x not recognised as siw's", payload)
		}
		b, payload = term.AppendTo(b), rest
	}
	if c.Opcode.HeaderLen() > 0 && len(payload) > 0 {
		return nil, fmt.Errorf("%d octets behind the %v header", len(payload), c.Opcode)
	}
	return append(b, payload...), nil
}

func goldenFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.pcap")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d golden captures, %v", len(files), err)
	}
	return files
}

// checkGolden decodes a capture and encodes all of it again. visit sees every
// ULPDU.
func checkGolden(t testing.TB, file string, visit func(ulpdu []byte)) (packets []packet, order []*stream) {
	t.Helper()
	for i, raw := range readCapture(t, file) {
		p, err := parsePacket(raw)
		if err != nil {
			t.Fatalf("frame %d: %v", i+1, err)
		}
		packets = append(packets, p)
	}
	byFlow, order := streams(packets)
	for _, s := range order {
		if plain := strings.Contains(file, "fi_pingpong") && !bytes.HasPrefix(s.captured, []byte("MPA ID")); plain {
			s.encoded = s.captured // the tool's control connection
		} else if len(s.captured) > 0 {
			if err := s.encodeStart(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range order {
		err := s.encodeFPDUs(visit)
		if err != nil && strings.Contains(file, "privdata-252-bug") && s.initiator {
			s.encoded = append(s.encoded, s.captured[len(s.encoded):]...) // private data that PD_Length disowns
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for i := range packets {
		p := &packets[i]
		var payload []byte
		if s := byFlow[p.flow()]; s != nil && len(p.payload) > 0 {
			at := int(p.tcp.Seq.Sub(s.first))
			payload = s.encoded[at : at+len(p.payload)]
		}
		if again := p.encode(payload); !bytes.Equal(again, p.raw) {
			t.Fatalf("frame %d differs:\ngot  %x\nwant %x", i+1, again, p.raw)
		}
	}
	return packets, order
}

func TestGoldenCapturesEncodeAgainByteExactly(t *testing.T) {
	total := struct{ frames, fpdus int }{}
	opcodes := map[rdmap.Opcode]int{}
	for _, file := range goldenFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			packets, order := checkGolden(t, file, func(u []byte) {
				if h, _, err := ddp.Parse(u); err == nil {
					opcodes[rdmap.ParseControl(h.ULP).Opcode]++
				}
			})
			total.frames += len(packets)
			for _, s := range order {
				total.fpdus += s.fpdus
			}
		})
	}
	for op := rdmap.Write; op <= rdmap.TerminateOp; op++ {
		if opcodes[op] == 0 {
			t.Errorf("no %v in any capture", op)
		}
	}
	t.Logf("%d frames, %d FPDUs, opcodes %v", total.frames, total.fpdus, opcodes)
}
