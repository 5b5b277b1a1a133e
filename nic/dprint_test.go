package nic

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/msglog"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// silent are the topics that have no lines here: of programs
// (nic/uapi/uverbs.TestTrace), of ports that open and close (TestLevels), and
// modules of the driver core that say nothing.
var silent = []string{"cmd", "probe", "link", "timer", "ifdown", "ifup", "tx_err", "intr", "wol", "spq", "stats", "dcb", "iov", "storage", "debug"}

// verbose are the lines that topics alone make a NIC say.
func verbose(d *device) (list []view.LineInfo) {
	for _, l := range d.ShowLog(0) {
		if l.Level == msglog.Verbose.String() {
			list = append(list, l)
		}
	}
	return list
}

// Each topic alone has lines, of itself only; without any, and when switched
// off again, the log stays as it is. OV-10
func TestDprint(t *testing.T) {
	for _, topic := range msglog.TopicNames {
		w, a, b := twoNICs(t, Config{})
		if err := a.dev.Set(Setting{"dprint", topic.Name}); err != nil {
			t.Fatal(err)
		}
		a.dev.Receive(frame.Wire, []*frame.Frame{stray(w)}, w.now)
		c, s := dial(w, a, b, b.dev.IP.Addrs()[0].Addr(), 4096)
		exercise(w, c, s, 1000)
		if err := c.qp.Modify(6); err != nil { // Err
			t.Fatal(err)
		}
		w.until(5*time.Second, func() bool { return c.saw(cm.ClosedEvent) })
		lines := verbose(a.dev)
		if (len(lines) == 0) != slices.Contains(silent, topic.Name) {
			t.Errorf("%s: %d lines", topic.Name, len(lines))
		}
		for _, l := range lines {
			if l.Topic != topic.Name || l.Text == "" || !strings.HasPrefix(l.Time, "1970-01-01T01:00:0") {
				t.Errorf("%s: %+v", topic.Name, l)
			}
		}
		for n, l := range a.dev.ShowLog(0) {
			if l.Seq != uint64(n) {
				t.Errorf("line %d is number %d", n, l.Seq)
			}
		}
		if len(verbose(b.dev)) != 0 {
			t.Errorf("%s: the other NIC's log has lines", topic.Name)
		}
		if err := a.dev.Set(Setting{"dprint", "none"}); err != nil {
			t.Fatal(err)
		}
		before := len(lines)
		dialQuietly(w, a, b, b.dev.IP.Addrs()[0].Addr())
		if got := len(verbose(a.dev)); got != before {
			t.Errorf("%s: %d lines more while off", topic.Name, got-before)
		}
	}
}

// The word says from which level on lines of any topic are kept, at once, and
// of this NIC alone. OV-08 OV-09 OV-10
func TestMsglvl(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	flap := func() (said []string) {
		before := len(a.dev.ShowLog(0))
		a.dev.LinkDown(w.now)
		a.dev.LinkUp(w.now)
		if err := a.dev.AddAddr(prefixes("10.0.0.77/24")[0], w.now); err != nil {
			t.Fatal(err)
		}
		if err := a.dev.RemoveAddr(prefixes("10.0.0.77/24")[0].Addr(), w.now); err != nil {
			t.Fatal(err)
		}
		for _, l := range a.dev.ShowLog(0)[before:] {
			said = append(said, l.Level+" "+l.Topic+" "+l.Text)
		}
		return said
	}
	notice := []string{"NOTICE link link is down", "NOTICE link link is up"}
	all := append(slices.Clone(notice), "INFO cmd address 10.0.0.77/24 added", "INFO cmd address 10.0.0.77 removed")
	for _, c := range []struct {
		word, shown, dprint string
		want                []string
	}{
		{"0", "0x80000000", "none", notice}, {"0x40000000", "0x40000000", "none", all}, {"0xc0000000", "0xc0000000", "none", nil},
		{"0x80000000", "0x80000000", "none", notice}, {"0x4000004", "0x04000004", "cm,link", all},
	} {
		if err := a.dev.Set(Setting{"msglvl", c.word}); err != nil {
			t.Fatal(err)
		}
		if got := flap(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.word, got, c.want)
		}
		params := map[string]string{}
		for _, p := range a.dev.ShowParams() {
			params[p.Name] = p.Value
		}
		if params["msglvl"] != c.shown || params["dprint"] != c.dprint {
			t.Errorf("%s: msglvl %s, dprint %s", c.word, params["msglvl"], params["dprint"])
		}
	}
	for _, bad := range []string{"", "-1", "0x100000000", "loud"} {
		if err := a.dev.Set(Setting{"msglvl", bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if err := a.dev.Set(Setting{"msglvl", "0xc0000000"}); err != nil {
		t.Fatal(err)
	}
	a.dev.Fail(errors.New("pulled"), w.now)
	if lines := a.dev.ShowLog(0); lines[len(lines)-1].Level != "ERR" || lines[len(lines)-1].Text != "device failed: pulled" {
		t.Errorf("%+v", lines[len(lines)-1])
	}
	if len(b.dev.ShowLog(0)) != 0 {
		t.Errorf("the other NIC's log: %+v", b.dev.ShowLog(0))
	}
}

// stray is a frame for another station.
func stray(w *world) *frame.Frame {
	f := w.pool.Get(64)
	f.Append(append([]byte{2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8, 8, 0}, make([]byte, 46)...))
	return f
}

func TestShowEvents(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	c, _ := dial(w, a, b, b.dev.IP.Addrs()[0].Addr(), 4096)
	if err := c.id.Disconnect(false, w.now); err != nil {
		t.Fatal(err)
	}
	w.until(5*time.Second, func() bool { return c.saw(cm.ClosedEvent) })
	all := a.dev.ShowEvents(0)
	if len(all) != 3 || all[0].Event != "ACTIVE_COMPLETE" || all[0].IRD != 8 || all[2].Event != "CLOSE" || all[2].State != "ERROR" ||
		all[1].Status != "0" || all[1].Reason != "GOOD_CLOSE" || len(a.dev.ShowEvents(2)) != 1 {
		t.Errorf("%+v", all)
	}
	stats := map[string]view.StatInfo{}
	for _, s := range a.dev.ShowStats() {
		stats[s.Name] = s
	}
	if stats["tcp_socket"].Ever != 1 {
		t.Errorf("%+v", stats["tcp_socket"])
	}
	if stats["qp"].Now != 1 || stats["cep_connected"].Ever != 1 || stats["event_close"].Ever != 1 || stats["cep_connected"].Now != 0 {
		t.Errorf("%+v", stats)
	}
	for _, v := range []any{all, a.dev.ShowStats(), a.dev.ShowLog(0), a.dev.ShowParams()} {
		if _, err := json.Marshal(v); err != nil {
			t.Error(err)
		}
	}
}
