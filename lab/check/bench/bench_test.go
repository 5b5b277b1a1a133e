package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/host/netns"
	"tapir/nic/uapi/trap"
)

// The benchmark starts its own program again for every process of a
// measurement; here that is the test binary.
func TestMain(m *testing.M) {
	trap.Launched()
	if len(os.Args) > 1 && slices.Contains([]string{"nic", "stream", "idle", "tcp", "serve", "run", "trap", "call", "chain", "umode"}, os.Args[1]) {
		if err := run(context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dir, err := ownSockets()
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func TestVerdict(t *testing.T) {
	more := &row{must: 0.6, aim: 0.9}
	less := &row{must: 2.5, aim: 1.5, less: true}
	for _, c := range []struct {
		r     *row
		ratio float64
		want  string
	}{
		{more, 0.59, "**missed**"}, {more, 0.6, "must"}, {more, 0.89, "must"}, {more, 0.9, "aim"}, {more, 2, "aim"},
		{less, 2.51, "**missed**"}, {less, 2.5, "must"}, {less, 1.5, "aim"}, {less, 0.1, "aim"},
	} {
		if got := c.r.verdict(c.ratio); got != c.want {
			t.Errorf("%v of %v/%v: %s", c.ratio, c.r.must, c.r.aim, got)
		}
	}
}

func TestPins(t *testing.T) {
	other := 1
	if runtime.NumCPU() < 2 {
		other = anywhere
	}
	for _, c := range []struct {
		p    pins
		want [2]int
	}{{free, [2]int{anywhere, anywhere}}, {one, [2]int{0, 0}}, {apart, [2]int{min(0, other), other}}} {
		if got := [2]int{c.p.cpu(0), c.p.cpu(1)}; got != c.want {
			t.Errorf("pins %d: processors %v, want %v", c.p, got, c.want)
		}
	}
}

// A subject is compared with what is measured next to it, not with another
// part of the round.
func TestReferencesAreNear(t *testing.T) {
	place := map[string]int{}
	for i, c := range allCases() {
		place[c.name] = i
	}
	for _, r := range allRows {
		if d := place[r.name] - place[r.ref]; r.ref != "" && (d < -4 || d > 4) {
			t.Errorf("%s: %d cases lie between", r.what, max(d, -d)-1)
		}
	}
}

// measured is a case with one sample per figure.
func measured(name string, gbps ...float64) *testCase {
	c := &testCase{name: name}
	for _, g := range gbps {
		c.samples = append(c.samples, sample{gbps: g, memory: g})
	}
	return c
}

func TestLine(t *testing.T) {
	b := &bench{cases: []*testCase{measured("a", 10, 30, 20), measured("b", 20, 20, 25)}}
	for _, c := range []struct {
		r    row
		want string
	}{
		{row{what: "x", name: "a", ref: "b", value: gbps, unit: "Gb/s", must: 0.5, aim: 0.9},
			"| x | 0.5 | 0.9 | **0.80** | 0.50–1.50 | 20 : 20 Gb/s | must |\n"},
		{row{what: "x", name: "b", ref: "a", value: gbps, unit: "Gb/s", must: 0.5, aim: 0.9, less: true},
			"| x | 0.5 | 0.9 | **1.25** | 0.67–2.00 | 20 : 20 Gb/s | **missed** |\n"},
		{row{what: "x", name: "a", ref: "b", value: gbps, unit: "Gb/s", must: noLimit, aim: noLimit},
			"| x |  |  | **0.80** | 0.50–1.50 | 20 : 20 Gb/s |  |\n"},
		{row{what: "x", name: "a", value: memory, unit: "KiB", must: 64, aim: 16, less: true},
			"| x | 64 KiB | 16 KiB | | 10–30 | **20 KiB** | must |\n"},
		{row{what: "x", name: "c", ref: "a", value: gbps}, ""},
		{row{what: "x", name: "a", ref: "c", value: gbps}, ""},
	} {
		if got := b.line(&c.r); got != c.want {
			t.Errorf("got  %swant %s", got, c.want)
		}
	}
}

func TestDocumentSaysWhatIsMissing(t *testing.T) {
	lossy := measured("a", 1)
	lossy.samples[0].lost = 7
	b := &bench{opt: options{rounds: 1, duration: time.Second}, cases: []*testCase{lossy, {name: "b", missing: "no tool"}}}
	doc := string(b.document("0 0 0"))
	for _, want := range []string{"1 rounds of 1s", "| a | 1.00 |", "a: 7 packets are missing", "Not measured: b (no tool)."} {
		if !strings.Contains(doc, want) {
			t.Errorf("no %q in\n%s", want, doc)
		}
	}
}

func TestEveryRowHasItsCases(t *testing.T) {
	names := map[string]bool{"": true}
	for _, c := range allCases() {
		if names[c.name] {
			t.Errorf("two cases are called %q", c.name)
		}
		names[c.name] = true
	}
	used := map[string]bool{"": true}
	for _, r := range allRows {
		if !names[r.name] || !names[r.ref] {
			t.Errorf("%s: no case %q or %q", r.what, r.name, r.ref)
		}
		if r.less != (r.aim <= r.must) && r.aim != r.must {
			t.Errorf("%s: must %v, aim %v", r.what, r.must, r.aim)
		}
		used[r.name], used[r.ref] = true, true
	}
	for name := range names {
		if !used[name] {
			t.Errorf("no row uses %q", name)
		}
	}
}

func TestSetsChooseCases(t *testing.T) {
	var o options
	if err := o.choose("memory,engine"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range newBench(o).cases {
		got = append(got, c.name)
	}
	if !slices.Equal(got, []string{idleQP, engineAlone}) {
		t.Errorf("cases %q", got)
	}
	if err := o.choose("gso,nonsense"); err == nil || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("error %v", err)
	}
	if err := run(t.Context(), []string{"-sets", "gso", "-o", "x.md"}); err == nil {
		t.Error("a part of the figures would replace all")
	}
}

func TestParseUCX(t *testing.T) {
	s, err := parseUCX("header\n100,1.5,2.5,646.92,1000.00,1546.25,1000,1546\n")
	if err != nil || s.latency != 646.92 || s.rate != 1546 || s.gbps < 12.97 || s.gbps > 12.98 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "1,2,3", "1,2,3,4,5,x,7,8"} {
		if _, err := parseUCX(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestParsePrograms(t *testing.T) {
	const bw = "...\n #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 65536      3000             0.00               2.64   \t\t   0.005035\n----\n"
	const lat = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n 64      1000          76.22          3114.75      104.12   \t       154.77\n"
	const fi = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n64      10      =10      1.2k        0.00s      1.53        41.70       0.02\n"
	for _, c := range []struct {
		what string
		got  func() (sample, error)
		want sample
	}{
		{"bandwidth", func() (sample, error) { return parsePerftest(bw, false) }, sample{gbps: 2.64, rate: 5035}},
		{"latency", func() (sample, error) { return parsePerftest(lat, true) }, sample{latency: 104.12}},
		{"libfabric", func() (sample, error) { return parseFabric(fi) }, sample{latency: 41.7}},
	} {
		if s, err := c.got(); err != nil || s != c.want {
			t.Errorf("%s: %+v, %v", c.what, s, err)
		}
	}
	for _, bad := range []string{"", "#bytes", "#bytes\n1 2 3 x y z\n", "1 2 3 4 5 6 x 8"} {
		if _, err := parsePerftest(bad, true); err == nil {
			t.Errorf("perftest: %q was read", bad)
		}
		if _, err := parseFabric(bad); err == nil {
			t.Errorf("libfabric: %q was read", bad)
		}
	}
}

func TestCombine(t *testing.T) {
	s := combine(result.Result{Bytes: 1 << 20, Messages: 4, Elapsed: time.Millisecond, CPU: 300, Latency: 2500},
		result.Result{Bytes: 1 << 19, CPU: 724, Lost: 3})
	if s.rate != 4000 || s.cpu != 1 || s.latency != 2.5 || s.lost != 3 || s.gbps != float64(1<<23)/1e6 {
		t.Errorf("%+v", s)
	}
}

// The whole of a run, too short for figures: every kind of process starts,
// reports and ends.
func TestRun(t *testing.T) {
	if !netns.Privileged() {
		t.Log("without the right to make namespaces there is nothing to measure")
		return
	}
	for _, set := range []string{"drop,engine", "jumbo", "capture", "opa"} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			o := options{rounds: 1, duration: 20 * time.Millisecond}
			if err := o.choose(set); err != nil {
				t.Fatal(err)
			}
			b := newBench(o)
			defer b.close()
			for _, c := range b.cases {
				sampled(t, b, c, func(s sample) bool { return s.gbps > 0 || s.rate > 0 })
			}
		})
	}
}

// sampled wants figures of c: of a measurement that is long enough, as on a busy
// machine nobody may have had his turn in a short one.
func sampled(t *testing.T, b *bench, c *testCase, enough func(s sample) bool) {
	t.Helper()
	defer func(d time.Duration) { b.opt.duration = d }(b.opt.duration)
	for {
		s := measureOnce(t, b, c)
		switch {
		case c.missing != "" || enough(s):
			return
		case b.opt.duration >= 10*time.Second:
			t.Errorf("%s: %+v", c.name, s)
			return
		}
		b.opt.duration *= 5
	}
}

// measureOnce is what one more measurement of c says.
func measureOnce(t *testing.T, b *bench, c *testCase) (s sample) {
	t.Helper()
	before := len(c.samples)
	if err := c.once(t.Context(), b, 0); err != nil {
		t.Fatal(err)
	}
	switch n := len(c.samples) - before; {
	case n == 1:
		s = c.samples[before]
	case n != 0 || c.missing == "":
		t.Fatalf("%s: %d samples of one measurement", c.name, n)
	}
	return s
}

func TestPingPongs(t *testing.T) {
	if !netns.Privileged() {
		t.Log("without the right to make namespaces there is nothing to measure")
		return
	}
	b := newBench(options{rounds: 1, duration: 20 * time.Millisecond, sets: []string{"ping", "memory"}})
	defer b.close()
	for _, c := range b.cases {
		if strings.HasPrefix(c.name, "UCX") {
			continue
		}
		sampled(t, b, c, func(s sample) bool { return s.latency > 0 || s.memory > 0 })
	}
	if doc := b.document(""); !bytes.Contains(doc, []byte("| "+tcpPing+" |")) {
		t.Errorf("%s", doc)
	}
}

// Stock and Go programs on NICs in other processes. The references beside them
// poll: they have no part in it.
func TestPrograms(t *testing.T) {
	if !netns.Privileged() {
		t.Log("without the right to make namespaces there is nothing to measure")
		return
	}
	b := newBench(options{rounds: 1, duration: 20 * time.Millisecond, sets: []string{"run"}})
	defer b.close()
	for _, c := range b.cases {
		if strings.HasPrefix(c.name, "UCX") || c.name == fabricPing || c.name == ibWriteGSO {
			continue
		}
		sampled(t, b, c, func(s sample) bool { return s.latency > 0 || s.gbps > 0 })
	}
}
