package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/nic/tap/wires"
)

// wired runs each NIC as a process of its own, on a wire that is no TAP: one that needs no
// right and no namespace, or a pair of interfaces in a namespace of its own.
type wired struct {
	opt   Options
	ns    *netns.NS
	space *link.Space // that of a pair of interfaces, else nil
	dir   string
	ends  map[string]string // the text of each NIC's wire
	lost  func()
	nics  []*program
}

// firstPort is the first of the two UDP ports of a wire.
const firstPort = 47910

func newWired(o Options, lost func()) (w *wired, err error) {
	w = &wired{opt: o, lost: lost}
	if slices.Contains(wires.Kernel, o.Wire) {
		err = w.addInterfaces()
	} else {
		err = w.local()
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// local has a wire between processes of this host.
func (w *wired) local() (err error) {
	if w.ns, err = netns.Current(); err != nil {
		return err
	}
	if w.dir, err = os.MkdirTemp("", "tapir-demo"); err != nil {
		return err
	}
	near, far, err := wires.Ends(w.opt.Wire, filepath.Join(w.dir, "cable"), firstPort)
	w.ends = map[string]string{server: near, client: far}
	return err
}

// addInterfaces makes a pair of interfaces, and returns when frames pass.
func (w *wired) addInterfaces() (err error) {
	if w.space, err = link.NewSpace(link.Quiet); err != nil {
		return err
	}
	w.ns = w.space.NS
	ends, err := w.space.Net.AddWire(w.opt.Wire, [2]string{server, client}, w.opt.mtu())
	w.ends = map[string]string{server: ends[0], client: ends[1]}
	return err
}

func (w *wired) kind() string { return w.opt.Wire }

func (w *wired) start(ctx context.Context, name string) error {
	p, err := startNIC(ctx, w.ns, name, w.opt, w.lost, "--wire", w.ends[name])
	if p != nil {
		w.nics = append(w.nics, p)
	}
	return err
}

func (w *wired) tcpdump(context.Context, string, string) error {
	return errors.New("--tcpdump needs TAPs; a wire " + w.opt.Wire + " has none")
}

func (w *wired) stopDumps() error { return nil }

func (w *wired) close() (err error) {
	for _, p := range w.nics {
		err = errors.Join(err, p.stop())
	}
	if w.dir != "" {
		err = errors.Join(err, os.RemoveAll(w.dir))
	}
	switch {
	case w.space != nil:
		w.space.Close()
	case w.ns != nil:
		err = errors.Join(err, w.ns.Close())
	}
	return err
}
