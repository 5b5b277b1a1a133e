package script

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tapir/nic/toe"
	"tapir/wire/frame"
)

// commands are what the application does, by name.
var commands = map[string]func(l *line) action{
	"listen":     parseListen,
	"unlisten":   onListener((*toe.Listener).Close),
	"pause":      onListener(func(l *toe.Listener) { l.Pause(true) }),
	"resume":     onListener(func(l *toe.Listener) { l.Pause(false) }),
	"connect":    simple((*runner).connect),
	"write":      parseWrite(false),
	"record":     parseWrite(true),
	"close":      onConn((*toe.Conn).Close),
	"close-both": onConn((*toe.Conn).CloseBoth),
	"abort":      onConn((*toe.Conn).Abort),
	"acknow":     onConn((*toe.Conn).AckNow),
	"reopen":     parseReopen,
	"expect":     parseExpect(tcpExpects),
}

// sortedNames are the keys of a table of the language, for an error.
func sortedNames[T any](table map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}

// command is an action of the application. run returns what is wrong, or "".
type command struct {
	run func(r *runner, p *peer) string
}

func (c *command) do(r *runner, s *step) *Error {
	if wrong := c.run(r, r.peer(s.conn)); wrong != "" {
		return r.fail(s, s.when.word, wrong, "")
	}
	return nil
}

func simple(run func(*runner, *peer) string) func(*line) action {
	return func(*line) action { return &command{run} }
}

// onConn is a command that needs a connection.
func onConn(run func(c *toe.Conn)) func(*line) action {
	return simple(func(_ *runner, p *peer) string {
		if p.conn == nil {
			return "there is no connection yet"
		}
		run(p.conn)
		return ""
	})
}

// onListener is a command that needs a listener.
func onListener(run func(l *toe.Listener)) func(*line) action {
	return simple(func(r *runner, _ *peer) string {
		if r.listen == nil {
			return "nothing listens"
		}
		run(r.listen)
		return ""
	})
}

// parseListen reads: listen [PORT] [backlog N] [refuse].
func parseListen(l *line) action {
	port, backlog, refuse := int64(0), int64(16), false
	for !l.done() {
		switch {
		case l.accept("refuse"):
			refuse = true
		case l.accept("backlog"):
			backlog, _ = l.integer("a backlog", 1, 1<<20)
		case port == 0:
			port, _ = l.integer("a port, backlog N or refuse", 1, 65535)
		default:
			l.finish()
		}
	}
	return &command{func(r *runner, _ *peer) string {
		if port != 0 {
			r.port = uint16(port)
		}
		return r.open(int(backlog), refuse)
	}}
}

// open begins to listen.
func (r *runner) open(backlog int, refuse bool) string {
	local := netip.AddrPortFrom(r.local, r.port)
	l, err := r.engine.Listen(local, backlog, func(c *toe.Conn, _ frame.Time) toe.Handler {
		if refuse {
			return nil
		}
		p := r.connection(c.Local(), c.Remote())
		if p == nil {
			return nil
		}
		p.conn, p.app = c, &app{conn: c}
		return p.app
	})
	if err != nil {
		return err.Error()
	}
	r.listen = l
	return ""
}

// connect begins an active open.
func (r *runner) connect(p *peer) string {
	a := &app{}
	c, err := r.engine.Connect(p.local, p.remote, a, r.now())
	if err != nil {
		return err.Error()
	}
	a.conn = c
	p.app, p.conn = a, c
	return ""
}

// maxWrite bounds the octets of one write.
const maxWrite = 1 << 26

// parseWrite reads: write N ... or record N ..., where 5*N stands for N five
// times.
func parseWrite(record bool) func(*line) action {
	return func(l *line) action {
		var chunks []chunk
		for len(chunks) == 0 || !l.done() {
			w := l.next("a number of octets")
			times, size, ok := strings.Cut(w.text, "*")
			if !ok {
				times, size = "1", w.text
			}
			k, err1 := strconv.ParseUint(times, 10, 10)
			n, err2 := parseInt(size, 1, maxWrite)
			if err1 != nil || err2 != nil || k == 0 {
				panic(l.at(w, "%q: expected a number of octets, or 5*100 for 100 octets five times", w.text))
			}
			for range k {
				chunks = append(chunks, chunk{uint64(n), record})
			}
		}
		return &command{func(_ *runner, p *peer) string {
			if p.app == nil || p.conn == nil {
				return "there is no connection yet"
			}
			for _, c := range chunks {
				p.app.write(c)
			}
			return ""
		}}
	}
}

// parseReopen reads: reopen [ISN].
func parseReopen(l *line) action {
	isn := int64(-1)
	if !l.done() {
		isn, _ = l.integer("the peer's initial sequence number", 0, 1<<32-1)
	}
	return &command{func(r *runner, p *peer) string {
		next := r.script.set.isn
		if isn >= 0 {
			next = uint32(isn)
		}
		p.reopen(next)
		return ""
	}}
}
