package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ui/record"
	"tapir/lab/topo"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// serve starts a server until the test ends, in a runtime directory of its own.
func serve(t *testing.T, o Options) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "tapir-ui") // t.TempDir may be longer than a socket path can be
	must(t, err)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, err := Listen("127.0.0.1:0", o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	return s
}

// visitor is a browser that has opened the page.
func visitor(t *testing.T, s *Server) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	c := &http.Client{Jar: jar}
	resp, err := c.Get(s.URL())
	must(t, err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK || !bytes.Contains(page, []byte("app.js")) || resp.Request.URL.RawQuery != "" {
		t.Fatalf("%s: %s\n%s", resp.Request.URL, resp.Status, page)
	}
	return c
}

func (s *Server) at(path string) string { return "http://" + s.l.Addr().String() + path }

// read decodes an answer, which has no fields that v does not have.
func read(t *testing.T, c *http.Client, url string, v any) {
	t.Helper()
	resp, err := c.Get(url)
	must(t, err)
	defer resp.Body.Close()
	d := json.NewDecoder(resp.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %v", url, resp.Status, err)
	}
}

// TestGuard: who has no token, another Host, or comes from another page, gets in nowhere.
func TestGuard(t *testing.T) {
	s := serve(t, Options{Version: "v1"})
	c := visitor(t, s)
	for _, path := range []string{"/", "/app.js", "/api/v1/about", "/api/v1/overview", "/api/v1/file", "/?token=wrong"} {
		resp, err := http.Get(s.at(path))
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a token: %s", path, resp.Status)
		}
	}
	for host, want := range map[string]int{"evil.example": 421, "evil.example:80": 421, "10.0.0.1": 421, "localhost": 200,
		"127.0.0.1": 200, "[::1]:80": 200} {
		req, err := http.NewRequest(http.MethodGet, s.at("/api/v1/about"), nil)
		must(t, err)
		req.Host = host
		req.AddCookie(&http.Cookie{Name: s.cookie, Value: s.token})
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Host %s: %s", host, resp.Status)
		}
	}
	req, err := http.NewRequest(http.MethodPost, s.at("/api/v1/act"), strings.NewReader(`{"node":"nic0","verb":"stop"}`))
	must(t, err)
	req.Header.Set("Origin", "http://evil.example")
	resp, err := c.Do(req)
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("from another page: %s", resp.Status)
	}
	var about About
	if read(t, c, s.at("/api/v1/about"), &about); about != (About{Schema: 1, Version: "v1"}) {
		t.Errorf("%+v", about)
	}
}

// TestEvents reads the first overview of nothing, and asks for a node that is not there.
func TestEvents(t *testing.T) {
	s := serve(t, Options{})
	c := visitor(t, s)
	for path, want := range map[string]string{
		"/api/v1/overview":     "event: overview\ndata: {\"schema\":1,",
		"/api/v1/node?id=nic0": "event: problem\ndata: \"NIC nic0 is not running",
		"/api/v1/node?id=a/b":  "event: problem\ndata: \"lab a is not up\"",
	} {
		resp, err := c.Get(s.at(path))
		must(t, err)
		got := make([]byte, len(want))
		_, err = io.ReadFull(resp.Body, got)
		resp.Body.Close()
		if err != nil || string(got) != want || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	s := serve(t, Options{})
	for range maxStreams {
		s.streams <- struct{}{}
	}
	resp, err := visitor(t, s).Get(s.at("/api/v1/overview"))
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Error(resp.Status)
	}
}

// fake is a node with an address.
type fake struct {
	ctl.NotRDMA
	ctl.NIC
}

func (fake) Show(kind string) (any, error) {
	if kind != ctl.Kinds[0] {
		return nil, ctl.NoTable("it", kind, nil)
	}
	return map[string]any{"name": "nic1", "addrs": []string{"fe80::1/64", "10.0.0.2/24"}}, nil
}

func (f fake) Follow(kind string, since uint64) (any, uint64, error) {
	return f.NotRDMA.Follow(kind, since)
}
func (f fake) Set(list []ctl.Setting) error { return f.NotRDMA.Set(list) }
func (f fake) Perf(job json.RawMessage, progress func(any), done func(any, error)) (func(), error) {
	return f.NotRDMA.Perf(job, progress, done)
}

