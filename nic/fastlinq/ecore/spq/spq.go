// Package spq has the two queues between the driver core and the firmware: the
// slowpath queue (SPQ), by which the driver sends ramrods, and the event queue
// (EQ), by which the firmware answers them and tells of what it has seen
// itself.
package spq

import (
	"encoding/binary"
	"slices"
	"time"

	"tapir/nic/fastlinq/ecore/chain"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

const (
	// Elements of the slowpath queue: a page of 16 octets each.
	Elements    = 256
	elementSize = 16
	// reserved for ramrods of high priority.
	reserved = 1
)

// How long a ramrod in mode EBlock may take before the chip is drained, and
// again before it counts as stuck: 10 looks 10 µs apart, then 200 of 5 ms.
const (
	quickWait      = 10 * 10 * time.Microsecond
	DefaultTimeout = 200 * 5 * time.Millisecond
)

// Mode says how the end of a ramrod is told.
type Mode uint8

// The modes.
const (
	EBlock   Mode = iota // within a time, or it is stuck
	Callback             // whenever it comes
)

// Priority of a ramrod.
type Priority uint8

// The priorities.
const (
	Normal Priority = iota
	High            // ahead of all that wait, into the slot that is kept for it
)

// Element is what the firmware reads.
type Element struct {
	CID      int
	Cmd      uint8
	Protocol cxt.Protocol
	Echo     uint16
	Data     any // of the ramrod, borrowed until it is answered
}

// Result is how a ramrod ended.
type Result struct {
	Code uint8 // of the firmware, 0: done
	Data uint64
	Err  error // nil; BUSY: stuck
}

// Request is a ramrod to be posted.
type Request struct {
	CID      int
	Cmd      uint8
	Protocol cxt.Protocol
	Mode     Mode
	Priority Priority
	Data     any
	// Done is called once, when the ramrod is answered, or given up in mode
	// EBlock.
	Done func(r Result, now frame.Time)
}

// entry is a ramrod on its way.
type entry struct {
	Request
	echo     uint16
	deadline frame.Time
	posted   bool // in the ring
	drained  bool
	told     bool // Done was called: what is left is to see the answer
}

// Config is what the queue needs around it.
type Config struct {
	// Bell tells the firmware the producer index.
	Bell func(prod uint16)
	// Drain has the management firmware empty the chip; done comes later.
	Drain func(now frame.Time, done func(now frame.Time, err error))
	// Stuck reports the hardware error RAMROD_FAIL.
	Stuck func(err error)
	// Timeout of mode EBlock; 0: DefaultTimeout.
	Timeout time.Duration
}

// Stats are the counters of the slowpath queue.
type Stats struct {
	Posted    uint64
	High      uint64
	Completed uint64
	Unlimited uint64 // that had to wait for room
	Stuck     uint64
	Skipped   uint64 // during recovery: not sent
	BadEcho   uint64
	Drains    uint64
	InUse     int // entries
	Waiting   int // of them, for room
	MaxInUse  int
}

// SPQ is the slowpath queue of a hardware function.
type SPQ struct {
	cfg     Config
	ring    *chain.Chain
	sent    []*entry // and not answered, in order
	done    [Elements / 64]uint64
	pending []*entry
	one     [1]*entry // pending has at most, mostly
	spare   *entry    // of a ramrod that has ended
	inUse   int
	stats   Stats
	down    bool // in recovery

	doorbell uint16 // the producer that the firmware has been told
	fetched  uint64 // ring elements that the firmware has read and that are not returned
}

// New returns an empty queue.
func New(cfg Config) (*SPQ, error) {
	ring, err := chain.New(chain.Config{Mode: chain.Single, Use: chain.ToProduce, Size: elementSize})
	if err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	return &SPQ{cfg: cfg, ring: ring}, nil
}

// SetTimeout changes how long ramrods may take from now on; 0: DefaultTimeout.
func (q *SPQ) SetTimeout(d time.Duration) {
	if q.cfg.Timeout = d; d == 0 {
		q.cfg.Timeout = DefaultTimeout
	}
}

// Post sends a ramrod, now or when there is room; how many wait is not
// limited. INVAL: no such mode. While the device recovers nothing is sent, and
// the ramrod ends as if it were done.
func (q *SPQ) Post(r Request, now frame.Time) error {
	if r.Mode > Callback || r.Priority > High || r.Protocol >= cxt.NumProtocols {
		return status.Inval.Errorf("ramrod %d of protocol %d: mode %d, priority %d", r.Cmd, r.Protocol, r.Mode,
			r.Priority)
	}
	if q.down {
		q.stats.Skipped++
		r.tell(Result{}, now)
		return nil
	}
	e := q.spare
	if q.spare = nil; e == nil {
		e = new(entry)
	}
	*e = entry{Request: r, deadline: frame.Never}
	if r.Mode == EBlock {
		e.deadline = now.Add(quickWait + q.cfg.Timeout)
	}
	q.inUse++
	q.stats.MaxInUse = max(q.stats.MaxInUse, q.inUse)
	q.stats.Posted++
	if r.Priority == High {
		q.stats.High++
		q.pending = append([]*entry{e}, q.pending...)
	} else {
		q.pending = append(q.pending, e)
	}
	if q.send(); !e.posted {
		q.stats.Unlimited++
	}
	return nil
}

func (r *Request) tell(res Result, now frame.Time) {
	if r.Done != nil {
		r.Done(res, now)
	}
}

// send moves what waits into the ring as far as there is room.
func (q *SPQ) send() {
	rang := false
	for len(q.pending) > 0 {
		e := q.pending[0]
		if left := q.ring.Left(); left == 0 || left <= reserved && e.Priority != High {
			break
		}
		q.pending[0] = nil
		if q.pending = q.pending[1:]; len(q.pending) == 0 {
			q.pending = q.one[:0]
		}
		e.echo = uint16(q.ring.Prod())
		b := q.ring.Produce()
		binary.LittleEndian.PutUint32(b, uint32(e.CID))
		b[4], b[5] = e.Cmd, uint8(e.Protocol)
		binary.LittleEndian.PutUint16(b[6:], e.echo)
		e.posted = true
		q.sent = append(q.sent, e)
		rang = true
	}
	if rang {
		q.cfg.Bell(q.Prod())
	}
}

// Prod is the producer index, as its doorbell has it.
func (q *SPQ) Prod() uint16 { return uint16(q.ring.Prod()) }

// Doorbell is the firmware's end of the doorbell.
func (q *SPQ) Doorbell(prod uint16) { q.doorbell = prod }

// Fetch is the firmware reading its next element; false if the doorbell has
// told of none.
func (q *SPQ) Fetch() (Element, bool) {
	cons := uint16(q.ring.Cons()) + uint16(q.fetched)
	if cons == q.doorbell {
		return Element{}, false
	}
	b := q.ring.Peek(q.fetched)
	if b == nil {
		return Element{}, false
	}
	q.fetched++
	el := Element{CID: int(binary.LittleEndian.Uint32(b)), Cmd: b[4], Protocol: cxt.Protocol(b[5]),
		Echo: binary.LittleEndian.Uint16(b[6:])}
	if i := q.find(el.Echo); i >= 0 {
		el.Data = q.sent[i].Data
	}
	return el, true
}

func (q *SPQ) find(echo uint16) int {
	for i, e := range q.sent {
		if e.echo == echo {
			return i
		}
	}
	return -1
}

// Complete ends the ramrod of an echo. EXISTS: there is none, or it has ended.
func (q *SPQ) Complete(echo uint16, code uint8, data uint64, now frame.Time) error {
	at := q.find(echo)
	if at < 0 {
		q.stats.BadEcho++
		return status.Exists.Errorf("completion of echo %#04x, which no ramrod has", echo)
	}
	e, i := q.sent[at], echo%Elements
	if q.sent = slices.Delete(q.sent, at, at+1); len(q.sent) == 0 && cap(q.sent) > 1 {
		q.sent = nil
	}
	q.done[i/64] |= 1 << (i % 64)
	q.giveBack()
	q.inUse--
	q.stats.Completed++
	r, told := e.Request, e.told
	if e.told = true; !e.drained { // the end of a drain looks at it
		*e = entry{}
		q.spare = e
	}
	q.send()
	if !told {
		r.tell(Result{Code: code, Data: data}, now)
	}
	return nil
}

// giveBack returns ring elements from the oldest on, as far as they are done.
func (q *SPQ) giveBack() {
	for {
		i := q.ring.Cons() % Elements
		if q.done[i/64]>>(i%64)&1 == 0 {
			return
		}
		q.done[i/64] &^= 1 << (i % 64)
		q.ring.Consume()
		q.fetched--
	}
}

// Poll gives up on ramrods whose time has come, after a drain, and returns
// when it wants to be called again.
func (q *SPQ) Poll(now frame.Time) frame.Time {
	next := frame.Never
	for _, e := range q.all() {
		if e.told {
			continue
		}
		if e.deadline <= now {
			q.late(e, now)
		}
		next = min(next, e.deadline)
	}
	return next
}

// all are the ramrods in order: those in the ring, then those that wait.
func (q *SPQ) all() []*entry {
	if q.inUse == 0 {
		return nil
	}
	return append(slices.Clone(q.sent), q.pending...)
}

// late drains the chip first; the second time the ramrod is stuck.
func (q *SPQ) late(e *entry, now frame.Time) {
	if !e.drained {
		e.drained = true
		e.deadline = frame.Never
		q.stats.Drains++
		q.cfg.Drain(now, func(now frame.Time, err error) {
			if e.told {
				return
			}
			if e.deadline = now.Add(q.cfg.Timeout); err != nil {
				e.deadline = now
			}
		})
		return
	}
	e.told, e.deadline = true, frame.Never
	q.stats.Stuck++
	err := status.Busy.Errorf("ramrod is stuck [CID %#08x cmd %#02x protocol %v echo %#04x]", e.CID, e.Cmd, e.Protocol,
		e.echo)
	q.cfg.Stuck(err)
	e.tell(Result{Err: err}, now)
}

// SetRecovery has ramrods end at once without being sent, or ends that. What
// was sent before ends now, as if it were done.
func (q *SPQ) SetRecovery(on bool, now frame.Time) {
	q.down = on
	if !on {
		return
	}
	for _, e := range q.all() {
		q.stats.Skipped++
		if !e.told {
			e.told = true
			e.tell(Result{}, now)
		}
	}
	q.reset()
}

// reset forgets what is on its way.
func (q *SPQ) reset() {
	q.ring.Reset()
	q.sent, q.done, q.pending = nil, [Elements / 64]uint64{}, nil
	q.inUse, q.fetched, q.doorbell = 0, 0, 0
}

// Stats are the counters.
func (q *SPQ) Stats() Stats {
	s := q.stats
	s.InUse, s.Waiting = q.inUse, len(q.pending)
	return s
}
