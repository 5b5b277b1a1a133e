package inspect

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// golden is where the captures of Linux siw against itself lie.
const golden = "../capture/layers/testdata/"

// want is a finding: rule r in packet.
type want struct {
	packet int
	r      *Rule
}

// terminates are the findings about a Terminate of siw in packet n.
func terminates(n int, more ...*Rule) (w []want) {
	for _, r := range append([]*Rule{termLayout, termLength}, more...) {
		w = append(w, want{n, r})
	}
	return w
}

func pads(packets ...int) (w []want) {
	for _, n := range packets {
		w = append(w, want{n, fpduPad})
	}
	return w
}

// deviations are what siw does differently in its captures; those that are not
// listed have none.
var deviations = map[string][]want{
	"siw-err-norecv":           terminates(9),
	"siw-err-toolong":          terminates(9), // nobody but the receiver knows that there was a buffer
	"siw-err-toolong-multiseg": terminates(12, termTooLong),
	"siw-err-wbad":             terminates(9),
	"siw-err-wbounds":          terminates(9),
	"siw-err-wkey":             terminates(9),
	"siw-err-wlow":             terminates(9),
	"siw-err-wpd":              terminates(9),
	"siw-err-wro":              terminates(9),
	"siw-err-wwrap":            append([]want{{8, ddpWrap}}, terminates(9, termWrap)...),
	"siw-err-rbad":             terminates(9, termMSN),
	"siw-err-rbounds":          terminates(9, termMSN),
	"siw-err-rkey":             terminates(9, termMSN),
	"siw-err-rlow":             terminates(9, termMSN),
	"siw-err-rpd":              terminates(9, termMSN),
	"siw-crc-err-rbad":         terminates(9, termMSN),
	"siw-crc-err-wbounds":      terminates(9),
	"siw-mpav1":                terminates(11),
	"siw-privdata-252-bug":     {{4, mpaPDWraps}},
	"siw-ucmatose":             {{15, mpaRespFirst}, {21, mpaRespFirst}},
	"siw-ib_write_lat":         append(pads(14, 15), want{36, mpaRespFirst}),
	"siw-ib_read_bw":           pads(14, 15),
	"siw-ib_read_lat":          pads(14, 15),
	"siw-ib_send_bw":           pads(14, 15),
	"siw-ib_send_lat":          pads(14, 15),
	"siw-ib_write_bw":          pads(15, 16),
	"siw-crc":                  pads(15, 32),
	"siw-crc-initiator-only":   pads(13),
	"siw-crc-responder-only":   pads(13),
	"siw-inline":               pads(14),
	"siw-mpav1-ird8":           pads(13),
}

func inspectFile(t testing.TB, file string, opt Options) *Report {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := New(opt)
	if err := Read(f, in); err != nil {
		t.Fatal(err)
	}
	return in.Finish()
}

func TestGoldenCapturesShowSiwsDeviationsAndNothingElse(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(golden + "*.pcap")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	seen := 0
	for _, file := range files {
		name := filepath.Base(file[:len(file)-len(".pcap")])
		expected := deviations[name]
		if expected != nil {
			seen++
		}
		r := inspectFile(t, file, Options{})
		got := map[want]int{}
		for _, f := range r.Findings {
			if !f.Siw || f.Note {
				t.Errorf("%s: %v", name, f)
			}
			for _, rule := range Rules() {
				if rule.Clause == f.Clause && rule.Says == f.Says {
					got[want{f.Packet, rule}]++
				}
			}
		}
		if len(got) != len(expected) {
			t.Errorf("%s: %d findings instead of %d: %v", name, len(got), len(expected), r.Findings)
		}
		for _, w := range expected {
			if got[w] == 0 {
				t.Errorf("%s: packet %d: nothing about %s: %s", name, w.packet, w.r.Clause, w.r.Says)
			}
		}
		checkQuirks(t, name, file)
		list := load(t, file)
		for seed := range uint64(3) {
			for worse, list := range degraded(rand.New(rand.NewPCG(seed, 6581)), list) {
				for _, f := range judge(list).Findings {
					if !f.Siw && !f.Note {
						t.Errorf("%s, %s, seed %d: %v", name, worse, seed, f)
					}
				}
			}
		}
	}
	if seen != len(deviations) {
		t.Errorf("%d of %d captures with deviations were there", seen, len(deviations))
	}
}

