// Package nics starts NICs for tests of programs in other processes.
package nics

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/runtimedir"
)

// NIC is a NIC with the socket that programs open.
type NIC struct {
	*nicnode.Node
	Programs *relay.Server
}

// Pair starts nic0 and nic1, 10.0.0.1 and 10.0.0.2, on a wire in memory. Their
// sockets lie where XDG_RUNTIME_DIR says. stop ends both.
func Pair(ctx context.Context) (nic0, nic1 *NIC, stop func(), err error) {
	if err := os.Mkdir(runtimedir.Path(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, nil, nil, err
	}
	a, b, err := link.NewWire("nic0", "nic1", false)
	if err != nil {
		return nil, nil, nil, err
	}
	programs := nicnode.NewPrograms()
	if nic0, err = start(ctx, a, programs, "10.0.0.1/24"); err != nil {
		return nil, nil, nil, errors.Join(err, b.Close())
	}
	if nic1, err = start(ctx, b, programs, "10.0.0.2/24"); err != nil {
		nic0.stop()
		return nil, nil, nil, err
	}
	return nic0, nic1, func() {
		nic0.stop()
		nic1.stop()
	}, nil
}

func start(ctx context.Context, wire *link.WireEnd, programs *nicnode.Programs, ip string) (*NIC, error) {
	n, err := nicnode.Start(ctx, nicconf.Config{Name: wire.Name(), IP: []netip.Prefix{netip.MustParsePrefix(ip)}},
		node.Env{Wire: wire})
	if err != nil {
		return nil, err
	}
	r, err := relay.Listen(runtimedir.Programs(n.Name()))
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	programs.Add(n)
	r.Serve(programs.Devices)
	return &NIC{n, r}, nil
}

func (n *NIC) stop() {
	n.Programs.Close()
	_ = n.Close() // says only why it ended
}
