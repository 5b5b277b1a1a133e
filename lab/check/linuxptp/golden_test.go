package linuxptp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/gopacket"
	layertypes "github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"tapir/lab/tool/tshark"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

// golden lists what stock ptp4l and pmc wrote; testdata/README.md tells how.
func golden(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.pcap")
	if err != nil || len(files) < 11 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	return files
}

// packets returns the frames of a capture.
func packets(t *testing.T, file string) (list []gopacket.Packet) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for p := range gopacket.NewPacketSource(r, r.LinkType()).Packets() {
		list = append(list, p)
	}
	return list
}

// bodies returns the PTP message of each frame, with what pads the frame.
func bodies(t *testing.T, file string) (list [][]byte) {
	t.Helper()
	const ethertype = 0x88f7
	for _, p := range packets(t, file) {
		eth, ok := p.LinkLayer().(*layertypes.Ethernet)
		switch {
		case ok && eth.EthernetType == ethertype:
			list = append(list, eth.Payload)
		case p.TransportLayer() != nil:
			list = append(list, p.TransportLayer().LayerPayload())
		default:
			t.Fatalf("%s, frame %d: no PTP", file, len(list)+1)
		}
	}
	return list
}

func TestGoldenRoundTrip(t *testing.T) {
	t.Parallel()
	seen := map[msg.Type]int{}
	for _, file := range golden(t) {
		for i, b := range bodies(t, file) {
			var m msg.Message
			if err := m.Parse(b); err != nil {
				t.Errorf("%s, frame %d: %v", file, i+1, err)
				continue
			}
			seen[m.Type]++
			want := b[:binary.BigEndian.Uint16(b[2:])]
			if got := m.Append(nil); !bytes.Equal(got, want) {
				t.Errorf("%s, frame %d: %v encoded anew\n got %x\nwant %x", file, i+1, m.Type, got, want)
			}
		}
	}
	if len(seen) != 10 {
		t.Errorf("message types %v, want all ten", seen)
	}
}

// Every frame is found by package transport as gopacket finds it, and its TLVs
// come out as they went in.
func TestGoldenFrames(t *testing.T) {
	t.Parallel()
	seen := map[msg.TLVType]int{}
	for _, file := range golden(t) {
		want := bodies(t, file)
		for i, packet := range packets(t, file) {
			p, ok := transport.Find(packet.Data()) // checksums were left to an offload
			if !ok || !bytes.Equal(p.Body, want[i]) {
				t.Errorf("%s, frame %d: %x, want %x", file, i+1, p.Body, want[i])
				continue
			}
			var m msg.Message
			if err := m.Parse(p.Body); err != nil || p.Event != m.Type.Event() {
				t.Errorf("%s, frame %d: %v, event %v", file, i+1, err, p.Event)
			}
			for tlv := range m.TLVs.All() {
				seen[tlv.Type]++
				if got, want := again(t, tlv), msg.AppendTLV(nil, tlv.Type, tlv.Value); !bytes.Equal(got, want) {
					t.Errorf("%s, frame %d: TLV encoded anew\n got %x\nwant %x", file, i+1, got, want)
				}
			}
		}
	}
	if len(seen) < 6 {
		t.Errorf("TLVs %v", seen)
	}
}

