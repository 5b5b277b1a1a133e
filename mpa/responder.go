package mpa

// Responder is the side that waits for the request.
type Responder struct {
	cfg      Config
	reader   frameReader
	request  Frame
	offer    Enhanced
	enhanced bool // the request was; the answer will be
	result   Result
	refusal  []byte
	// want are the depths that this side's upper layer asks for.
	want struct{ ird, ord uint16 }
}

// NewResponder returns a responder. cfg.IRD and cfg.ORD are the most that
// Accept will grant.
func NewResponder(cfg Config) *Responder {
	return &Responder{cfg: cfg, reader: frameReader{want: Request}}
}

// Receive borrows octets of the peer's stream. It returns how many of them
// belong to the request. done is true with the call that completes it:
// Request tells what the peer wants, Accept or Reject answers. After a sticky
// *Error the connection must end; if Refusal is not empty it is sent first.
func (r *Responder) Receive(data []byte) (n int, done bool, err error) {
	f, n, ok, err := r.reader.read(data)
	if !ok || err != nil {
		return n, false, err
	}
	if err := r.examine(f); err != nil {
		return n, false, err
	}
	return n, true, nil
}

func (r *Responder) examine(f Frame) error {
	if f.Rev < 1 || f.Rev > r.cfg.Revision {
		return r.reader.otherVersion("request of an unknown MPA revision")
	}
	r.request, r.enhanced = f, f.Rev == 2 && f.Enhanced
	pd := f.PrivateData
	if r.enhanced {
		var err error
		if r.offer, pd, err = ParseEnhanced(pd); err != nil {
			r.reader.err = err
			return err
		}
	}
	r.result = Result{Revision: f.Rev, Enhanced: r.enhanced, CRC: f.CRC || r.cfg.CRC == CRCRequired,
		MarkersTx: f.Markers, MarkersRx: r.cfg.Markers, IRD: r.cfg.IRD, ORD: r.cfg.ORD,
		PeerIRD: r.offer.IRD, PeerORD: r.offer.ORD, GSO: r.cfg.gso(&f), PrivateData: pd}
	if r.enhanced {
		r.match()
	}
	if f.CRC && r.cfg.CRC == CRCRefused {
		r.refusal = r.AppendReject(nil, nil)
		return r.reader.fail(LocalCatastrophic, "the peer requires CRC, which this side refuses")
	}
	return nil
}

// match computes the responder's side of RFC 6581 sections 9.1 and 9.2.
func (r *Responder) match() {
	res := &r.result
	r.want.ird, r.want.ord = r.cfg.IRD, r.cfg.ORD
	res.ORD = clampORD(r.cfg.ORD, r.offer.IRD)
	res.IRD = clampORD(r.cfg.IRD, r.offer.ORD)
	if !r.offer.P2P {
		return
	}
	res.PeerToPeer = true
	res.RTR = r.cfg.rtr() & r.offer.RTR()
	if res.RTR == 0 {
		res.RTR = r.cfg.rtr()
	}
	if res.RTR&RTRRead != 0 {
		res.IRD = max(res.IRD, 1)
	}
}

// Request is, after Receive reported done, what the peer's request amounts
// to with everything granted that the configuration allows.
func (r *Responder) Request() Result { return r.result }

// Refusal is the reply to send before closing after an error, if any.
func (r *Responder) Refusal() []byte { return r.refusal }

// MaxPrivateData is the room for private data in the reply.
func (r *Responder) MaxPrivateData() int { return r.cfg.maxPrivateData(r.enhanced) }

// Limit lowers what Accept grants: the upper layer's IRD and ORD. It cannot
// raise them, nor take away the one inbound Read that an RTR Read needs.
func (r *Responder) Limit(ird, ord uint16) {
	res := &r.result
	res.IRD, res.ORD = min(res.IRD, ird), min(res.ORD, ord)
	r.want.ird, r.want.ord = min(r.want.ird, ird), min(r.want.ord, ord)
	if res.RTR&RTRRead != 0 {
		res.IRD = max(res.IRD, 1)
	}
}

// strict refuses depths that do not meet, with Config.Strict. The reject that
// follows states what this side wants (RFC 6581 section 9.1).
func (r *Responder) strict() error {
	short := r.offer.IRD != NotNegotiated && r.want.ord > r.offer.IRD ||
		r.offer.ORD != NotNegotiated && r.want.ird < r.offer.ORD
	if !r.cfg.Strict || !r.enhanced || !short {
		return nil
	}
	r.result.IRD, r.result.ORD = r.want.ird, r.want.ord
	return &Error{Code: InsufficientIRD, Detail: "the two sides want different numbers of Reads"}
}

// AppendAccept appends the accepting reply to b. Result is then final. Too
// much private data, and with Config.Strict depths that do not meet, give an
// *Error and no reply.
func (r *Responder) AppendAccept(b, privateData []byte) ([]byte, error) {
	if err := r.strict(); err != nil {
		return b, err
	}
	if len(privateData) > r.MaxPrivateData() {
		return b, &Error{Code: LocalCatastrophic, Detail: "private data too long for the MPA reply"}
	}
	return r.appendReply(b, privateData, false), nil
}

// AppendReject appends the rejecting reply to b; private data is cut to
// MaxPrivateData.
func (r *Responder) AppendReject(b, privateData []byte) []byte {
	return r.appendReply(b, privateData[:min(len(privateData), r.MaxPrivateData())], true)
}

// Result is what was agreed on.
func (r *Responder) Result() Result { return r.result }

func (r *Responder) appendReply(b, privateData []byte, reject bool) []byte {
	f := Frame{Kind: Reply, Markers: r.cfg.Markers, CRC: r.result.CRC && r.cfg.CRC != CRCRefused,
		Reject: reject, Enhanced: r.enhanced, Rev: r.result.Revision, PrivateData: privateData}
	if r.result.GSO {
		f.Reserved = r.cfg.reserved()
	}
	if r.enhanced {
		f.PrivateData = append(r.replyData().AppendTo(nil), privateData...)
	}
	return f.AppendTo(b)
}

// replyData is the enhanced data of the reply. What the initiator left to
// the upper layers stays there.
func (r *Responder) replyData() Enhanced {
	e := Enhanced{IRD: r.result.IRD, ORD: r.result.ORD, P2P: r.result.PeerToPeer}
	if r.offer.ORD == NotNegotiated {
		e.IRD = NotNegotiated
	}
	if r.offer.IRD == NotNegotiated {
		e.ORD = NotNegotiated
	}
	e.setRTR(r.result.RTR)
	return e
}
