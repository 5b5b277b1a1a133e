package layers_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/gopacket"
	tcplayers "github.com/google/gopacket/layers"

	"tapir/ddp"
	"tapir/lab/tool/capture/layers"
	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/tcp"
)

// assemble gives a capture's frames to an Assembler.
func assemble(frames [][]byte) (pdus []layers.PDU, failures []error) {
	a := layers.NewAssembler(
		func(p layers.PDU) { pdus = append(pdus, p) },
		func(_, _ gopacket.Flow, err error) { failures = append(failures, err) })
	for _, f := range frames {
		a.Packet(gopacket.NewPacket(f, tcplayers.LayerTypeEthernet, gopacket.Default))
	}
	a.Flush()
	return pdus, failures
}

func TestAssemblerFindsEveryGoldenPDU(t *testing.T) {
	for _, file := range goldenFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var want [][]byte
			frames := readCapture(t, file)
			_, order := checkGolden(t, file, func(u []byte) { want = append(want, bytes.Clone(u)) })
			starts := 0
			for _, s := range order {
				if bytes.HasPrefix(s.encoded, []byte("MPA ID")) {
					starts++
				}
			}
			pdus, failures := assemble(frames)
			if bug := strings.Contains(file, "privdata-252-bug"); len(failures) > 0 && !bug {
				t.Fatal(failures)
			} else if bug {
				return
			}
			count := 0
			for _, p := range pdus {
				if e := p.Packet.ErrorLayer(); e != nil {
					t.Fatal(e.Error())
				}
				if p.Packet.Layer(layers.LayerTypeMPAStart) != nil {
					starts--
					continue
				}
				checkLayers(t, p.Packet, want)
				count++
			}
			if count != len(want) || starts != 0 {
				t.Errorf("%d FPDUs, want %d; %d start-up frames not found", count, len(want), starts)
			}
		})
	}
}

// checkLayers compares a packet's layers with the ULPDU that it must be one of.
func checkLayers(t *testing.T, p gopacket.Packet, want [][]byte) {
	t.Helper()
	m := p.Layer(layers.LayerTypeMPA).(*layers.MPA)
	d, _ := p.Layer(layers.LayerTypeDDP).(*layers.DDP)
	r, _ := p.Layer(layers.LayerTypeRDMAP).(*layers.RDMAP)
	if d == nil || r == nil {
		t.Fatalf("layers missing in %v", p)
	}
	found := false
	for _, u := range want {
		found = found || bytes.Equal(u, m.LayerPayload())
	}
	if !found {
		t.Fatalf("ULPDU %x is not in the capture", m.LayerPayload())
	}
	if r.Opcode.Tagged() != d.Tagged || !d.Tagged && r.Opcode.Queue() != d.QN {
		t.Errorf("%v in segment %+v", r.Opcode, d.Header)
	}
	if (r.Opcode == rdmap.ReadRequestOp) != (r.ReadRequest != nil) || (r.Opcode == rdmap.TerminateOp) != (r.Terminate != nil) {
		t.Errorf("%v with headers %v, %v", r.Opcode, r.ReadRequest, r.Terminate)
	}
}

func TestLayersSerializeEveryGoldenStream(t *testing.T) {
	for _, file := range goldenFiles(t) {
		_, order := checkGolden(t, file, func([]byte) {})
		for _, s := range order {
			if !bytes.HasPrefix(s.captured, []byte("MPA ID")) || strings.Contains(file, "252-bug") {
				continue
			}
			for rest := s.captured; len(rest) > 0; {
				p := gopacket.NewPacket(rest, layers.LayerTypeMPA, gopacket.Default)
				b := gopacket.NewSerializeBuffer()
				var list []gopacket.SerializableLayer
				for _, l := range p.Layers() {
					if sl, ok := l.(gopacket.SerializableLayer); ok {
						list = append(list, sl)
					}
					if _, ok := l.(*layers.MPAStart); ok {
						break // what follows it is not its payload
					}
				}
				crc := s.start.CRC || s.peer != nil && s.peer.start.CRC
				if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{ComputeChecksums: crc}, list...); err != nil {
					t.Fatal(err)
				}
				if n := len(b.Bytes()); n == 0 || !bytes.HasPrefix(rest, b.Bytes()) {
					t.Fatalf("%s: %v serializes as\n%x, captured\n%x", file, p, b.Bytes(), rest[:min(n, len(rest))])
				}
				rest = rest[len(b.Bytes()):]
			}
		}
	}
}

// buildStream is a request or reply and FPDUs as a sender with l emits them.
func buildStream(kind mpa.Kind, crc, markers bool, l mpa.Layout, ulpdus ...[]byte) []byte {
	f := mpa.Frame{Kind: kind, CRC: crc, Markers: markers, Rev: 1}
	b := f.AppendTo(nil)
	base := len(b)
	for _, u := range ulpdus {
		pos := uint64(len(b) - base)
		fpdu := make([]byte, l.FPDULen(pos, len(u)))
		l.Put(fpdu, pos, u)
		b = append(b, fpdu...)
	}
	return b
}

func rdmapMessage(op rdmap.Opcode, header, data []byte) []byte {
	h := rdmap.UntaggedHeader(op, true, 0, 1, 0)
	if op.Tagged() {
		h = rdmap.TaggedHeader(op, true, 7, 0x1000)
	}
	return append(append(h.AppendTo(nil), header...), data...)
}

