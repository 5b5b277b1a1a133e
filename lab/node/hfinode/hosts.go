package hfinode

import (
	"errors"
	"slices"
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
	n   *Node
	all []*host
	// trouble is why a vport has no host TAP, by vESW.
	trouble map[uint16]error
}

func newHosts(n *Node, space node.Space) *hosts {
	return &hosts{Space: space, n: n, trouble: map[uint16]error{}}
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
			v := stateOf(d)
			if x := h.of(d); x != nil {
				v.lost = x.lost
			}
			want = append(want, v)
		}
	}) != nil {
		return // the node ends
	}
	h.forget(want)
	for _, v := range want {
		if v.vesw != 0 && h.of(v.dev) == nil {
			h.add(v)
		}
	}
	kernel, err := h.Links.Netdevs()
	if err != nil {
		h.n.Warn("%v", err)
		return
	}
	for _, v := range want {
		x := h.of(v.dev)
		if x == nil || v.lost {
			continue
		}
		d, ok := kernel[x.index]
		if !ok {
			continue
		}
		if x.name != d.Name && h.n.DoWait(func(frame.Time) { x.name = d.Name }) != nil {
			return // the node ends
		}
		if err := x.merge(d, v); err != nil && !errors.Is(err, loop.ErrClosed) {
			h.n.Warn("%s: %v", x.name, err)
		}
	}
}

// of is the host TAP of a vport, nil if it has none.
func (h *hosts) of(d *vnic.Netdev) *host {
	for _, x := range h.all {
		if x.dev == d {
			return x
		}
	}
	return nil
}

// forget removes the host TAPs of vports that are gone.
func (h *hosts) forget(want []vportState) {
	h.all = slices.DeleteFunc(h.all, func(x *host) bool {
		gone := !slices.ContainsFunc(want, func(v vportState) bool { return v.dev == x.dev })
		if gone {
			x.detach()
		}
		return gone
	})
}

// add makes the host TAP of a vport. What stands in the way is told once.
func (h *hosts) add(v vportState) {
	x, err := newHost(h.n, v)
	switch old := h.trouble[v.vesw]; {
	case err == nil:
		delete(h.trouble, v.vesw)
		h.all = append(h.all, x)
	case !errors.Is(err, loop.ErrClosed) && (old == nil || old.Error() != err.Error()):
		h.trouble[v.vesw] = err
		h.n.Warn("vesw %d has no host TAP: %v", v.vesw, err)
	}
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
	for _, x := range h.all {
		x.setLists(lists[x.index])
	}
}

// revert undoes what was done to TAPs that were found, once the loop has ended;
// the others went with it.
func (h *hosts) revert() {
	for _, x := range h.all {
		x.undo.Run()
	}
}
