package result

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/capturetest"
	"tapir/lab/check/pagetest"
	"tapir/lab/conf/perfconf"
	"tapir/lab/host/fault"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/perf"
	"tapir/wire/frame"
)

// golden are captures of Linux siw, which other tests have, too.
const golden = "../../tool/capture/layers/testdata/"

// wellFormed reads a document as strict XML and returns its text.
func wellFormed(t *testing.T, doc []byte) (text string) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(doc)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return text
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		switch token := token.(type) {
		case xml.CharData:
			text += string(token)
		case xml.StartElement:
			for _, a := range token.Attr {
				local := strings.HasPrefix(a.Value, "#") || strings.HasSuffix(a.Value, ".pcapng")
				if (a.Name.Local == "src" || a.Name.Local == "href") && !local {
					t.Errorf("%s: not self-contained: %s", token.Name.Local, a.Value)
				}
			}
			if token.Name.Local == "script" || token.Name.Local == "link" {
				t.Errorf("there is a %s", token.Name.Local)
			}
		}
	}
}

// evil is what a program may say.
const evil = "</pre><script>alert(1)</script> \x1b[31mred\x1b[0m \x00\x07\xff ]]> &amp;\r\n"

// failed is a result with everything in it.
func failed(t *testing.T) *Result {
	r := newResult(t)
	r.Began = time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)
	code := 3
	a := r.Steps[0]
	a.Begin(100 * time.Millisecond)
	a.Output, a.Exit = evil, &code
	a.Perf = &PerfReport{Report: perf.Report{Op: perfconf.SendLat, Size: 2, Messages: 100, Bytes: 200, Latency: &perf.Latency{
		Min: 20_000, Median: 21_000, Mean: 21_500, P99: 40_000, P999: 41_000, Max: 50_000,
		Histogram: []perf.Bucket{{Most: 20479, Count: 40}, {Most: 22527, Count: 59}, {Most: 53247, Count: 1}},
	}, Progress: []perf.Progress{{Elapsed: 1e6, Messages: 40}, {Elapsed: 2e6, Messages: 60}, {Elapsed: 4e6, Messages: 100}}}}
	a.End(400*time.Millisecond, errors.New("its output <is> "+evil))
	r.Nodes[0].Error, r.Nodes[0].Output = "a has ended: signal: killed", evil
	r.Nodes[1].Counters = []Counter{{"rx_packets", 4711}}
	r.Links[0].Capture, r.Links[0].Counts.Lost = "a-h.pcapng", 42
	r.Links[0].Counts.Rules = []fault.Count{{Name: "third <FPDU>", Matched: 9, Struck: 1}}
	r.Judge(2*time.Second, errors.New("a has ended: signal: killed"))
	return r
}

