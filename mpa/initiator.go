package mpa

// Initiator is the side that speaks first in the start-up phase.
type Initiator struct {
	cfg    Config
	reader frameReader
	result Result
}

// NewInitiator checks cfg and returns an initiator. Too much private data or
// an unknown revision gives an *Error.
func NewInitiator(cfg Config) (*Initiator, error) {
	if cfg.Revision != 1 && cfg.Revision != 2 {
		return nil, &Error{Code: LocalCatastrophic, Detail: "MPA revision must be 1 or 2"}
	}
	if len(cfg.PrivateData) > cfg.maxPrivateData(cfg.Revision == 2) {
		return nil, &Error{Code: LocalCatastrophic, Detail: "private data too long for the MPA request"}
	}
	return &Initiator{cfg: cfg, reader: frameReader{want: Reply}}, nil
}

// AppendRequest appends the request frame to b; it opens the connection.
func (i *Initiator) AppendRequest(b []byte) []byte {
	c := &i.cfg
	f := Frame{Kind: Request, Markers: c.Markers, CRC: c.CRC == CRCRequired, Rev: c.Revision,
		Enhanced: c.Revision == 2, Reserved: c.reserved(), PrivateData: c.PrivateData}
	if f.Enhanced {
		e := Enhanced{IRD: c.IRD, ORD: c.ORD, P2P: c.PeerToPeer}
		if e.P2P {
			e.setRTR(c.rtr())
		}
		f.PrivateData = append(e.AppendTo(nil), c.PrivateData...)
	}
	return f.AppendTo(b)
}

// Begun tells whether anything of a reply has come.
func (i *Initiator) Begun() bool {
	return len(i.reader.buf) > 0 || i.reader.done || i.reader.err != nil
}

// Receive borrows octets of the peer's stream. It returns how many of them
// belong to the reply; those behind it are the first of full operation. done
// is true with the call that completes the negotiation. The sticky error is
// an *Error, after which the connection must end (a Terminate may report code
// 5, 6 or 7), or *Rejected.
func (i *Initiator) Receive(data []byte) (n int, done bool, err error) {
	f, n, ok, err := i.reader.read(data)
	if !ok || err != nil {
		return n, false, err
	}
	if err := i.reply(&f); err != nil {
		i.reader.err = err
		return n, false, err
	}
	return n, true, nil
}

// Result is valid once Receive reported done. After an *Error with code 5, 6
// or 7 it tells how to frame the Terminate.
func (i *Initiator) Result() Result { return i.result }

func (i *Initiator) reply(f *Frame) error {
	var e Enhanced
	pd := f.PrivateData
	enhanced := i.cfg.Revision == 2 && f.Rev == 2 && f.Enhanced
	if enhanced && (len(pd) >= EnhancedLen || !f.Reject) {
		var err error
		if e, pd, err = ParseEnhanced(pd); err != nil {
			return err
		}
	}
	if f.Reject {
		return &Rejected{PrivateData: pd, IRD: e.IRD, ORD: e.ORD, Enhanced: enhanced}
	}
	if f.Rev != i.cfg.Revision {
		return i.reader.otherVersion("reply of another MPA revision")
	}
	if i.cfg.Revision == 2 && !f.Enhanced {
		return i.reader.fail(Startup, "reply without enhanced data to an enhanced request")
	}
	i.result = Result{Revision: f.Rev, Enhanced: enhanced, CRC: f.CRC || i.cfg.CRC == CRCRequired,
		MarkersTx: f.Markers, MarkersRx: i.cfg.Markers, IRD: i.cfg.IRD, ORD: i.cfg.ORD, GSO: i.cfg.gso(f),
		PrivateData: pd}
	if f.CRC && i.cfg.CRC == CRCRefused {
		return i.reader.fail(LocalCatastrophic, "the peer requires CRC, which this side refuses")
	}
	if !enhanced {
		return nil
	}
	return i.adopt(e)
}

// adopt takes over the responder's enhanced data, RFC 6581 section 9.
func (i *Initiator) adopt(e Enhanced) error {
	r, c := &i.result, &i.cfg
	r.PeerIRD, r.PeerORD = e.IRD, e.ORD
	r.ORD = clampORD(c.ORD, e.IRD)
	if c.Strict && r.ORD < c.ORD {
		return i.reader.fail(InsufficientIRD, "the peer serves fewer Reads than this side issues")
	}
	if e.ORD != NotNegotiated && c.IRD != NotNegotiated {
		if e.ORD > c.most() {
			return i.reader.fail(InsufficientIRD, "the peer issues more Reads than this side serves")
		}
		r.IRD = e.ORD
	}
	if !c.PeerToPeer {
		return nil
	}
	if !e.P2P {
		return i.reader.fail(NoRTR, "the peer does not speak the peer-to-peer model")
	}
	r.PeerToPeer = true
	common := c.rtr() & e.RTR()
	for _, t := range [...]RTR{RTRWrite, RTRRead, RTRSend} {
		if common&t != 0 {
			r.RTR = t
			break
		}
	}
	switch {
	case r.RTR == 0:
		return i.reader.fail(NoRTR, "")
	case r.RTR == RTRRead:
		r.ORD = max(r.ORD, 1)
	}
	return nil
}
