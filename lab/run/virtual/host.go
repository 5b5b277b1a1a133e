package virtual

import (
	"tapir/lab/run/result"
	"tapir/lab/run/virtual/station"
	"tapir/wire/frame"
)

// hostEngine is a host with the operating system's network on its links.
type hostEngine struct {
	*station.Host
	ifaces []*station.Iface // by port
}

// buildHost makes a host, with an interface at each of its links.
func (n *node) buildHost() {
	h := &hostEngine{Host: station.New(n.lab.world.Pool)}
	for i, e := range n.ends {
		addrs := n.IP
		if n.At != nil {
			addrs = n.At[e.link.Name]
		}
		c := station.Config{MAC: n.macOf(i), Addrs: addrs, MTU: e.link.mtu()}
		h.ifaces = append(h.ifaces, h.Add(c, e))
	}
	n.host, n.engine = h.Host, h
}

// Receive takes the frames of a link.
func (h *hostEngine) Receive(port frame.Port, frames []*frame.Frame, now frame.Time) {
	h.ifaces[port].Receive(frames, now)
}

// Dispatch has nothing to do.
func (h *hostEngine) Dispatch(frame.Time) bool { return false }

// TxDone is of no interest.
func (h *hostEngine) TxDone(_ uint64, _, _ frame.Time) bool { return false }

// hostDrops are the packets that came to nothing in the node's operating
// system, by reason.
func (n *node) hostDrops() (list []result.Counter) {
	if n.host == nil {
		return nil
	}
	for r, v := range new(n.host.Drops()).Counted() {
		list = append(list, result.Counter{Name: "host_drop_" + r.Counter(), Value: v})
	}
	return list
}
