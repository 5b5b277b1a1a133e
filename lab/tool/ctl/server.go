package ctl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"tapir/lab/conf"
	"tapir/nic/param"
	"tapir/nic/uapi/listen"
)

// maxBody bounds what a request may carry, in octets.
const maxBody = 1 << 20

// Server serves one NIC on its socket.
type Server struct {
	name    string
	version string // of the binary
	dir     string
	// Log is told what the user should know, such as clients that are refused;
	// nil: nobody is. It is set before Serve.
	Log     io.Writer
	l       *socket
	http    *http.Server
	served  chan struct{} // closed when http has ended; nil before Serve
	quit    chan struct{} // closed when Close begins
	closing sync.Once

	nic      NIC
	captures captures
}

// Listen makes the control socket of the NIC called name, so that a clash of
// names is found before anything else is made. version is what the binary
// calls itself.
func Listen(name, version string) (*Server, error) {
	l, err := listenAs(name)
	if err != nil {
		return nil, err
	}
	return &Server{name: name, version: version, dir: filepath.Dir(l.path), l: l, quit: make(chan struct{})}, nil
}

// Path is where the socket lies.
func (s *Server) Path() string { return s.l.path }

// Serve answers clients on goroutines of its own until Close. It is called at
// most once.
func (s *Server) Serve(nic NIC) {
	s.nic = nic
	s.served = make(chan struct{})
	s.http = newHTTP(s.guard(s.routes()))
	s.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, &conn{allowed: mayUse(c.(*listen.Conn).Conn)})
	}
	l := bounded(s.l, "the control socket of "+s.name, s.Log)
	go func() {
		defer close(s.served)
		_ = s.http.Serve(l) // ends with ErrServerClosed
	}()
}

// Close ends running captures with complete files, cancels running jobs,
// closes every connection and removes the socket. Its clients get a few
// seconds to read what is left.
func (s *Server) Close() {
	s.closing.Do(func() {
		close(s.quit)
		if s.http == nil {
			s.l.Close()
		} else {
			ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
			defer cancel()
			if s.http.Shutdown(ctx) != nil {
				s.http.Close()
			}
			<-s.served
		}
		removeDir(s.dir)
	})
}

// closeGrace is far from what clients of a busy machine need.
const closeGrace = 10 * time.Second

type connKey struct{}

// conn is what the server knows about one connection. Requests of one
// connection come one after the other.
type conn struct {
	allowed bool // the peer's user may use this NIC
	greeted bool // the version handshake is done
}

// Where jobs and captures are asked for.
const (
	perfPath    = "/v1/perf"
	capturePath = "/v1/capture"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/version", answering(s.hello))
	mux.Handle("GET /v1/show/{kind}", answering(s.show))
	mux.HandleFunc("GET /v1/follow/{kind}", s.follow)
	mux.Handle("POST /v1/set", answering(s.set))
	mux.HandleFunc("POST "+perfPath, s.perf)
	mux.HandleFunc("GET "+capturePath, s.capture)
	mux.Handle("DELETE "+capturePath+"/{id}", answering(s.endCapture))
	mux.Handle("POST /v1/stop", answering(s.stop))
	mux.Handle("POST /v1/do/{command}", answering(s.command))
	mux.HandleFunc("GET /v1/vf/{vf}/channel", s.vfChannel)
	mux.Handle("GET "+metricsPath, s.metrics())
	mux.Handle("/", answering(func(r *http.Request) (any, error) {
		return nil, &Error{Status: http.StatusNotFound, What: fmt.Sprintf("%s %s does not exist", r.Method, r.URL.Path),
			Remedy: "the paths are listed in the documentation of lab/tool/ctl"}
	}))
	return mux
}

// answering is a handler whose answer is one object, or an error.
type answering func(r *http.Request) (any, error)

// ServeHTTP implements http.Handler.
func (a answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := a(r)
	if err != nil {
		fail(w, err)
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		fail(w, err)
		return
	}
	boundWrite(w)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n')) // a client that left misses nothing
}