// again decodes a TLV and encodes it.
func again(t *testing.T, tlv msg.TLV) []byte {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Errorf("TLV %#x: %v", tlv.Type, err)
		}
	}
	switch tlv.Type {
	case msg.TLVManagement:
		id, raw, err := msg.ParseManagement(tlv.Value)
		fail(err)
		if len(raw) == 0 {
			return msg.AppendManagement(nil, id, nil)
		}
		data, err := msg.ParseData(id, raw)
		fail(err)
		return msg.AppendManagement(nil, id, data)
	case msg.TLVManagementErrorStatus:
		var e msg.ErrorStatus
		fail(e.Parse(tlv.Value))
		return e.Append(nil)
	case msg.TLVOrganization:
		var f msg.FollowUpInfo
		if err := f.Parse(tlv.Value); err == nil {
			return f.Append(nil)
		}
		var r msg.IntervalRequest
		fail(r.Parse(tlv.Value))
		return r.Append(nil)
	case msg.TLVRequestUnicast:
		var r msg.RequestUnicast
		fail(r.Parse(tlv.Value))
		return r.Append(nil)
	case msg.TLVGrantUnicast:
		var g msg.GrantUnicast
		fail(g.Parse(tlv.Value))
		return g.Append(nil)
	case msg.TLVCancelUnicast, msg.TLVAckCancelUnicast:
		var c msg.CancelUnicast
		fail(c.Parse(tlv.Value))
		return c.Append(nil, tlv.Type)
	case msg.TLVPathTrace:
		p, err := msg.ParsePathTrace(tlv.Value)
		fail(err)
		var path []msg.ClockIdentity
		for i := range p.Len() {
			path = append(path, p.At(i))
		}
		return msg.AppendPathTrace(nil, path, msg.ClockIdentity{})
	}
	t.Errorf("TLV %#x of ptp4l", tlv.Type)
	return nil
}

// field is one field of a message as tshark and as ptp/msg have it.
type field struct {
	name  string
	value func(*msg.Message) string
}

func number[T ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int8 | ~int16 | ~int64](v T) string {
	return fmt.Sprintf("%d", v)
}

// identity is a clock identity as a number, which tshark prints it as.
func identity(c msg.ClockIdentity) string { return number(binary.BigEndian.Uint64(c[:])) }

var header = []field{
	{"majorsdoid", func(m *msg.Message) string { return number(m.SdoID >> 8) }},
	{"messagetype", func(m *msg.Message) string { return number(m.Type) }},
	{"minorversionptp", func(m *msg.Message) string { return number(m.MinorVersion) }},
	{"messagelength", func(m *msg.Message) string { return strconv.Itoa(m.Len()) }},
	{"domainnumber", func(m *msg.Message) string { return number(m.Domain) }},
	{"minorsdoid", func(m *msg.Message) string { return number(m.SdoID & 0xff) }},
	{"flags", func(m *msg.Message) string { return number(m.Flags) }},
	{"correction.ns", func(m *msg.Message) string { return number(m.Correction >> 16) }},
	{"messagetypespecific", func(m *msg.Message) string { return number(m.TypeSpecific) }},
	{"clockidentity", func(m *msg.Message) string { return identity(m.Source.Clock) }},
	{"sourceportid", func(m *msg.Message) string { return number(m.Source.Port) }},
	{"sequenceid", func(m *msg.Message) string { return number(m.Sequence) }},
	{"controlfield", func(m *msg.Message) string { return number(m.Control) }},
	{"logmessageperiod", func(m *msg.Message) string { return number(m.LogInterval) }},
}

// stamped are a timestamp's two fields.
func stamped(prefix string) []field {
	return []field{
		{prefix + ".seconds", func(m *msg.Message) string { return number(m.Timestamp.Seconds) }},
		{prefix + ".nanoseconds", func(m *msg.Message) string { return number(m.Timestamp.Nanoseconds) }},
	}
}

// port are the two fields of the message's second port identity.
func port(clock, port string) []field {
	return []field{
		{clock, func(m *msg.Message) string { return identity(m.Port.Clock) }},
		{port, func(m *msg.Message) string { return number(m.Port.Port) }},
	}
}

