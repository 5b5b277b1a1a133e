package netlink

import (
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// Octets of a message's header and of an attribute's, and what both end at a
// multiple of (netlink(7)). Numbers are in this machine's byte order.
const (
	headerLen = unix.NLMSG_HDRLEN
	attrLen   = unix.NLA_HDRLEN
	alignment = 4
)

// attrType is an attribute's type without the flags of struct nlattr.
const attrType = 0x3fff

var native = binary.NativeEndian

func aligned(n int) int { return (n + alignment - 1) &^ (alignment - 1) }

// Message is one netlink message (struct nlmsghdr).
type Message struct {
	Type, Flags uint16
	Seq, Port   uint32
	Body        []byte // behind the header
}

func (m *Message) append(b []byte) []byte {
	b = native.AppendUint32(b, uint32(headerLen+len(m.Body)))
	b = native.AppendUint16(b, m.Type)
	b = native.AppendUint16(b, m.Flags)
	b = native.AppendUint32(b, m.Seq)
	b = native.AppendUint32(b, m.Port)
	b = append(b, m.Body...)
	return append(b, make([]byte, aligned(len(m.Body))-len(m.Body))...)
}

// messages are those of a datagram, borrowed, up to one whose length is wrong: the
// kernel ignores what is left there.
func messages(b []byte) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for len(b) >= headerLen {
			n := int(native.Uint32(b))
			if n < headerLen || n > len(b) {
				return
			}
			m := Message{Type: native.Uint16(b[4:]), Flags: native.Uint16(b[6:]), Seq: native.Uint32(b[8:]),
				Port: native.Uint32(b[12:]), Body: b[headerLen:n:n]}
			if !yield(m) {
				return
			}
			b = b[min(aligned(n), len(b)):]
		}
	}
}

// Attributes are a list of attributes (struct nlattr) in octets.
type Attributes []byte

// Put appends an attribute.
func (a *Attributes) Put(kind uint16, value []byte) {
	b := native.AppendUint16(*a, uint16(attrLen+len(value)))
	b = native.AppendUint16(b, kind)
	b = append(b, value...)
	*a = append(b, make([]byte, aligned(len(value))-len(value))...)
}

// All are the attributes in order, of which one type may come twice, up to one whose length
// is wrong. Types are without flags.
func (a Attributes) All() iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(a) >= attrLen {
			n := int(native.Uint16(a))
			if n < attrLen || n > len(a) || !yield(native.Uint16(a[2:])&attrType, a[attrLen:n:n]) {
				return
			}
			a = a[min(aligned(n), len(a)):]
		}
	}
}

// Without are the attributes but those of a type, without flags.
func (a Attributes) Without(kind uint16) (left Attributes) {
	for k, b := range a.All() {
		if k != kind {
			left.Put(k, b)
		}
	}
	return left
}

// Uint8 appends an attribute of one octet.
func (a *Attributes) Uint8(kind uint16, v uint8) { a.Put(kind, []byte{v}) }

// Uint16 appends an attribute of two octets.
func (a *Attributes) Uint16(kind, v uint16) { a.Put(kind, native.AppendUint16(nil, v)) }

// Uint32 appends an attribute of four octets.
func (a *Attributes) Uint32(kind uint16, v uint32) { a.Put(kind, native.AppendUint32(nil, v)) }

// Uint64 appends an attribute of eight octets.
func (a *Attributes) Uint64(kind uint16, v uint64) { a.Put(kind, native.AppendUint64(nil, v)) }

// String appends a zero-terminated string.
func (a *Attributes) String(kind uint16, s string) { a.Put(kind, append([]byte(s), 0)) }

// Nest appends an attribute that holds those that fill appends.
func (a *Attributes) Nest(kind uint16, fill func(*Attributes)) {
	var inner Attributes
	fill(&inner)
	a.Put(kind, inner)
}

// ParseAttributes returns the attributes of b by type, without flags; of those that
// come twice, the last. Error: EINVAL where a length is wrong.
func ParseAttributes(b []byte) (map[uint16][]byte, error) {
	found := map[uint16][]byte{}
	for len(b) > 0 {
		if len(b) < attrLen {
			return nil, unix.EINVAL
		}
		n := int(native.Uint16(b))
		if n < attrLen || n > len(b) {
			return nil, unix.EINVAL
		}
		found[native.Uint16(b[2:])&attrType] = b[attrLen:n:n]
		b = b[min(aligned(n), len(b)):]
	}
	return found, nil
}
