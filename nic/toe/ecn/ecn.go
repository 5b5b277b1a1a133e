// Package ecn is explicit congestion notification on one TCP connection (RFC
// 3168 section 6.1): the negotiation, the marks that arrive, and the reaction
// to those that the peer tells of.
package ecn

import "tapir/wire/tcp"

// The ECN field of the IP header (RFC 3168 section 5).
const (
	Mask = 3
	ECT0 = 2 // ECN-capable
	CE   = 3 // congestion was experienced
)

// Mode says when it is used.
type Mode uint8

const (
	Accept Mode = iota // when the peer asks for it
	Ask                // asked for in every SYN, too
	Off                // never
)

// State is one connection's.
type State struct {
	On bool // both sides use it

	asked bool   // our SYN asked for it
	echo  bool   // a mark has arrived and the peer has not reacted: send ECE
	cwr   bool   // the next new segment tells of our reaction
	until uint64 // one reaction per window: none before this is acknowledged
}

const both = tcp.ECE | tcp.CWR

// Syn returns flags with those that ask for ECN in a SYN, or grant it in a
// SYN-ACK. again tells of a SYN that was lost: it is tried without (section
// 6.1.1.1).
func (s *State) Syn(m Mode, flags tcp.Flags, again bool) tcp.Flags {
	if flags.Has(tcp.ACK) {
		if s.On {
			flags |= tcp.ECE
		}
		return flags
	}
	if s.asked = m == Ask && !again; s.asked {
		flags |= both
	}
	return flags
}

// TakeSyn reads the flags of the peer's SYN or SYN-ACK.
func (s *State) TakeSyn(m Mode, f tcp.Flags) {
	switch {
	case m == Off:
		s.On = false
	case f.Has(tcp.ACK):
		s.On = s.asked && f&both == tcp.ECE
	default:
		s.On = f.Has(both)
	}
}

// Granted reports whether a SYN is answered with ECN.
func Granted(m Mode, syn tcp.Flags) bool { return syn.Has(both) && m != Off }

// Segment returns the flags of an outgoing segment, and the ECN field of its
// packet in tos: only new data (fresh) is ECN-capable (sections 6.1.4 and
// 6.1.5).
func (s *State) Segment(flags tcp.Flags, tos uint8, fresh bool) (tcp.Flags, uint8) {
	if !s.On {
		return flags, tos
	}
	tos &^= Mask
	if flags&(tcp.SYN|tcp.RST) != 0 {
		return flags, tos
	}
	if s.echo {
		flags |= tcp.ECE
	}
	if fresh {
		tos |= ECT0
		if s.cwr {
			flags |= tcp.CWR
		}
	}
	return flags, tos
}

// Sent notes that a segment has left with flags.
func (s *State) Sent(flags tcp.Flags) {
	if flags&(tcp.CWR|tcp.SYN) == tcp.CWR {
		s.cwr = false
	}
}

// MustTell reports whether the next new segment tells of our reaction, and so
// is a frame of its own.
func (s *State) MustTell() bool { return s.cwr }

// Arrived takes the flags of an acceptable segment; marked says that it brings
// data with a mark. It reports whether that is to be acknowledged at once.
func (s *State) Arrived(f tcp.Flags, marked bool) (now bool) {
	if f.Has(tcp.CWR) {
		s.echo = false
	}
	now = marked && !s.echo
	s.echo = s.echo || marked
	return now
}

// Turns takes a data segment, marked or not, of a connection that echoes each mark alone, as
// long as marks come (RFC 8257 section 3.2). It reports whether the echo changes with it.
func (s *State) Turns(marked bool) bool {
	changes := s.echo != marked
	s.echo = marked
	return changes
}

// React reports whether the peer's flags in a segment that acknowledges ack
// call for a smaller window.
func (s *State) React(f tcp.Flags, ack int64) bool { return f.Has(tcp.ECE) && ack >= int64(s.until) }

// Reduced notes that the window was reduced while next was the next offset.
func (s *State) Reduced(next uint64) {
	if s.On {
		s.cwr, s.until = true, next
	}
}
