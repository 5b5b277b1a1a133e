package nvme

import "fmt"

// Request is the private data of a connection request (RDMA transport specification section 3.1).
type Request struct {
	QID     uint16
	HRQSize uint16 // entries of the host's receive queue, 1's based as hosts send it
	HSQSize uint16 // entries of its send queue, 0's based
	CntlID  uint16 // of an I/O queue; 0 from hosts that do not tell
}

// Reason is why a connection is refused.
type Reason uint16

// Reasons.
const (
	InvalidLength    Reason = 1
	InvalidFormat    Reason = 2
	InvalidQID       Reason = 3
	InvalidSendSize  Reason = 4
	InvalidRecvSize  Reason = 5
	NoResources      Reason = 6
	InvalidIRD       Reason = 7
	InvalidORD       Reason = 8
	InvalidCntlID    Reason = 9
	numReasons              = 10
	privateFormat           = 0
	requestFieldsEnd        = 10
)

var reasonNames = [numReasons]string{
	"", "invalid length of private data", "invalid format of private data", "invalid queue ID",
	"invalid size of the send queue", "invalid size of the receive queue", "no resources",
	"invalid inbound reads", "invalid outbound reads", "invalid controller ID",
}

// String is the standard's name.
func (r Reason) String() string {
	if r > 0 && r < numReasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint16(r))
}

// ParseRequest reads a request; reason is 0 unless it makes no sense. Octets behind it are
// padding of the connection manager.
func ParseRequest(b []byte) (r Request, reason Reason) {
	if len(b) < requestFieldsEnd {
		return r, InvalidLength
	}
	if le.Uint16(b) != privateFormat {
		return r, InvalidFormat
	}
	return Request{le.Uint16(b[2:]), le.Uint16(b[4:]), le.Uint16(b[6:]), le.Uint16(b[8:])}, 0
}

// Append appends a request.
func (r *Request) Append(b []byte) []byte {
	p := make([]byte, PrivateLen)
	le.PutUint16(p[2:], r.QID)
	le.PutUint16(p[4:], r.HRQSize)
	le.PutUint16(p[6:], r.HSQSize)
	le.PutUint16(p[8:], r.CntlID)
	return append(b, p...)
}

// AppendReply appends the private data of a reply: how many entries the target's receive queue has.
func AppendReply(b []byte, crqsize uint16) []byte {
	p := make([]byte, PrivateLen)
	le.PutUint16(p[2:], crqsize)
	return append(b, p...)
}

// ParseReply reads a reply.
func ParseReply(b []byte) (crqsize uint16, err error) {
	if len(b) < 4 {
		return 0, ErrShort
	}
	return le.Uint16(b[2:]), nil
}

// AppendReject appends the private data of a reject.
func AppendReject(b []byte, r Reason) []byte {
	return le.AppendUint16(le.AppendUint16(b, privateFormat), uint16(r))
}

// ParseReject reads a reject; 0 if it is none.
func ParseReject(b []byte) Reason {
	if len(b) < RejectLen || le.Uint16(b) != privateFormat {
		return 0
	}
	return Reason(le.Uint16(b[2:]))
}
