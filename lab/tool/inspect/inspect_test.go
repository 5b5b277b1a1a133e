package inspect

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/capturetest"
	"tapir/mpa"
	"tapir/opa"
	"tapir/rdmap"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
	"tapir/wire/tcp"
)

// load reads the packets of a capture.
func load(t testing.TB, file string) (list []Packet) {
	t.Helper()
	for i, p := range capturetest.Packets(t, file) {
		list = append(list, Packet{Number: i + 1, Time: p.Stamp, Link: pcapng.LinkEthernet, Data: p.Data, OrigLen: int(p.OrigLen)})
	}
	return list
}

func judge(list []Packet) *Report {
	in := New(Options{})
	for k := range list {
		in.Packet(&list[k])
	}
	return in.Finish()
}

// renumbered gives the packets the numbers that a file would give them.
func renumbered(list ...Packet) []Packet {
	for k := range list {
		list[k].Number = k + 1
	}
	return list
}

func TestCaptureThatBeginsInMidStream(t *testing.T) {
	t.Parallel()
	list := load(t, golden+"siw-rping-64k.pcap")
	r := judge(renumbered(list[9:]...))
	if f := r.Flows[0]; f.State != NotReplayed || f.Protocol != "iWARP" || f.Why != "begins in mid-stream: not replayed from its start" {
		t.Errorf("%+v", f)
	}
	if r.Verdict() != NotJudged || r.First() != nil {
		t.Errorf("%s: %v", r.Verdict(), r.Findings)
	}
}

func TestMissingSegment(t *testing.T) {
	t.Parallel()
	list := load(t, golden+"siw-rping-64k.pcap")
	r := judge(renumbered(append(list[:19:19], list[20:]...)...))
	if f := r.Flows[0]; f.State != Partly || !strings.Contains(f.Why, "octets are missing from the capture") {
		t.Errorf("%+v", f)
	}
	if r.First() != nil {
		t.Error(r.First())
	}
}

// A capture that Tapir begins in mid-connection starts with the handshake, and
// then lacks what was said before.
func TestCaptureThatGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	k := &talk{}
	q := mpa.Frame{Kind: mpa.Request, CRC: true, Enhanced: true, Rev: 2, PrivateData: mpa.Enhanced{IRD: 1, ORD: 1}.AppendTo(nil)}
	r := q
	r.Kind = mpa.Reply
	k.start(q, r)
	for side := range 2 {
		k.seq[side] = k.seq[side].Add(5 << 20)
		k.msn[side][rdmap.QueueSend] += 1000
	}
	k.tagged(1, rdmap.ReadResponse, 9, 4096, []byte{1}, []byte{2}) // of a Read that the capture lacks
	for n := range 4 {
		k.tagged(0, rdmap.Write, 7, 0, bytes.Repeat([]byte{byte(n)}, 1000), make([]byte, 10))
		k.untagged(0, rdmap.Send, []byte("words"))
		k.untagged(1, rdmap.Send, []byte("others"))
	}
	report := judge(k.list)
	f := report.Flows[0]
	if f.State != Partly || report.Verdict() != NotJudged || len(report.Findings) > 0 {
		t.Errorf("%+v %v", f, report.Findings)
	}
	if f.Sides[0].Messages["Send"] != 4 || f.Sides[0].Messages["RDMA Write"] != 4 || f.Sides[1].Messages["Send"] != 4 {
		t.Errorf("%+v", f.Sides)
	}
	before := k.list[3] // the request once more
	before.Number = len(k.list) + 1
	k.list = append(k.list, before)
	if r := judge(k.list); len(r.Findings) > 0 || r.Flows[0].Sides[0].Retransmissions != 1 {
		t.Errorf("a retransmission from before the gap: %v %+v", r.Findings, r.Flows[0].Sides[0])
	}
	k.msn[0][rdmap.QueueSend]++
	k.untagged(0, rdmap.Send, nil)
	if x := judge(k.list).First(); x == nil || x.Packet != len(k.list) || x.Clause != ddpMSN.Clause {
		t.Error(x)
	}
}

