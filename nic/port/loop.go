package port

import "tapir/wire/frame"

// Loop is a link that turns frames back. Those that Transmit takes come out of
// the next Drain, so that receiving never runs inside of sending.
type Loop struct {
	waiting, running []*frame.Frame
	Passed           uint64 // frames that came out
}

// Transmit implements frame.Link.
func (l *Loop) Transmit(f *frame.Frame) { l.waiting = append(l.waiting, f) }

// Room implements frame.Link.
func (l *Loop) Room() int { return QueueFrames - len(l.waiting) }

// Drain hands the frames that wait to receive and tells whether there were any.
func (l *Loop) Drain(receive func(f *frame.Frame)) bool {
	return len(l.waiting) > 0 && l.drain(receive)
}

func (l *Loop) drain(receive func(f *frame.Frame)) bool {
	l.waiting, l.running = l.running[:0], l.waiting
	for i, f := range l.running {
		l.running[i] = nil
		l.Passed++
		receive(f)
	}
	return true
}

// discard releases the frames that wait and returns how many there were.
func (l *Loop) discard() int {
	n := len(l.waiting)
	for _, f := range l.waiting {
		f.Release()
	}
	l.waiting = nil
	return n
}