func TestStreamWithMarkersAndExtensions(t *testing.T) {
	imm := rdmap.Immediate{1, 2, 3}
	atomic := rdmap.AtomicRequest{Op: rdmap.FetchAdd, ID: 5, Data: 1}
	response := rdmap.AtomicResponse{ID: 5, Original: 41}
	data := bytes.Repeat([]byte("0123456789"), 300)
	l := mpa.Layout{CRC: true, Markers: true}
	in := buildStream(mpa.Request, false, false, l,
		rdmapMessage(rdmap.Write, nil, data),
		rdmapMessage(rdmap.ImmediateSE, imm.AppendTo(nil), nil),
		rdmapMessage(rdmap.AtomicRequestOp, atomic.AppendTo(nil), nil),
		rdmapMessage(rdmap.AtomicResponseOp, response.AppendTo(nil), nil))
	for step := 1; step < len(in); step += 37 {
		var conv layers.Conversation
		var got []gopacket.Packet
		replies := layers.NewStream(&conv, func(gopacket.Packet) {})
		requests := layers.NewStream(&conv, func(p gopacket.Packet) { got = append(got, p) })
		const start = mpa.FrameHeaderLen
		if _, err := requests.Write(in[:start]); err != nil {
			t.Fatal(err)
		}
		if _, err := replies.Write(buildStream(mpa.Reply, true, true, l)); err != nil {
			t.Fatal(err)
		}
		for i := start; i < len(in); i += step {
			if _, err := requests.Write(in[i:min(i+step, len(in))]); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) != 5 {
			t.Fatalf("step %d: %d packets", step, len(got))
		}
		if m := got[1].Layer(layers.LayerTypeMPA).(*layers.MPA); !m.CRCChecked {
			t.Error("CRC was not checked")
		}
		if p := got[1].Layer(gopacket.LayerTypePayload); !bytes.Equal(p.LayerContents(), data) {
			t.Error("data differ")
		}
		if r := got[2].Layer(layers.LayerTypeRDMAP).(*layers.RDMAP); *r.Immediate != imm {
			t.Errorf("immediate data %v", r.Immediate)
		}
		if r := got[3].Layer(layers.LayerTypeRDMAP).(*layers.RDMAP); *r.AtomicRequest != atomic {
			t.Errorf("atomic request %+v", r.AtomicRequest)
		}
		if r := got[4].Layer(layers.LayerTypeRDMAP).(*layers.RDMAP); *r.AtomicResponse != response {
			t.Errorf("atomic response %+v", r.AtomicResponse)
		}
	}
}

func TestStreamErrorsAreSticky(t *testing.T) {
	in := buildStream(mpa.Request, true, false, mpa.Layout{CRC: true}, rdmapMessage(rdmap.Send, nil, []byte("data")))
	in[len(in)-6] ^= 1
	s := layers.NewStream(&layers.Conversation{}, func(gopacket.Packet) {})
	_, err := s.Write(in)
	if _, again := s.Write(in); !errors.Is(err, &mpa.Error{Code: mpa.CRC}) || again != err {
		t.Fatalf("%v, then %v", err, again)
	}
	if _, err := layers.NewStream(&layers.Conversation{}, nil).Write([]byte("GET / HTTP/1.1")); !errors.Is(err, &mpa.Error{Code: mpa.Startup}) {
		t.Fatal(err)
	}
}

func TestDecodingLayerParser(t *testing.T) {
	u := rdmapMessage(rdmap.SendSE, nil, []byte("hello"))
	fpdu := make([]byte, mpa.Layout{}.FPDULen(0, len(u)))
	mpa.Layout{}.Put(fpdu, 0, u)
	var m layers.MPA
	var d layers.DDP
	r := layers.RDMAP{DDP: &d}
	var payload gopacket.Payload
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeMPA, &m, &d, &r, &payload)
	var types []gopacket.LayerType
	if err := parser.DecodeLayers(fpdu, &types); err != nil || len(types) != 4 {
		t.Fatal(types, err)
	}
	if d.Header != (ddp.Header{Last: true, Version: 1, ULP: 0x45, MSN: 1}) || r.Opcode != rdmap.SendSE || string(payload) != "hello" {
		t.Fatalf("%+v, %v, %q", d.Header, r.Opcode, payload)
	}
}

func TestAssemblerReportsMissingOctets(t *testing.T) {
	frames := readCapture(t, "testdata/siw-large-send.pcap")
	removed := -1
	for i, f := range frames {
		if p, err := parsePacket(f); err == nil && len(p.payload) > 1000 && !p.tcp.Flags.Has(tcp.SYN) {
			removed = i
			break
		}
	}
	_, failures := assemble(append(frames[:removed:removed], frames[removed+1:]...))
	if len(failures) != 1 || !errors.Is(failures[0], layers.ErrSkipped) {
		t.Fatal(failures)
	}
}

func FuzzLayers(f *testing.F) {
	for _, file := range goldenFiles(f) {
		for _, raw := range readCapture(f, file) {
			if p, err := parsePacket(raw); err == nil && len(p.payload) > 0 && len(p.payload) < 300 {
				f.Add(p.payload)
				break
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := gopacket.NewPacket(b, layers.LayerTypeMPA, gopacket.DecodeOptions{SkipDecodeRecovery: true})
		for _, l := range p.Layers() {
			if _, ok := l.(*layers.MPA); ok && p.ErrorLayer() == nil {
				buf := gopacket.NewSerializeBuffer()
				var list []gopacket.SerializableLayer
				for _, l := range p.Layers() {
					list = append(list, l.(gopacket.SerializableLayer))
				}
				if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, list...); err != nil || !bytes.HasPrefix(b, buf.Bytes()) {
					t.Fatalf("%x serializes as %x, %v", b, buf.Bytes(), err)
				}
			}
		}
	})
}
