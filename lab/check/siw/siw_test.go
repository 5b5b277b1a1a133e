package siw

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tapir/lab/conf/nicconf"
	"tapir/lab/tool/perf"
	"tapir/lab/tool/verify"
)

var clause = regexp.MustCompile(`^RFC (5040|5041|5044|6581) section [0-9.]*[0-9]$`)

// Every cell can be run: its settings, jobs and steps are valid, and no two
// are called the same.
func TestCellsAreSound(t *testing.T) {
	seen := map[string]bool{}
	roce := append(SmokeRoCE(), RoCE()...)
	if len(roce) < 200 {
		t.Errorf("only %d cells of RoCE", len(roce))
	}
	for i := range roce {
		roce[i].Topic += " over RoCE"
	}
	for _, c := range append(append(Smoke(), All()...), roce...) {
		if seen[c.String()] {
			t.Errorf("twice: %v", c)
		}
		seen[c.String()] = true
		cfg := nicconf.Config{}
		for _, s := range c.NIC {
			name, value, _ := strings.Cut(s, "=")
			if err := cfg.Set(name, value); err != nil {
				t.Errorf("%v: %v", c, err)
			}
		}
		if c.Differs == "" != (c.Clause == "") || c.Clause != "" && !clause.MatchString(c.Clause) {
			t.Errorf("%v: differs %q, clause %q", c, c.Differs, c.Clause)
		}
		if c.IPv6 && c.mtu() < 1280 {
			t.Errorf("%v: IPv6 needs 1280 octets", c)
		}
		if c.Rping || c.Program != nil {
			continue
		}
		j := c.Job
		j.Remote = nic4.Addr()
		j = j.WithDefaults()
		if err := j.Validate(); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	if len(seen) < 150 {
		t.Errorf("only %d cells", len(seen))
	}
}

// What the matrix promises is in it.
func TestMatrixIsComplete(t *testing.T) {
	type needs struct {
		v6     bool
		mtu    int
		crc    bool
		v1     bool
		conns  int
		serves bool
	}
	missing := map[needs]bool{}
	for _, v6 := range []bool{false, true} {
		for _, mtu := range []int{576, 1500, 9000} {
			for _, conns := range []int{1, 8} {
				for _, flags := range []struct{ crc, serves bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
					if v6 {
						mtu = max(mtu, 1280)
					}
					missing[needs{v6, mtu, flags.crc, false, conns, flags.serves}] = true
				}
			}
		}
	}
	topics := map[string][2]int{}
	for _, c := range All() {
		n := topics[c.Topic]
		if c.NICServes {
			n[1]++
		} else {
			n[0]++
		}
		topics[c.Topic] = n
		if c.Topic == "operations" {
			v1 := strings.Contains(strings.Join(c.NIC, " "), "mpa_version=1")
			delete(missing, needs{c.IPv6, c.mtu(), c.CRC, v1, max(1, c.Job.Conns), c.NICServes})
		}
	}
	if len(missing) > 0 {
		t.Errorf("missing: %v", missing)
	}
	for _, topic := range []string{"operations", "large", "rping", "stock programs", "IRD and ORD", "private data", "rejects", "errors", "killed", "receives and framing", "MPA 1", "peer to peer", "CRC"} {
		if n := topics[topic]; n[0] == 0 || n[1] == 0 {
			t.Errorf("%s: %d cells with siw as server, %d with the NIC", topic, n[0], n[1])
		}
	}
}

func TestJudgement(t *testing.T) {
	good := Verdict{Frames: 10, FPDUs: 4, GoodCRC: 4}
	for _, x := range []struct {
		what   string
		c      Cell
		change func(*Verdict)
		want   string
	}{
		{"all good", Cell{CRC: true}, func(*Verdict) {}, ""},
		{"malformed", Cell{CRC: true}, func(v *Verdict) { v.Malformed = []string{"7"} }, "malformed frames [7]"},
		{"checksum", Cell{CRC: true}, func(v *Verdict) { v.Checksum = []string{"7"} }, "wrong checksums"},
		{"bad CRC", Cell{CRC: true}, func(v *Verdict) { v.BadCRC = 1 }, "1 FPDUs with a bad CRC"},
		{"CRC missing", Cell{CRC: true}, func(v *Verdict) { v.GoodCRC = 3 }, "3 of 4"},
		{"CRC unasked", Cell{}, func(*Verdict) {}, "want none"},
		{"FPDUs unasked", Cell{None: true}, func(*Verdict) {}, "4 FPDUs, want none"},
		{"no FPDU", Cell{}, func(v *Verdict) { v.FPDUs = 0 }, "no FPDU found"},
		{"nothing", Cell{None: true}, func(v *Verdict) { *v = Verdict{} }, "nothing captured"},
	} {
		v := good
		x.change(&v)
		err := x.c.weigh(&v)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: %v", x.what, err)
		}
	}
}

