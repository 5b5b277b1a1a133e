package iwarp

import (
	"errors"

	"tapir/mpa"
	"tapir/nic/msglog"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// inbound is the receiving half of a connection.
type inbound struct {
	c         *conn
	rx        *mpa.Receiver
	rxBase    uint64    // stream offset of the first FPDU received
	rxOff     uint64    // stream offset that has been received
	ooo       *oooQueue // segments that arrived before their turn
	unaligned bool      // a segment of TCP has begun inside an FPDU
	lastULPDU int       // lengths of the last FPDU in order
	lastFPDU  int       // 0: that of such an ULPDU
	recvID    uint64    // WR id of the receive in use
}

// Receive implements toe.Handler.
func (c *conn) Receive(_ *toe.Conn, data []byte, now frame.Time) {
	c.rxOff += uint64(len(data))
	switch c.phase {
	case waitRequest:
		c.request(data, now)
		return
	case offered:
		c.err = &mpa.Error{Code: mpa.Startup, Detail: "octets before the reply"}
		c.tcp.Abort()
		return
	case waitReply:
		if data = c.reply(data, now); len(data) == 0 || c.phase != full {
			return
		}
	}
	if c.phase != full {
		return
	}
	c.unaligned = c.unaligned || c.rx.Partial() > 0
	if err := c.rx.Receive(data, (*consumer)(c)); err != nil {
		c.failReceive(err)
	}
	c.drained()
}

// failReceive ends the connection for an error of MPA or of the layers above.
func (in *inbound) failReceive(err error) {
	var m *mpa.Error
	var r *rdmap.Error
	switch {
	case errors.As(err, &m):
		if m.Code == mpa.CRC {
			in.c.counters.CRCErrors++
		}
		r = &rdmap.Error{Layer: rdmap.LayerLLP, Code: uint8(m.Code)}
	case !errors.As(err, &r):
		r = &rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeCatastrophic}
	}
	in.c.fail(r)
}

// consumer is the connection as MPA's receiver sees it.
type consumer conn

// ULPDU implements mpa.Consumer.
func (k *consumer) ULPDU(b []byte) error {
	c := (*conn)(k)
	if err := c.batchWrites(b); err != nil {
		return err
	}
	c.lastULPDU, c.lastFPDU = len(b), 0
	note, read := c.e.notes.On, rdmap.NoRef
	if note {
		read = c.readWR()
	}
	err := c.stream.Receive(b)
	if c.e.cfg.Log.On(msglog.RX) {
		c.logReceived(b)
	}
	if note {
		c.noteReceived(b, read)
	}
	return c.received(err)
}

// received follows a segment that RDMAP has handled.
func (in *inbound) received(err *rdmap.Error) error {
	in.c.counters.RxFPDUs++
	in.c.stopNudger()
	in.c.begun()
	first := in.c.gated && !in.c.held
	in.c.gated = in.c.held
	if err != nil {
		return err
	}
	if first {
		if in.c.result.PeerToPeer { // until now the application has not been told
			in.c.e.dev.Async(verbs.AsyncEvent{Type: verbs.EventCommEstablished, QP: in.c.qp})
			in.c.established()
		}
		in.c.tcp.Kick()
	}
	if in.c.stream.Last() {
		in.c.tcp.AckNow()
	}
	return nil
}
