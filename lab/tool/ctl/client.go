package ctl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"tapir/lab/conf"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/files"
	"tapir/lab/tool/usage"
	"tapir/nic/msglog"
	"tapir/nic/uapi/ipc"
	"tapir/nic/view"
)

// StartHint is the command that starts a NIC, for messages.
const StartHint = "tapir nic --tap tap0 --ip 10.0.0.1/24"

// streamBuffer is what a capture reads and writes at a time, in octets.
const streamBuffer = 256 << 10

// handshakeTimeout bounds how long a live server may take to greet.
const handshakeTimeout = 5 * time.Second

// Client talks to one running NIC.
type Client struct {
	Hello Hello // the server's answer to the handshake
	// Begun, if not nil, is called when the NIC has begun a job of Perf: a server
	// then listens.
	Begun func()

	path   string
	http   *http.Client
	inside func(job any, begun func(), report any) error
}

// Inside is a client of a NIC of this process, which has jobs alone: perf is Perf.
func Inside(name string, perf func(job any, begun func(), report any) error) *Client {
	return &Client{Hello: Hello{Name: name}, inside: perf}
}

// List returns the names of the running NICs that this user may control, in
// order. Sockets whose process is gone are left out.
func List() (running []string) { return ListIn(Dir()) }

// ListIn is List of nodes whose control sockets lie in dir.

func ListIn(dir string) (running []string) {
	for _, name := range sockets(dir) {
		if c, err := net.Dial("unix", filepath.Join(dir, name+suffix)); err == nil {
			c.Close()
			running = append(running, name)
		}
	}
	return running
}

// Managers returns the names of the Ethernet Managers that run.
func Managers(ctx context.Context) (found []string, err error) {
	return that(func(c *Client) bool {
		var row struct{ Kind string }
		_ = c.Show(ctx, Kinds[0], &row) // else it is none
		return row.Kind == "em"
	})
}

// that returns the names of the nodes that run and are as is says.
func that(is func(c *Client) bool) (found []string, err error) {
	for _, name := range List() {
		c, err := Dial(name)
		if err != nil {
			return nil, err
		}
		if is(c) {
			found = append(found, name)
		}
		c.Close()
	}
	return found, nil
}

// Speaking returns name or, without one, that of the only NIC of a personality. With
// several, the error is one of usage.
func Speaking(ctx context.Context, name, personality string) (string, error) {
	if name != "" || personality == "" {
		return name, nil
	}
	found, err := that(func(c *Client) bool {
		var rows []view.DeviceRow
		_ = c.Show(ctx, "device", &rows) // other nodes have no such table
		return slices.ContainsFunc(rows, func(r view.DeviceRow) bool {
			return r.Name == "personality" && r.Value == personality
		})
	})
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", fmt.Errorf("no NIC with personality %[1]s is running: tapir nic --personality %[1]s", personality)
	case len(found) > 1:
		return "", usage.Errorf("several NICs with personality %s are running (%s): choose one by its name",
			personality, strings.Join(found, ", "))
	}
	return found[0], nil
}

// Dial connects to the NIC called name; an empty name means the only one that
// runs.
func Dial(name string) (*Client, error) { return dialIn(context.Background(), Dir(), name) }

// DialContext is Dial that ends with ctx.
func DialContext(ctx context.Context, name string) (*Client, error) { return dialIn(ctx, Dir(), name) }

// DialIn is Dial of a NIC whose control socket lies in dir.
func DialIn(dir, name string) (*Client, error) { return dialIn(context.Background(), dir, name) }

func dialIn(ctx context.Context, dir, name string) (*Client, error) {
	if name == "" {
		switch running := ListIn(dir); len(running) {
		case 0:
			return nil, &Error{What: "no NIC is running (looked in " + dir + ")",
				Remedy: "start one with: " + StartHint}
		case 1:
			name = running[0]
		default:
			return nil, &Error{What: "several NICs are running: " + strings.Join(running, ", "),
				Remedy: "choose one by its name"}
		}
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name+suffix)
	c := &Client{path: path}
	c.http = &http.Client{Transport: &http.Transport{DialContext: c.dial, DisableCompression: true,
		IdleConnTimeout: time.Second,
		ReadBufferSize:  streamBuffer}}
	conn, err := net.Dial("unix", path)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil, notRunning(dir, name, ListIn(dir))
	}
	if err != nil {
		return nil, &Error{What: fmt.Sprintf("cannot reach NIC %s: %v", name, err),
			Remedy: "run the command as the user who started it, or as root"}
	}
	defer conn.Close()
	if c.Hello, err = handshake(ctx, conn); err != nil {
		return nil, err
	}
	return c, nil
}

// Ping greets the NIC once more. Error: as of Dial.
func (c *Client) Ping(ctx context.Context) error {
	conn, err := c.dial(ctx, "", "")
	if err != nil {
		return err
	}
	return conn.Close()
}

// few NICs are listed whole.
const few = 8

