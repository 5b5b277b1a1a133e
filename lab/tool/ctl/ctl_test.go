package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"tapir/lab/tool/capture"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNIC serves tables and jobs under the test's control.
type fakeNIC struct {
	stopped   chan struct{}
	cancelled chan struct{}

	mu       sync.Mutex
	progress func(any)
	done     func(any, error)
	tracer   *capture.Session
	started  chan struct{}
}

func newFake() *fakeNIC {
	return &fakeNIC{stopped: make(chan struct{}, 1), cancelled: make(chan struct{}, 1), started: make(chan struct{}, 1)}
}

type row struct {
	QPN   int    `json:"qpn"`
	State string `json:"state"`
}

func (f *fakeNIC) Show(kind string) (any, error) {
	if kind == "mr" {
		return nil, &Error{What: "the engine has ended", Remedy: "start the NIC again"}
	}
	return []row{{3, "RTS"}}, nil
}

func (f *fakeNIC) Follow(kind string, since uint64) (any, uint64, error) {
	if since >= 6 {
		return []row{}, since, nil
	}
	return []row{{int(since), kind}}, since + 2, nil
}

func (f *fakeNIC) Set(settings []Setting) error {
	if settings[0].Name != "ird" {
		return &Error{What: settings[0].Name + ": unknown setting", Status: http.StatusBadRequest}
	}
	return nil
}

func (f *fakeNIC) Perf(job json.RawMessage, progress func(any), done func(any, error)) (func(), error) {
	if strings.Contains(string(job), "bad") {
		return nil, errors.New("unknown operation")
	}
	f.mu.Lock()
	f.progress, f.done = progress, done
	f.mu.Unlock()
	f.started <- struct{}{}
	return func() { f.cancelled <- struct{}{} }, nil
}

func (f *fakeNIC) CaptureInfo() capture.Info { return capture.Info{Name: "nic0", MTU: 1500} }

func (f *fakeNIC) Attach(s *capture.Session, context bool) (func(), error) {
	if context {
		s.Trace(&frame.Record{Data: make([]byte, 60), Notes: frame.Say("replayed for dissection")})
	}
	s.Live()
	f.mu.Lock()
	f.tracer = s
	f.mu.Unlock()
	f.started <- struct{}{}
	return func() {}, nil
}

func (f *fakeNIC) Stop() { f.stopped <- struct{}{} }

// serve runs a server of f in a runtime directory of the test.
func serve(t *testing.T, name string, f *fakeNIC) *Server {
	t.Helper()
	s, err := Listen(name, "test")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(f)
	t.Cleanup(s.Close)
	return s
}

func runtimeDir(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp("", "ctl") // t.TempDir may be longer than a socket path can be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	t.Setenv("XDG_RUNTIME_DIR", d)
	return filepath.Join(d, "tapir")
}

func dial(t *testing.T, name string) *Client {
	t.Helper()
	c, err := Dial(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("error %v is not an *Error", err)
	}
	for _, p := range parts {
		if !strings.Contains(e.Error(), p) {
			t.Errorf("error %q does not say %q", e, p)
		}
	}
}

func TestFollow(t *testing.T) {
	runtimeDir(t)
	s := serve(t, "nic0", newFake())
	c := dial(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	each := func(raw json.RawMessage) {
		if got = append(got, string(raw)); len(got) == 2 {
			cancel()
		}
	}
	want := []string{`[{"qpn":2,"state":"log"}]`, `[{"qpn":4,"state":"log"}]`}
	if err := c.Follow(ctx, "log", 2, each); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	wantError(t, c.Follow(t.Context(), "qp", 0, each), "cannot be followed")
	done := make(chan error)
	go func() { done <- c.Follow(t.Context(), "events", 6, each) }()
	s.Close() // the NIC's end is the list's end
	if err := <-done; err != nil && !strings.Contains(err.Error(), "NIC nic0") {
		t.Error(err)
	}
}

func TestSet(t *testing.T) {
	runtimeDir(t)
	serve(t, "nic0", newFake())
	c := dial(t, "")
	var got []row
	if err := c.Set(t.Context(), []Setting{{Name: "ird", Value: "16"}}, &got); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	wantError(t, c.Set(t.Context(), []Setting{{Name: "speed", Value: "1"}}, &got), "speed: unknown setting")
	wantError(t, c.Set(t.Context(), nil, &got), "expected a list of parameters")
}

func TestShow(t *testing.T) {
	runtimeDir(t)
	serve(t, "nic0", newFake())
	c := dial(t, "")
	var got []row
	if err := c.Show(t.Context(), "qp", &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]row{{3, "RTS"}}, got); d != "" {
		t.Fatal(d)
	}
	wantError(t, c.Show(t.Context(), "mr", &got), "the engine has ended", "start the NIC again")
	wantError(t, c.Show(t.Context(), "colour", &got), `"colour"`, "counters")
	if want := (Hello{Version, "test", "nic0", os.Getpid()}); c.Hello != want {
		t.Fatalf("hello %+v", c.Hello)
	}
}