func TestExpectations(t *testing.T) {
	ok := verify.Report{Conns: []verify.ConnReport{{}}}
	ended := verify.Report{Conns: []verify.ConnReport{{End: "invalid STag"}}}
	for _, x := range []struct {
		what  string
		c     Cell
		nic   nicEnd
		guest guestEnd
		good  bool
	}{
		{"both well", Cell{NICServes: true}, nicEnd{ok, nil}, guestEnd{}, true},
		{"the NIC failed", Cell{}, nicEnd{ok, errors.New("x")}, guestEnd{}, false},
		{"a connection of the NIC's server failed", Cell{NICServes: true}, nicEnd{ended, nil}, guestEnd{}, false},
		{"the guest failed", Cell{}, nicEnd{ok, nil}, guestEnd{code: 1}, false},
		{"the guest is gone", Cell{}, nicEnd{ok, nil}, guestEnd{err: errors.New("x")}, false},
		{"as said", Cell{NICServes: true, NICSays: "x|invalid STag", GuestSays: "flushed"}, nicEnd{ended, nil}, guestEnd{code: 1, said: "step flushed"}, true},
		{"otherwise", Cell{NICSays: "bounds", GuestSays: anything}, nicEnd{ended, nil}, guestEnd{}, false},
		{"rping's late thread", Cell{Rping: true}, nicEnd{ok, nil}, guestEnd{code: 255, said: "client DISCONNECT EVENT...\nrdma_get_cm_event: Bad file descriptor\n"}, true},
		{"a ping missing", Cell{Rping: true, Job: verify.Job{Conns: 5}}, nicEnd{perf.Report{Messages: 4}, nil}, guestEnd{}, false},
		{"rping's other ends", Cell{Rping: true}, nicEnd{ok, nil}, guestEnd{code: 255, said: "data mismatch!\nrdma_get_cm_event: Bad file descriptor\n"}, false},
		{"perftest's results", Cell{Program: &Program{Want: "#bytes"}}, nicEnd{" #bytes #iterations\n", nil}, guestEnd{}, true},
		{"no results", Cell{Program: &Program{Want: "#bytes"}}, nicEnd{"", nil}, guestEnd{said: " #bytes"}, false},
		{"the guest's results", Cell{Program: &Program{Want: "#bytes"}, NICServes: true}, nicEnd{"", nil}, guestEnd{said: " #bytes"}, true},
		{"perftest's late goodbye", Cell{Program: &Program{Want: "#bytes"}, NICServes: true}, nicEnd{"", nil}, guestEnd{code: 1, said: " #bytes #iterations\n 8       50      418.52\n Failed to close connection between server and client\n"}, true},
		{"one whose results come later", Cell{Program: &Program{Want: "#bytes"}, NICServes: true}, nicEnd{"", nil}, guestEnd{code: 1, said: "Failed to close connection between server and client\n #bytes #iterations\n 8       50      418.52\n"}, true},
		{"a goodbye without results", Cell{Program: &Program{}, NICServes: true}, nicEnd{"", nil}, guestEnd{code: 1, said: " Failed to close connection between server and client\n #bytes\n"}, false},
		{"verify has no such thread", Cell{}, nicEnd{ok, nil}, guestEnd{code: 255, said: "client DISCONNECT EVENT...\nrdma_get_cm_event: Bad file descriptor\n"}, false},
		{"other depths", Cell{Reads: &Reads{1, 2}}, nicEnd{verify.Report{Conns: []verify.ConnReport{{IRD: 1, ORD: 3}}}, nil}, guestEnd{}, false},
		{"these depths", Cell{Reads: &Reads{1, 3}}, nicEnd{verify.Report{Conns: []verify.ConnReport{{IRD: 1, ORD: 3}}}, nil}, guestEnd{}, true},
		{"no connection with depths", Cell{Reads: &Reads{1, 3}}, nicEnd{verify.Report{}, nil}, guestEnd{}, false},
		{"no error where one must be", Cell{GuestSays: "flushed"}, nicEnd{ok, nil}, guestEnd{}, false},
	} {
		if err := x.c.check(x.nic, x.guest); (err == nil) != x.good {
			t.Errorf("%s: %v", x.what, err)
		}
	}
}

