package iwarp

import (
	"cmp"
	"errors"
	"net/netip"
	"time"

	"tapir/nic/cm"
	"tapir/nic/msglog"
	"tapir/nic/toe"
	"tapir/wire/frame"
	"tapir/wire/roster"
)

// acceptor is the transport's side of a listener. Connections whose MPA request
// is not complete ("silent") and requests that the application has not answered
// share the listener's backlog.
type acceptor struct {
	e      *Engine
	l      *cm.Listener
	tcp    *toe.Listener
	queue  roster.Roster[conn] // all that wait, in the order of their coming
	silent roster.Roster[conn] // of these, the silent ones
	hosts  map[netip.Addr]int  // silent ones, by toe.Conn.Host
}

// silentGrace is how long a connection may be silent before it makes room for
// one of another host: more than a lost request takes to be sent again.
const silentGrace = time.Second

var errSilent = errors.New("no MPA request, and other connections need the listener's backlog")

// enter takes in a connection that has just been established.
func (a *acceptor) enter(c *conn, now frame.Time) {
	c.acceptor, c.queued, c.silent, c.since = a, true, true, now
	a.queue.Add(c.num, c)
	a.silent.Add(c.num, c)
	if a.hosts == nil {
		a.hosts = map[netip.Addr]int{}
	}
	a.hosts[c.tcp.Host()]++
}

// spoke takes c from the silent ones: its request is complete, or it ends.
func (c *conn) spoke() {
	if !c.silent {
		return
	}
	a, host := c.acceptor, c.tcp.Host()
	c.silent = false
	a.silent.Remove(c.num)
	if a.hosts[host]--; a.hosts[host] == 0 {
		delete(a.hosts, host)
	}
	if len(a.hosts) == 0 {
		a.hosts = nil
	}
}

// leaveQueue ends the waiting of c.
func (c *conn) leaveQueue() {
	c.spoke()
	if c.queued {
		c.acceptor.queue.Remove(c.num)
		c.queued = false
	}
}

// makeRoom resets a silent connection in favour of a new one of host from, when
// the backlog is full: the oldest of a host that holds more than its share, else
// the oldest of all. A host that has its share only replaces its own, and those
// later, so that it cannot keep others out by coming again and again. It reports
// false if no silent connection is old enough.
func (a *acceptor) makeRoom(from netip.Addr, now frame.Time) bool {
	share := max(1, a.l.Backlog()*int(a.e.cfg.SilentShare)/100)
	own, grace := a.hosts[from] >= share, silentGrace
	if own {
		grace = max(2*silentGrace, a.e.cfg.RequestTimeout/2)
	}
	var victim *conn
	for _, c := range a.silent.All() {
		if now.Sub(c.since) < grace {
			break
		}
		host := c.tcp.Host()
		if own && host != from {
			continue
		}
		if own || a.hosts[host] > share {
			victim = c
			break
		}
		victim = cmp.Or(victim, c)
	}
	if victim == nil {
		return false
	}
	victim.evict(now)
	return true
}

// evict resets a silent connection.
func (c *conn) evict(now frame.Time) {
	c.leaveQueue()
	c.err = errSilent
	c.counters.Evicted++
	age := now.Sub(c.since)
	if log := c.e.cfg.Log; log.On(msglog.Errors) {
		log.Addf(msglog.Errors, "%v < %v reset after %v: %v", c.tcp.Local(), c.tcp.Remote(), age, errSilent)
	}
	if c.e.notes.On {
		c.e.notes.Addf("resets %v after %v: %v", c.tcp.Remote(), age, errSilent)
	}
	c.tcp.Abort()
}

// Close implements cm.Acceptor.
func (a *acceptor) Close() {
	a.tcp.Close()
	for _, c := range a.silent.All() {
		c.err = cm.ErrClosing
		c.tcp.Abort()
	}
}

// Pause implements cm.Acceptor.
func (a *acceptor) Pause(on bool) { a.tcp.Pause(on) }
