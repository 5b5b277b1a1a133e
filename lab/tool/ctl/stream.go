package ctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"tapir/lab/tool/capture"
	"tapir/nic/msglog"
)

// Names of the events of a job.
const (
	eventProgress = "progress"
	eventResult   = "result"
	eventError    = "error"
)

var errStopping = &Error{What: "the NIC is stopping"}

// outcome is how a job ended.
type outcome struct {
	report any
	err    error
}

// perf runs a job as long as its client stays.
func (s *Server) perf(w http.ResponseWriter, r *http.Request) {
	job, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, err)
		return
	}
	progress := make(chan any, 16)
	done := make(chan outcome, 1)
	cancel, err := s.nic.Perf(job,
		func(p any) {
			select {
			case progress <- p:
			default: // a client that reads slowly misses some
			}
		},
		func(report any, err error) { done <- outcome{report, err} })
	if err != nil {
		fail(w, err)
		return
	}
	ev := startEvents(w)
	for {
		select {
		case p := <-progress:
			ev.send(eventProgress, p)
		case o := <-done:
			ev.end(o, progress)
			return
		case <-r.Context().Done():
			cancel()
			return
		case <-s.quit:
			select {
			case o := <-done: // it had ended before
				ev.end(o, progress)
			default:
				cancel()
				ev.end(outcome{err: errStopping}, nil)
			}
			return
		}
	}
}

// followEvery is how often a client that follows is told what is new.
const followEvery = 50 * time.Millisecond

// follow tells a client of a list's new entries until it leaves. What comes
// faster than it is told may be lost to it; the numbers show how much.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	since, perr := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64)
	if !Followed(kind) || perr != nil && r.URL.Query().Has("since") {
		fail(w, &Error{Status: http.StatusNotFound, What: fmt.Sprintf("%s from %q cannot be followed", kind,
			r.URL.Query().Get("since")), Remedy: "follow events or log, from a number"})
		return
	}
	list, next, err := s.nic.Follow(kind, since)
	if err != nil {
		fail(w, err)
		return
	}
	ev := startEvents(w)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		if next != since {
			ev.send(eventProgress, list)
			since = next
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-s.quit:
			ev.end(outcome{report: struct{}{}}, nil)
			return
		}
		if list, next, err = s.nic.Follow(kind, since); err != nil {
			ev.end(outcome{report: struct{}{}}, nil)
			return
		}
	}
}

// events writes server-sent events.
type events struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func startEvents(w http.ResponseWriter) events {
	e := events{w, http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = e.rc.Flush() // a client that left is noticed through its context
	return e
}

func (e events) send(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		name, b = eventError, fmt.Appendf(nil, `{"error":%q}`, err.Error())
	}
	fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, b)
	_ = e.rc.Flush()
}

// end sends what is left of the progress, and how the job ended.
func (e events) end(o outcome, progress <-chan any) {
	for len(progress) > 0 {
		e.send(eventProgress, <-progress)
	}
	if o.err != nil {
		e.send(eventError, asError(o.err))
		return
	}
	e.send(eventResult, o.report)
}

// captures holds the running ones by id, so that a client can end its own and
// still read the file's last blocks.
type captures struct {
	mu   sync.Mutex
	last int
	end  map[int]chan struct{}
}

func (c *captures) add() (id int, end chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		c.end = map[int]chan struct{}{}
	}
	c.last++
	end = make(chan struct{})
	c.end[c.last] = end
	return c.last, end
}

// remove closes the channel of id, once, and tells whether it was there.
func (c *captures) remove(id int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	end, ok := c.end[id]
	if ok {
		close(end)
		delete(c.end, id)
	}
	return ok
}

// Names of a capture's HTTP header and trailer: its id, and its counts as JSON.
const (
	captureHeader = "Tapir-Capture"
	statsTrailer  = "Tapir-Capture-Stats"
)

func (s *Server) capture(w http.ResponseWriter, r *http.Request) {
	opt, context, err := captureOptions(r.URL.Query())
	if err != nil {
		fail(w, err)
		return
	}
	if n, ok := s.nic.(CannotCapture); ok {
		fail(w, n.CannotCapture())
		return
	}
	id, end := s.captures.add()
	defer s.captures.remove(id)
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-pcapng")
	w.Header().Set(captureHeader, strconv.Itoa(id))
	w.Header().Set("Trailer", statsTrailer)
	w.WriteHeader(http.StatusOK)
	out := &flusher{w: w, rc: rc}
	session := capture.New(out, s.nic.CaptureInfo(), opt)
	detach, err := s.nic.Attach(session, context)
	if err != nil {
		session.Close()
		panic(http.ErrAbortHandler) // the client sees a broken stream
	}
	select {
	case <-session.Done():
	case <-r.Context().Done():
	case <-end:
	case <-s.quit:
	}
	detach()
	out.hurry()
	_ = session.Close()                    // its error is the client's absence
	st, _ := json.Marshal(session.Stats()) // three numbers
	w.Header().Set(statsTrailer, string(st))
}

// flusher hands every write on to the client at once.
type flusher struct {
	w      io.Writer
	rc     *http.ResponseController
	ending atomic.Bool
}

// hurry bounds every write from now on, and the one that waits: a reader that
// is stuck must not hold the NIC, but one that reads gets everything.
func (f *flusher) hurry() {
	f.ending.Store(true)
	f.bound()
}

func (f *flusher) bound() { _ = f.rc.SetWriteDeadline(time.Now().Add(closeGrace)) }

func (f *flusher) Write(p []byte) (int, error) {
	if f.ending.Load() {
		f.bound()
	}
	n, err := f.w.Write(p)
	return n, errors.Join(err, f.rc.Flush())
}

func captureOptions(q url.Values) (opt capture.Options, context bool, err error) {
	number := func(key string) uint64 {
		if !q.Has(key) {
			return 0
		}
		v, perr := strconv.ParseUint(q.Get(key), 10, 31)
		if perr != nil {
			err = &Error{Status: http.StatusBadRequest, What: fmt.Sprintf("capture: %s=%q is not a number", key,
				q.Get(key)), Remedy: "give a decimal number"}
		}
		return v
	}
	opt = capture.Options{SnapLen: int(number("snaplen")), Bulk: int(number("bulk")), Compact: number("compact") != 0,
		Buffer: int(number("buffer")), Count: number("count"), Raw: number("raw") != 0, Host: number("host") != 0,
		PHC: number("phc") != 0,
		Log: msglog.Topic(number("log"))}
	context = !q.Has("context") || number("context") != 0
	return opt, context, err
}

func (s *Server) endCapture(r *http.Request) (any, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || !s.captures.remove(id) {
		return nil, &Error{Status: http.StatusNotFound, What: "capture " + r.PathValue("id") + " is not running"}
	}
	return struct{}{}, nil
}