func TestOrderAndRetransmissions(t *testing.T) {
	t.Parallel()
	list := load(t, golden+"siw-rping-64k.pcap")
	list[20], list[21], list[22] = list[22], list[20], list[21]
	again := slices.IndexFunc(list, func(p Packet) bool { return len(p.Data) > 1000 })
	list = slices.Insert(list, again+20, list[again])
	r := judge(renumbered(list...))
	if r.Verdict() != Clean {
		t.Error(r.Verdict(), r.Findings)
	}
	if s := r.Flows[0].Sides; s[0].OutOfOrder+s[1].OutOfOrder == 0 || s[0].Retransmissions+s[1].Retransmissions == 0 {
		t.Errorf("%+v", s)
	}
}

func TestPacketsCutShort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"siw-rping-64k", "siw-crc", "siw-read-sizes"} {
		list := load(t, golden+name+".pcap")
		whole := judge(list)
		for k := range list {
			list[k].Data = list[k].Data[:min(len(list[k].Data), 140)]
		}
		r := judge(list)
		if f := r.Flows[0]; f.State != Replayed || r.First() != nil && *r.First() != *whole.First() {
			t.Errorf("%s: %+v %v", name, f, r.First())
		}
		if a, b := whole.Flows[0].Sides, r.Flows[0].Sides; a[0].FPDUs != b[0].FPDUs || a[1].MessageOctets != b[1].MessageOctets {
			t.Errorf("%s: %+v instead of %+v", name, b, a)
		}
		for k := range list { // inside the headers
			list[k].Data = list[k].Data[:min(len(list[k].Data), 80)]
		}
		if r := judge(list); r.Flows[0].State != Partly || r.Verdict() != NotJudged {
			t.Errorf("%s: %s %+v", name, r.Verdict(), r.Flows[0])
		}
	}
}

// vlan puts a VLAN tag into a frame.
func vlan(b []byte) []byte {
	return append(append(bytes.Clone(b[:12]), 0x81, 0, 0, 5), b[12:]...)
}

// framed is a frame with room for a framing in front of b.
func framed(b []byte) *frame.Frame {
	fr := frame.New(make([]byte, frame.DefaultHeadroom+len(b)), nil)
	fr.Append(b)
	return fr
}

// fabric puts a frame into a 16B packet and that into a framing.
func fabric(f opa.Framing, b []byte) []byte {
	h := opa.Header{SLID: 1, DLID: 2, SC: 3, PKey: 0x8001, VESW: 7, Entropy: 99}
	b = append(bytes.Clone(b), make([]byte, max(0, opa.MinFrame-len(b)))...)
	fr := framed(h.AppendTo(nil, b, opa.ICRCv1))
	if r := f.Wrap(fr, 1); r != frame.DropNone {
		panic(r)
	}
	return bytes.Clone(fr.Bytes())
}

// management is a packet of management in a framing.
func management(f opa.Framing) []byte {
	h := opa.Header9B{SLID: 1, DLID: 2, PKey: 0x7fff, DestQP: opa.QPGeneral, SrcQP: 1, QKey: opa.QKeyGSI}
	fr := framed(h.AppendTo(nil, make([]byte, 256), opa.ICRCv1))
	if r := f.Wrap9B(fr); r != frame.DropNone {
		panic(r)
	}
	return bytes.Clone(fr.Bytes())
}

func TestCarriers(t *testing.T) {
	t.Parallel()
	carriers := map[string]func([]byte) []byte{
		"VLAN":   vlan,
		"NSH":    func(b []byte) []byte { return fabric(opa.FramingNSH, b) },
		"88b5":   func(b []byte) []byte { return fabric(opa.Framing88B5, b) },
		"Geneve": func(b []byte) []byte { return fabric(opa.FramingGeneve, b) },
	}
	for name, carry := range carriers {
		list := load(t, golden+"siw-rping.pcap")
		plain := judge(list)
		for k := range list {
			list[k].Data = carry(list[k].Data)
			list[k].OrigLen = len(list[k].Data)
		}
		r := judge(list)
		if r.Verdict() != Clean {
			t.Errorf("%s: %v %v", name, r.Verdict(), r.Findings)
		}
		f := r.Flows[len(r.Flows)-1]
		if f.Protocol != "iWARP" || f.Sides[0].FPDUs != plain.Flows[0].Sides[0].FPDUs {
			t.Errorf("%s: %+v", name, f)
		}
		if name != "VLAN" && (r.Flows[0].A != "vESW 7" || r.Flows[0].Packets != len(list)) {
			t.Errorf("%s: %+v", name, r.Flows[0])
		}
	}
}

