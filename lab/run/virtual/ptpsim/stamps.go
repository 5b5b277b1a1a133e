package ptpsim

import (
	"errors"
	"time"

	"tapir/wire/frame"
)

// errNoStamp reports a lost time stamp to an instance.
var errNoStamp = errors.New("no time stamp")

// StampFault is what happens to the time stamps of sent frames.
type StampFault uint8

const (
	StampsOK      StampFault = iota
	StampsLost               // they never come
	StampsRefused            // an error comes instead
	StampsTwice              // they come twice
)

var stampFaults = [...]string{"ok", "lost", "refused", "twice"}

func (f StampFault) String() string { return stampFaults[f] }

// txStamps holds the stamps that are not known yet.
type txStamps struct {
	fault StampFault
	late  time.Duration
	queue []txStamp
}

type txStamp struct {
	port  int
	id    uint64
	stamp frame.Stamp
	due   frame.Time
}

// sent takes the stamp of a frame that left.
func (t *txStamps) sent(n *Node, port int, id uint64, stamp frame.Stamp, now frame.Time) {
	s := txStamp{port, id, stamp, now.Add(t.late)}
	switch t.fault {
	case StampsLost:
		return
	case StampsRefused:
		n.Instance.TxStamp(port, id, 0, errNoStamp, now)
		return
	case StampsTwice:
		t.queue = append(t.queue, s)
	}
	if t.late > 0 {
		t.queue = append(t.queue, s)
		return
	}
	n.Instance.TxStamp(port, id, stamp, nil, now)
}

// deliver reports what is due and returns when the next is.
func (t *txStamps) deliver(n *Node, now frame.Time) frame.Time {
	for len(t.queue) > 0 && t.queue[0].due <= now {
		s := t.queue[0]
		t.queue = t.queue[:copy(t.queue, t.queue[1:])]
		n.Instance.TxStamp(s.port, s.id, s.stamp, nil, now)
	}
	if len(t.queue) == 0 {
		return frame.Never
	}
	return t.queue[0].due
}
