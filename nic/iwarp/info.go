package iwarp

import (
	"net/netip"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/rdmap"
)

// Counters counts what one connection, or all, have moved. Octets are
// message payload.
type Counters struct {
	TxFPDUs    uint64 `json:"tx_fpdus"`
	RxFPDUs    uint64 `json:"rx_fpdus"`
	TxBytes    uint64 `json:"tx_bytes"`
	RxBytes    uint64 `json:"rx_bytes"`
	CRCErrors  uint64 `json:"crc_errors"`
	Nudges     uint64 `json:"nudges"`     // sent to silent responders
	Terminates uint64 `json:"terminates"` // sent or received
	Evicted    uint64 `json:"evicted"`    // connections reset without an MPA request, for room in a backlog
	// OOOPlaced counts octets placed before everything in front of them had
	// come, OOOHeld those held back at the ends of such segments, and
	// OOORefused the segments left to TCP, by reason as in RefusalNames.
	OOOPlaced  uint64                  `json:"early_placed"`
	OOOHeld    uint64                  `json:"early_held"`
	OOORefused [countedRefusals]uint64 `json:"early_refused"`
	// Messages by RDMAP opcode, 0 (RDMA Write) to 11 (Atomic Response).
	TxMessages [rdmap.NumOpcodes]uint64 `json:"tx_messages"`
	RxMessages [rdmap.NumOpcodes]uint64 `json:"rx_messages"`
}

func (a *Counters) add(b *Counters) {
	a.TxFPDUs += b.TxFPDUs
	a.RxFPDUs += b.RxFPDUs
	a.TxBytes += b.TxBytes
	a.RxBytes += b.RxBytes
	a.CRCErrors += b.CRCErrors
	a.Nudges += b.Nudges
	a.Terminates += b.Terminates
	a.Evicted += b.Evicted
	a.OOOPlaced += b.OOOPlaced
	a.OOOHeld += b.OOOHeld
	for i := range a.OOORefused {
		a.OOORefused[i] += b.OOORefused[i]
	}
	for i := range a.TxMessages {
		a.TxMessages[i] += b.TxMessages[i]
		a.RxMessages[i] += b.RxMessages[i]
	}
}

func (a *Counters) addStream(s *rdmap.Stream) {
	n := &s.Counters
	a.TxBytes += n.TxBytes
	a.RxBytes += n.RxBytes
	for i := range a.TxMessages {
		a.TxMessages[i] += n.TxMessages[i]
		a.RxMessages[i] += n.RxMessages[i]
	}
}

// Totals counts over all connections of an engine, past and present.
type Totals = Counters

// Totals returns the engine's counters.
func (e *Engine) Totals() Totals {
	t := e.totals
	for _, c := range e.conns.All() {
		n := c.count()
		t.add(&n)
	}
	return t
}

func (c *conn) count() Counters {
	n := c.counters
	if c.stream != nil {
		n.addStream(c.stream)
	}
	return n
}

// QPInfo describes a queue pair for display.
type QPInfo struct {
	Num          uint32         `json:"qp"`
	State        string         `json:"state"`
	IWARPState   string         `json:"iwarp_state"`
	PD           uint32         `json:"pd"`
	SendCQ       uint32         `json:"send_cq"`
	RecvCQ       uint32         `json:"recv_cq"`
	Local        netip.AddrPort `json:"local,omitzero"`
	Remote       netip.AddrPort `json:"remote,omitzero"`
	SendsPending int            `json:"sends_pending"`
	RecvsPending int            `json:"recvs_pending"`
	IRD          uint16         `json:"ird"`
	ORD          uint16         `json:"ord"`
	CRC          bool           `json:"crc"`
	Unacked      int            `json:"unacked_fpdus"`
	RateLimit    uint32         `json:"rate_limit_kbps,omitempty"` // of what it sends; 0: none
	Counters                    // over all connections that the queue pair has had
}

