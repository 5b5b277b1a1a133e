package iwarp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/msglog"
)

// Config sets up an Engine. Zero fields take the default in parentheses.
type Config struct {
	Revision uint8         // of MPA (2)
	CRC      mpa.CRCPolicy // (required)
	// CRCRequired is how mpa_crc_required was given. On forbids the policy
	// mpa.CRCRefused; Off keeps CRCs optional when that policy is taken back.
	CRCRequired Switch
	Markers     bool // demand markers from the peer
	PeerToPeer  bool // ask for the peer-to-peer model as initiator
	// Fallback makes an initiator of revision 2 try again with revision 1 when
	// the peer closes without an answer (RFC 6581 section 10).
	Fallback bool
	RTR      mpa.RTR // ready-to-receive indications supported (all)
	// IRD and ORD are the Reads served and issued per QP by default (32);
	// cm.NoReads stands for none.
	IRD, ORD uint16
	// StrictReads ends a negotiation in which one side wants more Reads than
	// the other serves, instead of cutting the number:
	// relaxed_ird_negotiation=0.
	StrictReads bool
	// GSO offers and accepts FPDUs of several segments, siw's try_gso.
	GSO bool
	// InOrder leaves all that arrives out of order to TCP's reassembly queue
	// instead of placing it at once: ooo_placement=0.
	InOrder bool
	// NoZeroCopy keeps copies of long messages sent without CRC, too:
	// zcopy_tx=0.
	NoZeroCopy bool

	// SilentShare is the percentage of a listener's backlog that connections of
	// one host may hold without an MPA request when others need room (50).
	SilentShare uint8

	RequestTimeout time.Duration // responder: until the request is whole (5 s)
	ReplyTimeout   time.Duration // initiator: until the reply is whole (2 min: a program may fill its memory first)
	CloseTimeout   time.Duration // without progress, until a graceful close turns abortive (5 s)

	// FirstDelay is how long an initiator waits between the reply and its
	// first FPDU (not at all). Linux siw as responder does not look at octets
	// that arrive before it has finished accepting; some milliseconds help.
	FirstDelay time.Duration

	// Nudge is how long an initiator bears its peer's silence after its first
	// FPDU before it sends a zero-length RDMA Write, which wakes a siw that has
	// missed that FPDU (never). Never says so where 0 has another meaning.
	Nudge time.Duration

	// SendFirst is how long a responder whose application may send first
	// (cm.Params.MaySendFirst) waits for the initiator's first FPDU before it
	// sends its own. RFC 5044 section 7.1.2 has it wait for ever (never); siw
	// does not wait at all, and as initiator does not ask for the peer-to-peer
	// model, so programs on it may wait for the responder.
	SendFirst time.Duration

	// Log is told about start-up frames, FPDUs and errors, as far as its Mask
	// says; it may be nil.
	Log *msglog.Log

	// Source chooses the local address for a connection to remote when the
	// application named none.
	Source func(remote netip.Addr) (netip.Addr, error)
	// Allow, if set, may refuse connections to remote.
	Allow func(remote netip.Addr) error
	// ListenPaused has listeners take no new connections: peers go on asking.
	ListenPaused bool
	// Detached, if not nil, is why the NIC offers no RDMA: nothing can be
	// listened for or connected.
	Detached error
}

// Switch is a setting that may be left to its default.
type Switch uint8

const (
	Auto Switch = iota
	On
	Off
)

// errCRC is the contradiction between siw's two parameters.
var errCRC = errors.New("mpa_crc_required and mpa_crc_strict exclude each other: one demands what the other refuses")

// Validate finds settings that contradict each other.
func (c *Config) Validate() error {
	switch {
	case c.Revision > 2:
		return fmt.Errorf("mpa_version %d: use 1 or 2", c.Revision)
	case c.CRCRequired == On && c.CRC == mpa.CRCRefused:
		return errCRC
	case c.PeerToPeer && c.Revision == 1:
		return errors.New("peer_to_peer needs mpa_version 2: revision 1 has no ready-to-receive indication")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Revision = cmp.Or(c.Revision, 2)
	c.RTR = cmp.Or(c.RTR, mpa.RTRAny)
	c.IRD = cmp.Or(c.IRD, defaultReads)
	c.ORD = cmp.Or(c.ORD, defaultReads)
	c.SilentShare = cmp.Or(c.SilentShare, 50)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 5*time.Second)
	c.ReplyTimeout = cmp.Or(c.ReplyTimeout, 2*time.Minute)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, 5*time.Second)
	return c
}

// defaultReads is what FastLinQ devices do, each way.
const defaultReads = 32

// Configure changes the settings for negotiations that begin from now on;
// connections that exist keep theirs, timeouts included that are running.
func (e *Engine) Configure(cfg Config) {
	e.cfg = cfg.withDefaults()
	e.cm.PauseAll(cfg.ListenPaused)
}

// Config returns the settings in force.
func (e *Engine) Config() Config { return e.cfg }

// reads turns an application's IRD or ORD into the number to negotiate.
func reads(want, def uint16, limit int) uint16 {
	if want = cmp.Or(want, def); want == cm.NoReads {
		return 0
	}
	return min(want, uint16(limit), mpa.NotNegotiated-1)
}

// mpaConfig is what this side brings to a negotiation.
func (e *Engine) mpaConfig(p cm.Params) mpa.Config {
	l := e.dev.Limits()
	return mpa.Config{
		Revision: e.cfg.Revision, CRC: e.cfg.CRC, Markers: e.cfg.Markers,
		IRD: reads(p.IRD, e.cfg.IRD, l.MaxIRD), ORD: reads(p.ORD, e.cfg.ORD, l.MaxORD),
		MaxIRD: uint16(min(l.MaxIRD, mpa.NotNegotiated-1)), Strict: e.cfg.StrictReads, GSO: e.cfg.GSO,
		PeerToPeer: e.cfg.PeerToPeer || p.PeerToPeer, RTR: e.cfg.RTR, PrivateData: p.PrivateData,
	}
}
