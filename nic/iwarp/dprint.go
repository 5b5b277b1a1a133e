package iwarp

import (
	"fmt"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/nic/msglog"
	"tapir/rdmap"
)

// logFrame says what start-up frame b this side sends.
func (c *conn) logFrame(b []byte) {
	log := c.e.cfg.Log
	if !log.On(msglog.MPA) {
		return
	}
	for _, kind := range [...]mpa.Kind{mpa.Request, mpa.Reply} {
		f, n, err := mpa.ParseFrame(b, kind)
		if err != nil || n == 0 {
			continue
		}
		log.Append(msglog.MPA, func(t []byte) []byte {
			t = fmt.Appendf(t, "%v > %v MPA %v rev %d", c.tcp.Local(), c.tcp.Remote(), kind, f.Rev)
			for _, flag := range [...]struct {
				set  bool
				name string
			}{{f.Markers, "M"}, {f.CRC, "C"}, {f.Reject, "R"}, {f.Enhanced, "S"}} {
				if flag.set {
					t = append(append(t, ' '), flag.name...)
				}
			}
			pd := f.PrivateData
			if e, rest, err := mpa.ParseEnhanced(pd); f.Enhanced && err == nil {
				t, pd = fmt.Appendf(t, " IRD %d ORD %d", e.IRD, e.ORD), rest
				if e.RTR() != 0 {
					t = fmt.Appendf(t, " RTR %v", e.RTR())
				}
			}
			return fmt.Appendf(t, " private data %d", len(pd))
		})
	}
}

// logAgreed says what came of a start-up frame of the peer.
func (c *conn) logAgreed(what string, r *mpa.Result) {
	if log := c.e.cfg.Log; log.On(msglog.MPA) {
		rtr := ""
		if r.RTR != 0 {
			rtr = " RTR " + r.RTR.String()
		}
		log.Addf(msglog.MPA,
			"%v < %v %s rev %d CRC %v markers out %v in %v IRD %d ORD %d (peer's %d, %d)%s private data %d",
			c.tcp.Local(), c.tcp.Remote(), what, r.Revision, r.CRC, r.MarkersTx, r.MarkersRx, r.IRD, r.ORD, r.PeerIRD,
			r.PeerORD, rtr, len(r.PrivateData))
	}
}

// logError says why the connection fails or ends.
func (c *conn) logError(err error) {
	if log := c.e.cfg.Log; log.On(msglog.Errors) && err != nil {
		log.Addf(msglog.Errors, "%v < %v QP %d %v: %v", c.tcp.Local(), c.tcp.Remote(), c.qpNum(), c.id.Reason(), err)
	}
}

// logSegment says on topic t what the DDP segment that begins with b, with n
// octets of payload, is; count of them follow each other.
func (c *conn) logSegment(t msglog.Topic, wr uint64, b []byte, n, count int) {
	h, _, err := ddp.Parse(b)
	if err != nil {
		c.e.cfg.Log.Addf(t, "QP %d segment shorter than its header", c.qpNum())
		return
	}
	c.e.cfg.Log.Append(t, func(s []byte) []byte {
		s = fmt.Appendf(s, "QP %d", c.qpNum())
		if wr != rdmap.NoRef {
			s = fmt.Appendf(s, " WR %d", wr)
		}
		s = fmt.Appendf(s, " %v", rdmap.ParseControl(h.ULP).Opcode)
		if h.Tagged {
			s = fmt.Appendf(s, " STag %#08x TO %#x", h.STag, h.TO)
		} else {
			s = fmt.Appendf(s, " QN %d MSN %d MO %d", h.QN, h.MSN, h.MO)
		}
		s = fmt.Appendf(s, " len %d", n)
		if count > 1 {
			s = fmt.Appendf(s, ", %d such segments", count)
		}
		if h.Last {
			s = append(s, " last"...)
		}
		return s
	})
}

// logReceived says what segment b of the peer was.
func (c *conn) logReceived(b []byte) {
	h, payload, err := ddp.Parse(b)
	wr := rdmap.NoRef
	if err == nil {
		wr = c.inboundWR(rdmap.ParseControl(h.ULP).Opcode, wr)
	}
	c.logSegment(msglog.RX, wr, b, len(payload), 1)
}
