package verify

import (
	"bytes"
	"fmt"

	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// mostReceived is how many octets of receives a client may ask for.
const mostReceived = 256 << 20

var echoMark = []byte("ECHO")

// request answers a client.
func (r *Run) request(ev cm.Event, now frame.Time) {
	a := parseAsk(ev.PrivateData)
	refuse := func(why string) {
		ev.ID.Context = nil
		_ = ev.ID.Reject([]byte(why), now) // whoever has gone in the meantime needs no answer
	}
	if a.Flags&flagReject != 0 {
		r.reported(&ConnReport{
			Remote: ev.ID.Remote(), Private: len(ev.PrivateData), PrivateSum: sum(ev.PrivateData),
			Rejected: text([]byte(rejection)),
		})
		refuse(rejection)
		return
	}
	if n := int(a.Receives) * a.octets(); n > mostReceived {
		refuse(fmt.Sprintf("verify: receives of %d octets in all: at most %d", n, mostReceived))
		return
	}
	c, err := r.newConn(int(a.Receives), a.octets(), a.Flags&flagSRQ != 0)
	if err != nil {
		r.dev.Verbs.Defer(func(frame.Time) { _ = r.free(c) })
		refuse("verify: " + err.Error())
		return
	}
	fillServer(c.buf[:half])
	c.asked, c.id, ev.ID.Context = a, ev.ID, c
	c.established(ev)
	o := offer{magic, c.mrs[rw].RKey(), c.mrs[ro].RKey(), c.mrs[wo].RKey(), c.mrs[other].RKey(), half, c.mrs[rw].Addr()}
	p := cm.Params{QP: c.qp, PrivateData: render(o), IRD: depth(r.job.IRD), ORD: depth(r.job.ORD)}
	if err := ev.ID.Accept(p, now); err != nil {
		c.report.End = err.Error() // Closed follows
	}
}

// serve handles a completion at the server.
func (c *conn) serve(wc *verbs.WC) {
	switch {
	case wc.Status != verbs.StatusSuccess:
	case wc.ID >= echoID: // the echo is out, its slot is free
		_ = c.postRecv(int(wc.ID - echoID))
	case wc.ID >= recvID:
		c.received(wc)
	}
}

// received books a Send and answers it. Posting fails only when the
// connection has ended, which its events tell.
func (c *conn) received(wc *verbs.WC) {
	i := int(wc.ID - recvID)
	data := c.slot(i)[:wc.ByteLen]
	m := Message{Octets: wc.ByteLen, Sum: sum(data), Solicited: wc.Solicited}
	if wc.WithInv {
		m.Invalidated = wc.Invalidated
	}
	if len(c.report.Received) < maxMessages {
		c.report.Received = append(c.report.Received, m)
	} else {
		c.report.Omitted++
	}
	if bytes.HasPrefix(data, echoMark) {
		_, _ = c.qp.PostSend(verbs.SendWR{
			ID: echoID + uint64(i), Flags: verbs.Signaled, SGEs: []verbs.SGE{c.slotSGE(i, len(data))},
		})
		return
	}
	_ = c.postRecv(i)
	if c.asked.Flags&flagAnswer != 0 {
		a := answer{magic, m.Octets, m.Sum, m.Invalidated}
		_, _ = c.qp.PostSend(verbs.SendWR{Flags: verbs.Inline, Inline: render(a)})
	}
}