func TestPage(t *testing.T) {
	r := failed(t)
	r.Draw(recording(t, "siw-err-wbad.pcap"))
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	text := pagetest.Text(t, b.Bytes())
	for _, want := range []string{
		"pair.yaml", "2026-11-22T04:00:00Z", "10.0.0.1/24",
		"h: echo <b>", "skip", // a step that was not reached
		"its output <is> </pre><script>", "red ", // what the program said
		"h/ping", "a has ended: signal: killed", "rx_packets", "4711", "42", "third <FPDU>",
		"21000", "a-h", "Terminate", // a latency, a ladder
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(b.String(), "<script>alert") || strings.Contains(text, "\x1b") || strings.Contains(text, "[31m") {
		t.Error("what a program said is not escaped")
	}
	var again bytes.Buffer
	if err := HTML(&again, r); err != nil || !bytes.Equal(again.Bytes(), b.Bytes()) {
		t.Errorf("written twice, differs: %v", err)
	}
}

// recording is the capture of a lab whose only link carries what a golden
// capture has, from 150 ms after the lab's start on.
func recording(t *testing.T, file string) Recording {
	t.Helper()
	var b bytes.Buffer
	lab := capture.NewLab(&b)
	for _, ends := range [][2]string{{"a", "h"}, {"h", "a"}} {
		lab.Add(capture.End{Link: "a-h", Node: ends[0], Far: ends[1], MTU: 1500})
	}
	start := int64(0)
	for _, p := range capturetest.Packets(t, golden+file) {
		if start == 0 {
			start = p.Stamp - 150e6
		}
		src := uint32(p.Data[11]) >> 2 & 1 // as the two hosts' MACs differ there
		lab.Packet(src, &frame.Record{Data: p.Data, System: frame.Stamp(p.Stamp), ID: 1, Dir: frame.Outbound})
		lab.Packet(1-src, &frame.Record{Data: p.Data, System: frame.Stamp(p.Stamp), ID: 1, Dir: frame.Inbound})
	}
	if err := lab.Close(); err != nil {
		t.Fatal(err)
	}
	return Recording{Start: start, Open: func(link string) (io.ReadCloser, error) {
		if link != "a-h" {
			t.Errorf("link %s", link)
		}
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}}
}

func TestSeveralLabs(t *testing.T) {
	bad, good, never := failed(t), newResult(t), newResult(t)
	for _, s := range good.Steps {
		s.Begin(time.Second)
		s.End(2*time.Second, nil)
	}
	good.Judge(3*time.Second, nil)
	var page, suites, list bytes.Buffer
	if err := errors.Join(HTML(&page, bad, good, never), JUnit(&suites, bad, good, never), JSON(&list, bad, good, never)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(pagetest.Text(t, page.Bytes()), "pair.yaml\n"); n != 3 {
		t.Errorf("%d labs", n)
	}
	var results []Result
	if err := json.Unmarshal(list.Bytes(), &results); err != nil || len(results) != 3 || results[0].Verdict != Failed || results[2].Verdict != Skipped {
		t.Errorf("%v: %s", err, list.String())
	}
	wellFormed(t, suites.Bytes())
	var doc junitSuites
	if err := xml.Unmarshal(suites.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	// A case for each step, and one for the nodes.
	if doc.Tests != 12 || doc.Failures != 2 || doc.Errors != 0 || doc.Skipped != 2+4 || doc.Time != "5.000" {
		t.Errorf("%+v", doc.junitCounts)
	}
	suite := doc.Suites[0]
	if suite.Name != "pair" || suite.Timestamp != "2026-11-22T04:00:00" || suite.Time != "2.000" || suite.Failures != 2 || suite.Tests != 4 {
		t.Errorf("%+v", suite)
	}
	nodes, ping, echo := suite.Cases[0], suite.Cases[1], suite.Cases[2]
	if nodes.Name != upAndDown || nodes.Time != "1.700" || !strings.HasPrefix(nodes.Failure.Text, "a has ended: signal: killed\n\na said at its end:\n</pre>") {
		t.Errorf("%+v %+v", nodes, nodes.Failure)
	}
	if ping.Name != "01 h: ping -c 1 10.0.0.1" || ping.Class != "pair" || ping.Line != 9 || ping.Failure.Type != "run" ||
		!strings.HasPrefix(ping.Failure.Text, "pair.yaml:9: h: ping -c 1 10.0.0.1: its output <is>") || !strings.HasPrefix(ping.Out, "</pre><script>alert(1)</script> red") {
		t.Errorf("%+v %+v", ping, ping.Failure)
	}
	if echo.Skipped == nil || echo.Failure != nil {
		t.Errorf("%+v", echo)
	}
}

// Why there is no ladder is said.
func TestNoLadder(t *testing.T) {
	for _, tt := range []struct {
		rec  func(link string) (io.ReadCloser, error)
		want string
	}{
		{func(string) (io.ReadCloser, error) { return nil, nil }, "the link was not captured"},
		{func(string) (io.ReadCloser, error) { return nil, os.ErrPermission }, "permission denied"},
		{func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("no capture")), nil }, "the capture: "},
		{recording(t, "siw-rping-64k.pcap").Open, "no RDMA and no PTP passed between 100ms and 400ms"},
	} {
		r := failed(t)
		r.Draw(Recording{Open: tt.rec, Start: 1})
		if l := r.Steps[0].Ladders; len(l) != 1 || l[0].Exchange != nil || !strings.Contains(l[0].Note, tt.want) {
			t.Errorf("%+v, want %q", l, tt.want)
		}
	}
}

// Long output is cut in documents, not in the result.
func TestClip(t *testing.T) {
	long := "begin" + strings.Repeat("x", 2*clipMost) + "end"
	got := clip(long)
	if len(got) > clipMost+100 || !strings.HasPrefix(got, "beginx") || !strings.HasSuffix(got, "xend") || !strings.Contains(got, "[... 65544 octets are left out ...]") {
		t.Errorf("%d octets: %.40q", len(got), got)
	}
	r := failed(t)
	r.Steps[0].Output = long
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil || !bytes.Contains(data, []byte(long)) {
		t.Error("result.json lacks some of the output", err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !strings.Contains(pagetest.Text(t, page), "[... 65544 octets are left out ...]") {
		t.Error("the page has the wrong output", err)
	}
}