func TestPerfReportsProgressAndResult(t *testing.T) {
	runtimeDir(t)
	f := newFake()
	serve(t, "nic0", f)
	c := dial(t, "nic0")
	go func() {
		<-f.started
		f.progress(map[string]int{"percent": 50})
		f.done(map[string]int{"gbps": 7}, nil)
	}()
	var progress []string
	var report struct{ GBPS int }
	begun := 0
	c.Begun = func() { begun++ }
	err := c.Perf(t.Context(), map[string]string{"op": "write-bw"}, func(p json.RawMessage) { progress = append(progress, string(p)) }, &report)
	if err != nil || report.GBPS != 7 || len(progress) != 1 || progress[0] != `{"percent":50}` || begun != 1 {
		t.Fatalf("%v, report %+v, progress %q, begun %d", err, report, progress, begun)
	}
}

func TestPerfErrors(t *testing.T) {
	runtimeDir(t)
	f := newFake()
	s := serve(t, "nic0", f)
	c := dial(t, "nic0")
	c.Begun = func() { t.Error("a job that was refused has begun") }
	wantError(t, c.Perf(t.Context(), "bad", nil, nil), "unknown operation")
	c.Begun = nil
	go func() {
		<-f.started
		f.done(nil, &Error{What: "10.0.0.2 refused the connection", Remedy: "start the server there"})
	}()
	wantError(t, c.Perf(t.Context(), "job", nil, nil), "refused", "start the server there")
	go func() {
		<-f.started
		s.Close()
	}()
	wantError(t, c.Perf(t.Context(), "job", nil, nil), "stopping")
	<-f.cancelled
}

func TestPerfEndsWithItsClient(t *testing.T) {
	runtimeDir(t)
	f := newFake()
	serve(t, "nic0", f)
	c := dial(t, "nic0")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-f.started
		cancel()
	}()
	if err := c.Perf(ctx, "job", nil, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	select {
	case <-f.cancelled:
	default:
		t.Fatal("Perf returned before the job was cancelled")
	}
}

func countPackets(t *testing.T, b []byte) (packets, statistics int) {
	t.Helper()
	r := pcapng.NewReader(bytes.NewReader(b))
	for {
		blk, err := r.Next()
		if err == io.EOF {
			return packets, statistics
		}
		if err != nil {
			t.Fatal(err)
		}
		switch blk.(type) {
		case *pcapng.Packet:
			packets++
		case *pcapng.Statistics:
			statistics++
		}
	}
}

func TestCaptureEndsCompleteOnInterrupt(t *testing.T) {
	runtimeDir(t)
	f := newFake()
	serve(t, "nic0", f)
	c := dial(t, "nic0")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-f.started
		f.tracer.Trace(&frame.Record{Data: make([]byte, 60)})
		cancel()
	}()
	var b bytes.Buffer
	if st, err := c.Capture(ctx, CaptureOptions{}, &b); err != nil || st.Written != 2 {
		t.Fatal(st, err)
	}
	if p, s := countPackets(t, b.Bytes()); p != 2 || s != 1 {
		t.Fatalf("%d packets, %d statistics", p, s)
	}
}

