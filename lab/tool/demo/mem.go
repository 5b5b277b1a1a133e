package demo

import (
	"context"
	"errors"
	"net/netip"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/ctl"
	"tapir/nic/tap"
)

// memWire runs both NICs in this process, on a wire in memory.
type memWire struct {
	opt     Options
	ends    map[string]*link.WireEnd
	nodes   []*nicnode.Node
	servers []*ctl.Server
}

func newMemWire(o Options) (*memWire, error) {
	a, b, err := link.NewWire("mem0", "mem1", o.Frames != "wire")
	if err != nil {
		return nil, err
	}
	return &memWire{opt: o, ends: map[string]*link.WireEnd{server: a, client: b}}, nil
}

func (w *memWire) kind() string { return "mem" }

func (w *memWire) start(ctx context.Context, name string) error {
	s, err := ctl.Listen(name, "demo")
	if err != nil {
		return err
	}
	w.servers = append(w.servers, s)
	end := w.ends[name]
	delete(w.ends, name) // the node owns it now
	n, err := nicnode.Start(ctx, nicconf.Config{
		Name: name, IP: []netip.Prefix{addresses[name]}, Frames: w.opt.Frames,
	}, node.Env{Wire: tap.Queue(end)})
	if err != nil {
		return err
	}
	w.nodes = append(w.nodes, n)
	d := ctl.Device{Device: n.Device, Thread: n, Version: "demo", TAP: n.TAP, OnStop: func() {},
		Clients: func() any { return []struct{}{} }}
	s.Serve(d.Served())
	return nil
}

func (w *memWire) tcpdump(context.Context, string, string) error {
	return errors.New("--tcpdump needs TAPs; a wire in memory has none")
}

func (w *memWire) stopDumps() error { return nil }

func (w *memWire) close() error {
	for _, s := range w.servers {
		s.Close()
	}
	err := node.CloseAll(w.nodes)
	for _, end := range w.ends {
		err = errors.Join(err, end.Close())
	}
	return err
}
