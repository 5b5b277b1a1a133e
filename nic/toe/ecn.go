package toe

import (
	"tapir/nic/toe/recovery"
	"tapir/wire/tcp"
)

// The ECN field of the IP header (RFC 3168 section 5).
const (
	ecnMask = 3
	ect0    = 2
	ecnCE   = 3
)

// ecnState is explicit congestion notification on one connection (RFC 3168
// section 6.1).
type ecnState struct {
	asked bool   // our SYN asked for it
	on    bool   // both sides use it
	echo  bool   // a mark has arrived and the peer has not reacted: send ECE
	cwr   bool   // the next new segment tells of our reaction
	until uint64 // one reaction per window: none before this is acknowledged
}

// reduced notes that the window was reduced while next was the next offset.
func (s *ecnState) reduced(next uint64) {
	if s.on {
		s.cwr, s.until = true, next
	}
}

// synFlags are the flags that ask for ECN in a SYN, or grant it in a SYN-ACK.
// A SYN that was lost is tried without (section 6.1.1.1).
func (c *Conn) synFlags(flags tcp.Flags) tcp.Flags {
	switch {
	case flags.Has(tcp.ACK):
		if c.ecn.on {
			flags |= tcp.ECE
		}
	default:
		if c.ecn.asked = c.par.ECN == ECNAsk && c.backoff == 0; c.ecn.asked {
			flags |= tcp.ECE | tcp.CWR
		}
	}
	return flags
}

// takeSynECN reads the peer's side of the negotiation.
func (c *Conn) takeSynECN(f tcp.Flags) {
	const both = tcp.ECE | tcp.CWR
	switch {
	case c.par.ECN == ECNOff:
		c.ecn.on = false
	case f.Has(tcp.ACK):
		c.ecn.on = c.ecn.asked && f&both == tcp.ECE
	default:
		c.ecn.on = f.Has(both)
	}
}

// mark sets the flags of an outgoing segment, and reports whether its packet
// is ECN-capable: new data only (sections 6.1.4 and 6.1.5).
func (c *Conn) markECN(flags tcp.Flags, fresh bool) (tcp.Flags, bool) {
	if !c.ecn.on || flags&(tcp.SYN|tcp.RST) != 0 {
		return flags, false
	}
	if c.ecn.echo {
		flags |= tcp.ECE
	}
	if fresh && c.ecn.cwr {
		flags |= tcp.CWR
		c.ecn.cwr = false
	}
	return flags, fresh
}

// takeECN handles the mark and the flags of an acceptable segment with n
// octets of data that acknowledges ack.
func (c *Conn) takeECN(f tcp.Flags, tos uint8, ack int64, n int) {
	if f.Has(tcp.CWR) {
		c.ecn.echo = false
	}
	if tos&ecnMask == ecnCE && n > 0 {
		c.e.stats.CEMarks++
		if !c.ecn.echo {
			c.ecn.echo, c.rcv.Due = true, true
		}
	}
	if f.Has(tcp.ECE) && c.snd.Phase == recovery.Open && ack >= int64(c.ecn.until) && c.snd.InFlight() > 0 {
		c.lower(c.snd.InFlight())
		c.e.stats.ECNReductions++
	}
}
