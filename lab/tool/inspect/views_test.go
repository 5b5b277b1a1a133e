package inspect

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tapir/lab/check/capturetest"
	"tapir/lab/tool/capture"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// inLab is a lab's capture in which the frames of another pass one link, the
// frame of that number with notes where it leaves and a wrong octet where it arrives.
func inLab(t *testing.T, file string, bad int, notes ...frame.Note) (lab []byte, arrival int) {
	t.Helper()
	var b bytes.Buffer
	l := capture.NewLab(&b)
	ends := []uint32{l.Add(capture.End{Link: "l", Node: "x"}), l.Add(capture.End{Link: "l", Node: "y"})}
	var first []byte // the MAC of x
	number := 0
	for i, p := range capturetest.Packets(t, file) {
		id := uint64(i + 1)
		if first == nil {
			first = bytes.Clone(p.Data[6:12])
		}
		side := 0
		if !bytes.Equal(first, p.Data[6:12]) {
			side = 1
		}
		r := frame.Record{Dir: frame.Outbound, Data: bytes.Clone(p.Data), System: frame.Stamp(p.Stamp), ID: id}
		if int(id) == bad {
			r.Notes = notes
		}
		l.Packet(ends[side], &r)
		if int(id) == bad {
			r.Data[len(r.Data)-1] ^= 1
			arrival = number + 2
		}
		r.Dir = frame.Inbound
		l.Packet(ends[1-side], &r)
		l.Packet(ends[side], &frame.Record{Dir: frame.Outbound, Data: r.Data, System: r.System}) // dropped before the link
		l.Event(&pcapng.Journal{Stamp: p.Stamp, Message: []byte("said")})
		number += 4
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), arrival
}

// A frame that is seen at both ends of a link is counted and judged once; what
// happens to it on the way is found where it arrives, by the number that
// Wireshark gives it.
func TestLabEnds(t *testing.T) {
	file := golden + "siw-rping-64k.pcap"
	plain := inspectFile(t, file, Options{Ladder: 1000})
	read := func(b []byte) *Report {
		t.Helper()
		in := New(Options{Ladder: 1000})
		if err := Read(bytes.NewReader(b), in); err != nil {
			t.Fatal(err)
		}
		return in.Finish()
	}
	b, _ := inLab(t, file, 0)
	r := read(b)
	if len(r.Flows) != len(plain.Flows) || len(r.Ladder) != len(plain.Ladder) || len(plain.Ladder) == 0 {
		t.Fatalf("%d flows, %d steps, want %d, %d", len(r.Flows), len(r.Ladder), len(plain.Flows), len(plain.Ladder))
	}
	if !slices.Equal(r.Ends, []string{"l:x", "l:y"}) {
		t.Errorf("%q", r.Ends)
	}
	kinds := func(r *Report) (all []string) {
		for _, f := range r.Findings {
			all = append(all, f.Clause+f.Says)
		}
		slices.Sort(all)
		return all
	}
	if d := cmp.Diff(kinds(plain), kinds(r)); d != "" {
		t.Error(d)
	}
	for i, f := range r.Flows {
		if f.Packets != plain.Flows[i].Packets || len(f.Ends) != 2 || f.Violations != plain.Flows[i].Violations {
			t.Errorf("flow %d: %d packets at %q, want %d", f.Number, f.Packets, f.Ends, plain.Flows[i].Packets)
		}
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "at 2 link ends (l:x, l:y)") {
		t.Errorf("%v: %s", err, text.String())
	}
	b, arrival := inLab(t, file, plain.Flows[0].Last-4)
	r = read(b)
	if got := kinds(r); len(got) != len(kinds(plain))+1 || !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Packet == arrival && f.Clause == tcpChecksum.Clause }) {
		t.Errorf("packet %d: %v", arrival, r.Findings)
	}
	b, arrival = inLab(t, file, plain.Flows[0].Last-4, frame.Say("corrupted on the link: octet 60 is xored with 0x01")...)
	if r = read(b); r.Violations() != plain.Violations() || !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Packet == arrival && f.Note && f.Clause == tcpChecksum.Clause && strings.Contains(f.String(), "the lab's link corrupted")
	}) {
		t.Errorf("packet %d, whose comment says that the link has corrupted it: %v", arrival, r.Findings)
	}
}
