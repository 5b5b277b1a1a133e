package ll2

import (
	"tapir/wire/enum"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Command is the id of a ramrod of protocol CORE (core_ramrod_cmd_id).
type Command uint8

// The commands.
const (
	RxQueueStart Command = 1
	TxQueueStart Command = 2
	RxQueueStop  Command = 3
	TxQueueStop  Command = 4
)

var commandNames = [...]string{RxQueueStart: "RX_QUEUE_START", TxQueueStart: "TX_QUEUE_START",
	RxQueueStop: "RX_QUEUE_STOP", TxQueueStop: "TX_QUEUE_STOP"}

// String is the command's name.
func (c Command) String() string { return enum.Name(commandNames[:], c, "Command(%d)") }

// Ramrod is about one queue of a connection.
type Ramrod struct {
	Command Command
	Queue   int
	Rx      *RxStart // of RxQueueStart
	Tx      *TxStart // of TxQueueStart
}

// RxStart is the data of RX_QUEUE_START.
type RxStart struct {
	PI               int
	MTU              int
	RemoveVLAN       bool
	TooBig, NoBuffer OnError
	Rings            *Rings
}

// TxStart is the data of TX_QUEUE_START.
type TxStart struct {
	PI    int
	Rings *Rings
}

// Codes that the firmware returns.
const (
	OK           = 0
	GeneralError = 1
)

// Firmware is what of a function's firmware serves its light L2 queues.
type Firmware struct {
	// Event says that something has happened behind a protocol index.
	Event func(pi, n int)
	// Room is how many packets can leave; Send takes the parts of one, which it
	// borrows, and returns the octets of it, 0 if nobody takes it.
	Room func() int
	Send func(dest Dest, parts [][]byte, h ether.Header) int
	// Assert reports what the firmware must not meet.
	Assert func(text string)

	queues [MaxConns]queue
	parts  [][]byte // of the packet in hand
}

// queue is what the firmware knows of a connection.
type queue struct {
	rx    *RxStart // nil: not started
	tx    *TxStart
	stats Stats
}

// Reset stops all queues: the function does.
func (f *Firmware) Reset() { f.queues = [MaxConns]queue{} }

// Stats are the counters of a queue since it was started.
func (f *Firmware) Stats(q int) Stats { return f.queues[q].stats }

// Execute does a ramrod.
func (f *Firmware) Execute(r *Ramrod) (code uint8) {
	if r.Queue < 0 || r.Queue >= MaxConns {
		return GeneralError
	}
	q := &f.queues[r.Queue]
	switch {
	case r.Command == RxQueueStart && q.rx == nil && r.Rx != nil:
		q.rx, q.stats = r.Rx, Stats{}
	case r.Command == TxQueueStart && q.tx == nil && r.Tx != nil:
		q.tx = r.Tx
	case r.Command == RxQueueStop:
		q.rx = nil
	case r.Command == TxQueueStop:
		q.tx = nil
	default:
		return GeneralError
	}
	return OK
}

// Packet is one that has come in, borrowed: its Ethernet header and what follows it.
type Packet struct {
	Header ether.Header
	Body   []byte
	Off    frame.Offload
}

// Outcome is what has become of a received packet.
type Outcome uint8

// The outcomes.
const (
	Taken    Outcome = iota // it is in a buffer
	NotTaken                // it is not the queue's
	TooBig                  // the queue has counted it; it is to be dropped
	NoBuffer                // likewise
)

// Receive puts a packet into the next buffer of a queue. What the queue cannot take it
// treats as it was started with.
func (f *Firmware) Receive(at int, p Packet) Outcome {
	q := &f.queues[at]
	if q.rx == nil {
		return NotTaken
	}
	h := p.Header
	if q.rx.RemoveVLAN {
		h.NTags = 0
	}
	n := h.Len() + len(p.Body)
	switch {
	case len(p.Body) > q.rx.MTU:
		return f.refuse(TooBig, q.rx.TooBig, &q.stats.TooBig, "a packet that is too big")
	case q.rx.Rings.Posted == 0:
		return f.refuse(NoBuffer, q.rx.NoBuffer, &q.stats.NoBuffer, "a packet without a buffer")
	}
	r := q.rx.Rings
	r.Posted--
	bd, _ := r.Rx.consume()
	buf, c := r.rxBufs[bd.addr], completion{addr: bd.addr, length: uint16(n)}
	copy(buf[h.Put(buf):], p.Body)
	if q.rx.RemoveVLAN && p.Header.NTags > 0 {
		c.tagged, c.tci = true, p.Header.Tags[0].TCI
	}
	if p.Off.DataValid {
		c.flags |= L4Valid
	}
	if p.Off.NeedsCsum {
		c.flags |= L4Partial
	}
	r.Completions.produce(c)
	count(h.Dst, &q.stats.RxUcast, &q.stats.RxMcast, &q.stats.RxBcast, n)
	f.Event(q.rx.PI, 1)
	return Taken
}

func (f *Firmware) refuse(o Outcome, do OnError, counter *uint64, what string) Outcome {
	if do == DoNothing {
		return NotTaken
	}
	if *counter++; do == Assert {
		f.Assert("light L2: " + what)
	}
	return o
}

// Due tells whether a packet waits to be sent.
func (f *Firmware) Due() bool {
	for i := range f.queues {
		if q := &f.queues[i]; q.tx != nil && q.tx.Rings.Sent > 0 {
			return true
		}
	}
	return false
}

// Poll sends what the doorbells have told of while there is room.
func (f *Firmware) Poll() {
	for i := range f.queues {
		for q := &f.queues[i]; q.tx != nil && q.tx.Rings.Sent > 0 && f.Room() > 0; {
			f.transmit(q)
		}
	}
}

// transmit sends the oldest packet of a queue.
func (f *Firmware) transmit(q *queue) {
	r := q.tx.Rings
	first, _ := r.Tx.consume()
	f.parts = append(f.parts[:0], r.txBufs[first.addr][:first.length])
	for range first.bds - 1 {
		d, _ := r.Tx.consume()
		f.parts = append(f.parts, r.txBufs[d.addr][:d.length])
	}
	r.Sent -= int(first.bds)
	f.send(q, &first)
	clear(f.parts)
	r.Done += uint16(first.bds)
	f.Event(q.tx.PI, 1)
}

// send takes a packet to its destination. Its first buffer has the whole Ethernet
// header.
func (f *Firmware) send(q *queue, d *txBD) {
	h, n, err := ether.Parse(f.parts[0])
	switch {
	case d.dest == Drop:
		q.stats.TxDropped++
		return
	case err != nil:
		q.stats.TxFailed++
		return
	case d.tagged && h.NTags == 0:
		h.NTags, h.Tags[0] = 1, ether.Tag{TPID: ether.TypeVLAN, TCI: d.tci}
	}
	f.parts[0] = f.parts[0][n:]
	if n = f.Send(d.dest, f.parts, h); n == 0 {
		q.stats.TxFailed++
		return
	}
	count(h.Dst, &q.stats.TxUcast, &q.stats.TxMcast, &q.stats.TxBcast, n)
}