func TestManagementPackets(t *testing.T) {
	t.Parallel()
	for _, f := range []opa.Framing{opa.FramingNSH, opa.FramingGeneve} {
		b := management(f)
		p := []Packet{{Number: 1, Link: pcapng.LinkEthernet, Data: b, OrigLen: len(b)}}
		if r := judge(p); r.Verdict() != Clean || r.Flows[0].Protocol != "Omni-Path 9B" {
			t.Errorf("%v: %s %v", f, r.Verdict(), r.Findings)
		}
		b[len(b)-20]++
		if r := judge(p); r.First() == nil || r.First().Clause != opaICRC.Clause {
			t.Errorf("%v: an altered octet: %v", f, r.Findings)
		}
	}
}

func TestDrawings(t *testing.T) {
	t.Parallel()
	r := inspectFile(t, golden+"siw-err-wbad.pcap", Options{Ladder: 100})
	var text, svg, js bytes.Buffer
	if err := r.WriteLadder(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"|-- RDMA Write ------", "|<- Terminate ------", "! packet 9: RFC 5040 section 4.8"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("no %q in\n%s", line, &text)
		}
	}
	if err := r.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg.Bytes())); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(svg.String(), ">RDMA Write<") || strings.Count(svg.String(), "<path ") != 8 || strings.Contains(svg.String(), " id=") {
		t.Error(svg.String())
	}
	if err := r.WriteJSON(&js); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Verdict  string
		Findings []Finding
		Ladder   []Event
	}
	if err := json.Unmarshal(js.Bytes(), &back); err != nil || back.Verdict != "violations" || len(back.Findings) != 2 || len(back.Ladder) < 6 {
		t.Errorf("%v: %+v", err, back)
	}
	if few := inspectFile(t, golden+"siw-err-wbad.pcap", Options{Ladder: 3}); len(few.Ladder) != 3 || few.Beyond != len(r.Ladder)-3 {
		t.Errorf("%d steps, %d beyond", len(few.Ladder), few.Beyond)
	}
	last := inspectFile(t, golden+"siw-err-wbad.pcap", Options{Ladder: 3, Last: true})
	if len(last.Ladder) != 3 || last.Beyond != len(r.Ladder)-3 || last.Ladder[2] != r.Ladder[len(r.Ladder)-1] {
		t.Errorf("%+v", last.Ladder)
	}
	text.Reset()
	if err := last.WriteLadder(&text); err != nil || !strings.Contains(text.String(), fmt.Sprintf("%d earlier steps", last.Beyond)) {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestPTP4LCapturesAreClean(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../check/linuxptp/testdata/*.pcap")
	if err != nil || len(files) < 11 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	for _, file := range files {
		r := inspectFile(t, file, Options{})
		if r.Verdict() != Clean || r.Flows[0].Protocol != "PTP" || len(r.Flows[0].Sides[0].Messages) == 0 {
			t.Errorf("%s: %s %v", file, r.Verdict(), r.Findings)
		}
		list := load(t, file)
		for seed := range uint64(10) {
			for worse, list := range degraded(rand.New(rand.NewPCG(seed, 1588)), list) {
				if f := judge(list).First(); f != nil {
					t.Errorf("%s, %s, seed %d: %v", file, worse, seed, f)
				}
			}
		}
	}
}

func TestOctetsThatAreNoCapture(t *testing.T) {
	t.Parallel()
	if err := Read(strings.NewReader("no capture at all, whatever it says"), New(Options{})); err == nil {
		t.Error("read")
	}
	b, err := os.ReadFile(golden + "siw-rping.pcap")
	if err != nil {
		t.Fatal(err)
	}
	in := New(Options{})
	if err := Read(bytes.NewReader(b[:len(b)-10]), in); err == nil || in.Finish().Packets == 0 {
		t.Error("a file that breaks off", err)
	}
}

// FuzzPacket: nothing that a capture can hold makes the inspector panic.
func FuzzPacket(f *testing.F) {
	for _, name := range []string{"siw-crc", "siw-err-rbad"} {
		for _, p := range load(f, golden+name+".pcap")[:12] {
			f.Add(p.Data, uint8(0))
		}
	}
	f.Add(fabric(opa.FramingNSH, make([]byte, 64)), uint8(3))
	list := load(f, golden+"siw-crc.pcap")
	f.Fuzz(func(t *testing.T, b []byte, at uint8) {
		in := New(Options{Ladder: 10})
		for k := range list[:min(int(at)%len(list), 12)] {
			in.Packet(&list[k])
		}
		for _, link := range []uint16{pcapng.LinkEthernet, linkRaw, linkSLL, linkSLL2, 147, 197} {
			in.Packet(&Packet{Number: 99, Link: link, Data: b, OrigLen: len(b) + int(at&1)})
		}
		in.Finish()
	})
}

// A window of a capture, of one interface, with its own zero of time.
func TestWindow(t *testing.T) {
	t.Parallel()
	const file = golden + "siw-err-wbad.pcap"
	list := load(t, file)
	whole := inspectFile(t, file, Options{Ladder: 100})
	second, last := whole.Ladder[1], whole.Ladder[len(whole.Ladder)-1]
	start := list[0].Time - 1_000_000
	window := Window{list[second.Packet-1].Time, list[last.Packet-1].Time - 1}
	r := inspectFile(t, file, Options{Ladder: 100, Window: window, Start: start})
	if n := len(r.Ladder); n == 0 || n >= len(whole.Ladder)-1 || r.Beyond != 0 || r.Ladder[0].Packet != second.Packet || r.Ladder[0].Time != second.Time+1_000_000 {
		t.Errorf("%+v", r.Ladder)
	}
	if len(r.Findings) != len(whole.Findings) {
		t.Errorf("%d findings, %d of the whole", len(r.Findings), len(whole.Findings))
	}
	for _, d := range r.drawings() {
		for _, x := range d.rungs {
			if x.packet < second.Packet || x.packet >= last.Packet {
				t.Errorf("drawn: %+v", x)
			}
		}
	}
	if r := inspectFile(t, file, Options{Choose: func(name string, _ bool) bool { return name != "" }}); r.Packets != 0 {
		t.Errorf("%d packets of other interfaces", r.Packets)
	}
}

// What is sent once more behind the FIN is held against what was sent first.
func TestRetransmissionBehindFIN(t *testing.T) {
	for _, changed := range []bool{false, true} {
		k := &talk{}
		q := mpa.Frame{Kind: mpa.Request, CRC: true, Rev: 1}
		r := q
		r.Kind = mpa.Reply
		k.start(q, r)
		k.untagged(0, rdmap.Send, bytes.Repeat([]byte{1, 2}, 50))
		last := k.list[len(k.list)-1]
		k.segment(0, tcp.ACK|tcp.FIN, nil)
		last.Number, last.Data = len(k.list)+1, bytes.Clone(last.Data)
		if changed {
			last.Data[payloadAt+30] ^= 1
			mendTCP(last.Data)
		}
		k.list = append(k.list, last)
		in := New(Options{})
		for i := range k.list {
			in.Packet(&k.list[i])
		}
		var found []string
		for _, f := range in.Finish().Findings {
			found = append(found, f.Clause)
		}
		if want := []string{tcpChanged.Clause}; changed && !slices.Equal(found, want) || !changed && found != nil {
			t.Errorf("changed: %v: %q", changed, found)
		}
	}
}
