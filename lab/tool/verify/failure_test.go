package verify

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/perf"
	"tapir/mpa"
	"tapir/nic"
	"tapir/nic/iwarp"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// A connection that does not come about says with whom, and why.
func TestSetUpFailuresSayWhy(t *testing.T) {
	serve := func(op perfconf.Op) func(*world) {
		return func(w *world) {
			if _, err := perf.Start(w.NICs[0], perfconf.Job{Op: op, Port: DefaultPort}, w.Now, func(perf.Report, error) {}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		server func(*world)
		cfg    nic.Config
		remote string
		want   []string
	}{
		"nobody listens": {want: []string{"refused"}},
		"no such host":   {remote: "10.0.0.99", want: []string{"10.0.0.99:7174", "unreachable"}},
		"rping": {server: serve(perfconf.Rping), want: []string{"no verifier", "private data (none)", "32 octets of an offer",
			"74776973"}},
		"another test": {server: serve(perfconf.WriteBW), want: []string{"rejected", "no hello of this test"}},
		"CRC": {cfg: nic.Config{IWARP: iwarp.Config{CRC: mpa.CRCRefused}}, server: func(w *world) { w.start(0, Job{}) },
			want: []string{"rejected: no reason given", "CRC required", "markers none"}},
	} {
		w := newWorldOf(t, [2]nic.Config{c.cfg, {}})
		if c.server != nil {
			c.server(w)
		}
		remote := serverAddr
		if c.remote != "" {
			remote = netip.MustParseAddr(c.remote)
		}
		client := w.start(1, Job{Remote: remote, Steps: []string{"send:10"}})
		w.until(func() bool { return client.done })
		var text strings.Builder
		if err := client.rep.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if client.err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(client.err.Error(), want) {
				t.Errorf("%s: %v; want %q", name, client.err, want)
			}
		}
		if got := text.String(); !strings.Contains(got, remote.String()+":7174") || strings.Contains(got, "invalid") ||
			strings.Contains(got, " :0") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// What comes back wrong is named.
func TestWrongAnswersAreNamed(t *testing.T) {
	sent := []byte("sent")
	good := answer{magic, 4, sum(sent), 0}
	short, other := good, good
	short.Length, other.Sum = 3, 1
	for want, got := range map[string][]byte{
		"none of a verifier": []byte("hello"),
		"3 octets inste":     render(short),
		"sum 00000001 in":    render(other),
		"":                   render(good),
	} {
		if text := wrongAnswer(got, sent); !strings.Contains(text, want) || (text == "") != (want == "") {
			t.Errorf("%x: %q", got, text)
		}
	}
	if text := differs([]byte("sEnt"), sent); text != "octet 1 came back as 0x45 instead of 0x65" {
		t.Error(text)
	}
	if text := differs([]byte("sen"), sent); text != "3 octets came back instead of 4" {
		t.Error(text)
	}
}

// A peer that is gone without a word is noticed by keep-alive probes, and the
// connection ends as timed out, without a setting.
func TestKilledPeerIsNoticed(t *testing.T) {
	w := newWorld(t, nic.Config{})
	server := w.start(0, Job{Conns: 1})
	client := w.start(1, Job{Remote: serverAddr, Steps: []string{"write:10", "sleep:4000000"}})
	w.until(func() bool { return client.run.Finished() == 1 })
	var events []verbs.EventType
	w.NICs[0].Verbs.OnAsync(func(ev verbs.AsyncEvent, _ frame.Time) { events = append(events, ev.Type) })
	w.Killed[1] = true
	begun := w.Now
	w.until(func() bool { return server.done })
	stats := w.NICs[0].TCPEngine.Stats()
	if end := server.rep.Conns[0].End; !strings.Contains(end, "timed out") || stats.KeepAliveProbes != 9 || stats.KeepAliveEnds != 1 {
		t.Errorf("%q, %d probes, %d ends", end, stats.KeepAliveProbes, stats.KeepAliveEnds)
	}
	if d := w.Now.Sub(begun); d < 110*time.Second || d > 125*time.Second {
		t.Errorf("after %v", d)
	}
	if len(events) == 0 || events[0] != verbs.EventQPFatal {
		t.Errorf("events %v", events)
	}
}
