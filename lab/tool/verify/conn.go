package verify

import (
	"errors"
	"slices"

	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// Sizes of a connection's queues. Work requests are numbered from 1; receives
// from recvID, by their slot; answers are 0.
const (
	sendDepth = 512
	recvDepth = 256
	inline    = 80
	recvID    = 1 << 32
	echoID    = 1 << 33

	clientReceives, clientReceive = 8, 64 << 10
)

// conn is one connection with its objects.
type conn struct {
	run    *Run
	id     *cm.ID
	qp     *verbs.QP
	srq    *verbs.SRQ
	pds    [2]*verbs.PD // that of the queue pair, another one
	cq     *verbs.CQ
	mrs    []*verbs.MR // all, rw, ro, wo, other, rx
	buf    []byte      // what peers may address; behind it a client's own half
	rx     []byte
	rxSize int
	wcs    [16]verbs.WC
	client *client // nil at a server
	asked  ask
	undo   []func() error // latest last
	dead   bool
	report ConnReport
}

// The regions of a connection.
const (
	all = iota
	rw
	ro
	wo
	other
	recv
)

// newConn makes the objects of a connection with receives posted. With an
// error it returns what has been made, to be freed.
func (r *Run) newConn(receives, size int, srq bool) (*conn, error) {
	c := &conn{run: r, buf: make([]byte, 2*half), rx: make([]byte, receives*size), rxSize: size}
	r.conns = append(r.conns, c)
	err := c.memory()
	if err == nil {
		err = c.queues(srq)
	}
	for i := 0; i < receives && err == nil; i++ {
		err = c.postRecv(i)
	}
	return c, err
}

func (c *conn) memory() (err error) {
	d := c.run.dev.Verbs
	for i := range c.pds {
		if c.pds[i], err = d.AllocPD(); err != nil {
			return err
		}
		c.undo = append(c.undo, c.pds[i].Dealloc)
	}
	const local, read, write = verbs.LocalWrite, verbs.RemoteRead, verbs.RemoteWrite
	for _, m := range []struct {
		pd     int
		buf    []byte
		access verbs.Access
	}{
		{0, c.buf, local}, {0, c.buf[:half], local | read | write}, {0, c.buf[:half], local | read},
		{0, c.buf[:half], local | write}, {1, c.buf[:half], local | read | write}, {0, c.rx, local},
	} {
		mr, err := c.register(m.pd, m.buf, m.access)
		if err != nil {
			return err
		}
		c.mrs = append(c.mrs, mr)
		c.undo = append(c.undo, mr.Dereg)
	}
	return nil
}

// register gives every region of the one buffer the same address, as in a
// program of Linux.
func (c *conn) register(pd int, buf []byte, access verbs.Access) (*verbs.MR, error) {
	if len(c.mrs) == all || len(c.mrs) == recv {
		return c.pds[pd].RegMR(buf, access)
	}
	return c.pds[pd].RegMemory(verbs.Bytes(buf), c.mrs[all].Addr(), access)
}

func (c *conn) queues(srq bool) (err error) {
	if c.cq, err = c.run.dev.Verbs.CreateCQ(sendDepth+2*recvDepth, c.completions); err != nil {
		return err
	}
	c.undo = append(c.undo, c.cq.Destroy)
	c.cq.ReqNotify(false)
	if srq {
		if c.srq, err = c.pds[0].CreateSRQ(recvDepth, 1); err != nil {
			return err
		}
		c.undo = append(c.undo, c.srq.Destroy)
	}
	c.qp, err = c.pds[0].CreateQP(verbs.QPConfig{
		SendCQ: c.cq, RecvCQ: c.cq, SRQ: c.srq, MaxSend: sendDepth, MaxRecv: recvDepth, MaxInline: inline,
	})
	if err != nil {
		return err
	}
	return c.qp.Modify(verbs.Init)
}

// slot is the memory of receive number i.
func (c *conn) slot(i int) []byte { return c.rx[i*c.rxSize : (i+1)*c.rxSize] }

func (c *conn) slotSGE(i, n int) verbs.SGE {
	return verbs.SGE{Addr: c.mrs[recv].Addr() + uint64(i*c.rxSize), Length: uint32(n), LKey: c.mrs[recv].LKey()}
}

func (c *conn) postRecv(i int) (err error) {
	wr := verbs.RecvWR{ID: recvID + uint64(i), SGEs: []verbs.SGE{c.slotSGE(i, c.rxSize)}}
	if c.srq != nil {
		_, err = c.srq.PostRecv(wr)
	} else {
		_, err = c.qp.PostRecv(wr)
	}
	return err
}

// established notes what the peer's frame said.
func (c *conn) established(ev cm.Event) {
	c.report.Remote = ev.ID.Remote()
	c.report.IRD, c.report.ORD = ev.IRD, ev.ORD
	c.report.Private, c.report.PrivateSum = len(ev.PrivateData), sum(ev.PrivateData)
}

// completions is the handler of the completion queue.
func (c *conn) completions(cq *verbs.CQ, now frame.Time) {
	for {
		n := cq.Poll(c.wcs[:])
		for i := range c.wcs[:n] {
			if c.client != nil {
				c.client.complete(&c.wcs[i], now)
			} else {
				c.serve(&c.wcs[i])
			}
		}
		if n == 0 && !cq.ReqNotify(false) {
			return
		}
	}
}

// free destroys what newConn made, in reverse order.
func (c *conn) free() error {
	if c.dead {
		return nil
	}
	c.dead = true
	if c.client != nil {
		c.client.cancel()
	}
	var errs []error
	if c.qp != nil {
		errs = append(errs, c.qp.Destroy())
	}
	if c.id != nil {
		errs = append(errs, c.id.Destroy())
	}
	for _, undo := range slices.Backward(c.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}
