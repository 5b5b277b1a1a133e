// Package ui serves a page that shows what runs, live: NICs, switches, links,
// clocks and connections, or a lab that was recorded. What the page changes, it
// changes by command lines of tapir, which it shows.
//
//	GET  /                   the page; ?token= once, then a cookie
//	GET  /docs/README.md     a document; so each by its path in the repository
//	GET  /api/v1/documents   the texts of all documents
//	GET  /api/v1/about       what is shown
//	GET  /api/v1/overview    server-sent events: nodes, links, rates
//	GET  /api/v1/node?id=    server-sent events: tables, events and log of a node
//	GET  /api/v1/capture     records a node for a moment, and replays it
//	GET  /api/v1/record      the recorded lab
//	GET  /api/v1/exchange    the ladder of its capture
//	GET  /api/v1/packet      a packet of a capture
//	GET  /api/v1/file        a capture, for Wireshark
//	POST /api/v1/act         a command line: shown, or run
//
// Errors are {"error": what}. Who does not know the token, which the printed
// address has, sees nothing.
package ui

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options say what a server shows.
type Options struct {
	Version string
	Record  string // directory of a recorded lab; empty: what runs
	Open    string // the node that is shown first; empty: all
	Program string // tapir itself, which acts; empty: this program
}

// Bounds of what is served at a time.
const (
	maxStreams = 32
	maxActs    = 4
	maxBody    = 64 << 10
)

// Server serves the page.
type Server struct {
	opt     Options
	token   string
	cookie  string
	host    string // that it listens on
	streams chan struct{}
	acts    chan struct{}
	http    *http.Server
	l       net.Listener

	once   sync.Once
	opened chan struct{} // closed when the page has been asked for

	mu       sync.Mutex
	captures map[string][]byte // the latest of each node
	shown    string            // directory of a recorded lab; empty: what runs
}

// Listen opens the port. The server answers after Serve.
func Listen(addr string, o Options) (_ *Server, err error) {
	if o.Program == "" {
		if o.Program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(l.Addr().String()) // a listener's address has both
	s := &Server{opt: o, token: rand.Text(), cookie: "tapir-ui-" + port, host: host, l: l,
		shown: o.Record, opened: make(chan struct{}), streams: make(chan struct{}, maxStreams),
		acts: make(chan struct{}, maxActs), captures: map[string][]byte{}}
	s.http = &http.Server{Handler: s.guard(s.routes()), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10}
	return s, nil
}

// URL is the address of the page, with the token.
func (s *Server) URL() string { return "http://" + s.l.Addr().String() + "/?token=" + s.token }

// Opened is closed when somebody has opened the page.
func (s *Server) Opened() <-chan struct{} { return s.opened }

// Replay shows a recorded lab from now on, instead of what runs.
func (s *Server) Replay(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = dir
}

// recorded is the directory of the recorded lab that is shown; empty: what runs is.
func (s *Server) recorded() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	stop := context.AfterFunc(ctx, func() { s.http.Close() })
	defer stop()
	if err := s.http.Serve(s.l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", files())
	mux.HandleFunc("GET /api/v1/documents", s.answer(s.documents))
	mux.HandleFunc("GET /api/v1/about", s.answer(s.about))
	mux.HandleFunc("GET /api/v1/overview", s.stream(s.overview))
	mux.HandleFunc("GET /api/v1/node", s.stream(s.node))
	mux.HandleFunc("GET /api/v1/capture", s.answer(s.capture))
	mux.HandleFunc("GET /api/v1/record", s.answer(s.record))
	mux.HandleFunc("GET /api/v1/exchange", s.answer(s.exchange))
	mux.HandleFunc("GET /api/v1/packet", s.answer(s.packet))
	mux.HandleFunc("GET /api/v1/file", s.file)
	mux.HandleFunc("POST /api/v1/act", s.answer(s.act))
	return mux
}

// About is what a page shows.
type About struct {
	Schema  int    `json:"schema"`
	Version string `json:"version"`
	Record  string `json:"record,omitempty"`
	Open    string `json:"open,omitempty"`
}

func (s *Server) about(*http.Request) (any, error) {
	return About{schema, s.opt.Version, s.recorded(), s.opt.Open}, nil
}

// guard lets in who has the token, by an address or name of this machine: a page
// elsewhere whose name is made to lead here (DNS rebinding) has another Host.
func (s *Server) guard(next http.Handler) http.Handler {
	same := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; "+
			"img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if !s.known(r.Host) {
			fail(w, http.StatusMisdirectedRequest,
				fmt.Errorf("the page is not %s: use the address that was printed", r.Host))
			return
		}
		if err := same.Check(r); err != nil {
			fail(w, http.StatusForbidden, err)
			return
		}
		if s.equal(r.URL.Query().Get("token")) && r.URL.Path == "/" {
			http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: s.token, Path: "/", HttpOnly: true,
				SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		if c, err := r.Cookie(s.cookie); err != nil || !s.equal(c.Value) {
			fail(w, http.StatusUnauthorized,
				errors.New("the token is missing: use the address that tapir ui has printed"))
			return
		}
		if r.URL.Path == "/" {
			s.once.Do(func() { close(s.opened) })
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) equal(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1
}

// known tells whether a request's Host is this machine's.
func (s *Server) known(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if at, err := netip.ParseAddr(host); err == nil {
		return !netip.MustParseAddr(s.host).IsLoopback() || at.IsLoopback()
	}
	own, err := os.Hostname()
	return host == "localhost" || err == nil && strings.EqualFold(host, own)
}

// problem is an error with its HTTP status.
type problem struct {
	error
	status int
}

func (p problem) Unwrap() error { return p.error }

func bad(format string, args ...any) error {
	return problem{fmt.Errorf(format, args...), http.StatusBadRequest}
}

func fail(w http.ResponseWriter, status int, err error) {
	if p := (problem{}); errors.As(err, &p) {
		status = p.status
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // a client that left needs no answer
}

// answer makes a handler of what returns a document.
func (s *Server) answer(do func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		v, err := do(r)
		if err != nil {
			fail(w, http.StatusInternalServerError, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
}

// sender sends an event to a client; false: it has left.
type sender func(event string, v any) bool

// stream makes a handler of what sends events until ctx ends.
func (s *Server) stream(run func(ctx context.Context, r *http.Request, send sender) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.streams <- struct{}{}:
			defer func() { <-s.streams }()
		default:
			fail(w, http.StatusServiceUnavailable, fmt.Errorf("%d pages are open already: close one", maxStreams))
			return
		}
		rc := http.NewResponseController(w)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = rc.SetReadDeadline(time.Time{})
		send := func(event string, v any) bool {
			b, err := json.Marshal(v)
			if err != nil {
				event, b = "problem", []byte(strconv.Quote(err.Error()))
			}
			_ = rc.SetWriteDeadline(time.Now().Add(10 * time.Second))
			_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, b)
			return err == nil && rc.Flush() == nil
		}
		if err := run(r.Context(), r, send); err != nil && r.Context().Err() == nil {
			send("problem", err.Error())
		}
	}
}
