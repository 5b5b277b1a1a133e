package toe

import (
	"net/netip"
	"time"

	"tapir/nic/toe/packet"
	"tapir/nic/toe/stats"
	"tapir/wire/enum"
)

// State is a connection state of RFC 9293 section 3.3.2.
type State uint8

const (
	StateClosed State = iota
	StateSynSent
	StateSynReceived
	StateEstablished
	StateFinWait1
	StateFinWait2
	StateCloseWait
	StateClosing
	StateLastAck
	StateTimeWait
)

var stateNames = [...]string{
	"CLOSED", "SYN-SENT", "SYN-RECEIVED", "ESTABLISHED", "FIN-WAIT-1",
	"FIN-WAIT-2", "CLOSE-WAIT", "CLOSING", "LAST-ACK", "TIME-WAIT",
}

func (s State) String() string {
	return enum.Name(stateNames[:], s, "unknown")
}

// Info is a snapshot of one connection for display. Offsets count stream
// octets in their direction; windows are octets.
type Info struct {
	State         State          `json:"state"`
	Local         netip.AddrPort `json:"local"`
	Remote        netip.AddrPort `json:"remote"`
	MSS           int            `json:"mss"`
	MTU           int            `json:"mtu"` // of the path
	SndUna        uint64         `json:"snd_una"`
	SndNxt        uint64         `json:"snd_nxt"`
	SndWnd        uint64         `json:"snd_wnd"`
	RcvNxt        uint64         `json:"rcv_nxt"`
	RcvWnd        uint64         `json:"rcv_wnd"`
	Cwnd          uint64         `json:"cwnd"`
	Ssthresh      uint64         `json:"ssthresh"`
	SRTT          time.Duration  `json:"srtt_ns"`
	RTTVar        time.Duration  `json:"rttvar_ns"`
	RTO           time.Duration  `json:"rto_ns"`
	Recovering    bool           `json:"recovering"`
	SACK          bool           `json:"sack"`
	Timestamps    bool           `json:"timestamps"`
	ECN           bool           `json:"ecn"`
	Congestion    string         `json:"congestion"`
	Alpha         float64        `json:"alpha,omitzero"` // estimate of congestion of DCTCP, 0 to 1
	SndScale      uint8          `json:"snd_wscale"`
	RcvScale      uint8          `json:"rcv_wscale"`
	OutOfOrder    int            `json:"out_of_order"` // octets held
	SegsOut       uint64         `json:"segs_out"`
	SegsIn        uint64         `json:"segs_in"`
	Retransmits   uint64         `json:"retransmits"`
	Timeouts      uint64         `json:"timeouts"`
	FastRecovers  uint64         `json:"fast_recoveries"`
	DuplicateAcks uint64         `json:"duplicate_acks"`
}

// Stats counts what an engine has done.
type Stats = stats.Stats

// SavedPacket is one packet of a connection's beginning.
type SavedPacket = packet.Saved
