package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"tapir/lab/host/peer"
	"tapir/lab/topo"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
)

// bootWithin bounds the start of nodes where guests are among them: an emulated one
// is slow on a machine with other work.
const bootWithin = 8 * time.Minute

// Prepare builds what nodes of the labs are made of and this machine lacks, which takes
// a mirror of Debian: that is reached only before a lab enters its namespaces. What is
// built is told to log. A machine that cannot run a guest is an error.
func Prepare(ctx context.Context, log io.Writer, labs ...*topo.Lab) error {
	for _, lab := range labs {
		i := slices.IndexFunc(lab.Nodes, func(n topo.Node) bool { return n.Kind == topo.Peer })
		if i < 0 {
			continue
		}
		image, err := peer.Build(ctx, peer.CacheDir(), log)
		if err != nil {
			return fmt.Errorf("%s: %w", lab.Nodes[i].Name, err)
		}
		return errors.Join(image.Kernel.Close(), image.Initrd.Close())
	}
	return nil
}

// startLimit bounds the start of all nodes together.
func (b *bed) startLimit() time.Duration {
	if slices.ContainsFunc(b.lab.Nodes, func(n topo.Node) bool { return n.Kind == topo.Peer }) {
		return bootWithin
	}
	return startWithin
}

// plugStream gives a guest a link at a Unix socket, without a TAP. QEMU takes the path over. Several
// would need a hub in QEMU, which crashes (7.2) when a frame comes before all of them are connected.
func (b *bed) plugStream(n *node, mtu int, vnet bool) (tap.Queue, error) {
	if n.stream != "" || n.lans > 0 {
		return nil, fmt.Errorf("%s: a guest on a stream has one link", n.Name)
	}
	n.stream = filepath.Join(b.dir, n.Name+".wire")
	n.flags = append(n.flags, fmt.Sprintf("--mtu=%d", mtu))
	return wires.Open(topo.Stream+":"+n.stream, vnet)
}

// peerArgs are those of the process that holds a guest.
func (n *node) peerArgs() []string {
	args := []string{"peer", "start", "--name", n.Name}
	if n.stream == "" {
		args = append(args, "--bridge", topo.GatewayBridge)
	} else {
		args = append(args, "--stream", n.stream)
	}
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
