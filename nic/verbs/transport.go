package verbs

// Transport carries the work of a device's queue pairs. All calls, and those
// of Endpoint, come on the NIC's loop. A transport only marks what is to be
// done and does it in its next poll.
type Transport interface {
	// Opcodes are the operations that the transport carries out; others are
	// refused with ErrUnsupported when they are posted. It is asked once.
	Opcodes() OpSet
	// NewEndpoint makes the transport's side of a queue pair that is created.
	NewEndpoint(qp *QP) Endpoint
}

// Endpoint is the transport's side of one queue pair, connected or not.
type Endpoint interface {
	// Posted says that the send queue is no longer empty.
	Posted()
	// Modified says that the owner moved the queue pair from state old: to SQD
	// (close gracefully), to Err or Reset (close abortively; the work requests
	// are flushed after this call).
	Modified(old State)
	// Destroyed ends the connection, if any, and forgets the queue pair.
	Destroyed()
	// Reclaim is called before mr's memory is given back or its STag
	// invalidated, if a request that was lent (QP.Lend) uses it: octets that may
	// have to be sent again must be copied now.
	Reclaim(mr *MR)
}

// Pacer is an Endpoint that can limit what its queue pair sends.
type Pacer interface {
	// Paced says that QP.RateLimit has changed.
	Paced()
}

// Opcodes are the operations that queue pairs of the device take.
func (d *Device) Opcodes() OpSet { return d.ops }

// noTransport is the transport of a device that has none.
type noTransport struct{}

func (noTransport) Opcodes() OpSet           { return 0 }
func (noTransport) NewEndpoint(*QP) Endpoint { return noTransport{} }
func (noTransport) Posted()                  {}
func (noTransport) Modified(State)           {}
func (noTransport) Destroyed()               {}
func (noTransport) Reclaim(*MR)              {}
