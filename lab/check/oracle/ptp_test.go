package oracle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	facebook "github.com/facebook/time/ptp/protocol"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"tapir/ptp/msg"
)

// common are the message types whose whole content both codecs keep.
var common = []msg.Type{
	msg.Sync, msg.DelayReq, msg.PdelayReq, msg.PdelayResp, msg.FollowUp,
	msg.DelayResp, msg.PdelayRespFollowUp, msg.Announce, msg.Signaling,
}

// random fills every field that a message type has.
func random(r *rand.Rand, typ msg.Type) (m msg.Message) {
	identity := func() (c msg.ClockIdentity) {
		binary.BigEndian.PutUint64(c[:], r.Uint64())
		return c
	}
	m.Header = msg.Header{
		Type: typ, SdoID: uint16(r.Uint32() & 0xfff), MinorVersion: uint8(r.Uint32() & 0xf), Domain: uint8(r.Uint32()),
		Flags: msg.Flags(r.Uint32()), Correction: msg.TimeInterval(r.Uint64()), TypeSpecific: r.Uint32(),
		Source: msg.PortIdentity{Clock: identity(), Port: uint16(r.Uint32())}, Sequence: uint16(r.Uint32()),
		Control: uint8(r.Uint32()), LogInterval: int8(r.Uint32()),
	}
	if typ != msg.Signaling {
		m.Timestamp = msg.Timestamp{Seconds: r.Uint64() & msg.MaxSeconds, Nanoseconds: r.Uint32N(1e9)}
	}
	switch typ {
	case msg.Signaling:
		m.Port = msg.PortIdentity{Clock: identity(), Port: uint16(r.Uint32())}
		m.TLVs = unicastTLVs(r)
	case msg.DelayResp, msg.PdelayResp, msg.PdelayRespFollowUp:
		m.Port = msg.PortIdentity{Clock: identity(), Port: uint16(r.Uint32())}
	case msg.Announce:
		m.Grandmaster = msg.Grandmaster{
			UTCOffset: int16(r.Uint32()), Priority1: uint8(r.Uint32()), Priority2: uint8(r.Uint32()), Identity: identity(),
			Quality:      msg.ClockQuality{Class: uint8(r.Uint32()), Accuracy: uint8(r.Uint32()), Variance: uint16(r.Uint32())},
			StepsRemoved: uint16(r.Uint32()), TimeSource: msg.TimeSource(r.Uint32()),
		}
		var path []byte
		for range r.IntN(4) {
			path = binary.BigEndian.AppendUint64(path, r.Uint64())
		}
		if path != nil {
			m.TLVs = msg.AppendTLV(nil, msg.TLVPathTrace, path)
		}
	}
	return m
}

// unicastTLVs are one each of the four of unicast negotiation.
func unicastTLVs(r *rand.Rand) (b []byte) {
	kind := byte(r.IntN(16)) << 4
	interval, duration := byte(r.Uint32()), binary.BigEndian.AppendUint32(nil, r.Uint32())
	request := append([]byte{kind, interval}, duration...)
	b = msg.AppendTLV(b, msg.TLVRequestUnicast, request)
	b = msg.AppendTLV(b, msg.TLVGrantUnicast, append(request, 0, byte(r.IntN(2))))
	b = msg.AppendTLV(b, msg.TLVCancelUnicast, []byte{kind, 0})
	return msg.AppendTLV(b, msg.TLVAckCancelUnicast, []byte{kind, 0})
}

// fbHeader is a header as facebook/time has it.
func fbHeader(m *msg.Message) facebook.Header {
	return facebook.Header{
		SdoIDAndMsgType: facebook.NewSdoIDAndMsgType(facebook.MessageType(m.Type), uint8(m.SdoID>>8)),
		Version:         m.MinorVersion<<4 | 2, MessageLength: uint16(m.Len()), DomainNumber: m.Domain,
		MinorSdoID: uint8(m.SdoID), FlagField: uint16(m.Flags), CorrectionField: facebook.Correction(m.Correction),
		MessageTypeSpecific: m.TypeSpecific, SourcePortIdentity: fbPort(m.Source), SequenceID: m.Sequence,
		ControlField: m.Control, LogMessageInterval: facebook.LogInterval(m.LogInterval),
	}
}

func fbIdentity(c msg.ClockIdentity) facebook.ClockIdentity {
	return facebook.ClockIdentity(binary.BigEndian.Uint64(c[:]))
}

func fbPort(p msg.PortIdentity) facebook.PortIdentity {
	return facebook.PortIdentity{ClockIdentity: fbIdentity(p.Clock), PortNumber: p.Port}
}

func fbTimestamp(t msg.Timestamp) (f facebook.Timestamp) {
	b := binary.BigEndian.AppendUint64(nil, t.Seconds)
	copy(f.Seconds[:], b[2:])
	f.Nanoseconds = t.Nanoseconds
	return f
}

