package siw

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/node"
	"tapir/lab/siwt"
)

// Every cell can be run: its settings, jobs and steps are valid, and no two
// are called the same.
func TestCellsAreSound(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range append(Smoke(), All()...) {
		if seen[c.String()] {
			t.Errorf("twice: %v", c)
		}
		seen[c.String()] = true
		cfg := node.Config{}
		for _, s := range c.NIC {
			name, value, _ := strings.Cut(s, "=")
			if err := cfg.Set(name, value); err != nil {
				t.Errorf("%v: %v", c, err)
			}
		}
		if c.IPv6 && c.mtu() < 1280 {
			t.Errorf("%v: IPv6 needs 1280 octets", c)
		}
		if c.Rping {
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
	for _, topic := range []string{"operations", "large", "rping", "IRD and ORD", "private data", "rejects", "errors", "killed", "MPA 1", "peer to peer", "CRC"} {
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
	ok := siwt.Report{Conns: []siwt.ConnReport{{}}}
	ended := siwt.Report{Conns: []siwt.ConnReport{{End: "invalid STag"}}}
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
		{"otherwise", Cell{NICSays: "bounds", GuestSays: "*"}, nicEnd{ended, nil}, guestEnd{}, false},
		{"no error where one must be", Cell{GuestSays: "flushed"}, nicEnd{ok, nil}, guestEnd{}, false},
	} {
		if err := x.c.check(x.nic, x.guest); (err == nil) != x.good {
			t.Errorf("%s: %v", x.what, err)
		}
	}
}

func TestTableReplacesTheGeneratedPart(t *testing.T) {
	results := []Result{
		{Cell: Cell{Topic: "a", Name: "x"}, Verdict: Verdict{FPDUs: 3, GoodCRC: 2}, Nudges: 1},
		{Cell: Cell{Topic: "a", Name: "y", Oddity: "odd"}, Err: errors.New("one\ntwo")},
		{Cell: Cell{Topic: "a", Name: "z", NICServes: true}},
	}
	name := filepath.Join(t.TempDir(), "doc.md")
	if err := WriteFile(name, results, "head"); err == nil {
		t.Error("a file that is not there was written")
	}
	if err := os.WriteFile(name, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(name, results, "head\n"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n" + beginMark + "head\n", "| a | siw | 2 | **1 fail** | 3 | 2 | 1 |", "| a | NIC | 1 | all pass | 0 | 0 | 0 |", "| odd |", ": one; two\n" + endMark + "after\n"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in\n%s", want, b)
		}
	}
	if strings.Contains(string(b), "old") {
		t.Error("the old part stayed")
	}
}