// TestCommands: the command lines of actions, and what is refused.
func TestCommands(t *testing.T) {
	s := serve(t, Options{Program: "/bin/echo"})
	c := visitor(t, s)
	node, err := ctl.Listen("nic1", "v1")
	must(t, err)
	node.Serve(fake{})
	defer node.Close()
	for _, at := range []struct{ act, want string }{
		{`{"node":"nic0","verb":"set","set":["link=down"],"dry":true}`, `"commands":["tapir set nic0 link=down"]`},
		{`{"node":"nic0","verb":"set","set":["dprint=a b","x=it's"],"dry":true}`,
			`"commands":["tapir set nic0 'dprint=a b' 'x=it'\\''s'"]`},
		{`{"node":"nic0","verb":"ptp-set","set":["priority1=1"],"dry":true}`, `"commands":["tapir ptp set nic0 priority1=1"]`},
		{`{"node":"nic0","verb":"stop","dry":true}`, `"commands":["tapir stop nic0"]`},
		{`{"node":"nic0","verb":"stop"}`, `"commands":["tapir stop nic0"],"output":"stop nic0\n","ok":true`},
		{`{"node":"nic0","verb":"write","to":"nic1","size":64,"dry":true}`,
			`"commands":["tapir perf write-bw nic1 \u0026","tapir perf write-bw nic0 10.0.0.2 -n 1 -s 64"]`},
		{`{"node":"nic0","verb":"write","to":"nic1","size":0,"dry":true}`, `size 0: expected 1 to`},
		{`{"node":"nic0","verb":"write","to":"nic7","size":1,"dry":true}`, `nic7 is not running`},
		{`{"node":"nic0","verb":"set","dry":true}`, `nothing to set`},
		{`{"node":"nic0","verb":"set","set":["--help"]}`, `expected NAME=VALUE`},
		{`{"node":"nic0","verb":"set","set":["a=\u0000"]}`, `expected NAME=VALUE`},
		{`{"node":"--all","verb":"stop"}`, `"error"`},
		{`{"node":"lab/a","verb":"stop"}`, `lab lab is not up`},
		{`{"node":"nic0","verb":"exec"}`, `expected set, ptp-set, stop, write, fault`},
		{`{"node":"l","verb":"fault","to":"a-b","set":["loss=1%","delay=3ms"],"dry":true}`,
			`"commands":["tapir lab fault a-b loss=1% delay=3ms --lab l"]`},
		{`{"node":"l","verb":"heal","to":"a-b","dry":true}`, `"commands":["tapir lab heal a-b --lab l"]`},
		{`{"node":"l","verb":"link","to":"a-b","set":["down"],"dry":true}`, `"commands":["tapir lab link a-b down --lab l"]`},
		{`{"node":"l","verb":"kill","to":"a","dry":true}`, `"commands":["tapir lab kill a --lab l"]`},
		{`{"node":"l","verb":"clock","to":"a","set":["step=1ms"],"dry":true}`, `"commands":["tapir lab clock a step=1ms --lab l"]`},
		{`{"node":"l","verb":"clock","to":"a","dry":true}`, `nothing is said to happen`},
		{`{"node":"l","verb":"kill","to":"--all"}`, `is no name of a link or node`},
		{`{"node":"l","verb":"fault","to":"a-b","set":["--help"]}`, `expected up or down`},
		{`{"node":"nic0","what":"exec"}`, `unknown field`},
		{``, `cannot be read`},
	} {
		resp, err := c.Post(s.at("/api/v1/act"), "application/json", strings.NewReader(at.act))
		must(t, err)
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		must(t, err)
		if !strings.Contains(string(got), at.want) {
			t.Errorf("%s: %s", at.act, got)
		}
	}
}

// TestCommandsOfLabs: a node of a lab is reached through `tapir lab exec`.
func TestCommandsOfLabs(t *testing.T) {
	c := command{lab: "l", node: "a", argv: []string{"set", "a", "x=1"}}
	if got := c.String(); got != "tapir lab exec l a -- tapir set a x=1" {
		t.Error(got)
	}
}