func notRunning(dir, name string, running []string) error {
	if len(running) == 0 {
		return &Error{What: fmt.Sprintf("NIC %s is not running, nor is any other (looked in %s)", name, dir),
			Remedy: "start it with: " + StartHint + " --name " + name}
	}
	if hint := conf.Near(name, running); hint != "" && len(running) > few {
		return &Error{What: fmt.Sprintf("NIC %s is not running", name), Remedy: hint}
	}
	return &Error{What: fmt.Sprintf("NIC %s is not running", name),
		Remedy: "running: " + strings.Join(running, ", ") + "; start another with: " + StartHint + " --name " + name}
}

// dial opens a connection for http.Transport and greets.
func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, err
	}
	if _, err := handshake(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// handshake says our version on a fresh connection.
func handshake(ctx context.Context, conn net.Conn) (h Hello, err error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return h, err
	}
	interrupted := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://nic/v1/version?control=%d", Version), nil)
	if err != nil {
		return h, err
	}
	_ = req.Write(conn) // who refused us at once does not read it, but has said why
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if !interrupted() && ctx.Err() == context.Canceled {
		return h, ctx.Err()
	}
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		what, remedy := ipc.NoAnswer(conn)
		return h, &Error{What: what, Remedy: remedy}
	}
	if err != nil {
		return h, &Error{What: fmt.Sprintf("the NIC behind %s does not answer: %v", conn.RemoteAddr(), err),
			Remedy: "end its process and start it again"}
	}
	defer resp.Body.Close()
	if err := decode(resp, &h); err != nil {
		return h, err
	}
	return h, conn.SetDeadline(time.Time{})
}

// decode reads a JSON answer into v, or the error that it carries.
func decode(resp *http.Response, v any) error {
	if resp.StatusCode != http.StatusOK {
		e := &Error{Status: resp.StatusCode}
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(e); err != nil || e.What == "" {
			e.What = "the NIC answered " + resp.Status
		}
		return e
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// do sends a request, a POST with in as JSON, and returns the answer, whose
// status is not yet checked.
func (c *Client) do(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if method == http.MethodPost {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://nic"+path, body)
	if err != nil {
		return nil, err
	}
	// leave ends the connection of a job, the server bounds in time what goes out
	// by that of a capture: no other request may get one of them.
	req.Close = path == perfPath || strings.HasPrefix(path, capturePath+"?")
	resp, err := c.http.Do(req)
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		if e := (*Error)(nil); errors.As(err, &e) || ctx.Err() != nil {
			return nil, ue.Err
		}
		return nil, &Error{What: fmt.Sprintf("NIC %s: %v", c.Hello.Name, ue.Err),
			Remedy: "it may have ended; see: tapir show"}
	}
	return resp, err
}

// call sends a request and decodes the answer into v unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, in, v any) error {
	resp, err := c.do(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decode(resp, v)
}

// follow sends a request and follows what is told to its end.
func (c *Client) follow(ctx context.Context, method, path string, in any, progress func(json.RawMessage),
	report any) error {
	resp, err := c.do(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return decode(resp, nil)
	}
	if path == perfPath && c.Begun != nil {
		c.Begun()
	}
	return readEvents(resp.Body, progress, report)
}

// Close gives idle connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Show decodes the table of that kind into v, as encoding/json does.
func (c *Client) Show(ctx context.Context, kind string, v any) error {
	return c.call(ctx, http.MethodGet, "/v1/show/"+url.PathEscape(kind), nil, v)
}

// Follow calls each with every new list of entries of kind, events or log,
// from number since on, until ctx ends or the NIC does.
func (c *Client) Follow(ctx context.Context, kind string, since uint64, each func(json.RawMessage)) error {
	path := fmt.Sprintf("/v1/follow/%s?since=%d", url.PathEscape(kind), since)
	err := c.follow(ctx, http.MethodGet, path, nil, each, &struct{}{})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Set changes parameters, all or none, and decodes the table of all of them
// into v unless that is nil.
func (c *Client) Set(ctx context.Context, settings []Setting, v any) error {
	return c.call(ctx, http.MethodPost, "/v1/set", settings, v)
}

// ParseSettings reads NAME=VALUE...
func ParseSettings(args []string) (list []Setting, err error) {
	for _, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return nil, usage.Errorf("%q: expected NAME=VALUE: see: tapir set --help", a)
		}
		list = append(list, Setting{Name: strings.ReplaceAll(name, "-", "_"), Value: value})
	}
	return list, nil
}

// Command runs a command that only some NICs have; args encodes to JSON, the
// answer is decoded into v unless that is nil.
func (c *Client) Command(ctx context.Context, name string, args, v any) error {
	return c.call(ctx, http.MethodPost, "/v1/do/"+url.PathEscape(name), args, v)
}

// Stop asks the NIC to end.
func (c *Client) Stop(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/stop", nil, nil)
}

// Perf runs job, which encodes to JSON, and decodes the result into report.
// progress, if not nil, gets what the NIC tells meanwhile. When ctx ends, the
// NIC cancels the job, and Perf returns when it has.
func (c *Client) Perf(ctx context.Context, job any, progress func(json.RawMessage), report any) error {
	if c.inside != nil {
		return c.inside(job, c.Begun, report)
	}
	running, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	var conn atomic.Pointer[net.UnixConn]
	defer context.AfterFunc(ctx, func() { leave(conn.Load(), abort) })()
	traced := httptrace.WithClientTrace(running, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		c, _ := i.Conn.(*net.UnixConn)
		conn.Store(c)
	}})
	err := c.follow(traced, http.MethodPost, perfPath, job, progress, report)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// leave tells the NIC that its client wants no more, and gives it a few seconds
