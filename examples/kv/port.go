package main

import (
	"fmt"

	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// port is what one side of the store holds of a device while it is there.
type port struct {
	dev   *al.Device
	ctx   *al.Context
	pd    *verbs.PD
	cq    *verbs.CQ
	mr    *verbs.MR
	fault func(error) // a rule of the verbs was broken
}

// openPort opens the device and registers mem. A failure leaves nothing open.
func openPort(d *al.Device, mem []byte, access verbs.Access, fault func(error)) (p *port, err error) {
	p = &port{dev: d, fault: fault}
	if p.ctx, err = d.Open(nil, nil); err != nil {
		return nil, err
	}
	if p.pd, err = p.ctx.AllocPD(); err == nil {
		if p.cq, err = p.ctx.CreateCQ(1024, 0, p.completed); err == nil {
			p.mr, err = p.pd.RegMR(mem, access)
		}
	}
	if err != nil {
		_ = p.ctx.Reclaim(0) // the first error counts
		return nil, err
	}
	p.cq.ReqNotify(false)
	return p, nil
}

// close gives everything back, children first, outside of callbacks.
func (p *port) close() {
	note := func(err error) {
		if err != nil {
			p.fault(err)
		}
	}
	p.mr.DeregAsync(note)
	p.cq.DestroyAsync(note)
	p.pd.DeallocAsync(note)
	p.ctx.CloseAsync(note)
}

// completed hands completions to their connections until there are none left.
func (p *port) completed(_ *verbs.CQ, now frame.Time) {
	for {
		p.poll(now)
		if !p.cq.ReqNotify(false) {
			return
		}
	}
}

func (p *port) poll(now frame.Time) {
	var wcs [32]verbs.WC
	for n := p.cq.Poll(wcs[:]); n > 0; n = p.cq.Poll(wcs[:]) {
		for i := range wcs[:n] {
			wcs[i].QP.Context.(*conn).complete(&wcs[i], now)
		}
	}
}

// sge is n octets of the port's memory from off on.
func (p *port) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: p.mr.Addr() + uint64(off), Length: uint32(n), LKey: p.mr.LKey()}}
}

// conn is a connection with a ledger of its work requests: each must complete
// once, and none may be left when the connection ends.
type conn struct {
	port   *port
	qp     *verbs.QP
	id     *cm.ID
	up     bool // data may be posted
	nextID uint64
	ledger map[uint64]func(wc *verbs.WC, now frame.Time)
	// flushed counts the requests that ended because the connection did.
	flushed int
	// ended is called once, when nothing of the connection is left.
	ended func(c *conn, now frame.Time)
}

// open makes the queue pair and moves it to Init, where receives can be
// posted.
func (c *conn) open(p *port, depth int, ended func(*conn, frame.Time)) (err error) {
	c.port, c.ended, c.ledger = p, ended, map[uint64]func(*verbs.WC, frame.Time){}
	c.qp, err = p.pd.CreateQP(verbs.QPConfig{SendCQ: p.cq, RecvCQ: p.cq, MaxSend: depth, MaxRecv: depth, Context: c})
	if err != nil {
		return err
	}
	return c.qp.Modify(verbs.Init)
}

// enter writes a work request into the ledger and returns its id.
func (c *conn) enter(done func(wc *verbs.WC, now frame.Time)) uint64 {
	c.nextID++
	c.ledger[c.nextID] = done
	return c.nextID
}

func (c *conn) send(wr verbs.SendWR, done func(*verbs.WC, frame.Time)) error {
	wr.ID, wr.Flags = c.enter(done), verbs.Signaled
	_, err := c.qp.PostSend(wr)
	if err != nil {
		delete(c.ledger, wr.ID)
	}
	return err
}

func (c *conn) recv(sge []verbs.SGE, done func(*verbs.WC, frame.Time)) error {
	id := c.enter(done)
	_, err := c.qp.PostRecv(verbs.RecvWR{ID: id, SGEs: sge})
	if err != nil {
		delete(c.ledger, id)
	}
	return err
}

func (c *conn) complete(wc *verbs.WC, now frame.Time) {
	done, known := c.ledger[wc.ID]
	if !known {
		c.port.fault(fmt.Errorf("work request %d completed twice", wc.ID))
		return
	}
	delete(c.ledger, wc.ID)
	if wc.Status != verbs.StatusSuccess {
		c.up = false
		c.flushed++
		return
	}
	done(wc, now)
}

// abort ends the connection now; ended follows.
func (c *conn) abort(now frame.Time) {
	c.up = false
	if c.id.State() == cm.Idle {
		c.port.ctx.Device().Defer(c.bury)
		return
	}
	_ = c.id.Disconnect(true, now) // one that is closing already stays so
}

// closed is the last event of the connection's ID. The queue pair may only go
// outside of callbacks.
func (c *conn) closed() {
	if c.qp.State() != verbs.Err {
		_ = c.qp.Modify(verbs.Err) // one that never connected has to be flushed
	}
	c.port.ctx.Device().Defer(c.bury)
}

func (c *conn) bury(now frame.Time) {
	c.port.poll(now) // the last flushed requests; they go with the queue pair
	if len(c.ledger) > 0 {
		c.port.fault(fmt.Errorf("%d work requests never completed", len(c.ledger)))
	}
	for _, err := range []error{c.qp.Destroy(), c.id.Destroy()} {
		if err != nil {
			c.port.fault(err)
		}
	}
	c.ended(c, now)
}