// TestNeighbors: a line joins NICs of which one has the other as its neighbor.
func TestNeighbors(t *testing.T) {
	o := Overview{Nodes: []*Node{{ID: "a", MAC: "02:00:00:00:00:01", near: []string{"02:00:00:00:00:02"}},
		{ID: "b", MAC: "02:00:00:00:00:02"}, {ID: "c", MAC: "02:00:00:00:00:03"}}}
	if o.neighbors(); len(o.Links) != 1 || o.Links[0] != (Link{A: "a", B: "b"}) {
		t.Errorf("%+v", o.Links)
	}
}

// recorded runs a lab of the examples by the virtual clock.
func recorded(t *testing.T, example string) (dir string, r *result.Result) {
	t.Helper()
	lab, err := topo.Load("../../examples/" + example + "/lab.yaml")
	must(t, err, lab.SetClock(topo.Virtual))
	dir = t.TempDir()
	r, err = virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Out: dir}})
	must(t, err)
	return dir, r
}

// TestRecord serves a recorded lab: its result, its traffic, its ladder and a packet.
func TestRecord(t *testing.T) {
	dir, want := recorded(t, "lossy-link")
	s := serve(t, Options{Record: dir})
	c := visitor(t, s)
	var r record.Record
	read(t, c, s.at("/api/v1/record"), &r)
	var got result.Result
	must(t, json.Unmarshal(r.Result, &got))
	if got.Lab != "lossy-link" || got.Verdict != result.Passed || len(r.Log) < 10 || r.Log[len(r.Log)-1].At == 0 {
		t.Errorf("lab %s: %s, %v", got.Lab, got.Verdict, r.Log)
	}
	frames, struck := map[string]int{}, map[string]int{}
	for _, f := range r.Traffic.Links {
		link, _, _ := strings.Cut(f.End, ":")
		for i := range f.Frames {
			frames[link] += f.Frames[i]
			struck[link] += f.Struck[i]
		}
	}
	for _, l := range want.Links {
		all := l.Counts.Lost + l.Counts.Corrupted + l.Counts.Duplicated + l.Counts.Reordered
		if n := frames[l.Name]; uint64(n) != l.Counts.Frames || (struck[l.Name] > 0) != (all > 0) || uint64(struck[l.Name]) > all {
			t.Errorf("link %s: %d frames, %d struck; want %+v", l.Name, n, struck[l.Name], l.Counts)
		}
	}
	// It passed: its report has the ladder around the first frame that was struck, with octets.
	report, err := os.ReadFile(dir + "/report.html")
	must(t, err)
	if text := string(report); !strings.Contains(text, "Around the first frame that the link struck") || !strings.Contains(text, `"octets":{"`) ||
		len(r.Tables) == 0 || len(report) > 1<<20 {
		t.Errorf("the report of %d octets has no ladder, or the record no tables: %d", len(report), len(r.Tables))
	}
	var x result.Exchange
	read(t, c, s.at("/api/v1/exchange"), &x)
	if len(x.Flows) == 0 || len(x.Ladder) < 60 || x.Verdict != "clean" { // what the link corrupted is nobody's fault
		t.Errorf("%d flows, %d steps, %d beyond, %s", len(x.Flows), len(x.Ladder), x.Beyond, x.Verdict)
	}
	var p Packet
	read(t, c, s.at("/api/v1/packet?n=10"), &p)
	if p.Number != 10 || !strings.HasPrefix(p.Hex, "00000000  ") {
		t.Errorf("%+v", p)
	}
	for path, status := range map[string]int{"/api/v1/packet?n=0": 400, "/api/v1/packet?n=9999999": 404, "/api/v1/exchange?from=x": 400,
		"/api/v1/exchange?start=x": 400} {
		resp, err := c.Get(s.at(path))
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

// TestChoose: what the argument of tapir ui stands for.
func TestChoose(t *testing.T) {
	serve(t, Options{})
	for arg, want := range map[string]string{
		"":          "",
		"nic0":      "NIC nic0 is not running",
		t.TempDir(): "has no result.json: make one with: tapir lab run --out",
		"out/x/y":   "no such directory",
	} {
		var o Options
		err := o.choose(arg)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