// guard refuses foreign users and connections that did not say their version.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*conn)
		switch {
		case !ok || !c.allowed:
			fail(w, &Error{Status: http.StatusForbidden, What: "NIC " + s.name + " belongs to another user",
				Remedy: "run the command as the user who started it, or as root"})
			return
		case !c.greeted && r.URL.Path != "/v1/version" && r.URL.Path != metricsPath:
			fail(w, &Error{Status: http.StatusUpgradeRequired, What: "the version handshake is missing",
				Remedy: fmt.Sprintf("ask for /v1/version?control=%d first on the same connection", Version)})
			return
		}
		rc := http.NewResponseController(w)
		b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			fail(w, &Error{Status: http.StatusBadRequest, What: fmt.Sprintf("the request cannot be read: %v", err)})
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		// What takes its time, such as a job or a capture, has it, as long as the
		// client stays. The end of the answer is bounded again.
		_, _ = rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{})
		defer func() { _ = rc.SetWriteDeadline(time.Now().Add(answerTimeout)) }()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) hello(r *http.Request) (any, error) {
	want := r.URL.Query().Get("control")
	if want != strconv.Itoa(Version) {
		return nil, &Error{Status: http.StatusUpgradeRequired,
			What: fmt.Sprintf("NIC %s (tapir %s) speaks control protocol %d, the client asked for %q", s.name,
				s.version, Version, want),
			Remedy: "use the tapir binary that started the NIC, or start the NIC again with yours"}
	}
	r.Context().Value(connKey{}).(*conn).greeted = true
	return Hello{Control: Version, Version: s.version, Name: s.name, PID: os.Getpid()}, nil
}

func (s *Server) show(r *http.Request) (any, error) {
	kind := r.PathValue("kind")
	if !KnownKind(kind) {
		return nil, &Error{Status: http.StatusNotFound, What: fmt.Sprintf("there is nothing called %q to show", kind),
			Remedy: fmt.Sprintf("choose one of %v", Kinds)}
	}
	return s.nic.Show(kind)
}

// set changes parameters and answers with all of them.
func (s *Server) set(r *http.Request) (any, error) {
	var settings []Setting
	if err := json.NewDecoder(r.Body).Decode(&settings); err != nil || len(settings) == 0 {
		return nil, &Error{Status: http.StatusBadRequest, What: "expected a list of parameters",
			Remedy: `send [{"name": "ird", "value": "16"}]`}
	}
	if err := s.nic.Set(settings); err != nil {
		return nil, err
	}
	return s.nic.Show("params")
}

// stop begins the NIC's end, which waits for the answer.
func (s *Server) stop(*http.Request) (any, error) {
	s.nic.Stop()
	return struct{}{}, nil
}

// command runs what only some NICs can do.
func (s *Server) command(r *http.Request) (any, error) {
	name := r.PathValue("command")
	c, ok := s.nic.(Commander)
	if !ok {
		return nil, &Error{Status: http.StatusNotFound, What: fmt.Sprintf("%s has no command %s", s.name, name)}
	}
	args, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	go func() { // a command may take as long as the NIC runs
		select {
		case <-s.quit:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	v, err := c.Command(ctx, name, args)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return v, err
}

// fail answers with err as {error, remedy}. The connection stays usable.
func fail(w http.ResponseWriter, err error) {
	e := asError(err)
	b, _ := json.Marshal(e) // two strings
	boundWrite(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(cmp.Or(e.Status, http.StatusUnprocessableEntity))
	_, _ = w.Write(append(b, '\n'))
}

// Usage tells whether the request itself was wrong.
func (e *Error) Usage() bool { return e.Status == http.StatusBadRequest }

// BadRequest is err as the client's mistake, nil without one.
func BadRequest(err error) error {
	if err == nil {
		return nil
	}
	if u := (*param.Unknown)(nil); errors.As(err, &u) {
		return &Error{Status: http.StatusBadRequest, What: u.Name + ": unknown setting",
			Remedy: conf.OneOf(u.Name, u.Known())}
	}
	return &Error{Status: http.StatusBadRequest, What: err.Error()}
}

// IsConflict tells whether err says that a setting was not changed since it is
// no longer what it was: look again.
func IsConflict(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Status == http.StatusConflict
}

func asError(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	return &Error{What: err.Error()}
}
