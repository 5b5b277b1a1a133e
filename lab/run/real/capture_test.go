package real

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/inspect"
	"tapir/lab/tool/tshark"
	"tapir/lab/topo"
	"tapir/wire/pcapng"
)

// checkCapture has tshark read the capture of a lab: it has every end of every
// link, and nothing in it is malformed, but for a start-up frame of MPA that
// comes once more behind acknowledgements seen at several ends: Wireshark gives
// what it calls a fast retransmission to the dissector, which takes it for an
// FPDU.
func checkCapture(t *testing.T, lab *topo.Lab, r *result.Result, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := inspect.New(inspect.Options{})
	if err := inspect.Read(f, in); err != nil {
		t.Fatal(err)
	}
	disturbed := slices.ContainsFunc(r.Links, func(l result.Link) bool { return l.Counts.Corrupted > 0 || len(l.Counts.Rules) > 0 })
	for _, x := range in.Finish().Findings {
		// A busy machine may lose the stamp of a Sync, and with it the Follow_Up.
		if !x.Note && !disturbed && !strings.HasPrefix(x.Clause, "IEEE 1588") {
			t.Error(x)
		}
	}
	// The second took random octets of iperf3 for its own.
	rows, err := tshark.Fields(t.Context(), file, tshark.Options{Disable: []string{"rpcordma", "rtpproxy"}},
		"frame.interface_name", "_ws.malformed", "tcp.seq", "tcp.analysis.fast_retransmission", "frame.number", "_ws.col.Info")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range rows {
		seen[r[0]] = true
		startUpAgain := r[2] == "1" && r[3] != ""
		// A busy machine loses segments of the kernel's TCP, which come again.
		comesAgain := strings.Contains(r[1], "New fragment overlaps old data (retransmission?)")
		if r[1] != "" && !startUpAgain && !comesAgain {
			t.Errorf("malformed: %q", r)
		}
	}
	for _, l := range lab.Links {
		for _, end := range l.Ends {
			if name := l.Name + ":" + end; seen[name] != l.Capture {
				t.Errorf("%s is captured: %v", name, seen[name])
			}
		}
	}
}

// pictured is what a test looks for in a capture.
type pictured struct {
	packets []*pcapng.Packet
	names   []string
	said    []string
}

func picture(t *testing.T, file string) (p pictured) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	last := int64(0)
	for r := pcapng.NewReader(f); ; {
		b, err := r.Next()
		if err == io.EOF {
			return p
		}
		if err != nil {
			t.Fatal(err)
		}
		switch b := b.(type) {
		case *pcapng.Interface:
			p.names = append(p.names, b.Name)
		case *pcapng.Packet:
			if b.Stamp < last {
				t.Errorf("packet %d comes %d ns too late", len(p.packets)+1, last-b.Stamp)
			}
			last = b.Stamp
			b.Data = bytes.Clone(b.Data)
			p.packets = append(p.packets, b)
		case *pcapng.Journal:
			p.said = append(p.said, b.Host+" "+b.Topic+" "+string(b.Message))
		}
	}
}

// Every frame that arrives has entered the link before, and the NIC there has
// told what frames are, but for what a busy one has no time for; those of a link that is not captured are not there.
func TestLabCapture(t *testing.T) {
	out := t.TempDir()
	r, said := run(t, `
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, frames: gso}
  s: {kind: switch}
  b: {kind: nic, ip: 10.0.0.2/24}
links:
  - {between: [a, s], capture: false}
  - {between: [s, b], delay: 100us, loss: 1%}
steps:
  - {perf: write-bw, server: b, client: a, size: 100000, iters: 10}
  - expect: {link: s-b, filter: iwarp_rdma.opcode == 0 && iwarp_ddp.last_flag == 1, min: 10}
`, out)
	if r.Verdict != "pass" || r.Links[0].Capture != "" || r.Links[1].Capture != capture.LabFile {
		t.Fatal(said, r.Links)
	}
	p := picture(t, filepath.Join(out, capture.LabFile))
	if !slices.Equal(p.names, []string{"s-b:s", "s-b:b"}) {
		t.Fatalf("%q", p.names)
	}
	sent := map[uint64]*pcapng.Packet{}
	arrived, lost, named := 0, 0, 0
	for _, k := range p.packets {
		text := strings.Join(k.Comments, "; ")
		switch {
		case k.ID == 0:
			if !strings.Contains(text, "dropped: ") {
				t.Errorf("at %s: not on the link: %s", p.names[k.Interface], text)
			}
		case k.Flags.Direction() == pcapng.Outbound:
			if sent[k.ID] != nil {
				t.Errorf("two frames have number %d", k.ID)
			}
			sent[k.ID] = k
			if strings.Contains(text, "lost on the link") {
				lost++
			}
		case sent[k.ID] == nil || sent[k.ID].Interface == k.Interface || !bytes.Equal(sent[k.ID].Data, k.Data):
			t.Errorf("frame %d arrives that was not sent", k.ID)
		default:
			arrived++
		}
		if p.names[k.Interface] == "s-b:b" && strings.Contains(text, "RDMA Write") {
			named++
		}
	}
	if counts := r.Links[1].Counts; lost != int(counts.Lost) || arrived != int(counts.Frames-counts.Lost-counts.Refused) || named == 0 {
		t.Errorf("%d lost, %d arrived, %d with a comment: %+v", lost, arrived, named, counts)
	}
	if got := strings.Join(p.said, "\n"); !strings.Contains(got, "b cm ") || strings.Contains(got, "a wr") {
		t.Errorf("b has said: %s", got)
	}
}
