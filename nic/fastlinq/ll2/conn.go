package ll2

import (
	"errors"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// Conn is a connection: the driver's half.
type Conn struct {
	m           *Manager
	handle      int
	p           Params
	cb          Callbacks
	established bool
	cid         int
	rxPI, txPI  int
	rings       *Rings
	rx          []any // cookies of posted buffers, by address
	rxNext      int   // address of the next
	rxOwned     int
	untold      int          // posted, and the doorbell has not told of them
	tx          ring[packet] // that have not completed
	txNext      int          // address of the next buffer
	txOwned     int          // buffers
	building    int          // buffers that the last packet still needs
	txDone      uint16       // what of Rings.Done was seen
	use         [2]Use       // of receive buffers and of packets
}

// packet is one that is sent, or being put together.
type packet struct {
	cookie any
	first  []byte
	bds    int
}

// Use counts what a connection was given and what came back: Posted is always
// Completed, Released and Owned together.
type Use struct {
	Posted    uint64 `json:"posted"`
	Completed uint64 `json:"completed"`
	Released  uint64 `json:"released"`
	Owned     int    `json:"owned"`
}

// Handle is the connection's number in its function.
func (c *Conn) Handle() int { return c.handle }

// Params are those that it was acquired with, defaults filled in.
func (c *Conn) Params() Params { return c.p }

// Established tells whether it is; CID is its connection id then.
func (c *Conn) Established() bool { return c.established }

// CID is the id of an established connection.
func (c *Conn) CID() int { return c.cid }

// Waiting is how many buffers the firmware can fill.
func (c *Conn) Waiting() int { return c.rings.Posted }

// RxUse counts receive buffers, TxUse packets to be sent.
func (c *Conn) RxUse() Use { return c.used(0, c.rxOwned) }

// TxUse is that of the transmit ring.
func (c *Conn) TxUse() Use { return c.used(1, c.tx.n) }

func (c *Conn) used(i, owned int) Use {
	u := c.use[i]
	u.Owned = owned
	return u
}

// is tells whether the connection stands, and is established or not. INVAL.
func (c *Conn) is(established bool) error {
	switch {
	case c.m.conns[c.handle] != c:
		return status.Inval.Errorf("LL2 connection %d of type %v is released", c.handle, c.p.Type)
	case c.established && !established:
		return status.Inval.Errorf("LL2 connection %d of type %v is established", c.handle, c.p.Type)
	case !c.established && established:
		return status.Inval.Errorf("LL2 connection %d of type %v is not established", c.handle, c.p.Type)
	}
	return nil
}

// Establish starts the queues (ecore_ll2_establish_connection): Rx, then Tx, by ramrods.
// What fails leaves nothing behind. INVAL: it is established, or released.
func (c *Conn) Establish() (err error) {
	if err := c.is(false); err != nil {
		return err
	}
	var undo []func()
	defer func() {
		for i := len(undo) - 1; err != nil && i >= 0; i-- {
			undo[i]()
		}
	}()
	if c.cid, err = c.m.core.AcquireCID(); err != nil {
		return err
	}
	undo = append(undo, func() { err = c.m.giveCID(c.cid, err) })
	for _, q := range []struct {
		pi *int
		fn func(now frame.Time)
	}{{&c.rxPI, c.received}, {&c.txPI, c.sent}} {
		if *q.pi, err = c.m.core.RegisterCB(q.fn); err != nil {
			return err
		}
		undo = append(undo, func() { _ = c.m.core.UnregisterCB(*q.pi) })
	}
	c.reset()
	if err = c.post(RxQueueStart); err != nil {
		return err
	}
	undo = append(undo, func() { _ = c.post(RxQueueStop) })
	if err = c.post(TxQueueStart); err != nil {
		return err
	}
	c.established = true
	for _, t := range etherTypes[c.p.Type] {
		c.m.core.Filter(c.handle, t, true)
	}
	return nil
}

// post sends a ramrod about the connection.
func (c *Conn) post(cmd Command) error {
	r := &Ramrod{Command: cmd, Queue: c.handle}
	switch cmd {
	case RxQueueStart:
		r.Rx = &RxStart{PI: c.rxPI, MTU: c.p.MTU, RemoveVLAN: c.p.RemoveVLAN, TooBig: c.p.TooBig,
			NoBuffer: c.p.NoBuffer, Rings: c.rings}
	case TxQueueStart:
		r.Tx = &TxStart{PI: c.txPI, Rings: c.rings}
	}
	return c.m.core.Post(c.cid, r)
}

// reset empties the rings.
func (c *Conn) reset() {
	r := c.rings
	r.Rx.reset()
	r.Completions.reset()
	r.Tx.reset()
	c.tx.reset()
	r.Posted, r.Sent, r.Done = 0, 0, 0
	clear(r.rxBufs)
	clear(r.txBufs)
	clear(c.rx)
	c.rxNext, c.rxOwned, c.untold = 0, 0, 0
	c.txNext, c.txOwned, c.building, c.txDone = 0, 0, 0, 0
}

// Terminate stops the queues and gives all buffers back by the callbacks of release
// (ecore_ll2_terminate_connection); the connection can be established again. INVAL: it
// is not established. Another error: the firmware has not stopped them, and the
// connection stays.
func (c *Conn) Terminate() error {
	if err := c.is(true); err != nil {
		return err
	}
	for _, cmd := range []Command{TxQueueStop, RxQueueStop} {
		if err := c.post(cmd); err != nil {
			return err
		}
	}
	return c.end()
}

// end is Terminate's part without the firmware.
func (c *Conn) end() error {
	c.established = false
	for _, t := range etherTypes[c.p.Type] {
		c.m.core.Filter(c.handle, t, false)
	}
	err := errors.Join(c.m.core.UnregisterCB(c.rxPI), c.m.core.UnregisterCB(c.txPI), c.m.core.ReleaseCID(c.cid))
	c.flush()
	return err
}

// flush releases all buffers: those of complete packets that were not looked at, too.
func (c *Conn) flush() {
	rx := make([]Rx, c.rxOwned)
	for i := range rx {
		at := (c.rxNext - c.rxOwned + i + c.p.RxDescs) % c.p.RxDescs
		rx[i] = Rx{Cookie: c.rx[at], Buf: c.rings.rxBufs[at]}
	}
	var tx []packet
	for p, ok := c.tx.consume(); ok; p, ok = c.tx.consume() {
		tx = append(tx, p)
	}
	c.use[0].Released += uint64(len(rx))
	c.use[1].Released += uint64(len(tx))
	c.reset()
	for _, r := range rx {
		c.cb.RxRelease(r.Cookie, r.Buf)
	}
	for _, p := range tx {
		c.cb.TxRelease(p.cookie, p.first)
	}
}

// Release gives the connection back (ecore_ll2_release_connection). INVAL: it is
// established, or was released.
func (c *Conn) Release() error {
	if err := c.is(false); err != nil {
		return err
	}
	c.m.conns[c.handle] = nil
	return nil
}

// PostRx gives the connection a buffer for a packet; the firmware may be told of it
// with a later one (ecore_ll2_post_rx_buffer). INVAL: the connection is not
// established, or has buffers of its own, or the buffer is too short; NOMEM: no
// descriptor is free.
func (c *Conn) PostRx(buf []byte, cookie any, notify bool) error {
	switch err := c.is(true); {
	case err != nil:
		return err
	case c.p.Type == OOO:
		return status.Inval.Errorf("LL2 connection %d of type OOO has buffers of its own", c.handle)
	case cookie == nil:
		return status.Inval.Errorf("LL2 connection %d: a buffer without a cookie", c.handle)
	case len(buf) < c.p.MTU+HeaderLen:
		return status.Inval.Errorf("LL2 connection %d: a buffer of %d octets for MTU %d", c.handle, len(buf), c.p.MTU)
	case c.rxOwned == c.p.RxDescs:
		return status.NoMem.Errorf("LL2 connection %d: all %d receive descriptors are in use", c.handle, c.p.RxDescs)
	}
	c.rings.Rx.produce(rxBD{int32(c.rxNext)})
	c.rx[c.rxNext], c.rings.rxBufs[c.rxNext] = cookie, buf
	c.rxNext = (c.rxNext + 1) % c.p.RxDescs
	c.rxOwned++
	c.use[0].Posted++
	if c.untold++; notify {
		c.rings.Posted += c.untold
		c.untold = 0
	}
	return nil
}

// received takes what the firmware has completed.
func (c *Conn) received(frame.Time) {
	for c.established {
		e, ok := c.rings.Completions.consume()
		if !ok {
			return
		}
		rx := Rx{Cookie: c.rx[e.addr], Buf: c.rings.rxBufs[e.addr], Len: int(e.length), Tagged: e.tagged, TCI: e.tci,
			Flags: e.flags}
		c.rx[e.addr], c.rings.rxBufs[e.addr] = nil, nil
		c.rxOwned--
		c.use[0].Completed++
		c.cb.RxComplete(rx)
	}
}

// maxBuffer is the longest buffer of a descriptor, in octets.
const maxBuffer = 0xffff

// PrepareTx begins a packet; with one buffer it is complete, else SetFragment brings
// the others (ecore_ll2_prepare_tx_packet). INVAL: the connection is not established,
// there is no cookie, no such destination, or the buffer is too long; IO: too many buffers; EXISTS: a packet
// still misses some; BUSY: there are too few descriptors.
func (c *Conn) PrepareTx(p Tx) error {
	d := txBD{bds: uint8(p.BDs), dest: c.p.TxDest, tagged: p.Tagged, tci: p.TCI}
	if p.Dest != nil {
		d.dest = *p.Dest
	}
	switch err := c.is(true); {
	case err != nil:
		return err
	case p.Cookie == nil || p.BDs < 1 || d.dest >= numDests || len(p.First) > maxBuffer:
		return status.Inval.Errorf("LL2 connection %d: a packet of %d buffers to %v, the first of %d octets", c.handle,
			p.BDs, d.dest, len(p.First))
	case p.BDs > c.p.MaxBDs:
		return status.IO.Errorf("LL2 connection %d: a packet of %d buffers, at most %d", c.handle, p.BDs, c.p.MaxBDs)
	case c.building > 0:
		return status.Exists.Errorf("LL2 connection %d: a packet misses %d buffers", c.handle, c.building)
	case c.txOwned+p.BDs > c.p.TxDescs:
		return status.Busy.Errorf("LL2 connection %d: %d of %d transmit descriptors are in use", c.handle, c.txOwned,
			c.p.TxDescs)
	}
	c.tx.produce(packet{p.Cookie, p.First, p.BDs})
	c.building = p.BDs
	c.txOwned += p.BDs
	c.use[1].Posted++
	c.fragment(d, p.First)
	return nil
}

// SetFragment adds the next buffer of a packet, which is sent with its last
// (ecore_ll2_set_fragment_of_tx_packet). INVAL: none misses one, or it is too long.
func (c *Conn) SetFragment(buf []byte) error {
	if err := c.is(true); err != nil {
		return err
	}
	if c.building == 0 || len(buf) > maxBuffer {
		return status.Inval.Errorf("LL2 connection %d: a buffer of %d octets for a packet that misses %d", c.handle,
			len(buf), c.building)
	}
	c.fragment(txBD{}, buf)
	return nil
}

// fragment writes a descriptor.
func (c *Conn) fragment(d txBD, buf []byte) {
	d.addr, d.length = int32(c.txNext), uint16(len(buf))
	c.rings.txBufs[c.txNext] = buf
	c.rings.Tx.produce(d)
	c.txNext = (c.txNext + 1) % c.p.TxDescs
	if c.building--; c.building == 0 {
		c.rings.Sent += c.tx.last().bds
		c.m.core.Doorbell()
	}
}

// sent takes the packets that the firmware has done with.
func (c *Conn) sent(frame.Time) {
	for c.established && c.tx.n > 0 && int(c.rings.Done-c.txDone) >= c.tx.list[c.tx.head].bds {
		p, _ := c.tx.consume()
		c.txDone += uint16(p.bds)
		c.txOwned -= p.bds
		c.use[1].Completed++
		c.cb.TxComplete(p.cookie, p.first)
	}
}
