// Package layers teaches gopacket the iWARP protocols: MPA (RFC 5044, RFC
// 6581), DDP (RFC 5041) and RDMAP (RFC 5040, RFC 7306). Any gopacket program
// can import it; the layers decode and serialize.
//
// A TCP segment often carries exactly one FPDU, and then
//
//	packet := gopacket.NewPacket(tcp.Payload, layers.LayerTypeMPA, gopacket.Default)
//
// is enough. In general FPDUs begin anywhere in the byte stream, and whether
// CRCs and markers are in use was agreed when the connection started: give
// whole captures to an Assembler, or byte streams that you have put together
// yourself to a Stream.
package layers

import (
	"bytes"
	"errors"

	"github.com/google/gopacket"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

// The layer types, in gopacket's range for applications.
var (
	LayerTypeMPAStart = gopacket.RegisterLayerType(1504, gopacket.LayerTypeMetadata{
		Name: "MPAStart", Decoder: gopacket.DecodeFunc(decodeMPAStart)})
	LayerTypeMPA = gopacket.RegisterLayerType(1505, gopacket.LayerTypeMetadata{
		Name: "MPA", Decoder: gopacket.DecodeFunc(decodeMPA)})
	LayerTypeDDP = gopacket.RegisterLayerType(1506, gopacket.LayerTypeMetadata{
		Name: "DDP", Decoder: gopacket.DecodeFunc(decodeDDP)})
	LayerTypeRDMAP = gopacket.RegisterLayerType(1507, gopacket.LayerTypeMetadata{
		Name: "RDMAP", Decoder: gopacket.DecodeFunc(decodeRDMAP)})
)

var (
	errIncomplete = errors.New("layers: the data end inside an MPA frame")
	errNoDDP      = errors.New("layers: RDMAP needs the DDP header in front of it")
)

// MPAStart is a request or reply frame.
type MPAStart struct {
	mpa.Frame
	// EnhancedData is valid where Frame.Enhanced is set and the private data
	// are long enough; the rest of them is ULPData.
	EnhancedData mpa.Enhanced
	ULPData      []byte

	contents, payload []byte
}

// LayerType implements gopacket.Layer.
func (m *MPAStart) LayerType() gopacket.LayerType { return LayerTypeMPAStart }

// CanDecode implements gopacket.DecodingLayer.
func (m *MPAStart) CanDecode() gopacket.LayerClass { return LayerTypeMPAStart }

// NextLayerType implements gopacket.DecodingLayer.
func (m *MPAStart) NextLayerType() gopacket.LayerType { return LayerTypeMPA }

// LayerContents is the frame.
func (m *MPAStart) LayerContents() []byte { return m.contents }

// LayerPayload is what follows the frame in the stream.
func (m *MPAStart) LayerPayload() []byte { return m.payload }

// DecodeFromBytes reads a frame of either kind.
func (m *MPAStart) DecodeFromBytes(b []byte, df gopacket.DecodeFeedback) error {
	f, n, err := mpa.ParseFrame(b, startKind(b))
	if err != nil {
		return err
	}
	if n == 0 {
		df.SetTruncated()
		return errIncomplete
	}
	*m = MPAStart{Frame: f, ULPData: f.PrivateData, contents: b[:n], payload: b[n:]}
	if f.Enhanced && len(f.PrivateData) >= mpa.EnhancedLen {
		m.EnhancedData, m.ULPData, err = mpa.ParseEnhanced(f.PrivateData)
	}
	return err
}

// SerializeTo prepends the frame.
func (m *MPAStart) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	if len(m.PrivateData) > mpa.MaxPrivateData {
		return errors.New("layers: more than 512 octets of private data")
	}
	room, err := b.PrependBytes(m.Len())
	if err == nil {
		m.AppendTo(room[:0])
	}
	return err
}

// startKind tells replies by their key; everything else is to be a request.
func startKind(b []byte) mpa.Kind {
	const different = len("MPA ID Re") // the octet in which the keys differ
	if len(b) > different && b[different] == 'p' {
		return mpa.Reply
	}
	return mpa.Request
}

// MPA is an FPDU without markers.
type MPA struct {
	Length  uint16 // of the ULPDU
	Trailer mpa.Trailer
	// CRCChecked is set by Stream and Assembler where the connection uses CRC
	// and the FPDU's is right.
	CRCChecked bool
	// Rest is what follows the FPDU in the decoded data: often the next one.
	Rest []byte

	contents, ulpdu []byte
}

// LayerType implements gopacket.Layer.
func (m *MPA) LayerType() gopacket.LayerType { return LayerTypeMPA }

