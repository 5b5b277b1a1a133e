package fcf

import (
	"slices"

	"tapir/wire/drop"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/frame"
)

// serve takes a frame for a well-known address. Requests to the services of the fabric are
// sequences of one frame.
func (f *FCF) serve(p *nport, fr []byte, now frame.Time) frame.DropReason {
	h, payload, err := fc.Parse(fr)
	switch {
	case err != nil || h.SeqCnt != 0 || h.FCtl&fc.End == 0:
		return drop.Malformed
	case h.RCtl == fc.Abort:
		f.transmit(p, h.ReplyTo(fc.AbortAccept), fc.AppendAbortAccept(nil, h.OXID, h.RXID), now)
	case h.RCtl == fc.ELSReply && h.Type == fc.TypeELS && h.D == fc.Controller:
		if !p.changes.heard(h.OXID) {
			return drop.Unused
		}
		f.wake(now)
	case h.RCtl == fc.ELSRequest && h.Type == fc.TypeELS && len(payload) > 0:
		f.transmit(p, h.ReplyTo(fc.ELSReply), f.service(p, h.D, payload), now)
		f.wake(now)
	case h.RCtl == fc.UnsolicitedCtl && h.Type == fc.TypeCT && h.D == fc.Directory:
		c, q, err := fc.ParseCT(payload)
		if err != nil {
			return drop.Malformed
		}
		f.counts.Queries++
		f.transmit(p, h.ReplyTo(fc.SolicitedCtl), f.directory(p, &c, q, now), now)
	default:
		return drop.Unused
	}
	return frame.DropNone
}

// service answers a link service to a well-known address.
func (f *FCF) service(p *nport, to fc.ID, b []byte) []byte {
	cmd := fc.ELS(b[0])
	known := to == fc.Directory || to == fc.Controller
	switch {
	case cmd == fc.PLOGI && known:
		l, err := fc.ParseLogin(b)
		if err != nil || !l.Class3 || l.Class3Size < leastPayload || l.Class3Size > fc.MaxPayload {
			return fc.AppendReject(nil, fc.LogicalError, fc.BadServiceParams)
		}
		if to == fc.Directory {
			p.size = int(l.Class3Size)
		}
		a := fc.Login{Command: fc.LSACC, Features: fc.RandomOffset, MaxPayload: fc.MaxPayload, RATOV: 0x00ff_001f,
			EDTOV: uint32(edTOV.Milliseconds()), Port: f.portName(uint16(to)), Node: f.name,
			Class3: true, Class3Size: fc.MaxPayload, Concurrent: 1, Open: 1}
		return a.AppendTo(nil)
	case cmd == fc.LOGO && known:
		if to == fc.Directory {
			p.size = 0
		}
		return fc.AppendAccept(nil)
	case cmd == fc.RTV && to == fc.FabricPort:
		return fc.AppendTimeouts(nil, uint32(raTOV.Milliseconds()), uint32(edTOV.Milliseconds()))
	case cmd == fc.SCR && to == fc.Controller:
		function, err := fc.ParseSCR(b)
		switch {
		case err != nil || function != fc.ScrClear && (function < fc.ScrFabric || function > fc.ScrFull):
			return fc.AppendReject(nil, fc.LogicalError, fc.BadServiceParams)
		case function == fc.ScrClear:
			p.registrar, p.changes = false, changes{}
		default:
			p.registrar = p.registrar || function&fc.ScrFabric != 0
		}
		return fc.AppendAccept(nil)
	}
	return fc.AppendReject(nil, fc.NotSupported, fc.ExplainUnsupported)
}

// transmit sends a sequence to an N_Port, in as many frames as it takes.
func (f *FCF) transmit(p *nport, h fc.Header, payload []byte, now frame.Time) {
	most := min(fc.MaxPayload, max(p.size, leastPayload)) &^ 3
	if h.Type == fc.TypeELS {
		most = fc.MaxPayload // no link service is longer than the least that N_Ports take
	}
	eth := p.node.header(f, fcoe.EtherType, p.mac)
	last := h.FCtl
	for {
		n := min(len(payload), most)
		h.FCtl = last
		if n < len(payload) {
			h.FCtl = last &^ (fc.End | fc.Initiative)
		}
		f.buf = fcoe.Append(eth.AppendTo(f.buf[:0]), h, payload[:n])
		f.env.Send(p.node.port, f.buf, now)
		if payload = payload[n:]; len(payload) == 0 {
			return
		}
		h.SeqCnt++
	}
}

// changes are state changes that a registered N_Port has to hear of (FC-LS-3 section 4.2.17).
type changes struct {
	pages []fc.ID // not told yet
	sent  []fc.ID // told, without an answer so far; nil: nothing is
	oxid  uint16
	until frame.Time // of the wait for the answer
	tries int
}

const (
	mostPages = 60 // more are told as a change of the whole fabric
	mostTries = 3
	// rscnWait is how long an answer may take (FC-LS-3: twice R_A_TOV).
	rscnWait = 2 * raTOV
)

// wholeFabric is the page that says so.
const wholeFabric = fc.ID(fc.OfFabric) << 24

// next is when tell has something to do.
func (c *changes) next() frame.Time {
	switch {
	case c.sent != nil:
		return c.until
	case c.pages != nil:
		return 0
	}
	return frame.Never
}

// heard takes the answer of an exchange; false: it is none of these.
func (c *changes) heard(oxid uint16) bool {
	if c.sent == nil || c.oxid != oxid {
		return false
	}
	c.sent, c.tries = nil, 0
	return true
}

// changed notes that an N_Port has come, has gone, or has registered something else.
func (f *FCF) changed(who *nport, now frame.Time) {
	for _, p := range f.nports {
		if c := &p.changes; p.registrar && p != who && f.zoned(p, who) && !slices.Contains(c.pages, who.id) {
			if c.pages = append(c.pages, who.id); len(c.pages) > mostPages {
				c.pages = append(c.pages[:0], wholeFabric)
			}
			f.wake(now)
		}
	}
}

// tell sends RSCNs, again if nobody answers.
func (f *FCF) tell(now frame.Time) {
	for _, p := range f.nports {
		c := &p.changes
		if c.sent != nil {
			if now < c.until {
				continue
			}
			if c.tries == mostTries {
				f.counts.RSCNsLost++
				c.sent, c.tries = nil, 0
			}
		}
		if c.sent == nil {
			if c.pages == nil {
				continue
			}
			c.sent, c.pages = c.pages, nil
		}
		f.oxid = (f.oxid + 1) & 0x7fff
		c.oxid, c.until, c.tries = f.oxid, now.Add(rscnWait), c.tries+1
		f.counts.RSCNs++
		f.transmit(p, fc.Header{RCtl: fc.ELSRequest, D: p.id, S: fc.Controller, Type: fc.TypeELS, FCtl: fc.Request,
			OXID: c.oxid, RXID: fc.NoID}, fc.AppendStateChange(nil, c.sent...), now)
	}
}