func join(lists ...[]field) (all []field) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// fields are those of each type's body.
var fields = map[msg.Type][]field{
	msg.Sync:      stamped("sdr.origintimestamp"),
	msg.DelayReq:  stamped("sdr.origintimestamp"),
	msg.PdelayReq: stamped("pdrq.origintimestamp"),
	msg.FollowUp:  stamped("fu.preciseorigintimestamp"),
	msg.DelayResp: join(stamped("dr.receivetimestamp"), port("dr.requestingsourceportidentity", "dr.requestingsourceportid")),
	msg.PdelayResp: join(stamped("pdrs.requestreceipttimestamp"),
		port("pdrs.requestingportidentity", "pdrs.requestingsourceportid")),
	msg.PdelayRespFollowUp: join(stamped("pdfu.responseorigintimestamp"),
		port("pdfu.requestingportidentity", "pdfu.requestingsourceportid")),
	msg.Signaling: port("sig.targetportidentity", "sig.targetportid"),
	msg.Management: join(port("mm.targetportidentity", "mm.targetportid"), []field{
		{"mm.startingboundaryhops", func(m *msg.Message) string { return number(m.StartingBoundaryHops) }},
		{"mm.boundaryhops", func(m *msg.Message) string { return number(m.BoundaryHops) }},
		{"mm.action", func(m *msg.Message) string { return number(m.Action) }},
	}),
	msg.Announce: join(stamped("an.origintimestamp"), []field{
		{"an.origincurrentutcoffset", func(m *msg.Message) string { return number(m.Grandmaster.UTCOffset) }},
		{"an.priority1", func(m *msg.Message) string { return number(m.Grandmaster.Priority1) }},
		{"an.grandmasterclockclass", func(m *msg.Message) string { return number(m.Grandmaster.Quality.Class) }},
		{"an.grandmasterclockaccuracy", func(m *msg.Message) string { return number(m.Grandmaster.Quality.Accuracy) }},
		{"an.grandmasterclockvariance", func(m *msg.Message) string { return number(m.Grandmaster.Quality.Variance) }},
		{"an.priority2", func(m *msg.Message) string { return number(m.Grandmaster.Priority2) }},
		{"an.grandmasterclockidentity", func(m *msg.Message) string { return identity(m.Grandmaster.Identity) }},
		{"an.localstepsremoved", func(m *msg.Message) string { return number(m.Grandmaster.StepsRemoved) }},
		{"timesource", func(m *msg.Message) string { return number(m.Grandmaster.TimeSource) }},
	}),
}

// sameNumber compares what tshark prints, in decimal or hexadecimal, with a
// decimal number.
func sameNumber(tshark, want string) bool {
	if !strings.HasPrefix(tshark, "0x") {
		return tshark == want
	}
	v, err := strconv.ParseUint(tshark[2:], 16, 64)
	return err == nil && strconv.FormatUint(v, 10) == want
}

// gptp is the majorSdoId of 802.1AS.
const gptp = 1

func TestGoldenAgreesWithTshark(t *testing.T) {
	t.Parallel()
	names := []string{"_ws.malformed"}
	column := map[string]int{}
	for _, f := range join(header, join(fields[msg.Announce], fields[msg.DelayResp], fields[msg.PdelayReq], fields[msg.PdelayResp],
		fields[msg.PdelayRespFollowUp], fields[msg.FollowUp], fields[msg.Sync], fields[msg.Signaling], fields[msg.Management])) {
		column[f.name] = len(names)
		names = append(names, "ptp.v2."+f.name)
	}
	compared := 0
	for _, file := range golden(t) {
		rows, err := tshark.Fields(within(t), file, tshark.Options{}, names...)
		if err != nil {
			t.Fatal(err)
		}
		frames := bodies(t, file)
		if len(rows) != len(frames) {
			t.Fatalf("%s: tshark sees %d frames, gopacket %d", file, len(rows), len(frames))
		}
		for i, b := range frames {
			var m msg.Message
			if err := m.Parse(b); err != nil || rows[i][0] != "" {
				t.Errorf("%s, frame %d: %v, tshark: %q", file, i+1, err, rows[i][0])
				continue
			}
			for _, f := range join(header, fields[m.Type]) {
				got, want := rows[i][column[f.name]], f.value(&m)
				if got == "" && want == "0" && m.SdoID>>8 == gptp {
					continue // reserved in 802.1AS
				}
				compared++
				if !sameNumber(got, want) {
					t.Errorf("%s, frame %d, %v: %s is %s to tshark, %s here", file, i+1, m.Type, f.name, got, want)
				}
			}
		}
	}
	if compared < 10000 {
		t.Errorf("compared %d fields only", compared)
	}
}
