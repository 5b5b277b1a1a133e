package demo

import (
	"context"
	"errors"
	"fmt"

	"tapir/lab/host/link"
)

// tapWire runs each NIC as a process of its own, on a TAP in a namespace of
// its own.
type tapWire struct {
	opt   Options
	pair  *link.Pair
	lost  func()
	nics  []*process
	dumps []*process
}

func newTAPWire(o Options, lost func()) (*tapWire, error) {
	mtu := 1500
	if o.Frames == "jumbo" {
		mtu = 9000
	}
	pair, err := link.NewPair(mtu, o.Frames != "wire")
	if err != nil {
		return nil, err
	}
	return &tapWire{opt: o, pair: pair, lost: lost}, nil
}

func (w *tapWire) kind() string { return "tap" }

func (w *tapWire) side(name string) *link.Space {
	if name == server {
		return w.pair.A
	}
	return w.pair.B
}

func (w *tapWire) start(ctx context.Context, name string) error {
	p, err := spawn(name, w.side(name), w.opt.Program, "nic", "--name", name, "--tap", link.PairTAP,
		"--ip", addresses[name].String(), "--frames", w.opt.Frames)
	if err != nil {
		return err
	}
	w.nics = append(w.nics, p)
	if err := p.await(ctx, "ready "+name); err != nil {
		return err
	}
	go func() {
		<-p.ended
		w.lost()
	}()
	return nil
}

func (w *tapWire) tcpdump(ctx context.Context, name, file string) error {
	// -Z root: no change of user, which a user namespace does not allow.
	p, err := spawn("tcpdump of "+name, w.side(name), "tcpdump", "-i", link.PairTAP, "-n", "-p", "-s", "0", "-B",
		"65536", "-Z", "root", "-U", "-w", file, "--nano")
	if err != nil {
		return fmt.Errorf("tcpdump: %w", err)
	}
	w.dumps = append(w.dumps, p)
	return p.await(ctx, "tcpdump: listening on")
}

func (w *tapWire) stopDumps() (err error) {
	for _, p := range w.dumps {
		err = errors.Join(err, p.drain(), p.stop())
	}
	w.dumps = nil
	return err
}

func (w *tapWire) close() (err error) {
	for _, p := range append(w.dumps, w.nics...) {
		err = errors.Join(err, p.stop())
	}
	w.pair.Close()
	return err
}
