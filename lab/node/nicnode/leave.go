package nicnode

import (
	"errors"
	"time"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// leaveWait bounds how long clients may take to let go of a device that
// leaves; then it is taken from them.
const leaveWait = 2 * time.Second

// ErrUnplugged is why a NIC ended that Unplug took away.
var ErrUnplugged = errors.New("unplugged")

// enter registers the device with the access layer.
func (n *Node) enter() (err error) {
	if !n.Device.Config().RDMA.Personality.RDMA() {
		close(n.left)
		return nil
	}
	n.ca, err = n.layer.Register(n.Device.CI(n.thread.do, n.Now))
	return err
}

// leave takes the device out of the access layer: clients are told, and have
// let go of it when leave returns. With why, it is gone already.
func (n *Node) leave(why error) {
	n.leaving.Do(func() {
		if n.ca == nil {
			return
		}
		done := func(frame.Time) { close(n.left) }
		if why == nil {
			n.ca.Deregister(done)
		} else {
			n.ca.Fail(why, done)
		}
	})
	select {
	case <-n.left:
		return
	case <-time.After(leaveWait):
	}
	n.reclaim()
	<-n.left
}

// reclaim closes the contexts of those who did not do so in time, and notes
// what they had.
func (n *Node) reclaim() {
	n.thread.do(func(now frame.Time) {
		for _, l := range n.Device.Verbs.Objects() {
			if l.Context != 0 {
				n.leaks = append(n.leaks, l)
			}
		}
		_ = n.ca.Reclaim(now) // fails in callbacks only, and this is none
	})
}

// stop is the leak check: whatever exists still was left by its owner.
func (n *Node) stop() {
	n.thread.wait(func(frame.Time) {
		leaks, _ := n.Device.Verbs.Stop() // fails in callbacks only
		n.leaks = append(n.leaks, leaks...)
	})
}

// bury ends the device after the loop has ended by itself: the TAP is gone.
func (n *Node) bury(why error) {
	n.thread.takeOver()
	defer n.thread.finish()
	select {
	case <-n.left:
		return
	default:
	}
	gone := make(chan struct{})
	go func() {
		n.leave(why)
		close(gone)
	}()
	tick := time.Tick(time.Millisecond)
	for {
		for n.thread.turn() {
		}
		select {
		case <-gone:
			return
		case <-tick:
		}
	}
}

// Withdraw is the first part of Close: programs and other clients are told that
// the device leaves, and have nothing of it any more when Withdraw returns. What
// is not RDMA goes on.
func (n *Node) Withdraw() { n.leave(nil) }

// Unplug takes the NIC away as if its card were pulled: queue pairs are
// flushed, whoever has the device open is told, and when all have let go of
// it, the node ends with ErrUnplugged. No connection is closed in order.
func (n *Node) Unplug() {
	n.leave(ErrUnplugged)
	n.ending.Do(func() {
		n.stop()
		n.card.release(n)
		n.End(ErrUnplugged)
		n.card.leave(n)
	})
}

// Leaks names the RDMA objects that were left when the node ended; valid
// after Close.
func (n *Node) Leaks() []verbs.Leak { return n.leaks }
