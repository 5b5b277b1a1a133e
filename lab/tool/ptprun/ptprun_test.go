package ptprun

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/ptpconf"
	"tapir/nic"
	"tapir/nic/buf"
	"tapir/nic/fastlinq"
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// lonely is a NIC on a cable that leads nowhere; it counts what it sends.
type lonely struct {
	*nic.Device
	now  frame.Time
	sent int
}

func (l *lonely) Transmit(f *frame.Frame) {
	l.sent++
	id := f.ID
	f.Release()
	l.TxDone(id, l.now, l.now)
}
func (l *lonely) Room() int { return 64 }

// Realtime implements System: the system's clock is 1 s ahead.
func (l *lonely) Realtime(at frame.Time) int64 { return int64(at) + 1_000_000_000 }

func (l *lonely) run(d time.Duration) {
	for end := l.now.Add(d); ; {
		next := l.Poll(l.now)
		if next > end {
			l.now = end
			return
		}
		l.now = max(next, l.now+1)
	}
}

func newLonely(t *testing.T) *lonely {
	t.Helper()
	l := &lonely{}
	d, err := nic.New(nic.Config{Name: "nic0", Hardware: &fastlinq.Config{}, MAC: ether.Addr{2, 0, 0, 0, 0, 1}}, nic.Env{Pool: buf.NewPool(64, 2048), Wire: l})
	if err != nil {
		t.Fatal(err)
	}
	l.Device = d
	return l
}

func TestConfigure(t *testing.T) {
	l := newLonely(t)
	c, err := ptpconf.Configure(l.Device.PTP.DefaultInstance, "", nil, nil)
	if err != nil || c.Profile != ptp.DefaultE2E || c.Transport != transport.Ethernet || c.Time.PTPTimescale || c.ClockIdentity.String() != "020000.fffe.000001" {
		t.Errorf("%+v, %v", c, err)
	}
	// The profile's values come first, wherever it stands, then those of the
	// file, then those of the flags.
	yaml := "priority2: 9\nsync_interval: -5\nprofile: gptp\n"
	c, err = ptpconf.Configure(l.Device.PTP.DefaultInstance, "f.yaml", []byte(yaml), []ptpconf.Setting{{Name: "sync-interval", Value: "-6"}, {Name: "path-trace", Value: "false"}})
	if err != nil || c.Profile != ptp.GPTP || !c.Local || c.Priority2 != 9 || c.Ports[0].LogSyncInterval != -6 || c.PathTrace || c.Ports[0].DelayMechanism != msg.DelayP2P {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []struct{ yaml, name, value, want string }{
		{"profile: x\n", "", "", "f.yaml:1:10: unknown PTP profile"},
		{"transport: carrier pigeon\n", "", "", "f.yaml:1:12: transport: expected L2, UDPv4 or UDPv6"},
		{"- 1\n", "", "", "f.yaml:1:1: expected the settings of a PTP instance"},
		{"", "profile", "x", "unknown PTP profile"},
		{"", "priority1", "x", `priority1: "x": expected a priority`},
		{"", "colour", "x", "colour: unknown setting"},
		{"", "dscp", "64", "expected a number from 0 to 63"},
		{"", "dscp", "46", "frames of transport L2 have none"},
		{"", "announce-receipt-timeout", "1", "expected"},
	} {
		var settings []ptpconf.Setting
		if bad.name != "" {
			settings = []ptpconf.Setting{{Name: bad.name, Value: bad.value}}
		}
		if _, err := ptpconf.Configure(l.Device.PTP.DefaultInstance, "f.yaml", []byte(bad.yaml), settings); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q %s=%s: %v", bad.yaml, bad.name, bad.value, err)
		}
	}
	if n := len(ptpconf.Flags()); n < 40 {
		t.Errorf("%d flags", n)
	}
}

// A run reports each interval, ends after so many, and leaves no instance.
func TestRun(t *testing.T) {
	l := newLonely(t)
	job, err := ParseJob(json.RawMessage(`{"op":"ptp","yaml":"announce_interval: -2\n","interval":500000000,"count":4}`))
	if err != nil {
		t.Fatal(err)
	}
	var list []Report
	ended := 0
	take := func(r Report) { list = append(list, r) }
	if _, err := Start(Of(l.Device), l, job, l.now, take, func(r Report, err error) { take(r); ended++ }); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Of(l.Device), l, job, l.now, take, nil); err == nil {
		t.Error("two instances on one port")
	}
	if err := Set(Of(l.Device), []ptpconf.Setting{{Name: "priority1", Value: "7"}, {Name: "sync_interval", Value: "-4"}, {Name: "slave-only", Value: "false"}}, l.now); err != nil {
		t.Error(err)
	}
	for _, s := range []ptpconf.Setting{{Name: "priority1", Value: "256"}, {Name: "sync_interval", Value: "100"}, {Name: "servo", Value: "pi"}, {Name: "delay_mechanism", Value: "9"}} {
		if err := Set(Of(l.Device), []ptpconf.Setting{s}, l.now); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
	l.run(1900 * time.Millisecond)
	s := StatusOf(Of(l.Device), l, l.now)
	if s.Owner != "engine" || s.Transport != "L2" || s.Instance == nil || s.Instance.Default.Priority1 != 7 || s.Instance.Ports[0].LogSync != -4 || s.Clock.TrueOffset != -1_000_000_000 {
		t.Errorf("%+v", s)
	}
	l.run(5 * time.Second)
	if len(list) != 4 || ended != 1 || list[3].State != "MASTER" || list[3].Elapsed != 2*time.Second || list[3].TrueOffset != -1_000_000_000 {
		t.Fatalf("%d reports, %d ends: %+v", len(list), ended, list)
	}
	events := 0
	for _, r := range list {
		events += len(r.Events)
	}
	if events != 2 || l.PTP.Instance() != nil || l.PTP.Owner() != "" || l.sent == 0 {
		t.Errorf("%d events, %d frames, owner %q", events, l.sent, l.PTP.Owner())
	}
	if err := Set(Of(l.Device), nil, l.now); err != ErrNoInstance {
		t.Errorf("%v", err)
	}
	if s := StatusOf(Of(l.Device), l, l.now); s.Instance != nil || s.Owner != "" {
		t.Errorf("%+v", s)
	}
}

func TestParseJob(t *testing.T) {
	for _, bad := range []string{`{"interval":1}`, `{"interval":7200000000000}`, `{"count":-1}`, `[]`} {
		if _, err := ParseJob(json.RawMessage(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if j, err := ParseJob(json.RawMessage(`{}`)); err != nil || j.Interval != time.Second {
		t.Errorf("%+v, %v", j, err)
	}
}
