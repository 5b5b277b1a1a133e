package hfinode

import (
	"errors"
	"time"

	"tapir/lab/node"
	"tapir/nic/loop"
	"tapir/vnic"
	"tapir/wire/frame"
)

// listsEvery is how often the kernel is asked for the addresses that it wants
// interfaces to receive, of whose changes it does not tell, and for what was
// missed.
const listsEvery = 500 * time.Millisecond

// hosts keeps the host TAPs as the vports want them and tells the vports what
// the kernel did to the TAPs. All of it happens on the goroutine of Node.Follow.
type hosts struct {
	node.Space
	n     *Node
	all   map[*vnic.Netdev]*host
	order []*host
	// trouble is why a vport has no host TAP, by vESW.
	trouble map[uint16]error
}

func newHosts(n *Node, space node.Space) *hosts {
	return &hosts{Space: space, n: n, all: map[*vnic.Netdev]*host{}, trouble: map[uint16]error{}}
}

// round brings both sides together. When due, it asks for the addresses that
// interfaces are to receive, too.
func (h *hosts) round(due bool) {
	h.merge()
	if due {
		h.lists()
	}
}

func (h *hosts) merge() {
	var want []vportState
	if h.n.DoWait(func(frame.Time) {
		for _, d := range h.n.engine.vports.Netdevs() {
			want = append(want, stateOf(d))
		}
	}) != nil {
		return // the node ends
	}
	h.forget(want)
	for _, v := range want {
		if v.vesw != 0 && h.all[v.dev] == nil {
			h.add(v)
		}
	}
	kernel, err := h.Links.Netdevs()
	if err != nil {
		h.n.Warn("%v", err)
		return
	}
	for _, v := range want {
		x := h.all[v.dev]
		d, ok := kernel[indexOf(x)]
		if x == nil || !ok || x.lost {
			continue
		}
		x.name = d.Name // it may have been renamed
		if err := x.merge(d, v); err != nil && !errors.Is(err, loop.ErrClosed) {
			h.n.Warn("%s: %v", x.name, err)
		}
	}
}

func indexOf(x *host) int {
	if x == nil {
		return -1
	}
	return x.index
}

// forget removes the host TAPs of vports that are gone.
func (h *hosts) forget(want []vportState) {
	keep := map[*vnic.Netdev]bool{}
	for _, v := range want {
		keep[v.dev] = true
	}
	left := h.order[:0]
	for _, x := range h.order {
		if keep[x.dev] {
			left = append(left, x)
			continue
		}
		x.detach()
		delete(h.all, x.dev)
	}
	h.order = left
}

// add makes the host TAP of a vport. What stands in the way is told once.
func (h *hosts) add(v vportState) {
	x, err := newHost(h.n, v)
	if errors.Is(err, loop.ErrClosed) {
		return
	}
	if err != nil {
		if old := h.trouble[v.vesw]; old == nil || old.Error() != err.Error() {
			h.trouble[v.vesw] = err
			h.n.Warn("vesw %d has no host TAP: %v", v.vesw, err)
		}
		return
	}
	delete(h.trouble, v.vesw)
	h.all[v.dev] = x
	h.order = append(h.order, x)
}

// problem is why a configured VNIC has no host TAP; valid after the first
// round.
func (h *hosts) problem() error {
	for _, v := range h.n.cfg.VNICs {
		if err := h.trouble[v.VESW]; err != nil {
			return err
		}
	}
	return nil
}

// lists asks for the addresses that interfaces are to receive.
func (h *hosts) lists() {
	lists, err := h.Links.HardwareLists()
	if err != nil {
		h.n.Warn("%v", err)
		return
	}
	for _, x := range h.order {
		x.setLists(lists[x.index])
	}
}

// revert undoes what was done to TAPs that were found, once the loop has ended;
// the others went with it.
func (h *hosts) revert() {
	for _, x := range h.order {
		x.undo.Run()
	}
}