// CanDecode implements gopacket.DecodingLayer.
func (m *MPA) CanDecode() gopacket.LayerClass { return LayerTypeMPA }

// NextLayerType implements gopacket.DecodingLayer.
func (m *MPA) NextLayerType() gopacket.LayerType { return LayerTypeDDP }

// LayerContents is the ULPDU_Length field; pad and CRC are in Trailer.
func (m *MPA) LayerContents() []byte { return m.contents }

// LayerPayload is the ULPDU.
func (m *MPA) LayerPayload() []byte { return m.ulpdu }

// DecodeFromBytes reads the FPDU at the start of b. The CRC is not checked.
func (m *MPA) DecodeFromBytes(b []byte, df gopacket.DecodeFeedback) error {
	var l mpa.Layout
	u, n, err := l.ParseFPDU(b, 0, nil)
	if err != nil {
		return err
	}
	if n == 0 {
		df.SetTruncated()
		return errIncomplete
	}
	*m = MPA{Length: uint16(len(u)), Trailer: l.Trailer(b[:n], 0), Rest: b[n:], contents: b[:2], ulpdu: u}
	return nil
}

// SerializeTo puts the ULPDU in the buffer between length field and trailer.
// With ComputeChecksums the CRC is computed, and with FixLengths the pad is
// zero; otherwise Trailer is used.
func (m *MPA) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	n := len(b.Bytes())
	if n > mpa.MaxULPDU {
		return errors.New("layers: ULPDU longer than 65535 octets")
	}
	l := mpa.Layout{CRC: opts.ComputeChecksums}
	t := m.Trailer
	if opts.FixLengths {
		t.Pad = [3]byte{}
	}
	if _, err := b.PrependBytes(2); err != nil {
		return err
	}
	if _, err := b.AppendBytes(l.FPDULen(0, n) - 2 - n); err != nil {
		return err
	}
	l.SealTrailer(b.Bytes(), 0, n, t)
	return nil
}

// DDP is a DDP segment's header.
type DDP struct {
	ddp.Header

	contents, payload []byte
}

// LayerType implements gopacket.Layer.
func (d *DDP) LayerType() gopacket.LayerType { return LayerTypeDDP }

// CanDecode implements gopacket.DecodingLayer.
func (d *DDP) CanDecode() gopacket.LayerClass { return LayerTypeDDP }

// NextLayerType implements gopacket.DecodingLayer.
func (d *DDP) NextLayerType() gopacket.LayerType { return LayerTypeRDMAP }

// LayerContents is the DDP header.
func (d *DDP) LayerContents() []byte { return d.contents }

// LayerPayload is what RDMAP put into the segment.
func (d *DDP) LayerPayload() []byte { return d.payload }

// DecodeFromBytes reads the header at the start of b.
func (d *DDP) DecodeFromBytes(b []byte, df gopacket.DecodeFeedback) error {
	h, payload, err := ddp.Parse(b)
	if err != nil {
		df.SetTruncated()
		return err
	}
	*d = DDP{Header: h, contents: b[:h.Len()], payload: payload}
	return nil
}

// SerializeTo prepends the header.
func (d *DDP) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	room, err := b.PrependBytes(d.Len())
	if err == nil {
		d.Put(room)
	}
	return err
}

// RDMAP is the RDMAP part of a segment: the control octet, which lies in the
// DDP header, and the header behind that, which some messages have. Exactly
// one of the pointers is set for those.
type RDMAP struct {
	rdmap.Control
	// InvalidateSTag is valid for the Sends with Invalidate.
	InvalidateSTag uint32

	ReadRequest    *rdmap.ReadRequest
	Terminate      *rdmap.Terminate
	Immediate      *rdmap.Immediate
	AtomicRequest  *rdmap.AtomicRequest
	AtomicResponse *rdmap.AtomicResponse

	// DDP is the header in front. A program with a DecodingLayerParser sets it
	// to the parser's DDP layer.
	DDP *DDP

	contents, payload []byte
}

// LayerType implements gopacket.Layer.
func (r *RDMAP) LayerType() gopacket.LayerType { return LayerTypeRDMAP }

// CanDecode implements gopacket.DecodingLayer.
func (r *RDMAP) CanDecode() gopacket.LayerClass { return LayerTypeRDMAP }

// NextLayerType implements gopacket.DecodingLayer.
func (r *RDMAP) NextLayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

// LayerContents is the header behind the DDP header, often empty.
func (r *RDMAP) LayerContents() []byte { return r.contents }

// LayerPayload is the upper layer's data.
func (r *RDMAP) LayerPayload() []byte { return r.payload }

