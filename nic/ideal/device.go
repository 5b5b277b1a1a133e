// Package ideal is an ideal NIC's hardware: ports and functions without firmware,
// interrupt controller or queues. The link follows the carrier, and everything
// that is notified is served at once.
package ideal

import (
	"errors"
	"fmt"
	"slices"

	"tapir/nic/hardware"
	"tapir/nic/hostfn"
	"tapir/nic/param"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// Kind names this hardware.
const Kind = "ideal"

// Config describes a device. The zero value is one function on one port.
type Config struct {
	// Functions have each the number of its port.
	Functions []int
}

// Kind implements hardware.Config.
func (c *Config) Kind() string { return Kind }

// Open implements hardware.Config.
func (c *Config) Open() (hardware.Device, error) {
	on := c.Functions
	if on == nil {
		on = []int{0}
	}
	d := &Device{on: on, functions: make([]*Function, len(on)), ports: make([]port, slices.Max(on)+1)}
	return d, nil
}

// Clone implements hardware.Config.
func (c *Config) Clone() hardware.Config { return new(*c) }

// Default implements hardware.Config.
func (c *Config) Default() hardware.Config { return &Config{} }

// Params implements hardware.Config: there is nothing to set.
func (c *Config) Params() []*param.Row { return nil }

// Validate implements hardware.Config.
func (c *Config) Validate(s hardware.Shape) error {
	if s.Queues > 1 {
		return fmt.Errorf("hardware ideal has one queue, not %d: remove queues, or use hardware fastlinq", s.Queues)
	}
	if s.RDMA == verbs.ISCSI {
		return fmt.Errorf("hardware ideal has no iSCSI function: use hardware fastlinq for personality %v", s.RDMA)
	}
	return nil
}

// Segments implements hardware.Config.
func (c *Config) Segments() bool { return true }

// Device is a device with its functions.
type Device struct {
	on        []int       // ports of the functions
	functions []*Function // nil where no NIC is attached
	ports     []port
}

// port is a port: the state of its cable.
type port struct{ down bool }

// Attach implements hardware.Device.
func (d *Device) Attach(fn int, e hardware.Env) (hardware.Function, error) {
	switch {
	case fn < 0 || fn >= len(d.on) || d.on[fn] != e.Port:
		return nil, fmt.Errorf("hardware ideal: no function %d on port %d: the ports of its functions are %v", fn,
			e.Port, d.on)
	case d.functions[fn] != nil:
		return nil, fmt.Errorf("hardware ideal: function %d is another NIC's", fn)
	case e.Host != nil && e.Shape.VLAN != 0:
		return nil, errors.New("hardware ideal does not tag the operating system's frames: remove vlan or the host " +
			"TAP, or use hardware fastlinq")
	}
	f := &Function{nic: e.NIC, verbs: e.Verbs, device: d, port: &d.ports[e.Port], host: hostfn.None{},
		shared: e.Tagged != nil}
	if err := f.Check(e.Shape, e.Config); err != nil {
		return nil, err
	}
	if e.Host != nil {
		f.host = &host{nic: e.NIC}
	}
	if e.Shape.RDMA == verbs.FCoE {
		for _, typ := range []uint16{fcoe.EtherType, fip.EtherType} {
			e.NIC.TakeEtherType(typ, func(h ether.Header, body []byte) (bool, frame.DropReason) {
				e.NIC.FCoE(h, body)
				return true, frame.DropNone
			})
		}
	}
	d.functions[fn] = f
	f.nic.Carrier(hardware.Link{Up: !f.port.down})
	return f, nil
}

// FLR implements hardware.Device.
func (d *Device) FLR(fn int) { d.functions[fn] = nil }
