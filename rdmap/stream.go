package rdmap

import "tapir/ddp"

// Fault says why the upper layer refuses an access to memory.
type Fault uint8

const (
	FaultNone   Fault = iota
	FaultSTag         // no such STag, or invalidated
	FaultBounds       // outside the buffer
	FaultAccess       // right not granted
	FaultPD           // STag not associated with the stream
	FaultWrap         // address + length passes 2^64
	FaultLocal        // this side's own memory cannot be used
	FaultAlign        // not the address of an aligned 64-bit value
)

// NoRef is the reference of messages that no work request stands for.
const NoRef = ^uint64(0)

// Work is an outbound request of the upper layer. Lengths are octets.
type Work struct {
	Op         Opcode // Write, ReadRequestOp, AtomicRequestOp, one of the Sends or of Immediate Data
	Fence      bool   // wait until all earlier Reads are complete
	Ref        uint64 // the upper layer's name for it
	Length     uint64
	STag       uint32 // Write: sink; Read: source; atomic operation: target
	TO         uint64
	SinkSTag   uint32 // Read only
	SinkTO     uint64
	Invalidate uint32 // Sends with Invalidate
	// Atomic is the operation of an AtomicRequestOp, without ID, STag and TO.
	Atomic AtomicRequest
	// Imm is Immediate Data. Then, if not 0, is the opcode that carries it as a
	// message of its own behind a Write: the two are one request.
	Imm  Immediate
	Then Opcode
}

// Received describes a message that a receive buffer was used up for.
type Received struct {
	Op          Opcode
	Length      uint64 // octets of a Send, or of the Write in front of Immediate Data
	Invalidated uint32 // by the opcodes with Invalidate
	Imm         Immediate
	AfterWrite  bool // Immediate Data that follows a Write
}

// Upper is the layer above a stream: queues and memory. All slices are
// borrowed.
type Upper interface {
	// NextWork returns the oldest request not begun; BeginWork begins it.
	NextWork() (w Work, ok bool)
	BeginWork()
	// PlaceWrite checks that the peer may write n octets to stag at to, and
	// only then moves payload to offset off of them.
	PlaceWrite(stag uint32, to, n, off uint64, payload []byte) Fault
	// CheckRead checks that the peer may read n octets of stag from to.
	CheckRead(stag uint32, to, n uint64) Fault
	// NextRecv takes the receive buffer for the Send that begins and returns
	// its length; ok is false when there is none.
	NextRecv() (room uint64, f Fault, ok bool)
	// PlaceRecv places payload at offset off of that buffer.
	PlaceRecv(payload []byte, off uint64) Fault
	// RecvDone completes it.
	RecvDone(r Received)
	// Invalidate invalidates stag on the peer's behalf.
	Invalidate(stag uint32) Fault
	// PlaceRead places payload at offset off of the sink of Read ref.
	PlaceRead(ref uint64, payload []byte, off uint64) Fault
	// ReadDone completes Read ref.
	ReadDone(ref uint64)
	// Atomic checks that the peer may do req, does it, and returns the value
	// that it found (RFC 7306 section 5). Between reading and storing no other
	// stream of the device does one.
	Atomic(req *AtomicRequest) (original uint64, f Fault)
	// AtomicDone completes the atomic operation ref, which found original.
	AtomicDone(ref, original uint64) Fault
}

// Source says where the payload of an outbound segment comes from.
type Source uint8

const (
	FromNone    Source = iota
	FromWork           // octets Off of the message of request Ref
	FromMemory         // STag and TO, for a Read Response
	FromControl        // Control, a header that RDMAP itself made
)

// Segment is one outbound DDP segment. Its payload is Len octets.
type Segment struct {
	Header  ddp.Header
	Op      Opcode
	From    Source
	Ref     uint64
	Off     uint64 // of the payload within its message
	Len     int
	STag    uint32
	TO      uint64
	Control []byte // valid until the next call of Choose
	Final   bool   // the last segment of request Ref
}

// Limits bounds the Reads of a stream in each direction, atomic operations
// included (RFC 7306 section 5.2).
type Limits struct{ IRD, ORD int }

// Counters counts whole messages by opcode, and their payload octets.
type Counters struct {
	TxMessages, RxMessages [NumOpcodes]uint64
	TxBytes, RxBytes       uint64
}

// read is an outbound Read or atomic operation whose response has not come in
// full.
type read struct {
	ref    uint64
	atomic bool
	msn    uint32 // of the request; identifies an atomic operation
	stag   uint32
	to     uint64
	size   uint64
	have   uint64
}

