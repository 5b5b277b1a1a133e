package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic/tap"
)

// Names and addresses of the two NICs, and the bridge between their TAPs.
const (
	serverNIC = "store"
	clientNIC = "user"
	bridge    = "br0"
	mtu       = 1500 // octets
)

var (
	serverAddr = netip.MustParsePrefix("10.7.0.1/24")
	clientAddr = netip.MustParsePrefix("10.7.0.2/24")
	storePort  = netip.AddrPortFrom(serverAddr.Addr(), 7070)
)

// World is where the two NICs live: on a wire in memory, or on TAPs of a
// bridge in a namespace of its own.
type World struct {
	Layer *node.Layer
	nics  map[string]*nicnode.Node
	space *link.Space
	ends  map[string]*link.WireEnd
}

// socket is an end of the wire that outlives the NICs plugged into it.
type socket struct{ *link.WireEnd }

// Close implements tap.Queue; World.Close closes the end.
func (socket) Close() error { return nil }

var _ tap.Queue = socket{}

// NewWorld starts both NICs; with taps on real TAPs, which needs root.
func NewWorld(ctx context.Context, taps bool) (w *World, err error) {
	w = &World{Layer: node.NewLayer(), nics: map[string]*nicnode.Node{}, ends: map[string]*link.WireEnd{}}
	if taps {
		w.space, err = link.NewBridge(bridge, mtu)
	} else {
		w.ends[serverNIC], w.ends[clientNIC], err = link.NewWire(serverNIC, clientNIC, false)
	}
	for _, name := range []string{serverNIC, clientNIC} {
		if err == nil {
			err = w.Plug(ctx, name)
		}
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Plug starts a NIC: again, if it was there before.
func (w *World) Plug(ctx context.Context, name string) error {
	cfg := nicconf.Config{Name: name, IP: []netip.Prefix{serverAddr}}
	env := node.Env{Layer: w.Layer}
	if name == clientNIC {
		cfg.IP = []netip.Prefix{clientAddr}
	}
	if w.space == nil {
		env.Wire = socket{w.ends[name]}
	} else {
		cfg.TAP, env.NS = name, w.space.NS
		if err := w.space.AddTAP(name, bridge, false, mtu); err != nil {
			return err
		}
	}
	// A NIC that is pulled says no goodbye: who only waits for its answer
	// finds out by keep-alive probes.
	if err := cfg.Set("keepalive", "100ms"); err != nil {
		return err
	}
	n, err := nicnode.Start(ctx, cfg, env)
	if err == nil {
		w.nics[name] = n
	}
	return err
}

// Pull takes a NIC away while it works: on TAPs by deleting the TAP. It
// returns when both clients of the access layer have let go of the device.
func (w *World) Pull(name string) error {
	n := w.nics[name]
	delete(w.nics, name)
	if w.space == nil {
		n.Unplug()
	} else {
		if err := w.space.Net.Delete(name); err != nil {
			return err
		}
		<-n.Done()
	}
	_ = n.Close() // says only why it ended
	return leaked(n)
}

func leaked(n *nicnode.Node) error {
	if l := n.Leaks(); len(l) > 0 {
		return fmt.Errorf("%s: left at the end: %v", n.Name(), l)
	}
	return nil
}

// Close stops what runs and removes everything.
func (w *World) Close() error {
	var errs []error
	for _, name := range []string{clientNIC, serverNIC} {
		if n := w.nics[name]; n != nil {
			errs = append(errs, n.Close(), leaked(n))
		}
		if e := w.ends[name]; e != nil {
			errs = append(errs, e.Close())
		}
	}
	w.space.Close()
	return errors.Join(errs...)
}