// QPs describes all queue pairs in order of creation.
func (e *Engine) QPs() []QPInfo {
	infos := make([]QPInfo, 0, len(e.dev.QPs()))
	for _, qp := range e.dev.QPs() {
		cfg := qp.Config()
		i := QPInfo{
			Num: qp.Num(), State: qp.State().String(), IWARPState: qp.State().IWARP(),
			PD: qp.PD().Num(), SendCQ: cfg.SendCQ.Num(), RecvCQ: cfg.RecvCQ.Num(),
			SendsPending: qp.SendsPending(), RecvsPending: qp.RecvsPending(),
			RateLimit: qp.RateLimit(),
		}
		p := endpointOf(qp)
		i.Counters = p.past
		if c := p.conn; c != nil {
			i.Local, i.Remote = c.tcp.Local(), c.tcp.Remote()
			i.IRD, i.ORD, i.CRC = c.result.IRD, c.result.ORD, c.result.CRC
			i.Unacked = c.log.len()
			n := c.count()
			i.Counters.add(&n)
		}
		infos = append(infos, i)
	}
	return infos
}

// CEPInfo describes a connection end point for display: a listener, or a
// connection from its first octet on.
type CEPInfo struct {
	ID       uint32         `json:"id"` // of the connection manager; 0 = listener or none yet
	State    string         `json:"state"`
	Phase    string         `json:"phase"`
	Local    netip.AddrPort `json:"local"`
	Remote   netip.AddrPort `json:"remote,omitzero"`
	QP       uint32         `json:"qp,omitempty"`
	Revision uint8          `json:"mpa_revision,omitempty"`
	CRC      bool           `json:"crc"`
	Markers  bool           `json:"markers"`
	P2P      bool           `json:"peer_to_peer"`
	RTR      string         `json:"rtr,omitempty"` // of a peer-to-peer connection
	IRD      uint16         `json:"ird"`
	ORD      uint16         `json:"ord"`
	PeerIRD  uint16         `json:"peer_ird"` // as its start-up frame says
	PeerORD  uint16         `json:"peer_ord"`
	GSO      bool           `json:"gso"` // FPDUs of several segments
	TCP      *toe.Info      `json:"tcp,omitempty"`
}

// CEPs describes the listeners, then the connections, in order of creation.
func (e *Engine) CEPs() []CEPInfo {
	var infos []CEPInfo
	for _, l := range e.cm.Listeners() {
		infos = append(infos, CEPInfo{State: "LISTEN", Phase: "listening", Local: l.Local()})
	}
	for _, c := range e.conns.All() {
		tcp := c.tcp.Info()
		i := CEPInfo{
			State: "-", Phase: c.phase.String(), Local: c.tcp.Local(), Remote: c.tcp.Remote(),
			Revision: c.result.Revision, CRC: c.result.CRC, P2P: c.result.PeerToPeer,
			Markers: c.result.MarkersTx || c.result.MarkersRx, TCP: &tcp,
			IRD: c.result.IRD, ORD: c.result.ORD, PeerIRD: c.result.PeerIRD, PeerORD: c.result.PeerORD,
			GSO: c.result.GSO,
		}
		if i.P2P {
			i.RTR = c.result.RTR.String()
		}
		if c.id != nil {
			i.ID, i.State = c.id.Num(), c.id.State().String()
		}
		if c.qp != nil {
			i.QP = c.qp.Num()
		}
		infos = append(infos, i)
	}
	return infos
}

// Idle tells whether no connection is left.
func (e *Engine) Idle() bool { return e.conns.Len() == 0 }

// TCP is the TCP connection below id, nil if there is none.
func (e *Engine) TCP(id *cm.ID) *toe.Conn {
	if c, ok := id.Conn().(*conn); ok {
		return c.tcp
	}
	return nil
}

// TCPListener is the TCP listener below l.
func (e *Engine) TCPListener(l *cm.Listener) *toe.Listener {
	return l.Acceptor().(*acceptor).tcp
}