func TestCaptureOptionsReachTheSession(t *testing.T) {
	runtimeDir(t)
	f := newFake()
	serve(t, "nic0", f)
	c := dial(t, "nic0")
	go func() {
		<-f.started
		for range 5 {
			f.tracer.Trace(&frame.Record{Data: make([]byte, 60)})
		}
	}()
	var b bytes.Buffer
	if _, err := c.Capture(t.Context(), CaptureOptions{SnapLen: 20, Count: 2, NoContext: true, Raw: true, Host: true}, &b); err != nil {
		t.Fatal(err)
	}
	if p, _ := countPackets(t, b.Bytes()); p != 2 {
		t.Fatalf("%d packets", p)
	}
	resp, err := c.do(t.Context(), http.MethodGet, "/v1/capture?snaplen=-3", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	wantError(t, decode(resp, nil), `snaplen="-3"`)
}

func TestCaptureEndsCompleteWhenTheNICStops(t *testing.T) {
	runtimeDir(t)
	f := newFake()
	s := serve(t, "nic0", f)
	c := dial(t, "nic0")
	go func() {
		<-f.started
		s.Close()
	}()
	var b bytes.Buffer
	if _, err := c.Capture(t.Context(), CaptureOptions{}, &b); err != nil {
		t.Fatal(err)
	}
	if p, st := countPackets(t, b.Bytes()); p != 1 || st != 1 {
		t.Fatalf("%d packets, %d statistics", p, st)
	}
}

func TestStop(t *testing.T) {
	runtimeDir(t)
	f := newFake()
	serve(t, "nic0", f)
	if err := dial(t, "nic0").Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-f.stopped
}

func TestHandshakeComesFirst(t *testing.T) {
	runtimeDir(t)
	s := serve(t, "nic0", newFake())
	for _, c := range []struct{ path, want string }{
		{"/v1/show/qp", "handshake is missing"},
		{"/v1/version?control=99", `asked for "99"`},
	} {
		conn, err := net.Dial("unix", s.Path())
		if err != nil {
			t.Fatal(err)
		}
		h := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
		resp, err := h.Get("http://nic" + c.path)
		if err != nil {
			t.Fatal(err)
		}
		err = decode(resp, nil)
		resp.Body.Close()
		wantError(t, err, c.want)
		if resp.StatusCode != http.StatusUpgradeRequired {
			t.Errorf("%s: status %d", c.path, resp.StatusCode)
		}
	}
}

func TestPeerUsers(t *testing.T) {
	for _, c := range []struct {
		peer, own int
		want      bool
	}{{1000, 1000, true}, {0, 1000, true}, {1001, 1000, false}, {1000, 0, false}} {
		if got := allowed(c.peer, c.own); got != c.want {
			t.Errorf("peer %d of a NIC of %d: %v", c.peer, c.own, got)
		}
	}
}

func TestDialNamesTheChoices(t *testing.T) {
	runtimeDir(t)
	_, err := Dial("")
	wantError(t, err, "no NIC is running", StartHint)
	_, err = Dial("nic0")
	wantError(t, err, "nic0 is not running", "--name nic0")
	serve(t, "nic1", newFake())
	serve(t, "nic0", newFake())
	if d := cmp.Diff([]string{"nic0", "nic1"}, List()); d != "" {
		t.Error(d)
	}
	_, err = Dial("")
	wantError(t, err, "nic0, nic1", "choose one by its name")
	_, err = Dial("nic7")
	wantError(t, err, "nic7 is not running", "nic0, nic1")
	_, err = Dial("../nic0")
	wantError(t, err, "not allowed")
}

func TestNothingIsLeftBehind(t *testing.T) {
	dir := runtimeDir(t)
	a, b := serve(t, "nic0", newFake()), serve(t, "nic1", newFake())
	if fi, err := os.Stat(a.Path()); err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatalf("socket: %v, %v", fi, err)
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Fatalf("directory: %v, %v", fi, err)
	}
	a.Close()
	if _, err := os.Stat(b.Path()); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("%s is left: %v", dir, err)
	}
}

func TestLiveSocketIsRefusedStaleOneReplaced(t *testing.T) {
	dir := runtimeDir(t)
	s := serve(t, "nic0", newFake())
	_, err := Listen("nic0", "test")
	wantError(t, err, "already running (process", "--name")
	stale := s.Path() + ".kept"
	if err := os.Link(s.Path(), stale); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Rename(stale, s.Path())); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "nic0.sock")); err != nil {
		t.Fatalf("no stale socket to test with: %v", err)
	}
	if got := List(); len(got) != 0 {
		t.Errorf("listed %q", got)
	}
	serve(t, "nic0", newFake())
	dial(t, "nic0")
}

// Who sees the socket of a NIC that starts can connect to it.
func TestSocketAnswersOnceItIsThere(t *testing.T) {
	path := filepath.Join(runtimeDir(t), "nic0.sock")
	for range 100 {
		dialed := make(chan error)
		go func() {
			for {
				c, err := net.Dial("unix", path)
				if err == nil {
					c.Close()
				}
				if !errors.Is(err, fs.ErrNotExist) {
					dialed <- err
					return
				}
			}
		}()
		s, err := Listen("nic0", "test")
		if err != nil {
			t.Fatal(err)
		}
		if err := <-dialed; err != nil {
			t.Error(err)
		}
		s.Close()
	}
}

// NICs that start and end at the same time, each of which may be the last one in
// the directory.
func TestDirectoryComesAndGoes(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for range 100 {
				s, err := Listen(fmt.Sprintf("nic%d", i), "test")
				if err != nil {
					t.Error(err)
					return
				}
				s.Close()
			}
		})
	}
	wait.Wait()
}

func TestUnsafePlacesAreRefused(t *testing.T) {
	dir := runtimeDir(t)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Listen("nic0", "test")
	wantError(t, err, "open to other users", "chmod 700")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	_, err = Listen("nic0", "test")
	wantError(t, err, "not a directory")
	_, err = Listen("a/b", "test")
	wantError(t, err, "not allowed")
	long := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), strings.Repeat("x", 90))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", long)
	_, err = Listen("nic0", "test")
	wantError(t, err, "longer than", "XDG_RUNTIME_DIR")
}