// checkQuirks: whoever knows siw finds nothing to complain of.
func checkQuirks(t *testing.T, name, file string) {
	t.Helper()
	r := inspectFile(t, file, Options{QuirksSiw: true})
	expected := Clean
	if name == "siw-refused" {
		expected = NothingSeen
	}
	if v := r.Verdict(); v != expected {
		t.Errorf("%s, knowing siw: %s", name, v)
	}
	if n := len(deviations[name]); n > 0 && len(r.Findings) < n {
		t.Errorf("%s, knowing siw: %d notes instead of %d", name, len(r.Findings), n)
	}
	for _, f := range r.Flows {
		if f.State != Replayed && (f.State != NotRDMA || name != "siw-refused" && name != "siw-fi_pingpong") {
			t.Errorf("%s: flow %d is %s", name, f.Number, f.State)
		}
	}
}

// LLDP with DCBX is nothing to judge.
func TestOtherProtocols(t *testing.T) {
	t.Parallel()
	r := inspectFile(t, "testdata/dcbx-lldpad.pcap", Options{})
	if r.Verdict() != NothingSeen || len(r.Findings) > 0 || r.Other != r.Packets {
		t.Errorf("%s %v", r.Verdict(), r.Findings)
	}
}

// Linux's VN2VN, and our nodes with each other and in a fabric: nothing is wrong with them.
func TestFCoECaptures(t *testing.T) {
	t.Parallel()
	for name, frames := range map[string]int{"fip-vn2vn": 5, "fcoe-vn2vn": 34, "fcoe-fabric": 104} {
		r := inspectFile(t, "testdata/"+name+".pcap", Options{})
		if r.Verdict() != Clean || len(r.Findings) > 0 || len(r.Flows) != 1 || r.Flows[0].Packets != frames {
			t.Errorf("%s: %s %v", name, r.Verdict(), r.Findings)
		}
	}
	list := load(t, "testdata/fcoe-vn2vn.pcap")
	list[21].Data[60] ^= 1
	if r := judge(list); r.Verdict() != Violations || r.First().Packet != 22 || r.First().Clause != "FC-FS-3 section 9.2" {
		t.Errorf("an octet of data is changed: %v", r.Findings)
	}
}

// rxe's captures break these rules and no others: what invalidates is acknowledged with MSN 0.
var rxeDeviations = map[string][]want{"rxe-err-sendinv-usermr": {{5, roceMSN}}}

func TestRxeCaptures(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/rxe-*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures", err)
	}
	for _, file := range files {
		name := filepath.Base(file[:len(file)-len(".pcap")])
		r := inspectFile(t, file, Options{})
		expected := rxeDeviations[name]
		for _, f := range r.Findings {
			if f.Note {
				continue
			}
			if len(expected) == 0 || expected[0].packet != f.Packet || expected[0].r.Says != f.Says {
				t.Errorf("%s: %v", name, f)
				continue
			}
			expected = expected[1:]
		}
		if len(expected) > 0 {
			t.Errorf("%s: packet %d does not break %s", name, expected[0].packet, expected[0].r.Says)
		}
		for _, f := range r.Flows {
			if f.State != Replayed {
				t.Errorf("%s: %s %s: %s, %s", name, f.Protocol, f.A, f.State, f.Why)
			}
		}
		list := load(t, file)
		for seed := range uint64(3) {
			for worse, list := range degraded(rand.New(rand.NewPCG(seed, 4791)), list) {
				for _, f := range judge(list).Findings {
					if !f.Note && f.Says != roceMSN.Says {
						t.Errorf("%s, %s, seed %d: %v", name, worse, seed, f)
					}
				}
			}
		}
	}
}