// to end what it did.
func leave(conn *net.UnixConn, abort func()) {
	if conn == nil || conn.CloseWrite() != nil {
		abort()
		return
	}
	time.AfterFunc(closeGrace, abort)
}

// readEvents follows a job to its end.
func readEvents(r io.Reader, progress func(json.RawMessage), report any) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 16<<20)
	var name string
	for sc.Scan() {
		if n, ok := strings.CutPrefix(sc.Text(), "event: "); ok {
			name = n
		}
		data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		switch name {
		case eventProgress:
			if progress != nil {
				progress(bytes.Clone(data))
			}
		case eventResult:
			return json.Unmarshal(data, report)
		case eventError:
			e := &Error{}
			if err := json.Unmarshal(data, e); err != nil {
				return err
			}
			return e
		}
	}
	if err := sc.Err(); err != nil {
		return err
	}
	return &Error{What: "the NIC ended before the job did"}
}

// onlyWriter hides ReadFrom, so that io.CopyBuffer uses its buffer.
type onlyWriter struct{ io.Writer }

// CaptureOptions says what to capture; see capture.Options.
type CaptureOptions struct {
	SnapLen   int // octets kept of each frame; 0 = all
	Bulk      int
	Compact   bool
	Count     uint64
	Raw       bool
	Host      bool
	PHC       bool // see capture.Options
	Log       msglog.Topic
	NoContext bool   // leave out the saved handshakes of live connections
	Buffer    int    // octets that may wait for the writer; 0 = capture.DefaultBuffer
	Begun     func() // called when the NIC has agreed; nil: nothing is
}

func (o CaptureOptions) query() string {
	q := url.Values{}
	set := func(key string, on bool, v string) {
		if on {
			q.Set(key, v)
		}
	}
	set("snaplen", o.SnapLen != 0, strconv.Itoa(o.SnapLen))
	set("bulk", o.Bulk != 0, strconv.Itoa(o.Bulk))
	set("compact", o.Compact, "1")
	set("buffer", o.Buffer != 0, strconv.Itoa(o.Buffer))
	set("count", o.Count != 0, strconv.FormatUint(o.Count, 10))
	set("raw", o.Raw, "1")
	set("host", o.Host, "1")
	set("phc", o.PHC, "1")
	set("log", o.Log != 0, strconv.FormatUint(uint64(o.Log), 10))
	set("context", o.NoContext, "0")
	return q.Encode()
}

// Capture copies a capture to w until it ends by itself or ctx does; either
// way the file is complete. It returns the session's counts.
func (c *Client) Capture(ctx context.Context, opt CaptureOptions, w io.Writer) (st capture.Stats, err error) {
	reqCtx, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	resp, err := c.do(reqCtx, http.MethodGet, capturePath+"?"+opt.query(), nil)
	if err != nil {
		return st, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return st, decode(resp, nil)
	}
	if opt.Begun != nil {
		opt.Begun()
	}
	stop := context.AfterFunc(ctx, func() {
		bounded, cancel := context.WithTimeout(reqCtx, closeGrace)
		defer cancel()
		if c.call(bounded, http.MethodDelete, capturePath+"/"+resp.Header.Get(captureHeader), nil, nil) != nil {
			<-bounded.Done() // it may have ended by itself just now: its last blocks are still to be read
			abort()
		}
	})
	defer stop()
	if _, err := io.CopyBuffer(onlyWriter{w}, resp.Body, make([]byte, streamBuffer)); err != nil {
		return st, err
	}
	return st, json.Unmarshal([]byte(resp.Trailer.Get(statsTrailer)), &st)
}

// Record captures to w, a file of our own if own is set. What takes time and can
// wait is then done at the end: a regular file is compact until then.
func (c *Client) Record(ctx context.Context, opt CaptureOptions, w io.Writer, own bool) (capture.Stats, error) {
	opt.Compact = true
	f, regular := files.Regular(w)
	if !own || !regular {
		return c.Capture(ctx, opt, capture.NewExpander(w))
	}
	st, err := c.Capture(ctx, opt, f)
	return st, errors.Join(err, capture.ExpandFile(f))
}

// Export captures packets of a fabric to w in another form.
func (c *Client) Export(ctx context.Context, opt CaptureOptions, w io.Writer, form capture.Form) (capture.Exported,
	error) {
	e := capture.NewExporter(w, form)
	_, err := c.Capture(ctx, opt, e)
	return e.Finish(err)
}
