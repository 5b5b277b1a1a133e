package real

import (
	"fmt"
	"time"

	"tapir/lab/host/peer"
	"tapir/lab/topo"
)

// bootWithin bounds the start of nodes where guests are among them: the first
// time the guest is made.
const bootWithin = 8 * time.Minute

// startLimit bounds the start of all nodes together. A machine that cannot run
// what the lab needs is an error.
func (b *bed) startLimit() (time.Duration, error) {
	limit := startWithin
	for _, n := range b.lab.Nodes {
		if n.Kind != topo.Peer {
			continue
		}
		if err := peer.Available(); err != nil {
			return 0, fmt.Errorf("%s: %w", n.Name, err)
		}
		limit = bootWithin
	}
	return limit, nil
}

// peerArgs are those of the process that holds a guest.
func (n *node) peerArgs() []string {
	args := []string{"peer", "start", "--name", n.Name, "--bridge", topo.GatewayBridge}
	for _, p := range n.IP {
		args = append(args, "--ip", p.String())
	}
	for _, p := range n.Peer.Siw {
		args = append(args, "--siw", p)
	}
	if n.Peer.Memory != 0 {
		args = append(args, "--memory", fmt.Sprint(n.Peer.Memory))
	}
	if n.Peer.KVM {
		args = append(args, "--kvm")
	}
	return args
}

// inPeer is the command that runs a program in a guest.
func (b *bed) inPeer(s *topo.Step) []string {
	limit := s.Timeout
	if s.Background {
		limit = peer.DefaultLife
	}
	return append([]string{b.opt.Tapir, "peer", "exec", "--name", s.On, "-t", limit.String(), "--"}, s.Argv...)
}
