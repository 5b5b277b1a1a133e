package nic

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/wire/frame"
)

// Each topic alone has lines, of itself only; without any, and when switched
// off again, the log stays as it is.
func TestDprint(t *testing.T) {
	for i, topic := range frame.TopicNames {
		w, a, b := twoNICs(t, Config{})
		if err := a.dev.Set(Setting{"dprint", topic}); err != nil {
			t.Fatal(err)
		}
		a.dev.Receive(frame.Wire, []*frame.Frame{stray(w)}, w.now)
		c, s := dial(w, a, b, b.dev.Addrs()[0].Addr(), 4096)
		exercise(w, c, s, 1000)
		if err := c.qp.Modify(6); err != nil { // Err
			t.Fatal(err)
		}
		w.until(5*time.Second, func() bool { return c.saw(cm.ClosedEvent) })
		lines := a.dev.ShowLog(0)
		if programs := topic == "cmd"; (len(lines) == 0) != programs { // there are none here: nic/uapi/uverbs.TestTrace
			t.Errorf("%s: %d lines", topic, len(lines))
		}
		for n, l := range lines {
			if l.Topic != topic || l.Text == "" || l.Seq != uint64(n) || !strings.HasPrefix(l.Time, "1970-01-01T01:00:0") {
				t.Errorf("%s: %+v", topic, l)
			}
		}
		if len(b.dev.ShowLog(0)) != 0 {
			t.Errorf("%d: the other NIC's log has lines", i)
		}
		if err := a.dev.Set(Setting{"dprint", "none"}); err != nil {
			t.Fatal(err)
		}
		before := len(lines)
		dialQuietly(w, a, b, b.dev.Addrs()[0].Addr())
		if got := len(a.dev.ShowLog(0)); got != before {
			t.Errorf("%s: %d lines more while off", topic, got-before)
		}
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
	c, _ := dial(w, a, b, b.dev.Addrs()[0].Addr(), 4096)
	if err := c.id.Disconnect(false, w.now); err != nil {
		t.Fatal(err)
	}
	w.until(5*time.Second, func() bool { return c.saw(cm.ClosedEvent) })
	all := a.dev.ShowEvents(0)
	if len(all) != 3 || all[0].Event != "ACTIVE_COMPLETE" || all[0].IRD != 8 || all[2].Event != "CLOSE" || all[2].State != "ERROR" ||
		all[1].Status != "0" || all[1].Reason != "GOOD_CLOSE" || len(a.dev.ShowEvents(2)) != 1 {
		t.Errorf("%+v", all)
	}
	stats := map[string]StatInfo{}
	for _, s := range a.dev.ShowStats() {
		stats[s.Name] = s
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
