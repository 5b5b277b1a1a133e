package perf

import (
	"errors"
	"fmt"
	"net/netip"

	"tapir/lab/conf/perfconf"
	"tapir/nic/cm"
	"tapir/wire/frame"
)

// listen is the server's side of set-up: wildcard, both families.
func (r *Run) listen() (err error) {
	local := netip.AddrPortFrom(netip.IPv6Unspecified(), r.job.Port)
	r.listener, err = r.dev.CM.Listen(local, perfconf.MaxQPs, r.event, nil)
	return err
}

// mostReason is how many octets of a refusal's reason travel: RoCE takes 148 of private
// data.
const mostReason = 120

// request answers a client: the first one decides the job, its further
// queue pairs join it, everybody else is turned down.
func (r *Run) request(ev cm.Event, now frame.Time) {
	c, err := r.admit(ev)
	if err != nil {
		ev.ID.Context = nil
		// Whoever has gone in the meantime needs no answer.
		reason := err.Error()
		_ = ev.ID.Reject(encode(welcome{Refuse: reason[:min(len(reason), mostReason)]}), now)
		return
	}
	c.id, ev.ID.Context = ev.ID, c
	params := cm.Params{QP: c.qp}
	if r.job.Op != perfconf.Rping {
		params.PrivateData = encode(welcome{Region: r.region()})
	}
	if err := ev.ID.Accept(params, now); err != nil {
		r.finish(err, now)
	}
}

var errBusy = errors.New("busy with another client")

// admit has the queue pair join the job, which the first client decides. The
// protocol of rping has no private data: its client is alone.
func (r *Run) admit(ev cm.Event) (*conn, error) {
	h := hello{Op: perfconf.Rping}
	if r.job.Op != perfconf.Rping {
		var err error
		if h, err = decodeHello(ev.PrivateData); err != nil {
			return nil, err
		}
	}
	switch {
	case r.ended && h.Op == perfconf.Rping:
		return nil, errBusy
	case r.ended:
		return nil, errors.New("the test is over")
	case h.Op != r.job.Op:
		return nil, fmt.Errorf("this side serves %s, not %s", r.job.Op, h.Op)
	}
	if r.work == nil {
		if r.job.Op != perfconf.Rping {
			port := r.job.Port
			r.job = h.job()
			r.job.Port = port
		}
		r.seed = h.Seed
		if err := r.allocate(); err != nil {
			return nil, err
		}
		r.work = side{run: r}.work()
	}
	if h.Seed != r.seed || len(r.conns) == r.job.QPs {
		return nil, errBusy
	}
	c, err := r.addConn(h.QP)
	if err != nil {
		return nil, err
	}
	c.remote = h.Region
	return c, nil
}

// welcome reads the server's answer.
func (r *Run) welcome(c *conn, ev cm.Event, now frame.Time) {
	if r.job.Op == perfconf.Rping {
		r.established(now)
		return
	}
	var w welcome
	if err := w.decode(ev.PrivateData); err != nil {
		r.finish(fmt.Errorf("%s: %s is another program: it answered with %d octets of private data, no welcome of "+
			"this test", r.job.Op, ev.ID.Remote(), len(ev.PrivateData)), now)
		return
	}
	if int(w.Region.Len) < len(r.target()) {
		r.finish(fmt.Errorf("%s: %s offers %d octets, need %d", r.job.Op, ev.ID.Remote(), w.Region.Len,
			len(r.target())), now)
		return
	}
	c.remote = w.Region
	r.established(now)
}

// refusal is the reason that a server gave.
func refusal(private []byte) string {
	var w welcome
	if err := w.decode(private); err != nil || w.Refuse == "" {
		return "no reason given"
	}
	return w.Refuse
}
