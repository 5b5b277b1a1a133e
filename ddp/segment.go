package ddp

// MaxMessage is the longest message: its length must be below 2^32 (RFC 5041
// section 5.2).
const MaxMessage = 1<<32 - 1

// Message is a message at the data source. Header is that of its first
// segment: TO, or MO 0, of the first octet; Last is ignored.
type Message struct {
	Header Header
	Length uint64 // of the ULP payload in octets, at most MaxMessage
}

// Segment fills in the header of the segment that carries the message from
// octet off on and is no longer than mulpdu, and returns its payload's length. The segment
// that reaches the end has Last set; a message without payload is one segment
// (section 5.2). mulpdu must exceed the header's length.
func (m *Message) Segment(h *Header, off uint64, mulpdu int) (n int) {
	*h = m.Header
	left := m.Length - off
	n = mulpdu - h.Len()
	h.Last = left <= uint64(n)
	if h.Last {
		n = int(left)
	}
	if h.Tagged {
		h.TO += off
	} else {
		h.MO = uint32(off)
	}
	return n
}
