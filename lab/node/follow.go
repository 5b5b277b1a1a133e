package node

import "time"

// follower keeps a node as the kernel's interfaces are. Each round starts from
// the state of both sides at that moment, so that the order of news does not
// matter. The rounds run on one goroutine.
type follower struct {
	kick, quit, done chan struct{}
}

func newFollower() follower { return follower{kick: make(chan struct{}, 1)} }

// Follow runs a first round and then, until the node ends, one whenever it is
// poked and periodically. due tells whether the period is over.
func (b *Base) Follow(every time.Duration, round func(due bool)) {
	f := &b.follower
	f.quit, f.done = make(chan struct{}), make(chan struct{})
	round(true)
	go func() {
		defer close(f.done)
		tick := time.Tick(every)
		for {
			select {
			case <-f.quit:
				return
			case <-f.kick:
				round(false)
			case <-tick:
				round(true)
			}
		}
	}()
}

// Poke asks for another round.
func (b *Base) Poke() {
	select {
	case b.follower.kick <- struct{}{}:
	default: // one is due already
	}
}

// stop returns when no round runs any more.
func (f *follower) stop() {
	if f.quit != nil {
		close(f.quit)
		<-f.done
	}
}