// fbPacket is the same message in facebook/time's types, TLVs left out.
func fbPacket(m *msg.Message) facebook.Packet {
	h, at := fbHeader(m), fbTimestamp(m.Timestamp)
	switch m.Type {
	case msg.Sync, msg.DelayReq:
		return &facebook.SyncDelayReq{Header: h, SyncDelayReqBody: facebook.SyncDelayReqBody{OriginTimestamp: at}}
	case msg.PdelayReq:
		return &facebook.PDelayReq{Header: h, PDelayReqBody: facebook.PDelayReqBody{OriginTimestamp: at}}
	case msg.PdelayResp:
		return &facebook.PDelayResp{Header: h, PDelayRespBody: facebook.PDelayRespBody{RequestReceiptTimestamp: at, RequestingPortIdentity: fbPort(m.Port)}}
	case msg.FollowUp:
		return &facebook.FollowUp{Header: h, FollowUpBody: facebook.FollowUpBody{PreciseOriginTimestamp: at}}
	case msg.DelayResp:
		return &facebook.DelayResp{Header: h, DelayRespBody: facebook.DelayRespBody{ReceiveTimestamp: at, RequestingPortIdentity: fbPort(m.Port)}}
	case msg.PdelayRespFollowUp:
		return &facebook.PDelayRespFollowUp{Header: h, PDelayRespFollowUpBody: facebook.PDelayRespFollowUpBody{ResponseOriginTimestamp: at, RequestingPortIdentity: fbPort(m.Port)}}
	case msg.Announce:
		g := m.Grandmaster
		return &facebook.Announce{Header: h, AnnounceBody: facebook.AnnounceBody{
			OriginTimestamp: at, CurrentUTCOffset: g.UTCOffset, GrandmasterPriority1: g.Priority1, GrandmasterPriority2: g.Priority2,
			GrandmasterClockQuality: facebook.ClockQuality{
				ClockClass: facebook.ClockClass(g.Quality.Class), ClockAccuracy: facebook.ClockAccuracy(g.Quality.Accuracy),
				OffsetScaledLogVariance: g.Quality.Variance,
			},
			GrandmasterIdentity: fbIdentity(g.Identity), StepsRemoved: g.StepsRemoved, TimeSource: facebook.TimeSource(g.TimeSource),
		}}
	case msg.Signaling:
		return &facebook.Signaling{Header: h, TargetPortIdentity: fbPort(m.Port)}
	}
	panic(fmt.Sprintf("no counterpart of %v", m.Type))
}

// withoutTLVs takes the TLVs out of a decoded packet: their content is
// compared as octets.
func withoutTLVs(p facebook.Packet) facebook.Packet {
	switch p := p.(type) {
	case *facebook.SyncDelayReq:
		p.TLVs = nil
	case *facebook.Announce:
		p.TLVs = nil
	case *facebook.Signaling:
		p.TLVs = nil
	}
	return p
}

// fbBytes encodes a packet and takes away the two octets that facebook/time
// appends.
func fbBytes(t *testing.T, p facebook.Packet) []byte {
	t.Helper()
	b, err := facebook.Bytes(p)
	if err != nil {
		t.Fatal(err)
	}
	return b[:len(b)-facebook.TrailingBytes]
}

// crossCheck holds one message against facebook/time in both directions.
func crossCheck(t *testing.T, m *msg.Message) {
	t.Helper()
	b := m.Append(nil)
	// It takes messages from UDP over IPv6, with two octets behind, and loses
	// the end of a PATH_TRACE without.
	theirs, err := facebook.DecodePacket(append(b[:len(b):len(b)], 0, 0))
	if err != nil {
		t.Errorf("facebook/time does not take %v: %v\n%x", m.Type, err, b)
		return
	}
	again := fbBytes(t, theirs)
	if !bytes.Equal(again, b) {
		t.Errorf("%v through facebook/time\n got %x\nwant %x", m.Type, again, b)
	}
	if want := fbPacket(m); !reflect.DeepEqual(withoutTLVs(theirs), want) {
		t.Errorf("%v is to facebook/time\n     %+v\nwant %+v", m.Type, theirs, want)
	}
	var back msg.Message
	if err := back.Parse(again); err != nil {
		t.Errorf("%v of facebook/time: %v", m.Type, err)
	} else if !bytes.Equal(back.TLVs, m.TLVs) {
		t.Errorf("%v of facebook/time: TLVs %x, want %x", m.Type, back.TLVs, m.TLVs)
	}
	want := *m
	if back.TLVs, want.TLVs = nil, nil; !reflect.DeepEqual(back, want) {
		t.Errorf("%v of facebook/time\n got %+v\nwant %+v", m.Type, back, want)
	}
}

func TestPTPCrossDecode(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1588, 2019))
	for _, typ := range common {
		for range 200 {
			m := random(r, typ)
			crossCheck(t, &m)
		}
	}
}

// TestPTPGolden does the same with what ptp4l wrote, where facebook/time knows
// every TLV.
func TestPTPGolden(t *testing.T) {
	t.Parallel()
	checked := map[msg.Type]int{}
	for _, name := range []string{"l2-e2e", "l2-p2p", "udpv4-e2e", "udpv6-p2p", "unicast", "transparent"} {
		for _, b := range golden(t, name) {
			var m msg.Message
			if err := m.Parse(b); err != nil {
				t.Fatal(err)
			}
			crossCheck(t, &m)
			checked[m.Type]++
		}
	}
	if len(checked) != len(common) {
		t.Errorf("checked %v", checked)
	}
}

func golden(t *testing.T, name string) (list [][]byte) {
	t.Helper()
	f, err := os.Open(filepath.Join("../linuxptp/testdata", name+".pcap"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for p := range gopacket.NewPacketSource(r, r.LinkType()).Packets() {
		if u := p.TransportLayer(); u != nil {
			list = append(list, u.LayerPayload())
		} else {
			list = append(list, p.Layer(layers.LayerTypeEthernet).LayerPayload())
		}
	}
	return list
}

// BenchmarkPTPDecode compares the two codecs; make bench-ptp runs it.
func BenchmarkPTPDecode(b *testing.B) {
	r := rand.New(rand.NewPCG(1588, 2019))
	for _, typ := range []msg.Type{msg.Sync, msg.PdelayReq, msg.Announce} {
		m := random(r, typ)
		m.TLVs = nil
		frame := m.Append(nil)
		b.Run(fmt.Sprintf("%v/tapir", typ), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := m.Parse(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%v/facebook", typ), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := facebook.DecodePacket(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
