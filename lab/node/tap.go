package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
	"tapir/wire/frame"
)

// OpenWire opens a wire that takes the place of a TAP. Unless a loop takes it, Close of
// the node closes it.
func (s Space) OpenWire(text string, vnet bool, undo *Undo) (w tap.Wire, err error) {
	err = s.NS.Do(func() error {
		w, err = wires.Open(text, vnet)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	undo.Add(func() { w.Close() })
	return w, nil
}

// WireRow is something that a wire counts.
type WireRow struct {
	Wire string `json:"wire"`
	tap.Counter
}

// WireRows are the counters of those queues that are wires. They belong to the loop's thread.
func WireRows(queues ...tap.Queue) []WireRow {
	rows := []WireRow{}
	for _, q := range queues {
		if w, ok := q.(tap.Wire); ok {
			for _, c := range w.Counters() {
				rows = append(rows, WireRow{w.Name(), c})
			}
		}
	}
	return rows
}

// Observe opens an observer of PTP messages; it runs on the loop's thread.
type Observe func() (*tap.Observer, error)

// Observer is how PTP messages on a TAP or a wire are observed by the kernel; nil: they pass
// no interface of it, and the loop's own times count.
func (s Space) Observer(q tap.Queue, tunnels ...tap.Tunnel) Observe {
	observe := tap.Observe
	switch wires.Side(q) {
	case wires.NoInterface:
		return nil
	case wires.KernelSide:
		observe = tap.ObserveKernelSide
	}
	return func() (o *tap.Observer, err error) {
		err = s.NS.Do(func() error {
			o, err = observe(q.Name(), tunnels...)
			return err
		})
		return o, err
	}
}

// TAP is an interface that a node has opened, one or several queues of it.
type TAP struct {
	Space
	Queues []*tap.TAP
	Undo   *Undo // takes back what was changed
}

// OpenTAP opens an interface with some queues, at least one. Unless a loop takes
// the queues, Close closes them.
func (s Space) OpenTAP(cfg tap.Config, queues int, undo *Undo) (*TAP, error) {
	cfg.MultiQueue = queues > 1
	first, err := s.Links.OpenTAP(cfg)
	if err != nil {
		return nil, err
	}
	t := &TAP{s, []*tap.TAP{first}, undo}
	for len(t.Queues) < queues {
		q, err := s.Links.AddQueue(first)
		if err != nil {
			t.Close()
			return nil, err
		}
		t.Queues = append(t.Queues, q)
	}
	return t, nil
}

// Close closes all queues.
func (t *TAP) Close() {
	for _, q := range t.Queues {
		q.Close()
	}
}

// Name is the name of the interface.
func (t *TAP) Name() string { return t.Queues[0].Name() }

// Created tells whether the interface was made, and not found.
func (t *TAP) Created() bool { return t.Queues[0].Created() }

// SetCarrier shows the kernel whether there is a carrier.
func (t *TAP) SetCarrier(up bool) error { return t.Queues[0].SetCarrier(up) }

// WithoutIPv6 keeps the kernel itself from speaking IPv6, where /proc/sys can be
// written.
func (s Space) WithoutIPv6(name string) { _ = s.NS.Sysctl("ipv6/conf/"+name+"/disable_ipv6", "1") }

// AddAddress gives the interface an address.
func (t *TAP) AddAddress(p netip.Prefix) error {
	name := t.Name()
	if p.Addr().Is6() {
		err := t.NS.Sysctl("ipv6/conf/"+name+"/disable_ipv6", "0")
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	err := t.Links.AddAddr(name, p)
	switch {
	case err == nil:
		t.Undo.Add(func() { t.Links.DelAddr(t.Name(), p) }) // gone already with a TAP that we made
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; as root run `ip addr add %v dev %s`", err, p, name)
	}
	return err
}

// AddAddresses gives the interface several.
func (t *TAP) AddAddresses(all []netip.Prefix) error {
	for _, p := range all {
		if err := t.AddAddress(p); err != nil {
			return err
		}
	}
	return nil
}

// BringUp sets the interface up, and down again in the end if it was found down.
func (t *TAP) BringUp(isUp bool) error {
	if isUp {
		return nil
	}
	err := t.Links.Up(t.Name())
	if err == nil && !t.Created() {
		t.Undo.Add(func() { t.Links.Down(t.Name()) })
	}
	return err
}

// Ports are the queues of one interface in a loop.
type Ports []*loop.Port

// AddTo gives a loop the queues, for frames of that length at most.
func (t *TAP) AddTo(l *loop.Loop, port frame.Port, maxFrame int) (all Ports) {
	for _, q := range t.Queues {
		all = append(all, l.AddQueue(port, q, maxFrame))
	}
	return all
}

// Room is what the fullest queue still takes.
func (p Ports) Room() int {
	room := p[0].Room()
	for _, q := range p[1:] {
		room = min(room, q.Room())
	}
	return room
}

// Drops counts what the queues lost.
func (p Ports) Drops() (sum frame.Drops) {
	for _, q := range p {
		sum.Add(new(q.Drops()))
	}
	return sum
}

// SetMaxFrame sets the length of the longest frame.
func (p Ports) SetMaxFrame(octets int) {
	for _, q := range p {
		q.SetMaxFrame(octets)
	}
}
