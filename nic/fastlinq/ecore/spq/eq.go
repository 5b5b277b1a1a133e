package spq

import (
	"encoding/binary"

	"tapir/nic/fastlinq/ecore/chain"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// MaxEvents is the number of elements that an event queue can have.
const MaxEvents = 0xffff

// asyncFlag marks what the firmware tells without being asked.
const asyncFlag = 1

// NoVF is the VF of events of the PF itself.
const NoVF = 0xff

// Event is an element of the event queue, of 16 octets.
type Event struct {
	Protocol cxt.Protocol
	Opcode   uint8
	VF       uint8
	Echo     uint16
	Code     uint8 // of the firmware
	Async    bool
	Data     uint64
}

func (e *Event) encode(b []byte) {
	b[0], b[1] = uint8(e.Protocol), e.Opcode
	binary.LittleEndian.PutUint16(b[2:], uint16(e.VF))
	binary.LittleEndian.PutUint16(b[4:], e.Echo)
	b[6], b[7] = e.Code, 0
	if e.Async {
		b[7] = asyncFlag
	}
	binary.LittleEndian.PutUint64(b[8:], e.Data)
}

func decode(b []byte) Event {
	return Event{
		Protocol: cxt.Protocol(b[0]), Opcode: b[1], VF: uint8(binary.LittleEndian.Uint16(b[2:])),
		Echo: binary.LittleEndian.Uint16(b[4:]),
		Code: b[6], Async: b[7]&asyncFlag != 0, Data: binary.LittleEndian.Uint64(b[8:]),
	}
}

// Handler takes the events that a protocol's firmware tells of itself.
type Handler func(e Event, now frame.Time) error

// EQStats are the counters of the event queue.
type EQStats struct {
	Events   uint64
	Async    uint64
	Unknown  uint64 // of no ramrod, or of a protocol without handler
	Overflow uint64 // that found no room
	Elements int
	Waiting  int // events that the driver has not looked at
}

// EQ is the event queue of a hardware function.
type EQ struct {
	q        *SPQ
	ring     *chain.Chain
	room     uint64 // elements that the firmware may write, as it was last told
	handlers [cxt.NumProtocols]Handler
	stats    EQStats
}

// NewEQ returns an empty event queue for the ramrods of q. INVAL: more than
// MaxEvents elements.
func NewEQ(q *SPQ, elems int) (*EQ, error) {
	if elems < 1 || elems > MaxEvents {
		return nil, status.Inval.Errorf("event queue of %d elements: 1 to %d", elems, MaxEvents)
	}
	ring, err := chain.New(chain.Config{Mode: chain.PBL, Use: chain.ToConsume, Elems: uint64(elems), Size: elementSize})
	if err != nil {
		return nil, err
	}
	return &EQ{q: q, ring: ring, room: ring.Capacity()}, nil
}

// RegisterAsync has fn take a protocol's own events. EXISTS: there is another;
// INVAL: no such protocol.
func (q *EQ) RegisterAsync(p cxt.Protocol, fn Handler) error {
	switch {
	case p >= cxt.NumProtocols:
		return status.Inval.Errorf("protocol %d of events", p)
	case q.handlers[p] != nil:
		return status.Exists.Errorf("handler of the events of %v", p)
	}
	q.handlers[p] = fn
	return nil
}

// UnregisterAsync ends that.
func (q *EQ) UnregisterAsync(p cxt.Protocol) {
	if p < cxt.NumProtocols {
		q.handlers[p] = nil
	}
}

// Produce is the firmware writing an event. NORESOURCES, and counted: the
// driver has not made room.
func (q *EQ) Produce(e Event) error {
	if q.room == 0 {
		q.stats.Overflow++
		return status.NoResources.Errorf("event queue of %d elements is full", q.ring.Capacity())
	}
	q.room--
	e.encode(q.ring.Produce())
	return nil
}

// Complete takes all events that are there, ends their ramrods and calls the
// handlers, then tells the firmware how much room there is. INVAL: one of them
// belonged to nobody.
func (q *EQ) Complete(now frame.Time) (err error) {
	for n := q.ring.Capacity() - q.ring.Left(); n > 0; n-- {
		e := decode(q.ring.Consume())
		q.stats.Events++
		if bad := q.dispatch(e, now); bad != nil {
			q.stats.Unknown++
			err = status.Inval.Errorf("event %d of %v: %v", e.Opcode, e.Protocol, bad)
		}
	}
	q.room = q.ring.Left()
	return err
}

func (q *EQ) dispatch(e Event, now frame.Time) error {
	if !e.Async {
		return q.q.Complete(e.Echo, e.Code, e.Data, now)
	}
	q.stats.Async++
	if e.Protocol >= cxt.NumProtocols || q.handlers[e.Protocol] == nil {
		return status.Inval.Errorf("nobody handles it")
	}
	return q.handlers[e.Protocol](e, now)
}

// Reset empties the queue.
func (q *EQ) Reset() {
	q.ring.Reset()
	q.room = q.ring.Capacity()
}

// Stats are the counters.
func (q *EQ) Stats() EQStats {
	s := q.stats
	s.Elements, s.Waiting = int(q.ring.Capacity()), int(q.ring.Capacity()-q.ring.Left())
	return s
}
