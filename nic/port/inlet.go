package port

import (
	"tapir/nic/nicdrop"
	"tapir/nic/pacing"
	"tapir/wire/frame"
)

// inletFrames and inletOctets bound the received frames that wait for their turn.
const (
	inletFrames = 256
	inletOctets = 1 << 20
)

// inlet is where received frames of a function wait, if it gets more than its rate, or
// than its part of a port that is full.
type inlet struct {
	node   *pacing.Node
	queue  []*frame.Frame // first is at head
	head   int
	octets int
}

func (i *inlet) len() int { return len(i.queue) - i.head }

// LimitReceived limits what the function receives to a rate in Mb/s, 0: to none, and
// says its part of a port that functions share, next to the parts of the others.
func (p *Port) LimitReceived(mbps int, weight int64) {
	if p.inlet == nil {
		if mbps == 0 && !p.Shared() {
			return
		}
		if p.received == nil {
			p.received = new(pacing.Tree)
		}
		p.inlet = &inlet{node: p.received.Port().Child(true)}
	}
	p.inlet.node.SetRate(mbps)
	p.inlet.node.SetWeight(weight)
}

// Hold takes a frame that came in, which waits for its turn or is dropped; false:
// nothing limits what the function receives.
func (p *Port) Hold(f *frame.Frame, now frame.Time) bool {
	i := p.inlet
	switch {
	case i == nil || i.len() == 0 && !i.node.Counts():
		return false
	case i.len() == inletFrames || i.octets+f.Len() > inletOctets:
		p.Refuse(f, nicdrop.Rate, now)
	default:
		i.queue = append(i.queue, f)
		i.octets += f.Len()
	}
	return true
}

// Held tells whether received frames wait.
func (p *Port) Held() bool { return p.inlet != nil && p.inlet.len() > 0 }

// Next is a frame whose turn has come, nil if there is none.
func (p *Port) Next() *frame.Frame {
	i := p.inlet
	if i == nil || i.len() == 0 || !i.node.Ready() {
		return nil
	}
	f := i.pop()
	if i.node.Counts() {
		all, _ := pacing.Octets(f, 0)
		i.node.Spend(all)
		if b := f.Bytes(); len(b) > 0 && b[0]&1 == 0 { // others on the port have copies of what is for a group
			all, _ = pacing.Octets(f, gap)
			i.node.Parent().SpendHere(all)
		}
	}
	return f
}

func (i *inlet) pop() *frame.Frame {
	f := i.queue[i.head]
	i.queue[i.head] = nil
	if i.head++; i.head == len(i.queue) {
		i.queue, i.head = i.queue[:0], 0
	}
	i.octets -= f.Len()
	return f
}

// leave gives back what waits, and the function's place.
func (i *inlet) leave() {
	for i.len() > 0 {
		i.pop().Release()
	}
	i.node.Remove()
}
