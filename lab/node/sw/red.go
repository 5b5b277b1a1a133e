package sw

import (
	"cmp"
	"math/rand/v2"

	"tapir/lab/conf/swconf"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// red marks packets of IP by random early detection on the queue as it is now, without an
// average (the congestion point of DCQCN).
type red struct {
	swconf.ECN
	rng *rand.Rand
}

// newRED is that of a port: what the port leaves open is as the switch says.
func newRED(c *swconf.Config, port int) red {
	own := c.Ports[port].ECN
	return red{
		swconf.ECN{Kmin: cmp.Or(own.Kmin, c.ECN.Kmin), Kmax: cmp.Or(own.Kmax, c.ECN.Kmax),
			Pmax: cmp.Or(own.Pmax, c.ECN.Pmax)},
		rand.New(rand.NewPCG(c.Seed, 1<<32|uint64(port))),
	}
}

// marks tells whether a frame is to be marked that finds octets in the queue.
func (r *red) marks(octets int) bool {
	switch {
	case r.Kmax == 0 || octets <= r.Kmin:
		return false
	case octets > r.Kmax:
		return true
	}
	return r.rng.Uint64N(1e6*uint64(r.Kmax-r.Kmin)) < uint64(r.Pmax)*uint64(octets-r.Kmin)
}

// markCE sets CE in the packet of IP that f carries, behind VLAN tags too, if its sender is
// ECN-capable. A super-frame is marked as a whole.
func markCE(f *frame.Frame) bool {
	b := f.Bytes()
	h, n, err := ether.Parse(b)
	return err == nil && (h.Type == ether.TypeIPv4 || h.Type == ether.TypeIPv6) && ip.MarkCE(b[n:])
}
