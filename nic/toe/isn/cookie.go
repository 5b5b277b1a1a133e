package isn

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// A SYN cookie (RFC 4987 section 3.6) keeps a half-open connection in the
// sequence number of the SYN-ACK: 29 bits of a keyed hash over the 4-tuple,
// the peer's sequence number and the time, and 3 bits for its MSS. What the
// SYN offered beyond that is kept in the low 6 bits of our timestamp, which
// the peer echoes: window scale (4 bits, 15: none), SACK, ECN.

// cookiePeriod is how long a cookie is fresh: it is taken back in the same
// period and the one after.
const cookiePeriod = 64 * time.Second

// CookieLife is the longest time after which a cookie is taken back.
const CookieLife = 2 * cookiePeriod

// cookieMSS are the values that 3 bits stand for.
var cookieMSS = [8]uint16{216, 536, 1220, 1400, 1440, 1460, 4312, 8940}

const (
	cookieSACK  = 1 << 4
	cookieECN   = 1 << 5
	cookieNoWS  = 15
	cookieMask  = 63
	cookieShift = 3
)

// Cookie is the sequence number of the SYN-ACK that keeps syn.
func (s *Secret) Cookie(local, remote netip.AddrPort, syn *tcp.Header, now frame.Time) tcp.Seq {
	idx := uint32(0)
	for i, m := range cookieMSS {
		if m <= max(syn.Opts.MSS, cookieMSS[0]) {
			idx = uint32(i)
		}
	}
	return tcp.Seq(s.cookie(local, remote, syn.Seq, now, idx))
}

// CookieTimestamp is the timestamp of that SYN-ACK: at most clock, and as near
// to it as what it keeps of syn allows; ecn says that ECN is granted.
func CookieTimestamp(syn *tcp.Header, ecn bool, clock uint32) uint32 {
	bits := uint32(cookieNoWS)
	if syn.Opts.HasWS {
		bits = min(uint32(syn.Opts.WS), 14)
	}
	if syn.Opts.SACKPermitted {
		bits |= cookieSACK
	}
	if ecn {
		bits |= cookieECN
	}
	ts := clock&^cookieMask | bits
	if int32(ts-clock) > 0 {
		ts -= cookieMask + 1
	}
	return ts
}

// TakeCookie returns the SYN for which the acknowledgement h answers a cookie,
// as far as it was kept; false if it answers none.
func (s *Secret) TakeCookie(local, remote netip.AddrPort, h *tcp.Header, now frame.Time) (syn tcp.Header, ok bool) {
	seq, irs := uint32(h.Ack)-1, h.Seq-1
	idx := seq & (1<<cookieShift - 1)
	before := max(0, now.Add(-cookiePeriod))
	if seq != s.cookie(local, remote, irs, now, idx) && seq != s.cookie(local, remote, irs, before, idx) {
		return syn, false
	}
	syn = tcp.Header{Seq: irs, Flags: tcp.SYN, Window: h.Window}
	syn.Opts.MSS = cookieMSS[idx]
	if h.Opts.HasTS {
		bits := h.Opts.TSEcr & cookieMask
		syn.Opts.HasTS, syn.Opts.TSVal = true, h.Opts.TSVal
		syn.Opts.SACKPermitted = bits&cookieSACK != 0
		if ws := bits & 15; ws != cookieNoWS {
			syn.Opts.HasWS, syn.Opts.WS = true, uint8(ws)
		}
		if bits&cookieECN != 0 {
			syn.Flags |= tcp.ECE | tcp.CWR
		}
	}
	return syn, true
}

// cookie is the sequence number of a SYN-ACK to a SYN with number irs.
func (s *Secret) cookie(local, remote netip.AddrPort, irs tcp.Seq, at frame.Time, idx uint32) uint32 {
	var b [32 + 4 + 4 + 8 + 4]byte
	copy(b[:], s[:])
	binary.BigEndian.PutUint32(b[32:], s.Hash(local, remote, "cookie"))
	binary.BigEndian.PutUint32(b[36:], uint32(irs))
	binary.BigEndian.PutUint64(b[40:], uint64(at)/uint64(cookiePeriod))
	binary.BigEndian.PutUint32(b[48:], idx)
	sum := sha256.Sum256(b[:])
	return binary.LittleEndian.Uint32(sum[:])<<cookieShift | idx
}
