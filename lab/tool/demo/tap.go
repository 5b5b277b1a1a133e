package demo

import (
	"context"
	"errors"
	"fmt"

	"tapir/lab/host/link"
	"tapir/lab/host/process"
)

// tapWire runs each NIC as a process of its own, on a TAP in a namespace of
// its own.
type tapWire struct {
	opt   Options
	pair  *link.Pair
	lost  func()
	nics  []*program
	dumps map[string]process.Dump // by NIC
}

func newTAPWire(o Options, lost func()) (*tapWire, error) {
	pair, err := link.NewPair(o.mtu(), o.Frames != "wire")
	if err != nil {
		return nil, err
	}
	return &tapWire{opt: o, pair: pair, lost: lost, dumps: map[string]process.Dump{}}, nil
}

func (w *tapWire) kind() string { return "tap" }

func (w *tapWire) side(name string) *link.Space {
	if name == server {
		return w.pair.A
	}
	return w.pair.B
}

func (w *tapWire) start(ctx context.Context, name string) error {
	p, err := startNIC(ctx, w.side(name).NS, name, w.opt, w.lost, "--tap", link.PairTAP)
	if p != nil {
		w.nics = append(w.nics, p)
	}
	return err
}

func (w *tapWire) tcpdump(ctx context.Context, name, file string) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	d, err := process.Tcpdump(ctx, w.side(name).NS, link.PairTAP, file, "-p", "-s", "0", "-B", "65536", "-U", "--nano")
	if err == nil {
		w.dumps[name] = d
	}
	return err
}

func (w *tapWire) stopDumps() (err error) {
	for name, d := range w.dumps {
		if e := d.Stop(); e != nil {
			err = errors.Join(err, fmt.Errorf("tcpdump of %s %w", name, e))
		}
	}
	clear(w.dumps)
	return err
}

func (w *tapWire) close() (err error) {
	for _, d := range w.dumps {
		d.Process.Stop()
	}
	for _, p := range w.nics {
		err = errors.Join(err, p.stop())
	}
	w.pair.Close()
	return err
}