// response answers an inbound Read or, if atomic, is the result of an atomic
// operation.
type response struct {
	req    ReadRequest
	msn    uint32 // of req
	atomic bool
	result AtomicResponse
}

// Stream is one RDMAP stream in full operation, without I/O and clock.
// Outbound it chooses what to send segment by segment; messages never
// interleave, requests and Read Responses take turns. Inbound it checks and
// places. The first error ends it: a Terminate is queued, unless the peer
// reported the error, and nothing else follows.
type Stream struct {
	upper  Upper
	limits Limits
	rx     *ddp.Receiver

	msn       [NumQueues]uint32 // of the next outbound message
	cur       outbound
	then      Opcode // Immediate Data that follows the message being sent, or 0
	imm       Immediate
	immRef    uint64
	reads     queue[read]
	responses queue[response]
	answered  bool     // the last message was a Read Response
	answer    response // the one being sent
	quiet     bool     // further Read Requests are not answered
	rtr       Opcode
	rtrSend   bool // rtr is to be sent
	rtrWait   bool // rtr is expected from the peer

	err       *Error
	terminate Terminate
	termQueue bool // terminate is to be sent

	// Of the inbound segment being handled, for a Terminate.
	badRead ReadRequest
	isRead  bool // badRead is set

	room  uint64 // of the receive buffer in use
	wrote uint64 // octets of the last Write delivered
	write bool   // it was the last request delivered

	// Of the message of RFC 7306 being handled.
	inAtomic AtomicRequest
	inImm    Immediate
	original uint64

	peer Terminate // what the peer ended the stream with

	// Counters may be read at any time.
	Counters Counters
}

// outbound is the message being sent.
type outbound struct {
	active  bool
	op      Opcode
	from    Source
	ref     uint64
	msg     ddp.Message
	off     uint64
	stag    uint32
	to      uint64
	control [MaxTerminateLen]byte
}

// NewStream returns a stream over upper.
func NewStream(upper Upper, limits Limits) *Stream {
	s := &Stream{upper: upper, limits: limits}
	for i := range s.msn {
		s.msn[i] = 1
	}
	s.rx = ddp.NewReceiver((*sink)(s), NumQueues)
	return s
}

// SendRTR queues the ready-to-receive indication op, a zero-length Send,
// Write or Read Request, ahead of all else (RFC 6581 section 9.2).
func (s *Stream) SendRTR(op Opcode) { s.rtr, s.rtrSend = op, true }

// ExpectRTR makes the stream absorb the peer's ready-to-receive indication op
// if it is the first message to come.
func (s *Stream) ExpectRTR(op Opcode) { s.rtr, s.rtrWait = op, true }

// Err is the error that ended the stream, or nil.
func (s *Stream) Err() *Error { return s.err }

// Reads is the number of own Reads and atomic operations not answered in full.
func (s *Stream) Reads() int { return s.reads.len() }

// Between tells whether no message is being sent, so that the request behind
// it may begin.
func (s *Stream) Between() bool { return !s.cur.active && s.then == 0 }

// Idle tells whether nothing is under way: no message being sent, no Read
// outstanding in either direction.
func (s *Stream) Idle() bool {
	return s.Between() && s.reads.len() == 0 && s.responses.len() == 0 && !s.rtrSend && !s.termQueue
}

// Quiesce begins a graceful close: Read Requests that come from now on are
// still checked but not answered, so that a peer who goes on reading cannot
// keep the stream open.
func (s *Stream) Quiesce() { s.quiet = true }

// Terminating tells whether the stream has ended and its Terminate, if any,
// has been cut.
func (s *Stream) Terminating() bool { return s.err != nil && !s.termQueue }

// Fail ends the stream with an error found outside it, e.g. by MPA. A
// Terminate without headers is queued.
func (s *Stream) Fail(err *Error) {
	if s.err != nil {
		return
	}
	s.err = err
	if !err.Remote {
		s.terminate, s.termQueue = err.Terminate(), true
	}
}

// queue is a ring that grows as needed.
type queue[T any] struct {
	ring       []T
	head, tail uint32
}

func (q *queue[T]) len() int { return int(q.tail - q.head) }

func (q *queue[T]) at(i uint32) *T { return &q.ring[i&uint32(len(q.ring)-1)] }

func (q *queue[T]) front() *T { return q.at(q.head) }

func (q *queue[T]) pop() { q.head++ }

func (q *queue[T]) push(v T) {
	if q.len() == len(q.ring) {
		ring := make([]T, max(1, 2*len(q.ring)))
		for i := q.head; i != q.tail; i++ {
			ring[i&uint32(len(ring)-1)] = *q.at(i)
		}
		q.ring = ring
	}
	*q.at(q.tail) = v
	q.tail++
}
