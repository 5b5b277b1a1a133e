package ddp

// Placer is the memory side of a data sink. Errors are *Error with Type and
// Code of section 7.2 or whatever the layer above defines; the receiver fills
// in header and length of an *Error and stops.
type Placer interface {
	// PlaceTagged checks STag, rights and bounds of the whole payload before
	// the first octet moves, then places it. It is called for zero-length
	// segments too, whose STag and TO must not be checked (section 5.2). h and
	// payload are borrowed. During Resume, here and in PlaceUntagged, the
	// segment's payload begins Receiver.Placed octets before payload.
	PlaceTagged(h *Header, payload []byte) error
	// PlaceUntagged places payload at h.MO of the buffer for (h.QN, h.MSN);
	// NoBuffer and TooLong are its to report. h and payload are borrowed.
	PlaceUntagged(h *Header, payload []byte) error
	// Deliver reports a message whose last segment has been placed, in the
	// order the messages ended. h is the last segment's header, length that
	// of the whole message's payload.
	Deliver(h *Header, length uint64) error
}

// Queue is the receive state of one untagged queue.
type Queue struct {
	MSN uint32 // of the message that comes next or is under way
	MO  uint32 // where its next segment must start
}

// Receiver checks the segments of one stream in order and drives a Placer.
// After its first error it drops every segment (section 7.1).
type Receiver struct {
	placer Placer
	queues []Queue
	tagged taggedState
	header Header // of the segment in hand; kept here so that it needs no allocation
	placed int    // octets of it placed before its turn
	err    error
}

// taggedState is the tagged message under way. Its segments must continue one
// another: the sender may not change STag or RsvdULP within a message.
type taggedState struct {
	open   bool
	ulp    uint8
	stag   uint32
	next   uint64
	length uint64
}

// NewReceiver returns a receiver whose stream has untagged queues 0 to
// queues-1.
func NewReceiver(p Placer, queues int) *Receiver {
	r := &Receiver{placer: p, queues: make([]Queue, queues)}
	for i := range r.queues {
		r.queues[i].MSN = 1
	}
	return r
}

// Header is that of the segment received last.
func (r *Receiver) Header() *Header { return &r.header }

// Err is the error that ended the stream, or nil.
func (r *Receiver) Err() error { return r.err }

// Queue returns the state of untagged queue qn, which must exist.
func (r *Receiver) Queue(qn uint32) Queue { return r.queues[qn] }

// Open reports whether a message is under way: some of its segments, but not
// the last, have come.
func (r *Receiver) Open() bool {
	if r.tagged.open {
		return true
	}
	for _, q := range r.queues {
		if q.MO != 0 {
			return true
		}
	}
	return false
}

// Segment takes the next segment in stream order, borrowing b. Its error is
// sticky: ErrTruncated, an *Error, or what the Placer returned.
func (r *Receiver) Segment(b []byte) error {
	if r.err != nil {
		return r.err
	}
	payload, err := r.header.parse(b)
	r.placed = 0
	if err != nil {
		r.err = err
		return err
	}
	return r.segment(payload)
}

// Resume is Segment for one that arrived before its turn: it has header h,
// the first placed octets of its payload are in place, and rest (borrowed) is
// what has not been placed. All checks are made now, in stream order.
func (r *Receiver) Resume(h *Header, placed int, rest []byte) error {
	if r.err != nil {
		return r.err
	}
	r.header, r.placed = *h, placed
	return r.segment(rest)
}

// Placed is the number of octets at the front of the payload of the segment
// in hand that are in place already.
func (r *Receiver) Placed() int { return r.placed }

func (r *Receiver) segment(payload []byte) (err error) {
	h := &r.header
	if h.Tagged {
		err = r.taggedSegment(h, payload)
	} else {
		err = r.untaggedSegment(h, payload)
	}
	if e, ok := err.(*Error); ok {
		e.Header, e.Length = *h, h.Len()+r.placed+len(payload)
	}
	r.err = err
	return err
}

func (r *Receiver) taggedSegment(h *Header, payload []byte) error {
	if h.Version != Version {
		return &Error{Type: TypeTagged, Code: TaggedVersion}
	}
	t := &r.tagged
	n := uint64(r.placed + len(payload))
	if n > 0 && h.TO+n-1 < h.TO {
		return &Error{Type: TypeTagged, Code: TOWrap}
	}
	if t.open && n > 0 {
		if h.STag != t.stag || h.ULP != t.ulp {
			return &Error{Type: TypeTagged, Code: InvalidSTag}
		}
		if h.TO != t.next {
			return &Error{Type: TypeTagged, Code: Bounds}
		}
	}
	if err := r.placer.PlaceTagged(h, payload); err != nil {
		return err
	}
	length := t.length + n
	if h.Last {
		*t = taggedState{}
		return r.placer.Deliver(h, length)
	}
	t.open, t.ulp, t.stag, t.next, t.length = true, h.ULP, h.STag, h.TO+n, length
	return nil
}

func (r *Receiver) untaggedSegment(h *Header, payload []byte) error {
	n := uint64(r.placed + len(payload))
	code := uint8(0)
	switch {
	case h.Version != Version:
		code = UntaggedVersion
	case uint64(h.QN) >= uint64(len(r.queues)):
		code = InvalidQN
	case h.MSN != r.queues[h.QN].MSN:
		code = InvalidMSN
	case h.MO != r.queues[h.QN].MO:
		code = InvalidMO
	case uint64(h.MO)+n > MaxMessage:
		code = TooLong
	}
	if code != 0 {
		return &Error{Type: TypeUntagged, Code: code}
	}
	if err := r.placer.PlaceUntagged(h, payload); err != nil {
		return err
	}
	q := &r.queues[h.QN]
	if !h.Last {
		q.MO += uint32(n)
		return nil
	}
	q.MSN, q.MO = q.MSN+1, 0
	return r.placer.Deliver(h, uint64(h.MO)+n)
}