// DecodeFromBytes reads what follows the DDP header r.DDP.
func (r *RDMAP) DecodeFromBytes(b []byte, df gopacket.DecodeFeedback) error {
	d := r.DDP
	if d == nil {
		return errNoDDP
	}
	*r = RDMAP{Control: rdmap.ParseControl(d.ULP), DDP: d}
	if r.Opcode.Invalidates() {
		r.InvalidateSTag = d.ULPWord
	}
	rest, err := r.decodeHeader(b)
	if err != nil {
		df.SetTruncated()
		return err
	}
	n := len(b) - len(rest)
	r.contents, r.payload = b[:n], rest
	return nil
}

// decodeHeader reads the opcode's header and returns what follows it.
func (r *RDMAP) decodeHeader(b []byte) ([]byte, error) {
	n := r.Opcode.HeaderLen()
	if len(b) < n {
		return nil, rdmap.ErrTruncated
	}
	switch r.Opcode {
	case rdmap.ReadRequestOp:
		return decodePart(&r.ReadRequest, rdmap.ParseReadRequest, b, n)
	case rdmap.ImmediateOp, rdmap.ImmediateSE:
		return decodePart(&r.Immediate, rdmap.ParseImmediate, b, n)
	case rdmap.AtomicRequestOp:
		return decodePart(&r.AtomicRequest, rdmap.ParseAtomicRequest, b, n)
	case rdmap.AtomicResponseOp:
		return decodePart(&r.AtomicResponse, rdmap.ParseAtomicResponse, b, n)
	case rdmap.TerminateOp:
		t, rest, err := rdmap.ParseTerminate(b)
		r.Terminate = &t
		return rest, err
	}
	return b, nil
}

func decodePart[T any](to **T, parse func([]byte) (T, error), b []byte, n int) ([]byte, error) {
	v, err := parse(b[:n])
	*to = &v
	return b[n:], err
}

// SerializeTo prepends the header that is set. The control octet and the
// Invalidate STag go out with the DDP layer: set them there.
func (r *RDMAP) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	var h []byte
	switch {
	case r.ReadRequest != nil:
		h = r.ReadRequest.AppendTo(h)
	case r.Terminate != nil:
		h = r.Terminate.AppendTo(h)
	case r.Immediate != nil:
		h = r.Immediate.AppendTo(h)
	case r.AtomicRequest != nil:
		h = r.AtomicRequest.AppendTo(h)
	case r.AtomicResponse != nil:
		h = r.AtomicResponse.AppendTo(h)
	}
	room, err := b.PrependBytes(len(h))
	copy(room, h)
	return err
}

// Payload is the upper layer's private data, for gopacket.ApplicationLayer.
func (m *MPAStart) Payload() []byte { return m.ULPData }

// layer is what all of this package's layers are.
type layer interface {
	gopacket.Layer
	gopacket.DecodingLayer
}

// add decodes b as l, adds l to the packet and goes on with what follows.
func add(l layer, b []byte, p gopacket.PacketBuilder) error {
	if err := l.DecodeFromBytes(b, p); err != nil {
		return err
	}
	p.AddLayer(l)
	if a, ok := l.(gopacket.ApplicationLayer); ok {
		p.SetApplicationLayer(a)
	}
	return p.NextDecoder(l.NextLayerType())
}

func decodeMPAStart(b []byte, p gopacket.PacketBuilder) error { return add(&MPAStart{}, b, p) }

// decodeMPA takes start-up frames too, since a program that registers
// LayerTypeMPA for a TCP port meets both.
func decodeMPA(b []byte, p gopacket.PacketBuilder) error {
	if isStart(b) {
		return add(&MPAStart{}, b, p)
	}
	return add(&MPA{}, b, p)
}

// isStart reports whether b begins with a start-up frame's key. An FPDU that
// does would carry 19,792 octets and a DDP header with reserved bits.
func isStart(b []byte) bool { return bytes.HasPrefix(b, []byte("MPA ID Re")) }

// decodeDDP decodes the RDMAP layer too, which depends on the DDP header and
// may be empty.
func decodeDDP(b []byte, p gopacket.PacketBuilder) error {
	d := &DDP{}
	if err := d.DecodeFromBytes(b, p); err != nil {
		return err
	}
	p.AddLayer(d)
	return add(&RDMAP{DDP: d}, d.payload, p)
}

// decodeRDMAP is reached only by programs that start at this layer, where
// nothing tells the opcode.
func decodeRDMAP([]byte, gopacket.PacketBuilder) error { return errNoDDP }