// results are some of two topics.
func results() []Result {
	return []Result{
		{Cell: Cell{Topic: "a", Name: "x", Reads: &Reads{3, 4}}, Verdict: Verdict{FPDUs: 3, GoodCRC: 2}},
		{Cell: Cell{Topic: "a", Name: "y", NICSays: "one|two", Differs: "odd", Clause: "RFC 1 section 2"}, Verdict: Verdict{FPDUs: 4}},
		{Cell: Cell{Topic: "b", Name: "z", NICServes: true, MTU: 576, Siw: []string{"s=1"}, NIC: []string{"n=1"}}},
	}
}

func TestTableReplacesTheGeneratedPart(t *testing.T) {
	list := results()
	list[1].Err = errors.New("one\ntwo | three")
	name := filepath.Join(t.TempDir(), "doc.md")
	if err := WriteFile(name, list, "head"); err == nil {
		t.Error("a file that is not there was written")
	}
	if err := os.WriteFile(name, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(name, list, "head\n"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n" + beginMark + "\nhead\n",
		"| a | 1 pass, **1 fail** | 0 pass | 7 | 2 |\n",
		"| x | connects | IPv4 | pass: IRD 3, ORD 4 | 3 |  |\n",
		"| y | connects | IPv4 | **fail**: one; two / three | 4 | odd (RFC 1 section 2) |\n",
		"| z | serves | IPv4, MTU 576, siw: s=1, NIC: n=1 | pass | 0 |  |\n" + endMark + "\nafter\n",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in\n%s", want, b)
		}
	}
	if strings.Contains(string(b), "old") {
		t.Error("the old part stayed")
	}
}

func TestCheckPage(t *testing.T) {
	list := results()
	var cells []Cell
	for _, r := range list {
		cells = append(cells, r.Cell)
	}
	page := func(list []Result) string { return beginMark + "\n" + Table(list) + endMark + "\n" }
	failed := slices.Clone(list)
	failed[1].Err = errors.New("x")
	other := slices.Clone(list)
	other[0].Cell.Name = "other"
	for _, x := range []struct {
		what, page, want string
	}{
		{"all there", page(list), ""},
		{"what a cell expects", strings.Replace(page(list), "IRD 3", "IRD 5", 1), ""},
		{"one missing", page(list[:2]), "has no row"},
		{"one too many", page(append(slices.Clone(list), list[0])), "not the next cell"},
		{"another one", page(other), "not the next cell"},
		{"one failed", page(failed), "a: y, NIC connects, IPv4: **fail**: x"},
		{"no marks", Table(list), "marks"},
	} {
		err := CheckPage(x.page, cells)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: %v", x.what, err)
		}
	}
}
