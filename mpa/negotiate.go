package mpa

// CRCPolicy is what one side wants of CRC32C (RFC 5044 section 4.4).
type CRCPolicy uint8

const (
	// CRCRequired is the standard's default: C is always set, so CRCs are on.
	CRCRequired CRCPolicy = iota
	// CRCOptional prefers none, but follows a peer that wants them.
	CRCOptional
	// CRCRefused rejects a peer that wants them.
	CRCRefused
)

// Config is what one side brings to the negotiation.
type Config struct {
	// Revision is 1 (RFC 5044) or 2 (RFC 6581). A responder of revision 2
	// accepts both.
	Revision uint8
	CRC      CRCPolicy
	// Markers demands markers in the received direction.
	Markers bool
	// IRD and ORD are the limits on Reads that this side serves and issues at
	// a time; NotNegotiated leaves them to the upper layers.
	IRD, ORD uint16
	// MaxIRD is the number of Reads that this side, as initiator, has the
	// resources to serve when the responder issues more than IRD; 0: IRD.
	MaxIRD uint16
	// Strict makes the negotiation fail when one side wants to issue more
	// Reads than the other serves; otherwise fewer are issued.
	Strict bool
	// GSO offers FPDUs that span several segments, by a bit that RFC 5044
	// reserves and Linux siw uses for that; they are sent if both sides do.
	GSO bool
	// PeerToPeer asks, as initiator, for the peer-to-peer model.
	PeerToPeer bool
	// RTR is the set of ready-to-receive indications that this side supports;
	// none means all.
	RTR RTR
	// PrivateData is the upper layer's, for the initiator's request.
	PrivateData []byte
}

// DefaultConfig is revision 2 with CRC, without markers, 32 Reads each way,
// client-server model.
func DefaultConfig() Config {
	return Config{Revision: 2, IRD: 32, ORD: 32, RTR: RTRAny}
}

// maxPrivateData is the room for the upper layer's private data.
func (c *Config) maxPrivateData(enhanced bool) int {
	if enhanced {
		return MaxPrivateData - EnhancedLen
	}
	return MaxPrivateData
}

func (c *Config) rtr() RTR {
	if c.RTR&RTRAny == 0 {
		return RTRAny
	}
	return c.RTR & RTRAny
}

// Result is what both sides agreed on.
type Result struct {
	Revision  uint8
	Enhanced  bool // IRD, ORD and P2P were exchanged
	CRC       bool
	MarkersTx bool // the peer demands markers in what is sent
	MarkersRx bool // the peer sends markers
	// IRD and ORD bound the Reads served and issued at a time. Where they were
	// not negotiated they are the configured ones.
	IRD, ORD uint16
	// PeerIRD and PeerORD are the values in the peer's frame.
	PeerIRD, PeerORD uint16
	PeerToPeer       bool
	GSO              bool // both sides offered FPDUs of several segments
	// RTR is, for the initiator, the one indication to send first; for the
	// responder the set of which one will come. Empty unless PeerToPeer.
	RTR RTR
	// PrivateData is the upper layer's of the peer's frame.
	PrivateData []byte
}

// most is the number of Reads that this side can serve at all.
func (c *Config) most() uint16 {
	if c.Strict {
		return c.IRD
	}
	return max(c.IRD, c.MaxIRD)
}

// gsoBit is the reserved bit of Config.GSO.
const gsoBit = 0x08

// reserved are the reserved bits of a frame of this side.
func (c *Config) reserved() uint8 {
	if c.GSO {
		return gsoBit
	}
	return 0
}

// gso tells whether both sides offered it.
func (c *Config) gso(peer *Frame) bool { return c.GSO && peer.Reserved&gsoBit != 0 }

// Tx and Rx are the layouts of the two directions.
func (r *Result) Tx() Layout { return Layout{CRC: r.CRC, Markers: r.MarkersTx} }

// Rx is the layout of the received direction.
func (r *Result) Rx() Layout { return Layout{CRC: r.CRC, Markers: r.MarkersRx} }

// clampORD is the number of Reads to issue to a peer that serves peer of them.
func clampORD(local, peer uint16) uint16 {
	if peer == NotNegotiated || local == NotNegotiated {
		return local
	}
	return min(local, peer)
}

// frameReader puts a start-up frame together from any number of pieces.
type frameReader struct {
	want Kind
	buf  []byte // nil when done
	done bool
	err  error
}

// read takes octets until the frame is whole. It returns how many of data
// belong to the frame; ok is true with the call that completes it. The
// frame's private data does not alias data.
func (r *frameReader) read(data []byte) (f Frame, n int, ok bool, err error) {
	if r.done || r.err != nil {
		return Frame{}, 0, false, r.err
	}
	had := len(r.buf)
	r.buf = append(r.buf, data[:min(len(data), MaxFrameLen-had)]...)
	f, size, err := ParseFrame(r.buf, r.want)
	if err != nil {
		r.buf, r.err = nil, err
		return Frame{}, 0, false, err
	}
	if size == 0 {
		return Frame{}, len(data), false, nil
	}
	r.buf, r.done = nil, true
	return f, size - had, true, nil
}

// fail makes err the reader's last word.
func (r *frameReader) fail(code Code, detail string) error {
	r.err = &Error{Code: code, Detail: detail}
	return r.err
}

// otherVersion is fail for a frame of another revision.
func (r *frameReader) otherVersion(detail string) error {
	r.err = &Error{Code: Startup, Detail: detail, Version: true}
	return r.err
}
